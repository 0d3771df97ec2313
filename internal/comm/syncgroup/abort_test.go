package syncgroup

import (
	"context"
	"testing"
	"time"
)

// A rank that takes the claim and has not yet written its reason is not read
// early by others that fail at the same moment.
func TestAbortReasonIsReadAfterItIsWritten(t *testing.T) {
	for name, test := range map[string]struct {
		ranks int
		call  func(groups []Group) error
	}{
		"out of step": {2, func(groups []Group) error {
			go groups[0].Barrier(context.Background())
			for groups[0].(*member).head.arrived.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			_, err := groups[1].Exchange(context.Background(), nil)
			return err
		}},
		"another left": {3, func(groups []Group) error {
			groups[2].Close()
			return groups[1].Barrier(context.Background())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			groups := Local(test.ranks)
			defer closeAll(groups)
			head := groups[0].(*member).head
			head.claimed.Store(1) // as abortFor does it, rank 1 first
			go func() {
				time.Sleep(50 * time.Millisecond)
				head.abortRank = 1
				head.reasonLength = uint32(copy(head.reason[:], "disk full"))
				head.gate.Or(gatePoisoned)
			}()
			wantAborted(t, test.call(groups), 1, "disk full")
		})
	}
}
