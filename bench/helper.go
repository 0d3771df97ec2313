package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/kernbench/kernbench/internal/process/launch"
)

// Helper declares a function that bodies run in a process of its own, for what may
// not return: [HelperCommand] starts it.
func Helper(name string, f func(args []string) error) Clause {
	return func(d *declaration) {
		if d.bench.Helpers == nil {
			d.bench.Helpers = map[string]func(args []string) error{}
		}
		d.bench.Helpers[name] = f
	}
}

// HelperCommand returns the command that starts this program again as a helper of
// the bench, with the arguments that the helper's function gets. The process ends
// when ctx does, and with the process that started it.
func HelperCommand(ctx context.Context, bench, name string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("helper %s of bench %s: %w", name, bench, err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), launch.HelperVar+"="+bench+"/"+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}
