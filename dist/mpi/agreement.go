package mpi

import (
	"fmt"
	"time"

	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// membership describes a group and this rank's place in it.
type membership struct {
	id      string // unique among the groups of the job
	secret  string
	rank    int
	timeout time.Duration
	world   []int // rank in MPI_COMM_WORLD by rank
}

// pace is how this backend waits for MPI. It spins for a few tens of microseconds: how far apart ranks
// usually arrive.
var pace = shm.Poll{Spins: 100, Yields: 2000, Sleep: 50 * time.Microsecond, Every: 32}

// poll runs test until the request in slot is done. Errors of test are returned through fail.
func poll(test *mpi.Call, slot *mpi.Slot, fail func(error) error, check func(waited time.Duration) error) error {
	return pace.Until(func() (bool, error) {
		if err := test.Run(); err != nil {
			return false, fail(err)
		}
		return slot.Done(), nil
	}, check)
}

// history is what a rank has run since its last agreement with the others: calls on which they agreed
// before.
type history struct {
	repeats int
	hash    uint64 // of these calls, in their order
}

func (h *history) add(call uint64) { h.repeats, h.hash = h.repeats+1, (h.hash^call)*0x100000001b3 }

// agreeing returns the text of a call on which the ranks are about to agree. With it they agree on
// the calls before, which were only MPI's.
func (h *history) agreeing(call string) string {
	if h.repeats == 0 {
		return call
	}
	defer func() { *h = history{} }()
	return fmt.Sprintf("%s, after %d calls again (%04x)", call, h.repeats, h.hash&0xffff)
}

// agree blocks until all ranks are known to issue this call.
func (e *engine) agree(call string) error {
	call = e.history.agreeing(call)
	if err := e.coordinator.post(call); err != nil {
		return err
	}
	return e.coordinator.wait(call)
}
