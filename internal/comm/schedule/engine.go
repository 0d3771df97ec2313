package schedule

import (
	"fmt"
	"iter"
)

// event is a step at its place: rank and index among the rank's steps.
type event struct {
	rank, index int
	Step
}

func (v event) String() string { return fmt.Sprintf("rank %d step %d (%v)", v.rank, v.index, v.Step) }

// observer is told what happens as the engine runs a schedule. T is what a message
// or flag carries from the moment it is sent: a clock, or a time.
type observer[T any] interface {
	begin(at event) error                    // the rank starts the step
	stamp(rank int, into T) T                // what it sends now carries; into may be reused
	message(src, dst event, carried T) error // a message goes across
	wait(at event, from int, carried T)      // a flag is seen
	local(at event) error                    // a step without a partner is performed
	end(rank, steps int) error               // the rank has no more steps
}

// engine runs the streams of all ranks against each other, with sends that
// complete only when the receiver is there. Which rank goes first changes
// nothing, because a step waits for named peers only.
type engine[T any] struct {
	ranks   []cursor[T]
	flags   []queue[*raised[T]] // from*len(ranks)+to
	ready   queue[int]
	layout  layout
	watcher observer[T]
}

// cursor is where one rank is.
type cursor[T any] struct {
	next      func() (Step, bool)
	at        event
	sending   bool // the halves of the step that are still open
	receiving bool
	waiting   bool
	seen      int // how many of the flags waited for have come
	ended     bool
	carried   T // what the message being sent carries
}

type raised[T any] struct {
	src     event
	carried T
}

// execute runs the schedule to its end or gives the first thing wrong.
func execute[T any](s Schedule, watcher observer[T]) error {
	n := s.Ranks()
	e := &engine[T]{ranks: make([]cursor[T], n), flags: make([]queue[*raised[T]], n*n), layout: newLayout(s), watcher: watcher}
	for rank := range n {
		next, stop := iter.Pull(s.Steps(rank))
		defer stop()
		e.ranks[rank] = cursor[T]{next: next, at: event{rank: rank, index: -1}}
		e.ready.push(rank)
	}
	for !e.ready.empty() {
		if err := e.advance(e.ready.pop()); err != nil {
			return err
		}
	}
	for rank := range e.ranks {
		if !e.ranks[rank].ended {
			return e.stuck(rank)
		}
	}
	for pair, q := range e.flags {
		if !q.empty() {
			return fmt.Errorf("%v: rank %d never waits for this flag", q.pop().src, pair%n)
		}
	}
	return nil
}

// advance performs steps of a rank until one has to wait for a peer.
func (e *engine[T]) advance(rank int) error {
	c := &e.ranks[rank]
	for !c.ended {
		if c.waiting {
			if err := e.see(c); err != nil {
				return err
			}
		}
		if c.sending || c.receiving || c.waiting {
			return nil
		}
		step, ok := c.next()
		if !ok {
			c.ended = true
			return e.watcher.end(rank, c.at.index+1)
		}
		c.at = event{rank, c.at.index + 1, step}
		if err := e.start(c); err != nil {
			return err
		}
	}
	return nil
}

// start begins the step the cursor stands on.
func (e *engine[T]) start(c *cursor[T]) error {
	if err := e.layout.validate(c.at); err != nil {
		return fmt.Errorf("%v: %w", c.at, err)
	}
	if err := e.watcher.begin(c.at); err != nil {
		return err
	}
	op := c.at.Op
	c.sending, c.receiving = op.Sends(), op.Receives()
	switch {
	case op == Signal:
		var none T
		up := &raised[T]{c.at, e.watcher.stamp(c.at.rank, none)}
		for i := range c.at.To.N {
			if to := c.at.To.At(i); to != c.at.rank {
				e.flags[c.at.rank*len(e.ranks)+to].push(up)
				e.ready.push(to)
			}
		}
	case op == Wait:
		c.waiting, c.seen = true, 0
	case c.sending || c.receiving:
		if c.sending {
			c.carried = e.watcher.stamp(c.at.rank, c.carried)
			if err := e.match(c, &e.ranks[c.at.To.First]); err != nil {
				return err
			}
		}
		if c.receiving {
			return e.match(&e.ranks[c.at.From.First], c)
		}
	default:
		return e.watcher.local(c.at)
	}
	return nil
}

// match lets a message pass if both ends are there for it.
func (e *engine[T]) match(src, dst *cursor[T]) error {
	if !src.sending || !dst.receiving || src.at.To.First != dst.at.rank || dst.at.From.First != src.at.rank {
		return nil
	}
	if src.at.Tag != dst.at.Tag || src.at.Src.Len != dst.at.Dst.Len {
		return fmt.Errorf("%v: receives another message: %v", dst.at, src.at)
	}
	if err := e.watcher.message(src.at, dst.at, src.carried); err != nil {
		return err
	}
	src.sending, dst.receiving = false, false
	e.ready.push(src.at.rank)
	e.ready.push(dst.at.rank)
	return nil
}

// see takes the flags that a waiting rank lacks, as far as they have come.
func (e *engine[T]) see(c *cursor[T]) error {
	for ; c.seen < c.at.From.N; c.seen++ {
		from := c.at.From.At(c.seen)
		if from == c.at.rank {
			continue
		}
		q := &e.flags[from*len(e.ranks)+c.at.rank]
		if q.empty() {
			return nil
		}
		f := q.pop()
		if f.src.Tag != c.at.Tag {
			return fmt.Errorf("%v: sees another flag: %v", c.at, f.src)
		}
		e.watcher.wait(c.at, from, f.carried)
	}
	c.waiting = false
	return nil
}

// stuck words a deadlock from the first rank in it: what it waits for and what the
// peer that should help does instead.
func (e *engine[T]) stuck(rank int) error {
	c := &e.ranks[rank]
	peer := c.at.From.First
	switch {
	case c.waiting:
		peer = c.at.From.At(c.seen)
	case c.sending:
		peer = c.at.To.First
	}
	other := &e.ranks[peer]
	if other.ended {
		return fmt.Errorf("%v: deadlock, rank %d has ended after %d steps", c.at, peer, other.at.index+1)
	}
	return fmt.Errorf("%v: deadlock, waits for rank %d, which is held up at step %d (%v)", c.at, peer, other.at.index, other.at.Step)
}

// queue is first in, first out.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) empty() bool { return q.head == len(q.items) }
func (q *queue[T]) push(item T) { q.items = append(q.items, item) }

func (q *queue[T]) pop() T {
	item := q.items[q.head]
	if q.head++; q.empty() {
		q.items, q.head = q.items[:0], 0
	}
	return item
}
