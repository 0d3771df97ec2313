package job

import (
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/node"
)

// The ranks of a job wait for each other for as long as --join-timeout says.
func TestHostConfigWaits(t *testing.T) {
	of := &jobenv.Job{Launcher: jobenv.Torchrun, Size: 2, LocalSize: 2}
	for set, want := range map[time.Duration]time.Duration{0: node.DefaultJoinTimeout, 3 * time.Second: 3 * time.Second} {
		cfg := must.Get(Process{Name: "kernbench", JoinTimeout: set}.HostConfig(of))(t)
		if cfg.JoinTimeout != want {
			t.Errorf("--join-timeout %v: the ranks wait for %v, want %v", set, cfg.JoinTimeout, want)
		}
	}
}
