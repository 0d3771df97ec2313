// Package cpu is the dist backend for processors: ranks are processes (or
// goroutines) that share memory. Importing it enables the backend "cpu".
//
// The ranks share one memory segment without a name. In it lie the board of
// flags (package shm) and, for each rank, a region from which Alloc takes
// symmetric memory. Any schedule is executed step by step, its messages over links;
// all-reduce, which everything waits for, also has code of its own:
//
//   - one-stage: each rank puts its input beside its flag, and everyone adds up
//     everything. One transfer between cores; nothing is waited for at the end.
//     What is far larger than the caches goes in a pipe of pieces instead, and the
//     sums are stored past the caches.
//   - two-stage on symmetric memory: each rank adds its part straight from all
//     inputs and stores the sum straight into all outputs.
//   - two-stage on private memory: the same through pieces that stay in the
//     caches, copied in while the others still work on the piece before.
//
// All of them add in rank order, as the schedules of the same name do.
//
// With a Config.Exchange the ranks may be on several hosts. Those of one host
// share memory as before; between hosts a link is a TCP connection (package tcp).
// Schedules that only send messages work over both, and all-reduce has code of its
// own again, "hierarchical": parts are added up within each host, between the hosts,
// and fetched within each host, piece by piece. Nothing reaches into the memory of another
// host, so there is no symmetric memory: Alloc gives ordinary memory, and
// Capabilities says so. Groups split off that lie on one host have it again.
package cpu

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// Name is the backend's name.
const Name = dist.HostBackend

func init() {
	dist.Register(dist.Description{
		Name: Name, Help: "this host's processors: shared memory within a host, TCP between hosts",
		Hints: hints.Hints{HostMemory: true},
	}, backend{})
}

// backend is the same for all groups, but tests begin the count of epochs where
// it soon wraps around, or stream short outputs too.
type backend struct {
	firstEpoch uint32
	streamFrom int // 0: the constant of that name
}

// Capabilities implements the method that dist.Describe calls: algorithms may be registered after init.
func (backend) Capabilities() dist.Capabilities { return capabilities() }

// Join meets the other ranks on this host, or on several.
func (b backend) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	if c.Exchange != nil && c.Size > 1 {
		return b.joinHosts(ctx, c)
	}
	shared, err := b.share(ctx, c, shm.Identity{ID: c.ID, Rank: c.Rank, Size: c.Size}, nil)
	if err != nil {
		return nil, err
	}
	e := localEngine{shared}
	e.streamFrom = cmp.Or(c.StreamFrom, b.streamFrom, streamFrom)
	// Nobody returns before all have made their claims: from here on a rank
	// without a claim is a dead one.
	defer context.AfterFunc(ctx, func() {
		e.member.Refuse(fmt.Sprintf("rank %d gave up joining: %v", c.Rank, context.Cause(ctx)))
	})()
	if err := e.agree(shm.NewLabel("init"), words{}, nil); err != nil {
		e.Close()
		return nil, err
	}
	e.member.CountFromHere()
	return e, nil
}

// share meets the ranks of this host, as which the identity names this one, and makes the engine of the
// group on the memory that they share: a board with room for all ranks, so that they keep their
// numbers, and a region for each of this host. h says who is where if there are others.
func (b backend) share(ctx context.Context, c dist.Config, id shm.Identity, h *hosts) (*engine, error) {
	region, err := regionBytes(id.Size)
	if err != nil {
		return nil, err
	}
	board := shm.BoardBytes(c.Size)
	id.Secret, id.Claim, id.Timeout = c.Secret, c.Rank, c.Timeout
	meeting, err := shm.Meet(ctx, id, func() (*os.File, error) { return b.newFile(c.Size, board+id.Size*region) })
	if err != nil {
		return nil, err
	}
	segment := meeting.Segment
	joined := shm.Membership{Segment: segment, Board: shm.BoardAt(segment, 0, c.Size), Rank: c.Rank, PIDs: meeting.PIDs,
		World: lists.Range[int](c.Size), Crowded: meeting.Crowded, Timeout: c.Timeout}
	if h != nil {
		joined.PIDs, joined.Crowded = h.pids(), h.crowded
	}
	e := newEngine(segment, shm.NewHeap(segment, board+id.Rank*region, region), joined, h)
	e.meeting, e.origin = meeting, origin{backend: b, config: c}
	return e, nil
}

// newFile makes the shared memory of so many bytes, which begins with the board.
func (b backend) newFile(size, bytes int) (*os.File, error) {
	f, err := shm.NewFile(bytes)
	if err != nil || b.firstEpoch == 0 {
		return f, err
	}
	s, err := shm.Map(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	shm.BoardAt(s, 0, size).StartAt(b.firstEpoch)
	return f, s.Close()
}

// regionBytes is how much symmetric memory a rank can have: all there is. It is
// only addresses until something is written.
func regionBytes(size int) (int, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("asking for the size of memory: %w", err)
	}
	const most, grain = 4 << 40, 2 << 20
	n := min(int(info.Totalram)*int(info.Unit), most/size)
	return (n + grain - 1) &^ (grain - 1), nil
}

// capabilities are made at first use: algorithms may be registered until then.
var capabilities = sync.OnceValue(func() dist.Capabilities {
	c := dist.Capabilities{
		Ops: dist.Collectives(), DTypes: dtype.All(), Reductions: dtype.Reductions(),
		Algorithms: map[dist.Collective][]string{},
		Features: []dist.Feature{dist.SymmetricMemory, dist.FusedEpilogue, dist.AnyCodec, dist.CustomReduction,
			dist.UnevenBlocks, dist.Pipelining, dist.ScheduleSteps, dist.ScheduleOrder},
	}
	for _, op := range c.Ops {
		if names := schedule.Names(string(op)); len(names) > 0 {
			c.Algorithms[op] = names
		}
	}
	return c
})
