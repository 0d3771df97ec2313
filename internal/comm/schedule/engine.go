package schedule

import "fmt"

// event is a step with its rank and its index among the rank's steps.
type event struct {
	rank, index int
	Step
}

func (v event) String() string { return fmt.Sprintf("rank %d step %d (%v)", v.rank, v.index, v.Step) }

// observer receives the events of a schedule as the engine runs it. The observer decides what the events mean: the
// checker tracks contents and races, the meter counts traffic. The engine attaches a T to every message and flag when
// it is sent, for example a vector clock or a time.
type observer[T any] interface {
	begin(ev *event) error                    // the rank starts the step
	stamp(rank int, into T) T                 // returns the value to attach to what rank sends now; into may be reused
	message(src, dst *event, carried T) error // a message is transferred
	wait(ev *event, from int, carried T)      // a flag is seen
	local(ev *event) error                    // a step without a partner is performed
	end(rank, steps int) error                // the rank has no more steps
}

// engine runs the streams of all ranks against each other. A send completes only when the receiver is ready
// (rendezvous). The order in which ranks advance does not matter, because every step names the peers it waits for.
type engine[T any] struct {
	ranks    []cursor[T]
	flags    map[[2]int]*queue[*pendingFlag[T]] // by sender and receiver
	ready    []int                              // stack of ranks that may continue; the top is still in the CPU caches
	layout   layout
	observer observer[T]
}

// cursor is the position of one rank in its steps.
type cursor[T any] struct {
	steps     *Puller
	event     event
	sending   bool // the send of the current step is not complete
	receiving bool // the receive of the current step is not complete
	waiting   bool // the current step waits for flags
	seen      int  // number of these flags that have been seen
	ended     bool
	carried   T // the value attached to the message being sent
}

// pendingFlag is a flag that has been raised but not yet seen by its receiver.
type pendingFlag[T any] struct {
	src     event
	carried T
}

// execute runs the schedule to its end or returns the first fault.
func execute[T any](s Schedule, obs observer[T]) error {
	n := s.Ranks()
	e := &engine[T]{ranks: make([]cursor[T], n), flags: map[[2]int]*queue[*pendingFlag[T]]{}, layout: newLayout(s),
		observer: obs}
	pullers := PullAll(s)
	defer StopAll(pullers)
	for rank := range n {
		e.ranks[rank] = cursor[T]{steps: &pullers[rank], event: event{rank: rank, index: -1}}
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
			return e.deadlock(rank)
		}
	}
	return e.unclaimedFlag()
}

// unclaimedFlag reports a flag that was raised but never waited for. Of several, it picks the one with the lowest
// sender and receiver, so that the error does not depend on the order of the map.
func (e *engine[T]) unclaimedFlag() error {
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
func (e *engine[T]) flagsOf(from, to int) *queue[*pendingFlag[T]] {
	q := e.flags[[2]int{from, to}]
	if q == nil {
		q = &queue[*pendingFlag[T]]{}
		e.flags[[2]int{from, to}] = q
	}
	return q
}

// advance performs the steps of a rank until it has to wait for a peer.
func (e *engine[T]) advance(rank int) error {
	c := &e.ranks[rank]
	for !c.ended {
		if c.waiting {
			if err := e.takeFlags(c); err != nil {
				return err
			}
		}
		if c.sending || c.receiving || c.waiting {
			return nil
		}
		if !c.steps.Next(&c.event.Step) {
			c.ended = true
			return e.observer.end(rank, c.event.index+1)
		}
		c.event.index++
		if err := e.start(c); err != nil {
			return err
		}
	}
	return nil
}

// start begins the cursor's current step.
func (e *engine[T]) start(c *cursor[T]) error {
	if err := e.layout.validate(&c.event); err != nil {
		return fmt.Errorf("%v: %w", c.event, err)
	}
	if err := e.observer.begin(&c.event); err != nil {
		return err
	}
	op := c.event.Op
	c.sending, c.receiving = op.Sends(), op.Receives()
	switch {
	case op == Signal:
		var none T
		up := &pendingFlag[T]{c.event, e.observer.stamp(c.event.rank, none)}
		for i := range c.event.To.N {
			if to := c.event.To.At(i); to != c.event.rank {
				e.flagsOf(c.event.rank, to).push(up)
				e.ready = append(e.ready, to)
			}
		}
	case op == Wait:
		c.waiting, c.seen = true, 0
	case c.sending || c.receiving:
		if c.sending {
			c.carried = e.observer.stamp(c.event.rank, c.carried)
			peer := &e.ranks[c.event.To.First]
			if err := e.match(c, peer, peer); err != nil {
				return err
			}
		}
		if c.receiving {
			peer := &e.ranks[c.event.From.First]
			return e.match(peer, c, peer)
		}
	default:
		return e.observer.local(&c.event)
	}
	return nil
}

// match transfers a message if both ends are ready. first is the end that became ready first. If this completes its
// step, match puts it on the ready stack; the caller is already advancing the other end.
func (e *engine[T]) match(src, dst, first *cursor[T]) error {
	if !src.sending || !dst.receiving || src.event.To.First != dst.event.rank || dst.event.From.First != src.event.rank {
		return nil
	}
	if src.event.Tag != dst.event.Tag || src.event.Src.Len != dst.event.Dst.Len {
		return fmt.Errorf("%v: receives another message: %v", dst.event, src.event)
	}
	if err := e.observer.message(&src.event, &dst.event, src.carried); err != nil {
		return err
	}
	src.sending, dst.receiving = false, false
	if !first.sending && !first.receiving {
		e.ready = append(e.ready, first.event.rank)
	}
	return nil
}

// takeFlags consumes the flags that a waiting rank needs, in the order of its peers, until one has not been raised.
func (e *engine[T]) takeFlags(c *cursor[T]) error {
	for ; c.seen < c.event.From.N; c.seen++ {
		from := c.event.From.At(c.seen)
		if from == c.event.rank {
			continue
		}
		q := e.flagsOf(from, c.event.rank)
		if q.empty() {
			return nil
		}
		f := q.pop()
		if f.src.Tag != c.event.Tag {
			return fmt.Errorf("%v: sees another flag: %v", c.event, f.src)
		}
		e.observer.wait(&c.event, from, f.carried)
	}
	c.waiting = false
	return nil
}

// deadlock returns an error that says which peer the rank waits for and which step that peer is at.
func (e *engine[T]) deadlock(rank int) error {
	c := &e.ranks[rank]
	peer := c.event.From.First
	switch {
	case c.waiting:
		peer = c.event.From.At(c.seen)
	case c.sending:
		peer = c.event.To.First
	}
	other := &e.ranks[peer].event
	if e.ranks[peer].ended {
		return fmt.Errorf("%v: deadlock, rank %d has ended after %d steps", c.event, peer, other.index+1)
	}
	return fmt.Errorf("%v: deadlock, waits for rank %d, which is held up at step %d (%v)", c.event, peer, other.index,
		other.Step)
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
