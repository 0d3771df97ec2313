package doctor

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// versionTimeout limits the run time of a program that prints its version.
const versionTimeout = 10 * time.Second

// Local returns this machine. Opening libraries loads them into this process.
func Local(ctx context.Context) Machine {
	return Machine{
		Host: hostinfo.Local(), Root: hostinfo.Root(),
		LookPath: exec.LookPath,
		Output:   func(path string, args ...string) (string, error) { return output(ctx, path, args...) },
		Space:    space, Limit: limit, Open: openLibrary, GPUs: localGPUs, Interfaces: localInterfaces,
	}
}

func output(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("it did not end within %v", versionTimeout)
	}
	text := strings.TrimSpace(string(out))
	if err != nil {
		lines := strings.Split(text, "\n")
		return "", fmt.Errorf("%w: %s", err, lines[len(lines)-1]) // the last line has the reason
	}
	return text, nil
}

func space(path string) (size, free uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	return s.Blocks * uint64(s.Bsize), s.Bavail * uint64(s.Bsize), nil
}

func limit(l Limit) (uint64, error) {
	resource := map[Limit]int{LockedMemory: unix.RLIMIT_MEMLOCK, OpenFiles: unix.RLIMIT_NOFILE}[l]
	var r unix.Rlimit
	if err := unix.Getrlimit(resource, &r); err != nil {
		return 0, fmt.Errorf("reading the limit: %w", err)
	}
	return r.Cur, nil // unix.RLIM_INFINITY is math.MaxUint64
}

// Libraries lists the C libraries that backends and peers use: MPI libraries, which mpirun loads, and the registered
// ones.
func Libraries() []dynlib.Spec {
	return append([]dynlib.Spec{
		{Name: "Open MPI", Sonames: []string{"libmpi.so.40"}, Hint: "Debian: libopenmpi3", Version: mpiVersion},
		{Name: "MPICH", Sonames: []string{"libmpich.so.12", "libmpi.so.12"}, Hint: "Debian: libmpich12", Version: mpiVersion},
	}, dynlib.Libraries.All()...)
}

// openLibrary loads a library and returns its name, version and file.
func openLibrary(l dynlib.Spec) (string, error) {
	lib, err := dynlib.Open(l)
	if err != nil {
		return "", err
	}
	if l.Version != nil {
		v, err := l.Version(lib)
		if err != nil {
			return "", err
		}
		lib.SetVersion(v)
	}
	return lib.String(), nil
}

func mpiVersion(lib *dynlib.Library) (string, error) {
	text, err := lib.MPIVersion()
	return version(text), err
}

// localGPUs lists the GPUs that the driver reports.
func localGPUs() ([]GPU, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	devices, err := driver.Devices()
	if err != nil {
		return nil, err
	}
	var list []GPU
	for _, d := range devices {
		g := GPU{Name: d.Name, Bytes: d.Bytes, Mode: d.Mode(), Multicast: d.Has(cuda.Multicast)}
		if g.Compute, err = d.Compute(); err != nil {
			return nil, err
		}
		for _, other := range devices {
			if other == d {
				continue
			}
			if can, err := d.Reaches(other); err == nil && can {
				g.Reaches = append(g.Reaches, other.Ordinal)
			}
		}
		list = append(list, g)
	}
	return list, nil
}

func localInterfaces() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	own := outward()
	var found []Interface
	for _, d := range all {
		i := Interface{Name: d.Name, Up: d.Flags&net.FlagUp != 0}
		addrs, err := d.Addrs()
		if err != nil {
			continue // the interface has just disappeared
		}
		i.Addresses = lists.Map(addrs, net.Addr.String)
		i.Default = own != "" && slices.ContainsFunc(i.Addresses, func(a string) bool {
			return strings.HasPrefix(a, own+"/")
		})
		found = append(found, i)
	}
	return found, nil
}

// outward returns this host's address on the default route, or "" if there is none. A UDP Dial
// sends nothing; the kernel only looks up the route.
func outward() string {
	c, err := net.Dial("udp", "192.0.2.1:9") // an address for documentation (RFC 5737)
	if err != nil {
		return ""
	}
	defer c.Close()
	host, _, _ := net.SplitHostPort(c.LocalAddr().String())
	return host
}
