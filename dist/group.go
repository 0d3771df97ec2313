package dist

import "fmt"

// Group is one rank's membership of a group.
type Group struct {
	engine  Engine
	backend string
	caps    Capabilities
	tuning  *Tuning

	collectives *lane
	sends       []*lane // by peer
	recvs       []*lane
	closed      bool
}

func newGroup(e Engine, backend string, t *Tuning) *Group {
	g := &Group{engine: e, backend: backend, caps: e.Capabilities().fitting(e.Size()), tuning: t, collectives: &lane{}}
	for range e.Size() {
		g.sends = append(g.sends, &lane{})
		g.recvs = append(g.recvs, &lane{})
	}
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
	return g.engine.Alloc(d, count)
}

// Free gives back a buffer that Alloc gave. It must not be in use by any rank.
func (g *Group) Free(b Buffer) error {
	if g.closed {
		return ErrClosed
	}
	return g.engine.Free(b)
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
	return newGroup(e, g.backend, g.tuning), nil
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
	run, err := g.engine.Prepare(p)
	if err != nil {
		return nil, fmt.Errorf("preparing %v: %w", p, err)
	}
	return newOp(p, run, g.laneOf(p)), nil
}

// laneOf says which calls keep order with one another: collectives, and the
// messages of one direction to one peer.
func (g *Group) laneOf(p Plan) *lane {
	switch p.Op {
	case Send:
		return g.sends[p.Peer]
	case Recv:
		return g.recvs[p.Peer]
	}
	return g.collectives
}

// Close leaves the group after what was started has ended. Ranks that still wait
// for this one get an error. Symmetric memory is gone afterwards.
func (g *Group) Close() error {
	if g.closed {
		return nil
	}
	g.closed = true
	g.collectives.close()
	for i := range g.sends {
		g.sends[i].close()
		g.recvs[i].close()
	}
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
	if err != nil && !g.closed {
		g.engine.Refuse(err)
	}
	return op, err
}
