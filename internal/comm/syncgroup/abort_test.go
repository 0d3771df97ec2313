package syncgroup

import (
	"context"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// If several ranks abort at the same time, all ranks must report the same one: the first.
func TestFirstAbortCounts(t *testing.T) {
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
			head.aborted.Post(shm.Failure{Rank: 1, Text: "disk full"}) // as abortFor does before it poisons the gate
			wantAborted(t, test.call(groups), 1, "disk full")
		})
	}
}
