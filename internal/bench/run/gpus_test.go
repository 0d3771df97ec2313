package run

import (
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Programs outside of the run that use the GPU are named. The run's own processes, idle programs and the server of MPS
// are not, and neither is a rank that NVML still lists after its end.
func TestGPUWatch(t *testing.T) {
	var uses []cuda.Use
	own := map[int]bool{10: true}
	w := &gpuWatch{own: func(pid int) bool { return own[pid] }, ours: map[int]bool{}, busy: map[int]foreignUse{},
		read: func() cuda.Use {
			if len(uses) == 0 {
				return cuda.Use{}
			}
			next := uses[0]
			uses = uses[1:]
			return next
		}}
	use := func(held cuda.Hold, list ...cuda.Process) cuda.Use { return cuda.Use{Processes: list, Held: held} }
	rank := cuda.Process{PID: 10, Name: "kernbench", Busy: 99}
	for _, c := range []struct {
		name          string
		before, after cuda.Use
		want          string
	}{
		{"alone", use(0), use(0, rank), ""},
		{"idle neighbour", use(0, cuda.Process{PID: 7, Name: "python3"}),
			use(0, rank, cuda.Process{PID: 7, Name: "python3"}), ""},
		{"unknown neighbour", use(0), use(0, cuda.Process{PID: 7, Name: "python3", Busy: -1}), ""},
		{"server", use(0), use(0, cuda.Process{PID: 8, Name: mpsServer, Busy: 99}), ""},
		{"neighbour", use(0), use(0, rank, cuda.Process{PID: 7, Name: "python3", Busy: 35}),
			"gpu: process 7 (python3) used 35 % of the GPU"},
		// NVML has no new sample of a short measurement; what it said last still holds.
		{"short", use(0, cuda.Process{PID: 7, Name: "python3"}), use(0, cuda.Process{PID: 7, Name: "python3"}),
			"gpu: process 7 (python3) used 35 % of the GPU"},
		{"gone", use(0), use(0), ""},
		{"hot", use(0x20), use(0x40 | 4), "gpu: the GPU lowered its clock because of its temperature; " +
			"power: the GPU reached its power limit, which lowers its clock"},
		{"hot before", use(0x40), use(0), ""},
	} {
		uses = []cuda.Use{c.before, c.after}
		if got := strings.Join(journal.Conditions(w.start().end()).Sentences(), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	idle := cuda.Process{PID: 7, Name: "jupyter"}
	w.busy[7] = foreignUse{80, time.Now().Add(-10 * time.Second)}
	uses = []cuda.Use{use(0, idle), use(0, idle)}
	if got := w.start().end(); got != nil {
		t.Errorf("a program that has been idle for 10 s: %+v", got)
	}
	own = nil // the rank has ended
	uses = []cuda.Use{use(0, rank), use(0, rank)}
	if got := w.start().end(); got != nil {
		t.Errorf("a rank that has ended: %+v", got)
	}
	var none *gpuWatch
	none.start().end()
}
