package schedule

import "fmt"

// event is a step with its rank and its index among the rank's steps.
type event struct {
	rank, index int
	Step
}

func (v event) String() string { return fmt.Sprintf("rank %d step %d (%v)", v.rank, v.index, v.Step) }

// observer is notified of what happens as the engine runs a schedule. T is attached to every message and
// flag when it is sent: a vector clock, or a time.
type observer[T any] interface {
	begin(at *event) error                    // the rank starts the step
	stamp(rank int, into T) T                 // returns the value to attach to what rank sends now; into may be reused
	message(src, dst *event, carried T) error // a message is transferred
	wait(at *event, from int, carried T)      // a flag is seen
	local(at *event) error                    // a step without a partner is performed
	end(rank, steps int) error                // the rank has no more steps
}

// engine runs the streams of all ranks against each other. A send completes only when the receiver is ready
// (rendezvous). The order of ranks does not matter, because a step waits for named peers only.
type engine[T any] struct {
	ranks   []cursor[T]
	flags   map[[2]int]*queue[*raised[T]] // by sender and receiver
	ready   []int                         // stack of ranks that may continue; the latest is still in the caches
	layout  layout
	watcher observer[T]
}

// cursor is the position of one rank in its steps.
type cursor[T any] struct {
	steps     *Puller
	at        event
	sending   bool // the send of the current step is not complete
	receiving bool // the receive of the current step is not complete
	waiting   bool // the current step waits for flags
	seen      int  // number of these flags that have been seen
	ended     bool
	carried   T // the value attached to the message being sent
}

// raised is a flag that has been raised but not seen.
type raised[T any] struct {
	src     event
	carried T
}

// execute runs the schedule to its end or returns the first fault.
func execute[T any](s Schedule, watcher observer[T]) error {
	n := s.Ranks()
	e := &engine[T]{ranks: make([]cursor[T], n), flags: map[[2]int]*queue[*raised[T]]{}, layout: newLayout(s),
		watcher: watcher}
	pullers := PullAll(s)
	defer StopAll(pullers)
	for rank := range n {
		e.ranks[rank] = cursor[T]{steps: &pullers[rank], at: event{rank: rank, index: -1}}
		e.ready = append(e.ready, n-1-rank) // rank 0 is on top of the stack
	}
	for len(e.ready) > 0 {
		rank := e.ready[len(e.ready)-1]
		e.ready = e.ready[:len(e.ready)-1]
		if err := e.advance(rank); err != nil {
			return err
		}
	}
	for rank := range e.ranks {
		if !e.ranks[rank].ended {
			return e.stuck(rank)
		}
	}
	return e.leftover()
}

// leftover reports a flag that was raised but never waited for: the one of the first rank.
func (e *engine[T]) leftover() error {
	first := [2]int{len(e.ranks), 0}
	for pair, q := range e.flags {
		if !q.empty() && (pair[0] < first[0] || pair[0] == first[0] && pair[1] < first[1]) {
			first = pair
		}
	}
	if q := e.flags[first]; q != nil {
		return fmt.Errorf("%v: rank %d never waits for this flag", q.pop().src, first[1])
	}
	return nil
}

// flagsOf returns the queue of flags from one rank to another.
func (e *engine[T]) flagsOf(from, to int) *queue[*raised[T]] {
	q := e.flags[[2]int{from, to}]
	if q == nil {
		q = &queue[*raised[T]]{}
		e.flags[[2]int{from, to}] = q
	}
	return q
}

// advance performs the steps of a rank until it has to wait for a peer.
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
		if !c.steps.Next(&c.at.Step) {
			c.ended = true
			return e.watcher.end(rank, c.at.index+1)
		}
		c.at.index++
		if err := e.start(c); err != nil {
			return err
		}
	}
	return nil
}

// start begins the cursor's current step.
func (e *engine[T]) start(c *cursor[T]) error {
	if err := e.layout.validate(&c.at); err != nil {
		return fmt.Errorf("%v: %w", c.at, err)
	}
	if err := e.watcher.begin(&c.at); err != nil {
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
				e.flagsOf(c.at.rank, to).push(up)
				e.ready = append(e.ready, to)
			}
		}
	case op == Wait:
		c.waiting, c.seen = true, 0
	case c.sending || c.receiving:
		if c.sending {
			c.carried = e.watcher.stamp(c.at.rank, c.carried)
			peer := &e.ranks[c.at.To.First]
			if err := e.match(c, peer, peer); err != nil {
				return err
			}
		}
		if c.receiving {
			peer := &e.ranks[c.at.From.First]
			return e.match(peer, c, peer)
		}
	default:
		return e.watcher.local(&c.at)
	}
	return nil
}

// match transfers a message if both ends are ready. first is the end that was ready first; it may continue
// afterwards.
func (e *engine[T]) match(src, dst, first *cursor[T]) error {
	if !src.sending || !dst.receiving || src.at.To.First != dst.at.rank || dst.at.From.First != src.at.rank {
		return nil
	}
	if src.at.Tag != dst.at.Tag || src.at.Src.Len != dst.at.Dst.Len {
		return fmt.Errorf("%v: receives another message: %v", dst.at, src.at)
	}
	if err := e.watcher.message(&src.at, &dst.at, src.carried); err != nil {
		return err
	}
	src.sending, dst.receiving = false, false
	if !first.sending && !first.receiving {
		e.ready = append(e.ready, first.at.rank)
	}
	return nil
}

// see takes the flags that a waiting rank needs, as far as they have been raised.
func (e *engine[T]) see(c *cursor[T]) error {
	for ; c.seen < c.at.From.N; c.seen++ {
		from := c.at.From.At(c.seen)
		if from == c.at.rank {
			continue
		}
		q := e.flagsOf(from, c.at.rank)
		if q.empty() {
			return nil
		}
		f := q.pop()
		if f.src.Tag != c.at.Tag {
			return fmt.Errorf("%v: sees another flag: %v", c.at, f.src)
		}
		e.watcher.wait(&c.at, from, f.carried)
	}
	c.waiting = false
	return nil
}

// stuck describes a deadlock: what the rank waits for and what that peer does instead.
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
	return fmt.Errorf("%v: deadlock, waits for rank %d, which is held up at step %d (%v)", c.at, peer, other.at.index,
		other.at.Step)
}

// queue is a FIFO.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) empty() bool { return q.head == len(q.items) }
func (q *queue[T]) push(item T) { q.items = append(q.items, item) }

func (q *queue[T]) pop() T {
	item := q.items[q.head]
	if q.head++; 2*q.head >= len(q.items) { // move the rest to the front; amortized, each item moves once
		q.items, q.head = q.items[:copy(q.items, q.items[q.head:])], 0
	}
	return item
}
