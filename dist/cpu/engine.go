package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// engine is one rank's end of a group.
type engine struct {
	segment *shm.Segment
	heap    *shm.Heap // of this rank, shared by all its groups
	member  *shm.Member
	joined  shm.Membership
	meeting *shm.Meeting // of the first group only

	streamFrom int // bytes of all outputs from which they go past the caches

	sends, recvs         []*shm.Channel // of collectives, by peer
	messagesTo, messages []*shm.Channel // of the program, to and from each peer

	mu     sync.Mutex // of what preparing may change while a started call runs
	bounce extent     // memory that peers reach, for calls on private buffers
}

// extent is a part of the segment.
type extent struct{ off, n int }

func newEngine(s *shm.Segment, h *shm.Heap, joined shm.Membership) *engine {
	e := &engine{segment: s, heap: h, joined: joined, member: shm.Join(joined), streamFrom: streamFrom}
	for peer := range e.Size() {
		e.sends = append(e.sends, e.member.ChannelTo(shm.ForCollectives, peer, describe))
		e.recvs = append(e.recvs, e.member.ChannelFrom(shm.ForCollectives, peer, describe))
		e.messagesTo = append(e.messagesTo, e.member.ChannelTo(shm.ForProgram, peer, describe))
		e.messages = append(e.messages, e.member.ChannelFrom(shm.ForProgram, peer, describe))
	}
	return e
}

func describe(n shm.Note) string { return fmt.Sprintf("%d %v", n.Count, dist.DType(n.Type)) }

func (e *engine) Rank() int                       { return e.member.Rank() }
func (e *engine) Size() int                       { return e.member.Size() }
func (e *engine) Capabilities() dist.Capabilities { return capabilities() }
func (e *engine) Clock() dist.Clock               { return clock{} }

// agree is a call without data: all ranks make the same one.
func (e *engine) agree(l *shm.Label, words ...uint64) error {
	m := e.member
	if err := m.Begin(l, 1); err != nil {
		return outward(err)
	}
	epoch := m.Next()
	for i, w := range words {
		*m.Word(m.Rank(), epoch, i) = w
	}
	m.Signal()
	return outward(m.AwaitAll(epoch))
}

// Alloc fails on every rank if it fails on one.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
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
	if err := e.agree(shm.NewLabel(fmt.Sprintf("alloc of %d %v", count, d)), ok, uint64(off)); err != nil {
		return dist.Buffer{}, err
	}
	epoch := e.member.Next() - 1
	for r := range e.Size() {
		if *e.member.Word(r, epoch, 0) == 0 && failed == nil {
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
	for r := range e.Size() {
		e.segment.Populate(int(*e.member.Word(r, epoch, 1)), count*d.Size())
	}
	return dist.NewBuffer(d, count, unsafe.Pointer(&e.segment.At(off, 1)[0]), e.segment), nil
}

func (e *engine) Free(b dist.Buffer) error {
	if b.Count() == 0 {
		return nil
	}
	off, ok := e.offset(b)
	if !ok {
		return fmt.Errorf("freeing %v: not symmetric memory of this group", b)
	}
	return e.heap.Free(off)
}

// offset tells where in the segment a buffer lies, if it does.
func (e *engine) offset(b dist.Buffer) (int, bool) {
	if b.Place() != dist.Place(e.segment) || b.Count() == 0 {
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

// Split lets the first rank of each new group make its board.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	m, label := e.member, shm.NewLabel("split")
	if err := e.agree(label, uint64(color), uint64(key)); err != nil {
		return nil, err
	}
	type place struct{ key, rank int }
	var places []place
	epoch := m.Next() - 1
	for r := range e.Size() {
		if int(*m.Word(r, epoch, 0)) == color {
			places = append(places, place{int(*m.Word(r, epoch, 1)), r})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.rank, b.rank)) })
	const none = ^uint64(0)
	board, failed := none, error(nil)
	if color >= 0 && places[0].rank == e.Rank() {
		off, err := e.heap.Alloc(shm.BoardBytes(len(places)))
		if failed = err; err == nil {
			board = uint64(off)
		}
	}
	if err := e.agree(label, board); err != nil {
		return nil, err
	}
	if color < 0 {
		return nil, nil
	}
	board = *m.Word(places[0].rank, m.Next()-1, 0)
	if board == none {
		return nil, fmt.Errorf("splitting: %w", cmp.Or(failed, fmt.Errorf("rank %d has no memory left", places[0].rank)))
	}
	joined := shm.Membership{
		Segment: e.segment, Board: shm.BoardAt(e.segment, int(board), len(places)),
		Crowded: e.joined.Crowded, Timeout: e.joined.Timeout,
	}
	for i, p := range places {
		if p.rank == e.Rank() {
			joined.Rank = i
		}
		joined.PIDs = append(joined.PIDs, e.joined.PIDs[p.rank])
		joined.World = append(joined.World, e.joined.World[p.rank])
	}
	e.segment.Keep()
	child := newEngine(e.segment, e.heap, joined)
	child.streamFrom = e.streamFrom
	return child, nil
}

func (e *engine) Close() error {
	e.member.Leave()
	if e.meeting != nil {
		e.meeting.Close()
	}
	return e.segment.Close()
}

func (e *engine) Refuse(reason error) {
	e.member.Refuse(fmt.Sprintf("rank %d cannot make its call: %v", e.Rank(), reason))
}

// outward gives the transport's failures the types of package dist.
func outward(err error) error {
	var f *shm.Failure
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &f):
		return err
	case f.Kind != shm.PeerGone:
		return &dist.MisuseError{Text: f.Text}
	}
	return &dist.PeerError{Rank: f.Rank, PID: f.PID, Dead: f.Dead, Text: f.Text}
}

// Prepare chooses the code for a call.
func (e *engine) Prepare(p dist.Plan) (func() error, error) {
	fast := p.Op == dist.AllReduce && !p.Steps && p.Count > 0 && e.Size() > 1
	switch {
	case p.Op.PointToPoint():
		return e.message(p), nil
	case fast && p.Codec != nil:
		return e.coded(p)
	case fast && p.Algorithm == "one-stage":
		return e.oneStage(p), nil
	case fast && p.Algorithm == "two-stage":
		in, inShared := e.offset(p.In)
		out, outShared := e.offset(p.Out)
		if inShared && outShared {
			return e.direct(p, in, out), nil
		}
		return e.staged(p), nil
	}
	return e.steps(p)
}

// label is what ranks must agree on. How is whatever else the chosen code needs
// to be equal.
func label(p dist.Plan, how string) *shm.Label {
	s := p.String()
	if p.Algorithm != "" {
		s += " by " + p.Algorithm
	}
	if p.Steps {
		s += " in steps"
	}
	if p.Chunk > 0 {
		s += fmt.Sprintf(" in pieces of %d", p.Chunk)
	}
	if p.Codec != nil {
		s += " as " + p.Codec.Name()
	}
	return shm.NewLabel(s + how)
}
