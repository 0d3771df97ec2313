package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// sayLimit bounds a program that is only asked for its version.
const sayLimit = 10 * time.Second

// Local is this machine. Opening libraries loads them into this process.
func Local(ctx context.Context) Machine {
	return Machine{
		Host: hostinfo.Local(), Root: hostinfo.Root(),
		Find:  exec.LookPath,
		Say:   func(path string, args ...string) (string, error) { return say(ctx, path, args...) },
		Space: space, Limit: limit, Open: openLibrary, GPUs: localGPUs, Interfaces: localInterfaces,
	}
}

func say(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sayLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("no answer within %v", sayLimit)
	}
	text := strings.TrimSpace(string(out))
	if err != nil {
		lines := strings.Split(text, "\n")
		return "", fmt.Errorf("%w: %s", err, lines[len(lines)-1]) // the last says why
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
