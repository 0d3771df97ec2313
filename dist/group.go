package dist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/kernel/epilogue"
)

// Group is one rank's membership in a group.
type Group struct {
	engine  Engine
	backend string
	caps    Capabilities
	tuning  *Tuning

	collectives *stream
	messages    map[direction]*stream // made on first use: most groups send none, and some are very large
	memory      allocations
	closed      bool
	watch       watchState
}

// direction identifies the messages to a peer (op is Send) or from it (op is Recv).
type direction struct {
	op   Collective
	peer int
}

// watchState is shared with the callbacks of the contexts that a group watches.
type watchState struct {
	mu     sync.Mutex // guards the fields below
	closed bool       // the group is closed: its engine must not be used any more
	cause  error      // the cause of the context whose end has failed the group
}

func newGroup(e Engine, backend string, t *Tuning) *Group {
	g := &Group{engine: e, backend: backend, caps: e.Capabilities().fitting(e.Size()),
		collectives: &stream{}, messages: map[direction]*stream{}}
	g.caps.Features = slices.Clone(g.caps.Features)
	if _, ok := e.(overlapper); ok {
		g.caps.Features = append(g.caps.Features, Overlap)
	}
	facts, target := g.Facts(), t.Group()
	target.Device, target.PerDevice = facts.Device, facts.RanksPerDevice
	g.tuning = t.For(target)
	return g
}

// Rank returns the number of this rank in the group, from 0.
func (g *Group) Rank() int { return g.engine.Rank() }

// Size returns the number of ranks.
func (g *Group) Size() int { return g.engine.Size() }

// Backend returns the name of the backend.
func (g *Group) Backend() string { return g.backend }

// Capabilities returns what the backend can do in this group. It does not list algorithms that do not work with the
// group's number of ranks.
func (g *Group) Capabilities() Capabilities { return g.caps }

// Facts returns what the group runs on.
func (g *Group) Facts() Facts {
	if e, ok := g.engine.(interface{ Facts() Facts }); ok {
		return e.Facts()
	}
	return Facts{}
}

// Clock returns the clock with which to measure the group's work: simulated time, or the monotonic clock of this host.
func (g *Group) Clock() Clock {
	if e, ok := g.engine.(interface{ Clock() Clock }); ok {
		return e.Clock()
	}
	return clock.Monotonic()
}

// Tuning is a table that chooses the algorithm of a call that names none. Its method Hash identifies its contents.
type Tuning = tuning.Table

// LoadTuning reads a tuning table from a file.
func LoadTuning(path string) (*Tuning, error) { return tuning.Load(path) }

// Alloc returns zeroed memory that every rank of the group reaches without a copy (symmetric memory). All ranks call it
// with the same arguments.
func (g *Group) Alloc(d DType, count int) (Buffer, error) {
	if g.closed {
		return Buffer{}, ErrClosed
	}
	if !d.Valid() || count < 0 {
		return Buffer{}, fmt.Errorf("allocating %d elements of %v: want a valid type and a count of 0 or more", count, d)
	}
	g.collectives.drain()
	b, err := g.engine.Alloc(d, count)
	if err == nil {
		g.memory.add(b)
	}
	return b, err
}

// Free releases a buffer that Alloc returned. No rank may be using it: a call with a freed buffer fails the group, even
// if it was prepared before.
func (g *Group) Free(b Buffer) error {
	if g.closed {
		return ErrClosed
	}
	if err := g.engine.Free(b); err != nil {
		return err
	}
	g.memory.markFreed(b)
	return nil
}

// Split partitions the group by color and orders each part by key, then by rank, like MPI_Comm_split. A rank with a
// negative color joins no part and gets nil. All ranks call it. Buffers of this group can be used in the new ones.
func (g *Group) Split(color, key int) (*Group, error) {
	if g.closed {
		return nil, ErrClosed
	}
	g.collectives.drain()
	e, err := g.engine.Split(color, key)
	if err != nil || e == nil {
		return nil, err
	}
	return newGroup(e, g.backend, g.tuning), nil
}

// Prepare checks a call and does all work that is not needed for every run. It is local: it waits for no other rank,
// and an error affects only this rank. [Group.Do] and the methods named after operations prepare a call and run it at
// once. An error in them fails the group, because the other ranks would wait for this one.
func (g *Group) Prepare(c Call) (*Op, error) {
	if g.closed {
		return nil, ErrClosed
	}
	p, err := g.plan(c)
	if err != nil {
		return nil, err
	}
	in, out := g.memory.find(p.In), g.memory.find(p.Out)
	if in.isFreed() || out.isFreed() {
		return nil, fmt.Errorf("%v: %w", p, errFreed)
	}
	run, release, err := g.engine.Prepare(p)
	var unavailable *UnavailableError
	if known := g.caps.Algorithms[p.Op]; errors.As(err, &unavailable) && (c.Algorithm == "" || c.Algorithm == auto) &&
		len(known) > 0 && p.Algorithm != known[0] {
		c.Algorithm = known[0]
		return g.Prepare(c)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing %v: %w", p, err)
	}
	if p.hostNorm(g.caps) && p.Out.Count() > 0 {
		norm := epilogue.NewNorm(p.DType, p.Epilogue.Norm.Weight.Bytes(), p.Epilogue.Norm.Epsilon)
		run = withNorm(run, norm, p.Out.Bytes())
	}
	return &Op{run: run, release: release, stream: g.streamOf(p), plan: p, ended: make(chan struct{}, 1), in: in, out: out,
		group: g}, nil
}

// withNorm returns a function that calls run and then applies a norm to out.
func withNorm(run func() error, n *epilogue.Norm, out []byte) func() error {
	return func() error {
		if err := run(); err != nil {
			return err
		}
		n.Apply(out)
		return nil
	}
}

// Watch fails the group when ctx ends. Running and later calls then return an error on all ranks. On this rank it wraps
// the context's error, on the others it names this rank. Watch does not slow down calls. stop ends the watching and
// reports whether it did so before ctx ended.
func (g *Group) Watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		w := &g.watch
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.closed {
			return
		}
		if g.engine.Refuse(fmt.Errorf("%w: %w", errContextEnded, context.Cause(ctx))) {
			w.cause = context.Cause(ctx)
		}
	})
}

var errContextEnded = errors.New("its context has ended")

// addCause adds the cause of a context to the failure of the group, if that context has made this rank fail the group.
func (g *Group) addCause(err error) error {
	g.watch.mu.Lock()
	defer g.watch.mu.Unlock()
	var misuse *MisuseError
	if g.watch.cause != nil && errors.As(err, &misuse) {
		return &MisuseError{Text: misuse.Text, Cause: g.watch.cause}
	}
	return err
}

// streamOf returns the stream in which p keeps its order. All collectives share one stream, and so do all messages to a
// peer, and all messages from it.
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

// Close waits for started calls and leaves the group. Ranks that still wait for this one get an error. Symmetric memory
// becomes invalid.
func (g *Group) Close() error {
	if g.closed {
		return nil
	}
	g.closed = true
	g.collectives.close()
	for _, s := range g.messages {
		s.close()
	}
	g.watch.mu.Lock()
	g.watch.closed = true
	g.watch.mu.Unlock()
	return g.engine.Close()
}

// Do prepares and runs a call. An error fails the group. The methods named after operations are short forms of Do. They
// prepare the call every time, so a loop should call [Group.Prepare] once and then [Op.Run].
func (g *Group) Do(c Call) error {
	op, err := g.prepareOrFail(c)
	if err != nil {
		return err
	}
	err = op.Run()
	if failed := op.Close(); err == nil {
		err = failed
	}
	return err
}

// Start prepares and starts a call, as [Op.Start] does; [Op.Wait] waits for it. An error fails the group.
func (g *Group) Start(c Call) (*Op, error) {
	op, err := g.prepareOrFail(c)
	if err != nil {
		return nil, err
	}
	return op, op.Start()
}

// prepareOrFail prepares a call that is about to run. If this fails, it fails the group, because the other ranks would
// wait for this one.
func (g *Group) prepareOrFail(c Call) (*Op, error) {
	op, err := g.Prepare(c)
	if err != nil && !g.closed {
		err = g.refuse(err)
	}
	return op, err
}

// refuse fails the group because this rank cannot make a call.
func (g *Group) refuse(err error) error {
	g.engine.Refuse(err)
	return &MisuseError{Text: shm.RefusalBy(g.Rank(), err).Text, Cause: err}
}

// AllReduce sets out on every rank to the combination of all ranks' in. out and in may be the same buffer.
func (g *Group) AllReduce(out, in Buffer, r Reduction) error {
	return g.Do(Call{Op: AllReduce, In: in, Out: out, Reduction: r})
}

// ReduceScatter sets out on each rank to its block of the combination of all ranks' in.
func (g *Group) ReduceScatter(out, in Buffer, r Reduction) error {
	return g.Do(Call{Op: ReduceScatter, In: in, Out: out, Reduction: r})
}

// AllGather sets out on every rank to the blocks of all ranks, in rank order.
func (g *Group) AllGather(out, in Buffer) error { return g.Do(Call{Op: AllGather, In: in, Out: out}) }

// Broadcast sets b on every rank to the root's b.
func (g *Group) Broadcast(b Buffer, root int) error {
	c := Call{Op: Broadcast, Out: b, Root: root}
	if g.Rank() == root {
		c.In = b
	}
	return g.Do(c)
}

// Reduce sets out on the root to the combination of all ranks' in. The other ranks need no out.
func (g *Group) Reduce(out, in Buffer, r Reduction, root int) error {
	return g.Do(Call{Op: Reduce, In: in, Out: out, Reduction: r, Root: root})
}

// Gather sets out on the root to the blocks of all ranks, in rank order. The other ranks need no out.
func (g *Group) Gather(out, in Buffer, root int) error {
	return g.Do(Call{Op: Gather, In: in, Out: out, Root: root})
}

// Scatter sets out on each rank to its block of the root's in. The other ranks need no in.
func (g *Group) Scatter(out, in Buffer, root int) error {
	return g.Do(Call{Op: Scatter, In: in, Out: out, Root: root})
}

// AllToAll sets out on rank r to block r of every rank's in, in rank order.
func (g *Group) AllToAll(out, in Buffer) error { return g.Do(Call{Op: AllToAll, In: in, Out: out}) }

// Barrier returns once every rank has called it.
func (g *Group) Barrier() error { return g.Do(Call{Op: Barrier}) }

// Send sends b to a rank, which must receive the same number of elements.
func (g *Group) Send(b Buffer, to int) error { return g.Do(Call{Op: Send, In: b, Peer: to}) }

// Recv receives b from a rank.
func (g *Group) Recv(b Buffer, from int) error { return g.Do(Call{Op: Recv, Out: b, Peer: from}) }

// The errors that end a group.
type (
	// MisuseError reports that two ranks made different calls, or that a rank cannot make its call. Its Text names the
	// calls.
	MisuseError = shm.MisuseError

	// PeerError reports that a rank is dead, has left or does not respond. PID is 0 if it is not known.
	PeerError = shm.PeerError
)

// ErrClosed is returned by calls on a group that this rank has closed.
var ErrClosed = errors.New("dist: the group is closed")

// defaultTimeout is the Config.Timeout if it is 0.
const defaultTimeout = time.Minute
