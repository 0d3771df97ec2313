// Package syncgroup keeps the ranks of one launch in step: a barrier and an all-gather over the harness's
// own channel.
//
// It never uses the backend under test, so that a rank that hangs or dies in that backend can still be diagnosed. It
// moves a few numbers per block of samples. It is not a transport for data, and does not depend on benches, rows or
// workers.
//
// Three implementations share one contract, which one conformance suite checks: [Local] for ranks that are goroutines
// of one process ([Solo] is its case of a single rank), [NewShm] and [JoinShm] for processes of one host, [ServeHub]
// and [JoinStream] for ranks on several hosts. The first two are one protocol over memory of package shm.
//
// That protocol differs from shm.CallChecker on purpose. Here one counter and one gate release all ranks within a few
// hundred nanoseconds, any context can end a wait, and ranks may be goroutines. A CallChecker compares the signatures
// of calls and has one flag per rank, which lets fast ranks run one call ahead. A barrier of the harness must not allow
// that.
package syncgroup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Group is one rank's end of a sync group. Every rank makes the same sequence of Barrier and Exchange calls, one at a
// time.
//
// An error from Barrier or Exchange is final: the ranks are no longer in step, so the whole group is poisoned and every
// later call returns an error. A call looks at its context only while it waits. If its context ends, it poisons the
// group, because the others could never complete the call.
type Group interface {
	// Rank returns the number of this rank, 0 <= Rank() < Size().
	Rank() int
	// Size returns the number of ranks.
	Size() int
	// Barrier returns once every rank has called it.
	Barrier(ctx context.Context) error
	// Exchange returns the data of all ranks, indexed by rank. Lengths may differ.
	Exchange(ctx context.Context, mine []byte) ([][]byte, error)
	// Abort poisons the group: the pending and later calls of every rank return
	// an [AbortedError] with this rank and reason. The first abort wins. It may
	// be called from any goroutine.
	Abort(reason string)
	// Close leaves the group. A rank still waiting for this one gets an
	// AbortedError. Close must not overlap this end's own Barrier or Exchange.
	Close() error
}

// AbortedError reports which rank ended the group, and why. Rank is [HubRank] if no rank did. Implementations may cut a
// reason that is longer than 400 bytes.
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

// MaxBytes is the maximum length of the data of one rank in one Exchange.
const MaxBytes = 1 << 27

func checkLength(data []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("exchanging %d bytes: at most %d are allowed", len(data), MaxBytes)
	}
	return nil
}

// Numbers is an Exchange of integers.
func Numbers(ctx context.Context, g Group, mine []int64) ([][]int64, error) {
	data, _ := binary.Append(make([]byte, 0, 8*len(mine)), binary.LittleEndian, mine) // cannot fail: their size is fixed
	all, err := g.Exchange(ctx, data)
	if err != nil {
		return nil, err
	}
	return lists.TryMap(all, func(data []byte) ([]int64, error) {
		numbers := make([]int64, len(data)/8)
		if _, err := binary.Decode(data, binary.LittleEndian, numbers); err != nil || len(data)%8 != 0 {
			return nil, errMalformed
		}
		return numbers, nil
	})
}
