// Package syncgroup keeps the ranks of one launch in step: a barrier and an
// all-gather of integers over the harness's own channel.
//
// It never uses the backend under test, so that a rank that hangs or dies there
// is still diagnosed here. It moves a few numbers per block of samples; it is no
// transport for data and knows nothing of benches, rows or workers.
//
// Three implementations share one contract, checked by one conformance suite:
// [Local] for ranks that are goroutines of one process ([Solo] is its case of a
// single rank), [NewShm] and [JoinShm] for processes of one host, [ServeHub] and
// [JoinStream] for ranks on several hosts. The first two are one protocol over
// memory of package shm.
package syncgroup

import (
	"context"
	"errors"
	"fmt"
)

// Group is one rank's end of a sync group. Every rank makes the same sequence
// of Barrier and Exchange calls, one at a time.
//
// An error from Barrier or Exchange is final: the ranks are no longer in step,
// so the whole group is poisoned and every rank gets an error from then on.
// Only a call that has to wait looks at its context; one whose context ends
// poisons the group, since the others could never complete it.
type Group interface {
	// Rank is this end's number, 0 <= Rank() < Size().
	Rank() int
	// Size is the number of ranks.
	Size() int
	// Barrier returns once every rank has called it.
	Barrier(ctx context.Context) error
	// Exchange gives every rank the values of all ranks, indexed by rank. Lengths
	// may differ. The result is valid until the next call on this end.
	Exchange(ctx context.Context, mine []int64) ([][]int64, error)
	// Abort poisons the group: the pending and later calls of every rank return
	// an [AbortedError] with this rank and reason. The first abort wins. It may
	// be called from any goroutine.
	Abort(reason string)
	// Close leaves the group. A rank still waiting for this one gets an
	// AbortedError. Close must not overlap this end's own Barrier or Exchange.
	Close() error
}

// AbortedError says which rank ended the group, and why. Rank is [HubRank] if it
// was none of them. Implementations may cut a reason longer than 400 bytes.
type AbortedError struct {
	Rank   int
	Reason string
}

func (e *AbortedError) Error() string {
	if e.Rank == HubRank {
		return "group aborted by its hub: " + e.Reason
	}
	return fmt.Sprintf("group aborted by rank %d: %s", e.Rank, e.Reason)
}

// ErrClosed is returned by calls on an end that has been closed.
var ErrClosed = errors.New("this end of the sync group is closed")

// MaxValues is the most values one rank may give to one Exchange.
const MaxValues = 1 << 24
