package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// HelperVariable makes a process a helper of a bench: its value is "bench/name".
const HelperVariable = "KERNBENCH_HELPER"

// Helper declares a function that bodies may run in a process of its own, which
// they may then lose; HelperCommand starts it from a body.
func Helper(name string, f func(args []string) error) Item {
	return func(d *declaration) {
		if d.bench.Helpers == nil {
			d.bench.Helpers = map[string]func(args []string) error{}
		}
		d.bench.Helpers[name] = f
	}
}

// HelperCommand is this program, to be started again as a helper of the bench:
// for what must happen in a process that may be lost, such as a rank that dies.
// It ends when ctx does, and with the process that starts it.
func HelperCommand(ctx context.Context, bench, name string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("helper %s of bench %s: %w", name, bench, err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), HelperVariable+"="+bench+"/"+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}
