package shm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// CallChecker verifies that all ranks on a host issue the same sequence of collectives, and propagates failures between
// them. Backends that move their data elsewhere (NCCL, CUDA) use it. Package syncgroup has a protocol of its own
// on the same memory: it must work before a group exists and while the backend under test hangs, and it carries samples
// instead of call signatures.
type CallChecker struct {
	*Member
	Meeting *Meeting

	identity      Identity
	fileExchanges int // number of ExchangeFiles calls; names the next one
	splits        int // number of Split calls; names the next subgroup
}

// JoinCallChecker blocks until all ranks of the group on this host have joined.
func JoinCallChecker(ctx context.Context, id Identity) (*CallChecker, error) {
	id.Claim = id.Rank
	meeting, err := Meet(ctx, id, func() (*os.File, error) { return NewFile(BoardBytes(id.Size)) })
	if err != nil {
		return nil, err
	}
	a := &CallChecker{Meeting: meeting, identity: id, Member: Join(Membership{
		Segment: meeting.Segment, Board: BoardAt(meeting.Segment, 0, id.Size), Rank: id.Rank, PIDs: meeting.PIDs,
		World: lists.Range[int](id.Size), Crowded: meeting.Crowded, Timeout: id.Timeout,
	})}
	// Barrier: every rank has made its claim after this, so a missing claim means that the rank has died.
	if err := a.Check(NewLabel("init")); err != nil {
		a.Close()
		return nil, err
	}
	a.ResetCallCount()
	return a, nil
}

// Check blocks until every rank has made this call. It fails if one makes a different call.
func (a *CallChecker) Check(l *Label) error {
	if err := a.Begin(l, 1); err != nil {
		return err
	}
	epoch := a.Next()
	a.Signal()
	return a.AwaitAll(epoch)
}

// AllGather returns every rank's data, in rank order. It takes two barriers: one so that no rank reads
// before all have written, one so that no rank overwrites before all have read. The data of a rank is
// limited to StageBytes-8 bytes, because its length precedes it.
func (a *CallChecker) AllGather(what string, mine []byte) ([][]byte, error) {
	if len(mine) > StageBytes-8 {
		return nil, fmt.Errorf("gathering %d bytes per rank: the limit is %d", len(mine), StageBytes-8)
	}
	stage := a.Stage(a.Rank())
	binary.LittleEndian.PutUint64(stage, uint64(len(mine)))
	copy(stage[8:], mine)
	if err := a.Check(NewLabel(what)); err != nil {
		return nil, err
	}
	all := make([][]byte, a.Size())
	for rank := range all {
		stage := a.Stage(rank)
		all[rank] = slices.Clone(stage[8:][:binary.LittleEndian.Uint64(stage)])
	}
	return all, a.Check(NewLabel(what + " (read)"))
}

// Split partitions the group by color and orders each part by key, then by rank, like MPI_Comm_split. It returns the
// new group and its members' ranks in this group, or nil if color is negative.
func (a *CallChecker) Split(color, key int) (part *CallChecker, ranks []int, err error) {
	mine := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(color)), uint64(key))
	all, err := a.AllGather("split", mine)
	if err != nil {
		return nil, nil, err
	}
	a.splits++
	if color < 0 {
		return nil, nil, nil
	}
	field := func(rank, i int) int { return int(binary.LittleEndian.Uint64(all[rank][8*i:])) }
	for rank := range all {
		if field(rank, 0) == color {
			ranks = append(ranks, rank)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(field(a, 1), field(b, 1)) })
	id := a.identity
	id.ID = fmt.Sprintf("%s/%d.%d", id.ID, a.splits, color)
	id.Rank, id.Size = slices.Index(ranks, id.Rank), len(ranks)
	part, err = JoinCallChecker(context.Background(), id)
	return part, ranks, err
}

// A library call often fails shortly before this rank notices that its peer died. Wait this long for that notice, so
// that the peer is blamed and not the library.
const deathGrace = 300 * time.Millisecond

// CausedByPeer reports whether a library or driver error during op was caused by a dead or failed peer. It waits up to
// deathGrace for the evidence.
func (a *CallChecker) CausedByPeer(op string) bool {
	for begin := time.Now(); time.Since(begin) < deathGrace; time.Sleep(time.Millisecond) {
		if a.CheckFailed(op) {
			return true
		}
	}
	return false
}

// CheckFailed reports whether the group has failed. If a rank has died or left since the last check,
// it marks the group as failed for all ranks.
func (a *CallChecker) CheckFailed(op string) bool {
	if a.Failed() {
		return true
	}
	for rank := range a.Size() {
		if why, dead := a.Gone(rank); rank != a.Rank() && why != "" {
			_ = a.FailPeer(rank, dead, why, op)
			return true
		}
	}
	return false
}

// Alone reports whether all ranks of other processes have left or died. Ranks of this process share its resources and
// do not count.
func (a *CallChecker) Alone() bool {
	for rank, pid := range a.Meeting.PIDs {
		if why, _ := a.Gone(rank); rank != a.Rank() && why == "" && pid != os.Getpid() {
			return false
		}
	}
	return true
}

// Close leaves the group.
func (a *CallChecker) Close() {
	a.Leave()
	a.Meeting.Close()
	a.Meeting.Segment.Close()
}
