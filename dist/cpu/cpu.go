// Package cpu is the dist backend for processors: ranks are processes (or goroutines) that share memory. Importing it
// enables the backend "cpu".
//
// The ranks share one memory segment without a name. It contains the board of flags (package shm) and, for each rank, a
// region from which Alloc takes symmetric memory. Every schedule can be executed step by step, with messages over
// links. All-reduce also has faster code:
//
//   - one-stage: each rank writes its input next to its flag, and every rank adds all inputs. This takes one transfer
//     between cores and no barrier at the end. Vectors far larger than the caches are pipelined in pieces, and the
//     sums are written with non-temporal stores.
//   - two-stage on symmetric memory: each rank adds its part directly from all inputs and stores the sum directly
//     in all outputs.
//   - two-stage on private memory: the same, but in pieces that are copied to shared memory and stay in the caches. A
//     rank copies a piece while the others still work on the previous one.
//
// All of them add in rank order, like the schedules of the same name.
//
// With a Config.Exchange the ranks may be on several hosts. Ranks of one host share memory as before; between hosts
// a link is a TCP connection (package tcp). Schedules that only send messages work over both. For all-reduce between
// hosts there is a faster algorithm, "hierarchical". Piece by piece, it adds parts within each host, then between the
// hosts, and fetches the sums within each host. No rank can reach the memory of another host, so Alloc returns ordinary
// memory and the group lacks the feature SymmetricMemory. If Split makes a group of ranks on one host, it has the
// feature.
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

// Name is the name of the backend.
const Name = hints.HostBackend

func init() {
	dist.Register(dist.Description{
		Name: Name, Help: "this host's processors: shared memory within a host, TCP between hosts",
		Hints: hints.Hints{HostMemory: true},
	}, backend{})
}

// backend is the same for all groups. Only tests set its fields: to start with epochs that soon wrap around, or to use
// the code for large outputs with small ones.
type backend struct {
	firstEpoch uint32
	streamFrom int // 0: the constant streamFrom
}

// Capabilities implements the method that dist.Describe calls: algorithms may be registered after init.
func (backend) Capabilities() dist.Capabilities { return capabilities() }

// Join implements dist.Backend.
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
	defer context.AfterFunc(ctx, func() {
		e.member.Refuse(fmt.Sprintf("rank %d gave up joining: %v", c.Rank, context.Cause(ctx)))
	})()
	// Barrier: every rank has made its claim after this, so a missing claim means that the rank has died.
	if err := e.agree(shm.NewLabel("init"), words{}, nil); err != nil {
		e.Close()
		return nil, err
	}
	e.member.ResetCallCount()
	return e, nil
}

// share joins the ranks of this host and returns the engine on their shared memory: a board with room
// for all ranks of the group, so that ranks keep their numbers, and a region of symmetric memory for
// each rank of this host. h is nil if there are no other hosts.
func (b backend) share(ctx context.Context, c dist.Config, id shm.Identity, h *hosts) (*engine, error) {
	region, err := regionBytes(id.Size, c.SharedBytes)
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
	region = (segment.Len() - board) / id.Size // the limits of the rank that created the segment count
	joined := shm.Membership{Segment: segment, Board: shm.BoardAt(segment, 0, c.Size), Rank: c.Rank, PIDs: meeting.PIDs,
		World: lists.Range[int](c.Size), Crowded: meeting.Crowded, Timeout: c.Timeout}
	if h != nil {
		joined.PIDs, joined.Crowded = h.pids(), h.crowded
	}
	e := newEngine(segment, shm.NewHeap(segment, board+id.Rank*region, region), joined, h)
	e.meeting, e.origin = meeting, origin{id: c.ID}
	return e, nil
}

// newFile creates the shared memory, which begins with the board.
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

// regionBytes returns the maximum size of a rank's symmetric memory: what the caller needs, or else the memory of the
// host. Reserving it costs only addresses, because the kernel provides pages when they are first written. If the
// addresses of a process are limited (ulimit -v, as batch systems set it), all ranks together get half of them.
func regionBytes(size, need int) (int, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, fmt.Errorf("asking for the size of memory: %w", err)
	}
	const maxBytes, grain = 4 << 40, 2 << 20 // of all ranks together; the size of a huge page
	n := min(cmp.Or(need, int(info.Totalram)*int(info.Unit)), maxBytes/size)
	var addresses unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &addresses); err == nil && addresses.Cur < maxBytes {
		n = min(n, int(addresses.Cur)/2/size)
	}
	return max(grain, n&^(grain-1)), nil
}

// capabilities is computed on first use, because algorithms may be registered until then.
var capabilities = sync.OnceValue(func() dist.Capabilities {
	c := dist.Capabilities{
		Ops: dist.Collectives(), DTypes: dtype.All(), Reductions: dtype.Reductions(),
		Algorithms: map[dist.Collective][]string{},
		Features: []dist.Feature{dist.SymmetricMemory, dist.FusedEpilogue, dist.AnyCodec, dist.UnevenBlocks,
			dist.Pipelining, dist.ScheduleSteps, dist.ScheduleOrder},
	}
	for _, op := range c.Ops {
		if names := schedule.Names(string(op)); len(names) > 0 {
			c.Algorithms[op] = names
		}
	}
	return c
})
