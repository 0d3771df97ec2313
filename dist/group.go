package dist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/kernel/epilogue"
)

// Group is one rank's membership of a group.
type Group struct {
	engine      Engine
	backend     string
	caps        Capabilities
	tuning      *Tuning
	machine     string
	arrangement string

	collectives *stream
	messages    map[direction]*stream // as they come to be used: most groups send none, and some are very large
	memory      allocations           // by Alloc
	closed      bool
	watched     watched
}

// direction is the messages to a peer or those from it.
type direction struct {
	op   Collective
	peer int
}

// watched is what the contexts of a group have done to it.
type watched struct {
	mu    sync.Mutex
	over  bool  // the group is closed: nothing may reach its engine
	cause error // of the first context that ended
}

func newGroup(e Engine, backend string, t *Tuning) *Group {
	caps := e.Capabilities().fitting(e.Size())
	g := &Group{engine: e, backend: backend, caps: caps, tuning: t.OnDevice(caps.Device, caps.Sharing, t.knobs),
		collectives: &stream{}, messages: map[direction]*stream{}}
	_, g.caps.Shrink = e.(Shrinker)
	return g
}

// Rank is this rank's number in the group, from 0.
func (g *Group) Rank() int { return g.engine.Rank() }

// Size is the number of ranks.
func (g *Group) Size() int { return g.engine.Size() }

// Backend is the name of the backend.
func (g *Group) Backend() string { return g.backend }

// Capabilities says what the backend can do in this group: algorithms that its
// number of ranks does not allow are left out.
func (g *Group) Capabilities() Capabilities { return g.caps }

// Clock is the time to measure the group's work with.
func (g *Group) Clock() Clock { return g.engine.Clock() }

// Observe says what the instruments of this rank's device show now, such as its clocks,
// power and temperature; "" where it has none.
func (g *Group) Observe() (string, error) {
	if o, ok := g.engine.(Observer); ok {
		return o.Observe()
	}
	return "", nil
}

// Plant makes the all-reduces of this rank that are prepared from now on wrong, in one of
// the ways of [Faults] or not at all (""). It is for tests of what should notice.
func (g *Group) Plant(fault string) error {
	e, can := g.engine.(Sabotaged)
	switch {
	case fault == "" && !can:
		return nil
	case !can:
		return fmt.Errorf("%w: backend %s has no kernels of its own to plant it in", ErrNoSuchFault, g.backend)
	case fault != "" && !slices.Contains(Faults(), fault):
		return suggest.Unknown("fault", fault, Faults())
	}
	return e.Plant(fault)
}

// Tuning is the table that "auto" chooses from.
func (g *Group) Tuning() *Tuning { return g.tuning }

// Alloc gives zeroed memory that every rank of the group reaches without a copy
// (symmetric memory). All ranks call it, with the same arguments.
func (g *Group) Alloc(d DType, count int) (Buffer, error) {
	if g.closed {
		return Buffer{}, ErrClosed
	}
	if !d.Valid() || count < 0 {
		return Buffer{}, fmt.Errorf("allocating %d elements of %v: want a type and 0 or more", count, d)
	}
	g.collectives.drain()
	b, err := g.engine.Alloc(d, count)
	if err == nil {
		g.memory.allocated(b)
	}
	return b, err
}

// Free gives back a buffer that Alloc gave. It must not be in use by any rank: a call
// that is made with it all the same, prepared before or not, fails the group.
func (g *Group) Free(b Buffer) error {
	if g.closed {
		return ErrClosed
	}
	if err := g.engine.Free(b); err != nil {
		return err
	}
	g.memory.freed(b)
	return nil
}

// Split cuts the group by color: ranks of equal color form a new group, ordered
// by key and then by rank. A negative color joins none and gives nil. All ranks
// call it. Buffers of this group work in the new ones.
func (g *Group) Split(color, key int) (*Group, error) {
	if g.closed {
		return nil, ErrClosed
	}
	g.collectives.drain()
	e, err := g.engine.Split(color, key)
	if err != nil || e == nil {
		return nil, err
	}
	part := newGroup(e, g.backend, g.tuning)
	part.machine, part.arrangement = g.machine, g.arrangement
	return part, nil
}

// Shrink goes on after an error: it makes a new group of the ranks that are left. Every
// rank that is calls it; one that is dead or has closed the group is done without, and so
// is one that does not come within Config.Timeout. All that are left get the same group,
// also if more die meanwhile, in the order of their ranks; was[r] is the rank in this group
// of rank r in the new one. A group that has not failed fails by it, on all ranks.
//
// A rank that comes too late gets a [PeerError] that names itself. Over several hosts a rank
// of which nothing is heard, though its process is not known to have ended, is done
// without by more than half of all ranks only: so a network that is cut in two does not
// make two groups of one.
//
// Memory of this group is not symmetric in the new one, nor is what watched it: allocate,
// prepare and watch anew. This group is good for nothing then but to be closed. Backends
// that cannot do it return an error that is [errors.ErrUnsupported], with the reason.
func (g *Group) Shrink() (left *Group, was []int, err error) {
	if g.closed {
		return nil, nil, ErrClosed
	}
	s, ok := g.engine.(Shrinker)
	if !ok {
		return nil, nil, fmt.Errorf("shrinking a group of backend %s: %s: %w", g.backend,
			cmp.Or(Describe(g.backend).NoShrink, "it does not offer that"), errors.ErrUnsupported)
	}
	g.engine.Refuse(errors.New("it shrinks the group"))
	g.collectives.drain()
	for _, s := range g.messages {
		s.drain()
	}
	e, was, err := s.Shrink()
	if err != nil {
		return nil, nil, err
	}
	return newGroup(e, g.backend, g.tuning), was, nil
}

// normalised is a run that is followed by a norm.
func normalised(run func() error, n *epilogue.Norm, out []byte) func() error {
	return func() error {
		if err := run(); err != nil {
			return err
		}
		n.Apply(out)
		return nil
	}
}

// Prepare checks a call and does all that can be done before it runs. It is
// local: it waits for nobody, and a mistake in it is this rank's alone. The
// methods named after operations prepare and run at once; there a mistake
// fails the group, because the others would wait.
func (g *Group) Prepare(c Call) (*Op, error) {
	if g.closed {
		return nil, ErrClosed
	}
	p, err := g.plan(c)
	if err != nil {
		return nil, err
	}
	in, out := g.memory.find(p.In), g.memory.find(p.Out)
	if in.gone() || out.gone() {
		return nil, fmt.Errorf("%v: %w", p, errFreed)
	}
	run, err := g.engine.Prepare(p)
	var unusable *UnusableError
	if errors.As(err, &unusable) && (c.Algorithm == "" || c.Algorithm == auto) &&
		p.Algorithm != g.caps.Algorithms[p.Op][0] {
		c.Algorithm = g.caps.Algorithms[p.Op][0]
		return g.Prepare(c)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing %v: %w", p, err)
	}
	if e := p.Epilogue; e != nil && e.Norm != nil && !g.caps.Norm && p.Out.Count() > 0 {
		run = normalised(run, epilogue.NewNorm(p.DType, e.Norm.Weight.Bytes(), e.Norm.Epsilon), p.Out.Bytes())
	}
	op := newOp(p, run, g.streamOf(p))
	op.in, op.out, op.group = in, out, g
	return op, nil
}

// Watch fails the group when the context ends: the calls that are on their way, prepared
// or not, and all later ones return an error, on this rank and on the others, which
// name this one. Here it is the context's error (errors.Is). A call costs nothing more
// for it. Stop ends the watching, and tells whether it was in time.
func (g *Group) Watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		w := &g.watched
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.over {
			return
		}
		if w.cause == nil {
			w.cause = context.Cause(ctx)
		}
		g.engine.Refuse(ended(ctx))
	})
}

// ended is why a group whose context has ended can do no more.
func ended(ctx context.Context) error {
	return fmt.Errorf("%w: %w", errEnded, context.Cause(ctx))
}

var errEnded = errors.New("its context has ended")

// explain gives the failure of a group its cause where that is a context of this rank.
func (g *Group) explain(err error) error {
	g.watched.mu.Lock()
	defer g.watched.mu.Unlock()
	var misuse *MisuseError
	own := shm.Cannot(g.Rank(), errEnded).Text
	if g.watched.cause != nil && errors.As(err, &misuse) && strings.HasPrefix(misuse.Text, own) {
		return &MisuseError{Text: misuse.Text, Cause: g.watched.cause}
	}
	return err
}

// streamOf says which calls keep order with one another: collectives, and the
// messages of one direction to one peer.
func (g *Group) streamOf(p Plan) *stream {
	if !p.Op.PointToPoint() {
		return g.collectives
	}
	d := direction{p.Op, p.Peer}
	if g.messages[d] == nil {
		g.messages[d] = &stream{}
	}
	return g.messages[d]
}

// Close leaves the group after what was started has ended. Ranks that still wait
// for this one get an error. Symmetric memory is gone afterwards.
func (g *Group) Close() error {
	if g.closed {
		return nil
	}
	g.closed = true
	g.collectives.close()
	for _, s := range g.messages {
		s.close()
	}
	g.watched.mu.Lock()
	g.watched.over = true
	g.watched.mu.Unlock()
	return g.engine.Close()
}

func (g *Group) call(c Call, options []Option) error {
	op, err := g.prepare(c, options)
	if err != nil {
		return err
	}
	return op.Run()
}

func (g *Group) start(c Call, options []Option) (*Handle, error) {
	op, err := g.prepare(c, options)
	if err != nil {
		return nil, err
	}
	return op.Start(), nil
}

// prepare is for calls that are to run at once: one that cannot fails the group,
// because the others would wait for it.
func (g *Group) prepare(c Call, options []Option) (*Op, error) {
	for _, o := range options {
		o(&c)
	}
	op, err := g.Prepare(c)
	if err != nil {
		if !g.closed {
			err = g.refuse(err)
		}
		return nil, err
	}
	op.ctx = c.ctx
	return op, nil
}

// refuse fails the group because of a call that this rank cannot make.
func (g *Group) refuse(err error) error {
	g.engine.Refuse(err)
	return &MisuseError{Text: shm.Cannot(g.Rank(), err).Text, Cause: err}
}

// The operations as methods. Each prepares the call anew: a loop should call
// Prepare once. For in place, give one buffer twice.

// AllReduce gives every rank the combination of all ranks' in.
func (g *Group) AllReduce(out, in Buffer, r Reduction, options ...Option) error {
	return g.call(Call{Op: AllReduce, In: in, Out: out, Reduction: r}, options)
}

// ReduceScatter gives each rank its block of the combination of all ranks' in.
func (g *Group) ReduceScatter(out, in Buffer, r Reduction, options ...Option) error {
	return g.call(Call{Op: ReduceScatter, In: in, Out: out, Reduction: r}, options)
}

// AllGather gives every rank all ranks' blocks in rank order.
func (g *Group) AllGather(out, in Buffer, options ...Option) error {
	return g.call(Call{Op: AllGather, In: in, Out: out}, options)
}

// Broadcast gives every rank what the root has in b.
func (g *Group) Broadcast(b Buffer, root int, options ...Option) error {
	c := Call{Op: Broadcast, Out: b, Root: root}
	if g.Rank() == root {
		c.In = b
	}
	return g.call(c, options)
}

// Reduce gives the root the combination of all ranks' in. Others need no out.
func (g *Group) Reduce(out, in Buffer, r Reduction, root int, options ...Option) error {
	return g.call(Call{Op: Reduce, In: in, Out: out, Reduction: r, Root: root}, options)
}

// Gather gives the root all ranks' blocks in rank order. Others need no out.
func (g *Group) Gather(out, in Buffer, root int, options ...Option) error {
	return g.call(Call{Op: Gather, In: in, Out: out, Root: root}, options)
}

// Scatter gives each rank its block of the root's in. Others need no in.
func (g *Group) Scatter(out, in Buffer, root int, options ...Option) error {
	return g.call(Call{Op: Scatter, In: in, Out: out, Root: root}, options)
}

// AllToAll gives rank r block r of every rank's in, in rank order.
func (g *Group) AllToAll(out, in Buffer, options ...Option) error {
	return g.call(Call{Op: AllToAll, In: in, Out: out}, options)
}

// Barrier returns once every rank has called it.
func (g *Group) Barrier(options ...Option) error { return g.call(Call{Op: Barrier}, options) }

// Send sends b to a rank, which receives as much.
func (g *Group) Send(b Buffer, to int, options ...Option) error {
	return g.call(Call{Op: Send, In: b, Peer: to}, options)
}

// Recv receives b from a rank.
func (g *Group) Recv(b Buffer, from int, options ...Option) error {
	return g.call(Call{Op: Recv, Out: b, Peer: from}, options)
}

// Isend starts a Send. The buffer must stay as it is until Wait has returned.
func (g *Group) Isend(b Buffer, to int, options ...Option) (*Handle, error) {
	return g.start(Call{Op: Send, In: b, Peer: to}, options)
}

// Irecv starts a Recv.
func (g *Group) Irecv(b Buffer, from int, options ...Option) (*Handle, error) {
	return g.start(Call{Op: Recv, Out: b, Peer: from}, options)
}

// AllReduceAsync starts an AllReduce; collectives keep the order of their calls,
// started or not.
func (g *Group) AllReduceAsync(out, in Buffer, r Reduction, options ...Option) (*Handle, error) {
	return g.start(Call{Op: AllReduce, In: in, Out: out, Reduction: r}, options)
}

// What ends a group.
type (
	// MisuseError says in its Text that ranks did not call the same thing, and names both sides;
	// or that a rank cannot make its call at all, and names it.
	MisuseError = shm.MisuseError

	// PeerError says that a Rank (its PID, 0 if not known) is Dead, has left or does not come.
	PeerError = shm.PeerError
)

// UnavailableError says that this machine lacks what a backend needs for a group, such
// as GPUs enough: nothing is wrong with the program.
type UnavailableError struct{ Reason error }

func (e *UnavailableError) Error() string { return e.Reason.Error() }

func (e *UnavailableError) Unwrap() error { return e.Reason }

// Unavailable tells whether a group could not be joined because this machine lacks what
// it needs, a library or what an [UnavailableError] says, and gives that reason alone.
func Unavailable(err error) (reason error, yes bool) {
	var lacking *UnavailableError
	var library *dynlib.OpenError
	switch {
	case errors.As(err, &lacking):
		return lacking.Reason, true
	case errors.As(err, &library):
		return library, true
	}
	return nil, false
}

// ErrClosed is returned by calls on a group that this rank has closed.
var ErrClosed = fmt.Errorf("dist: the group is closed")

// DefaultTimeout is how long a rank waits for another unless Config says.
const DefaultTimeout = time.Minute
