package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/epilogue"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// engine is one rank's end of a group.
type engine struct {
	segment *shm.Segment
	heap    *shm.Heap // of this rank, shared by all its groups
	member  *shm.Member
	joined  shm.Membership
	origin  origin
	meeting *shm.Meeting // of the first group only
	caps    dist.Capabilities

	streamFrom int // bytes of all outputs from which they go past the caches

	locals   []int   // the ranks of this host
	hosts    *hosts  // nil: those are all
	links    []*link // for collectives, by rank
	messages []*link // for the program's messages, by rank

	mu     sync.Mutex // of what preparing may change while a started call runs
	bounce extent     // memory that peers reach, for calls on private buffers
}

// origin is how a group was joined. The ID of one that was split off is its own.
type origin struct {
	backend backend
	config  dist.Config
	splits  int // made of it
}

// part is the origin of a group that is split off.
func (o *origin) part(color int) origin {
	part := *o
	part.splits = 0
	part.config.ID = fmt.Sprintf("%s/%d/%d", o.config.ID, o.splits, color)
	return part
}

// extent is a part of the segment.
type extent struct{ off, n int }

// newEngine makes the engine of a rank; h says who is where if the group has ranks
// on other hosts.
func newEngine(s *shm.Segment, heap *shm.Heap, joined shm.Membership, h *hosts) *engine {
	e := &engine{segment: s, heap: heap, caps: capabilities(), streamFrom: streamFrom, hosts: h}
	if h != nil {
		joined.Others = h
		e.locals, e.caps, h.engine = h.locals, acrossHosts(capabilities()), e
	} else {
		e.locals = lists.Range[int](len(joined.World))
	}
	e.joined, e.member = joined, shm.Join(joined)
	for peer := range e.Size() {
		e.links = append(e.links, e.channels(shm.ForCollectives, peer))
		e.messages = append(e.messages, e.channels(shm.ForProgram, peer))
	}
	return e
}

// channels is the link to a peer of this host.
func (e *engine) channels(use, peer int) *link {
	return &link{peer: peer, to: e.member.ChannelTo(use, peer, describe), from: e.member.ChannelFrom(use, peer, describe)}
}

func (e *engine) Rank() int                       { return e.member.Rank() }
func (e *engine) Size() int                       { return e.member.Size() }
func (e *engine) Capabilities() dist.Capabilities { return e.caps }
func (e *engine) Clock() dist.Clock               { return dist.Monotonic() }

// Alloc gives symmetric memory, or, where ranks of several hosts could not reach
// it, ordinary memory. It fails on every rank if it fails on one.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	l := shm.NewLabel(fmt.Sprintf("alloc of %d %v", count, d))
	if e.hosts != nil {
		_, err := e.gather(l, words{})
		if err != nil {
			return dist.Buffer{}, e.outward(err)
		}
		return e.hosts.alloc(d, count), nil
	}
	off, failed := 0, error(nil)
	if count > 0 {
		off, failed = e.heap.Alloc(count * d.Size())
	}
	ok := uint64(1)
	if failed != nil {
		ok = 0
	} else {
		e.segment.Populate(off, count*d.Size()) // by its owner first, so that it is near its core
	}
	all, err := e.gather(l, words{ok, uint64(off)})
	if err != nil {
		return dist.Buffer{}, e.outward(err)
	}
	for r, w := range all {
		if w[0] == 0 && failed == nil {
			failed = fmt.Errorf("rank %d has no memory left", r)
		}
	}
	if failed != nil {
		if ok == 1 && count > 0 {
			failed = errors.Join(failed, e.heap.Free(off))
		}
		return dist.Buffer{}, fmt.Errorf("allocating %d %v: %w", count, d, failed)
	}
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, e.segment), nil
	}
	for _, w := range all {
		e.segment.Populate(int(w[1]), count*d.Size())
	}
	return dist.NewBuffer(d, count, unsafe.Pointer(&e.segment.At(off, 1)[0]), e.segment), nil
}

func (e *engine) Free(b dist.Buffer) error {
	if b.Count() == 0 {
		return nil
	}
	if e.hosts != nil {
		return e.hosts.free(b)
	}
	off, ok := e.offset(b)
	if !ok {
		return fmt.Errorf("freeing %v: not symmetric memory of this group", b)
	}
	return e.heap.Free(off)
}

// offset tells where in the segment a buffer lies, if it does.
func (e *engine) offset(b dist.Buffer) (int, bool) {
	if b.Memory() != any(e.segment) || b.Count() == 0 {
		return 0, false
	}
	return e.segment.Offset(unsafe.Pointer(&b.Bytes()[0]))
}

// reserve gives n bytes that peers reach, used by one call at a time. It grows
// by replacing: calls prepared before keep the old ones.
func (e *engine) reserve(n int) (off int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n > e.bounce.n {
		n = max(n, 2*e.bounce.n)
		off, err := e.heap.Alloc(n)
		if err != nil {
			return 0, err
		}
		e.bounce = extent{off, n}
	}
	return e.bounce.off, nil
}

// Split makes new groups. Those that lie on one host have symmetric memory.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	child, err := e.split(color, key)
	if child == nil { // an interface must not hold a nil engine
		return nil, e.outward(err)
	}
	return child, nil
}

func (e *engine) split(color, key int) (*engine, error) {
	l := shm.NewLabel("split")
	all, err := e.gather(l, words{uint64(color), uint64(key)})
	if err != nil {
		return nil, err
	}
	e.origin.splits++
	var ranks []int
	for r, w := range all {
		if int(w[0]) == color {
			ranks = append(ranks, r)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(int(all[a][1]), int(all[b][1])) })
	// The first rank of a new group on each host makes the board there.
	const none = ^uint64(0)
	maker := ranks[slices.IndexFunc(ranks, e.local)]
	board, failed := none, error(nil)
	if color >= 0 && maker == e.Rank() {
		off, err := e.heap.Alloc(shm.BoardBytes(len(ranks)))
		if failed = err; err == nil {
			board = uint64(off)
		}
	}
	if all, err = e.gather(l, words{board}); err != nil || color < 0 {
		return nil, err
	}
	if board = all[maker][0]; board == none {
		return nil, fmt.Errorf("splitting: %w", cmp.Or(failed, fmt.Errorf("rank %d has no memory left", maker)))
	}
	joined := shm.Membership{
		Segment: e.segment, Board: shm.BoardAt(e.segment, int(board), len(ranks)),
		Rank: slices.Index(ranks, e.Rank()), Crowded: e.joined.Crowded, Timeout: e.joined.Timeout,
		PIDs: lists.At(e.joined.PIDs, ranks), World: lists.At(e.joined.World, ranks),
	}
	e.segment.Keep()
	if !slices.ContainsFunc(ranks, func(r int) bool { return !e.local(r) }) {
		child := newEngine(e.segment, e.heap, joined, nil)
		child.streamFrom, child.origin = e.streamFrom, e.origin.part(color)
		return child, nil
	}
	return e.hosts.branch(joined, color)
}

// local tells whether a rank is on this host.
func (e *engine) local(rank int) bool { return e.hosts == nil || e.hosts.local(rank) }

func (e *engine) Close() error {
	if e.hosts != nil {
		e.hosts.close()
	}
	e.member.Leave()
	if e.meeting != nil {
		e.meeting.Close()
	}
	return e.segment.Close()
}

func (e *engine) Refuse(reason error) {
	_ = e.member.Fail(shm.Cannot(e.Rank(), reason))
	if e.hosts != nil {
		e.hosts.spread()
	}
}

// outward tells other hosts of a failure.
func (e *engine) outward(err error) error {
	if err != nil && e.hosts != nil {
		e.hosts.spread()
	}
	return err
}

// Prepare chooses the code for a call.
func (e *engine) Prepare(p dist.Plan) (func() error, error) {
	own := p.Op == dist.AllReduce && !p.Steps && p.Combiner == nil && p.Count > 0 && e.Size() > 1
	if own && p.Codec == nil && e.hosts == nil {
		if run := e.fast(p); run != nil {
			return run, nil
		}
	}
	var run func() error
	var err error
	switch {
	case p.Op.PointToPoint():
		run = e.message(p)
	case own && p.Codec != nil:
		run, err = e.coded(p)
	case own && e.hosts != nil && p.Algorithm == hierarchical:
		run = e.hosts.hierarchical(p)
	case p.Op == dist.Barrier && !p.Steps && e.hosts != nil:
		l := label(p, "")
		run = func() error { return e.agree(l, words{}, nil) }
	default:
		run, err = e.steps(p)
	}
	if err != nil {
		return nil, err
	}
	return func() error { return e.outward(run()) }, nil
}

// allReduce is what every all-reduce by code of its own has.
type allReduce struct {
	m      *shm.Member
	label  *shm.Label
	kernel vec.Kernel
	in     []byte
	out    []byte
	srcs   [][]byte // of the kernel, by rank
	finish finish
}

// allReduce is for a plan; how is what else ranks must agree on.
func (e *engine) allReduce(p dist.Plan, how string) allReduce {
	return allReduce{m: e.member, label: label(p, how), kernel: vec.Lookup(p.DType, vec.Combining(p.Reduction)),
		in: p.In.Bytes(), out: p.Out.Bytes(), srcs: make([][]byte, e.Size()), finish: newFinish(p, e.Size())}
}

// fast is the all-reduce within a host by code of its own, nil if there is none.
// Its errors have the types of package dist already.
func (e *engine) fast(p dist.Plan) func() error {
	switch p.Algorithm {
	case "one-stage":
		return e.oneStage(p)
	case "two-stage":
		in, inShared := e.offset(p.In)
		out, outShared := e.offset(p.Out)
		if inShared && outShared {
			return e.direct(p, in, out)
		}
		return e.staged(p)
	}
	return nil
}

// label is what ranks must agree on. How is whatever else the chosen code needs
// to be equal.
func label(p dist.Plan, how string) *shm.Label { return shm.NewLabel(p.Terms() + how) }

// finish is what happens to elements between the sum and the output.
type finish struct {
	epilogue.Step
	local bool // ranks may do different things, so each does it to its own output
}

func newFinish(p dist.Plan, size int) finish {
	var f finish
	if p.Op.Reduces() && p.Reduction == dist.Avg {
		f.Step = epilogue.Average(p.DType, size)
	}
	if e := p.Epilogue; e != nil {
		f.Step, f.local = f.Then(p.DType, e.Scale, e.Bias.Bytes(), e.Residual.Bytes()), true
	}
	return f
}

// shared is done by the one rank that makes a sum, before others get it.
func (f *finish) shared(out []byte) {
	if !f.local {
		f.Apply(out, 0)
	}
}

// own is done by every rank to its output.
func (f *finish) own(out []byte) {
	if f.local {
		f.Apply(out, 0)
	}
}
