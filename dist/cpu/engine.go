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

// engine is the common part of the two kinds of engines: [localEngine] if all ranks are on one host, otherwise
// [hostsEngine].
type engine struct {
	segment *shm.Segment
	heap    *shm.Heap // allocates this rank's region; shared by all its groups
	member  *shm.Member
	joined  shm.Membership
	origin  origin
	meeting *shm.Meeting // listener of this host's ranks; set only in the first group
	caps    dist.Capabilities

	streamFrom int // size of all outputs together, in bytes, from which stores bypass the caches

	locals   []int   // the ranks of this host
	hosts    *hosts  // nil: all ranks are on this host
	links    []*link // for collectives, by rank
	messages []*link // for messages of the program, by rank

	mu     sync.Mutex // guards bounce: one call may be prepared while another runs
	bounce extent     // shared memory for calls on private buffers
}

// localEngine is the engine of a group whose ranks share the memory of one host.
type localEngine struct{ *engine }

// origin identifies a group. A group made by Split gets an ID derived from its
// parent's.
type origin struct {
	id     string
	splits int // number of Split calls; names the next part
}

// part returns the origin of a group that is split off.
func (o *origin) part(color int) origin {
	return origin{id: fmt.Sprintf("%s/%d/%d", o.id, o.splits, color)}
}

// extent is a part of the segment.
type extent struct{ off, n int }

// newEngine returns the engine of a rank. h is nil if all ranks are on this host.
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

// channels returns the link to a peer of this host.
func (e *engine) channels(use, peer int) *link {
	return &link{peer: peer, to: e.member.ChannelTo(use, peer, describe), from: e.member.ChannelFrom(use, peer, describe)}
}

func (e *engine) Rank() int                       { return e.member.Rank() }
func (e *engine) Size() int                       { return e.member.Size() }
func (e *engine) Capabilities() dist.Capabilities { return e.caps }

// Alloc returns symmetric memory. If it fails on one rank, it fails on all.
func (e localEngine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	off, failed := 0, error(nil)
	if count > 0 {
		off, failed = e.heap.Alloc(count * d.Size())
	}
	ok := uint64(1)
	if failed != nil {
		ok = 0
	} else {
		// The owner touches its memory first, because the kernel places a page on the NUMA node of the
		// core that first writes it.
		e.segment.Populate(off, count*d.Size())
	}
	all, err := e.gather(allocLabel(d, count), words{ok, uint64(off)})
	if err != nil {
		return dist.Buffer{}, err
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

// allocLabel is the call that the ranks of an Alloc agree on.
func allocLabel(d dist.DType, count int) *shm.Label {
	return shm.NewLabel(fmt.Sprintf("alloc of %d %v", count, d))
}

func (e localEngine) Free(b dist.Buffer) error {
	if b.Count() == 0 {
		return nil
	}
	off, ok := e.offset(b)
	if !ok {
		return fmt.Errorf("freeing %v: not symmetric memory of this group", b)
	}
	return e.heap.Free(off)
}

// offset returns the position of b in the segment, and whether b lies in it.
func (e *engine) offset(b dist.Buffer) (int, bool) {
	if b.Memory() != any(e.segment) || b.Count() == 0 {
		return 0, false
	}
	return e.segment.Offset(unsafe.Pointer(&b.Bytes()[0]))
}

// reserve returns the offset of at least n bytes of shared memory that peers can reach. All prepared calls use the same
// memory, because only one runs at a time. To grow, reserve allocates new memory. It keeps the old memory, which calls
// prepared earlier still use.
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

// Split implements dist.Engine. A new group whose ranks are all on one host has symmetric memory, even
// if this one does not.
func (e *engine) Split(color, key int) (dist.Engine, error) {
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
	// The first rank of the new group on each host allocates its board there.
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
	if slices.ContainsFunc(ranks, func(r int) bool { return !e.local(r) }) {
		return e.hosts.splitOff(joined, color)
	}
	child := newEngine(e.segment, e.heap, joined, nil)
	child.streamFrom, child.origin = e.streamFrom, e.origin.part(color)
	return localEngine{child}, nil
}

// local reports whether a rank is on this host.
func (e *engine) local(rank int) bool { return e.hosts == nil || e.hosts.local(rank) }

func (e *engine) Close() error {
	e.member.Leave()
	if e.meeting != nil {
		e.meeting.Close()
	}
	return e.segment.Close()
}

func (e *engine) Refuse(reason error) (first bool) { return e.member.RefuseCall(reason) }

// Prepare chooses the code for a call.
func (e localEngine) Prepare(p dist.Plan) (run, release func() error, err error) {
	if hasFastPath(p, e.Size()) && p.Codec == nil {
		run = e.directAllReduce(p)
	}
	if run == nil {
		run, err = e.prepare(p)
	}
	return run, nil, err
}

// hasFastPath reports whether the call is an all-reduce that the optimised code may run, not the steps of
// a schedule.
func hasFastPath(p dist.Plan, size int) bool {
	return p.Op == dist.AllReduce && !p.Steps && p.Count > 0 && size > 1
}

// prepare chooses among the code that works both within a host and between hosts.
func (e *engine) prepare(p dist.Plan) (func() error, error) {
	switch {
	case p.Op.PointToPoint():
		return e.message(p), nil
	case hasFastPath(p, e.Size()) && p.Codec != nil:
		return e.coded(p)
	}
	return e.steps(p)
}

// allReduce is the common part of all optimised all-reduces.
type allReduce struct {
	m      *shm.Member
	label  *shm.Label
	kernel vec.Kernel
	in     []byte
	out    []byte
	srcs   [][]byte // arguments of the kernel, by rank; allocated once, because a run must not allocate
	finish finish
}

// allReduce prepares the common part of an all-reduce. how names the chosen code, on which ranks must agree in addition
// to the plan.
func (e *engine) allReduce(p dist.Plan, how string) allReduce {
	return allReduce{m: e.member, label: label(p, how), kernel: vec.Lookup(p.DType, vec.Combining(p.Reduction)),
		in: p.In.Bytes(), out: p.Out.Bytes(), srcs: make([][]byte, e.Size()), finish: newFinish(p, e.Size())}
}

// directAllReduce returns the all-reduce within a host that reads the peers' memory directly, or nil if the algorithm
// has none.
func (e *engine) directAllReduce(p dist.Plan) func() error {
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

// label returns the label of a call, on which ranks must agree: the terms of the plan, and how, which
// describes the chosen code.
func label(p dist.Plan, how string) *shm.Label { return shm.NewLabel(p.Terms() + how) }

// finish is the last step of a reduction, between the sum and the output: it divides an average and
// applies the epilogue.
type finish struct {
	epilogue.Step
	local bool // ranks may have different epilogues, so each applies its own to its own output
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

// applyShared is called by the one rank that computes a sum, before the others read it.
func (f *finish) applyShared(out []byte) {
	if !f.local {
		f.Apply(out, 0)
	}
}

// applyOwn is called by every rank on its own output.
func (f *finish) applyOwn(out []byte) {
	if f.local {
		f.Apply(out, 0)
	}
}
