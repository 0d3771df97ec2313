package doctor

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// bare returns a machine that lacks everything.
func bare() Machine {
	return Machine{
		Root:       fstest.MapFS{},
		LookPath:   func(string) (string, error) { return "", exec.ErrNotFound },
		Output:     func(string, ...string) (string, error) { return "", errors.New("it cannot be run") },
		Space:      func(string) (uint64, uint64, error) { return 0, 0, fs.ErrNotExist },
		Limit:      func(Limit) (uint64, error) { return 0, errors.New("no such limit") },
		Open:       func(l dynlib.Spec) (string, error) { return "", errors.New("opening " + l.Name + ": one\ntwo") },
		GPUs:       func() ([]GPU, error) { return nil, errors.New("no driver\nmore") },
		Interfaces: func() ([]Interface, error) { return nil, errors.New("no network") },
	}
}

// rich returns a machine that has everything, with both versions of control groups.
func rich() Machine {
	m := bare()
	m.Interfaces = func() ([]Interface, error) {
		return []Interface{{"lo", true, []string{"127.0.0.1/8"}, false}, {"ib0", true, []string{"10.1.0.2/16"}, true},
			{"eth1", false, nil, false}}, nil
	}
	m.Host = hostinfo.Host{Arch: "amd64", Memory: 64 << 30, MemoryMax: 16 << 30,
		CPU: hostinfo.CPU{Model: "Fast 9000", Threads: 8, Affinity: 6, Cpuset: 4, Quota: 2.5, Usable: 2.5,
			Features: []string{"AVX2", "FMA3"}}}
	m.Root = mounts("cgroup rw,cpu,cpuacct", "cgroup rw,memory", "cgroup2 rw", "tmpfs rw")
	m.LookPath = func(name string) (string, error) { return "/bin/" + name, nil }
	m.Output = func(path string, _ ...string) (string, error) {
		return map[string]string{
			"/bin/mpirun.openmpi": "mpirun (Open MPI) 4.1.4\n\nReport bugs",
			"/bin/mpiexec.hydra":  "HYDRA build details:\n    Version:  4.0.2\n",
			"/bin/srun":           "slurm-wlm 22.05.8", "/bin/python3": "torch 1.13.0a0+gitunknown",
		}[path], nil
	}
	m.Space = func(string) (uint64, uint64, error) { return 24 << 30, 23 << 30, nil }
	m.Limit = func(l Limit) (uint64, error) {
		return map[Limit]uint64{LockedMemory: math.MaxUint64, OpenFiles: 65536}[l], nil
	}
	m.Open = func(l dynlib.Spec) (string, error) { return l.Name + " 1.2", nil }
	m.GPUs = func() ([]GPU, error) {
		return []GPU{{Name: "H200", Bytes: 141 << 30, Compute: 90, Mode: "Default", Multicast: true, Reaches: []int{1}},
			{Name: "A100", Compute: 80}}, nil
	}
	return m
}

func mounts(kinds ...string) fs.FS {
	var text strings.Builder
	for _, k := range kinds {
		kind, options, _ := strings.Cut(k, " ")
		text.WriteString("30 23 0:26 / /sys/fs/cgroup/x rw,relatime shared:9 - " + kind + " " + kind + " " + options + "\n")
	}
	return fstest.MapFS{"proc/self/mountinfo": {Data: []byte(text.String())}}
}

func find(t *testing.T, m Machine, name string) Finding {
	t.Helper()
	for _, f := range Examine(m) {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("nothing was found about %s", name)
	return Finding{}
}

func TestRichMachine(t *testing.T) {
	for name, want := range map[string]string{
		"processor": "yes Fast 9000",
		"memory":    "yes 64GiB, limited to 16GiB by the control group",
		"lo":        "yes 127.0.0.1/8",
		"ib0": "yes 10.1.0.2/16; used by default, unless another interface is closer to the rendezvous or " +
			"--interface names one",
		"eth1": "no down",
		"cores": "yes 2.5 of 8 usable: this process is bound to 6, the control group has 4, " +
			"the quota of the control group is 2.5",
		"AVX2": "yes reductions, copies, GEMM", "AVX512F": "no wider reductions and GEMM",
		"control groups": "yes version 1 (cpu, memory) and version 2",
		"/dev/shm":       "yes 24GiB, 23GiB free", "locked memory": "yes unlimited", "open files": "yes 65536",
		"Open MPI": "yes /bin/mpirun.openmpi: 4.1.4", "MPICH (Hydra)": "yes /bin/mpiexec.hydra: 4.0.2",
		"Slurm":    "yes /bin/srun: 22.05.8",
		"torchrun": "yes /bin/torchrun", "torch.distributed": "yes /bin/python3: 1.13.0a0+gitunknown",
		"Plug-in library": "yes Plug-in library 1.2",
		"GPU 0": "yes H200, 141GiB, compute capability 9.0, compute mode Default, multicast, " +
			"can access the memory of 1", "MPS": "yes /bin/nvidia-cuda-mps-control",
	} {
		f := find(t, rich(), name)
		if got := string(f.State) + " " + f.Detail; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Missing things are reported with a reason.
func TestBareMachine(t *testing.T) {
	for _, f := range Examine(bare()) {
		if f.Area == "cpu" {
			continue
		}
		if f.State != No || f.Detail == "" || strings.Contains(f.Detail, "\n") {
			t.Errorf("%s: %+v", f.Name, f)
		}
	}
	if f := find(t, bare(), "Slurm"); f.Detail != "not on PATH (Debian: slurm-client)" {
		t.Errorf("got %+v", f)
	}
}

func TestPoorMachine(t *testing.T) {
	m := rich()
	m.Space = func(string) (uint64, uint64, error) { return 64 << 20, 64 << 20, nil }
	m.Limit = func(Limit) (uint64, error) { return 1024, nil }
	for _, name := range []string{"/dev/shm", "locked memory", "open files"} {
		if f := find(t, m, name); f.State != Low {
			t.Errorf("%+v", f)
		}
	}
	// One implementation's mpirun under the other's name is not mistaken for it.
	m.Output = func(string, ...string) (string, error) { return "HYDRA build details:\nmore", nil }
	if f := find(t, m, "Open MPI"); f.State != No ||
		!strings.Contains(f.Detail, "/bin/mpirun is another program: HYDRA build details: (Debian: openmpi-bin)") {
		t.Errorf("%+v", f)
	}
}

func TestControlGroups(t *testing.T) {
	for _, c := range []struct {
		root fs.FS
		want string
	}{
		{mounts("cgroup2 rw"), "yes version 2"},
		{mounts("cgroup rw,cpuset"), "yes version 1 (cpuset)"},
		{mounts("cgroup rw,freezer"), "no not mounted: limits of containers are not visible"},
		{mounts("ext4 rw"), "no not mounted: limits of containers are not visible"},
	} {
		m := Machine{Root: c.root}
		if f := m.controlGroups(); string(f.State)+" "+f.Detail != c.want {
			t.Errorf("got %+v, want %s", f, c.want)
		}
	}
}

// Examining this machine works, and every check has a result.
func TestLocal(t *testing.T) {
	m := Local(context.Background())
	for _, f := range Examine(m) {
		if f.Area == "" || f.Name == "" || f.State == "" || f.Detail == "" {
			t.Errorf("an empty answer: %+v", f)
		}
	}
	if f := find(t, m, "open files"); f.State == No {
		t.Errorf("%+v", f)
	}
	if f := find(t, m, "/dev/shm"); f.State == No {
		t.Errorf("%+v", f)
	}
}
