package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/kernbench/kernbench/internal/bench/decl"
)

// helperVar makes a process a helper of a bench: "bench/name".
const helperVar = "KERNBENCH_HELPER"

// Helper is this program started again to run a function that a bench declares:
// for what must happen in a process that may be lost, such as a rank that dies.
// It ends with the process that starts it.
func Helper(ctx context.Context, bench, name string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("helper %s of bench %s: %w", name, bench, err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), helperVar+"="+bench+"/"+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}

// maybeHelper makes this process a helper if its environment says so.
func maybeHelper(benches []*decl.Bench) (exitCode int, is bool) {
	role, is := os.LookupEnv(helperVar)
	if !is {
		return 0, false
	}
	os.Unsetenv(helperVar)
	bench, name, _ := strings.Cut(role, "/")
	for _, b := range benches {
		if f := b.Helpers[name]; b.Name == bench && f != nil {
			if err := f(os.Args[1:]); err != nil {
				fmt.Fprintf(os.Stderr, "helper %s: %v\n", role, err)
				return 1, true
			}
			return 0, true
		}
	}
	fmt.Fprintf(os.Stderr, "helper %s: this program has none\n", role)
	return 1, true
}
