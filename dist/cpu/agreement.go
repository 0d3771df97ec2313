package cpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/survivors"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// Every collective begins with an agreement of all ranks on the call. Within a host everyone waits for everyone;
// between hosts the first rank of each host represents it.

// words are small numbers that all ranks send to each other.
type words [3]uint64

// begin starts a call of so many epochs on this host.
func (e *engine) begin(l *shm.Label, epochs int) error {
	if len(e.locals) == 1 {
		epochs = 0 // nobody to signal to
	}
	if err := e.member.Begin(l, epochs); err != nil {
		return err
	}
	if e.hosts != nil {
		e.hosts.begun(l)
	}
	return nil
}

// agree makes all ranks agree on a call. It calls read with the words of each rank of this host.
func (e *engine) agree(l *shm.Label, mine words, read func(peer int, w words)) error {
	if err := e.tell(l, mine); err != nil {
		return err
	}
	if read != nil {
		for _, peer := range e.locals {
			read(peer, e.told(peer, mine))
		}
	}
	h := e.hosts
	if h == nil {
		return nil
	}
	header := h.header(l, 0)
	for _, link := range h.leaders {
		link.Out.PostHeader(header)
		link.In.ExpectHeader(header)
	}
	if err := h.settle(h.leaders); err != nil {
		return err
	}
	return e.dismiss()
}

// gather returns the words of all ranks. Every rank sends its own to every other, which is acceptable for rare calls.
func (e *engine) gather(l *shm.Label, mine words) ([]words, error) {
	if err := e.tell(l, mine); err != nil {
		return nil, err
	}
	all := make([]words, e.Size())
	for _, peer := range e.locals {
		all[peer] = e.told(peer, mine)
	}
	h := e.hosts
	if h == nil {
		return all, nil
	}
	const bytes = 8 * len(mine)
	var out [bytes]byte
	for i, v := range mine {
		binary.LittleEndian.PutUint64(out[8*i:], v)
	}
	in := make([][bytes]byte, e.Size())
	var links []*tcp.Link
	header := h.header(l, bytes)
	for peer, link := range e.links {
		if link := link.tcp; link != nil {
			link.Out.PostHeader(header)
			link.Out.Post(out[:])
			link.In.ExpectHeader(header)
			link.In.Expect(in[peer][:])
			links = append(links, link)
		}
	}
	if err := h.settle(links); err != nil {
		return nil, err
	}
	for _, link := range links {
		for i := range all[link.Peer] {
			all[link.Peer][i] = binary.LittleEndian.Uint64(in[link.Peer][8*i:])
		}
	}
	return all, e.dismiss()
}

// tell begins an agreement: it publishes words to the ranks of this host and waits for theirs. In a group over several
// hosts the agreement has a second epoch, see dismiss.
func (e *engine) tell(l *shm.Label, w words) error {
	epochs := 1
	if e.hosts != nil {
		epochs = 2
	}
	if err := e.begin(l, epochs); err != nil {
		return err
	}
	if len(e.locals) == 1 {
		return nil
	}
	m, epoch := e.member, e.member.Next()
	for i, v := range w {
		*m.Word(m.Rank(), epoch, i) = v
	}
	m.Signal()
	return e.awaitLocals(epoch)
}

// told returns the words that a rank of this host has published with tell.
func (e *engine) told(peer int, mine words) (w words) {
	if peer == e.Rank() {
		return mine
	}
	for i := range w {
		w[i] = *e.member.Word(peer, e.member.Next()-1, i)
	}
	return w
}

// dismiss ends an agreement with other hosts. No rank continues before all ranks of this host have read the words and
// its first rank has received those of the other hosts.
func (e *engine) dismiss() error {
	if len(e.locals) == 1 {
		return nil
	}
	epoch := e.member.Next()
	e.member.Signal()
	return e.awaitLocals(epoch)
}

// awaitLocals waits for an epoch of all ranks of this host.
func (e *engine) awaitLocals(epoch uint32) error {
	for _, peer := range e.locals {
		if peer == e.Rank() {
			continue
		}
		if err := e.member.Await(peer, epoch); err != nil {
			return err
		}
	}
	return nil
}

// census finds the survivors of a failed group, on one rank. It does the input and output of package survivors: ballots
// lie in the memory of a host, or are sent over control connections.
type census struct {
	e       *engine
	voter   *survivors.Voter
	ballots []survivors.Ballot // last seen of the others
	texts   [][]byte           // the encoded ballots
	fault   error              // of this rank
}

const (
	censusPace = 2 * time.Millisecond // between two looks
	// maxFaults is how often the survivors may fail to form a group although none is known to have died. One of them may
	// have died right after it voted.
	maxFaults = 3
)

// Shrink implements dist.Shrinker. The new group has new memory, because a rank that is left out for being late may
// still write to the memory of this one.
func (e *engine) Shrink() (dist.Engine, []int, error) {
	c := &census{e: e, voter: survivors.New(e.Rank(), e.Size()),
		ballots: make([]survivors.Ballot, e.Size()), texts: make([][]byte, e.Size())}
	if len(e.member.Published(e.Rank())) > 0 {
		return nil, nil, errors.New("shrinking the group: it has been shrunk before")
	}
	if err := c.settle(); err != nil {
		return nil, nil, err
	}
	faults := 0
	for attempt := 1; ; attempt++ {
		ranks := c.voter.Vote.Ranks()
		child, err := c.join(ranks, attempt)
		c.voter.Next(text(err))
		err = c.settle()
		same := slices.Equal(c.voter.Vote.Ranks(), ranks)
		fault := slices.IndexFunc(c.voter.Vote, func(e survivors.Entry) bool { return e.Fault != "" })
		if err == nil && same && fault < 0 {
			return child, ranks, nil
		}
		if child != nil {
			child.Close()
		}
		if same {
			faults++
		}
		if err == nil && faults == maxFaults {
			failed := c.voter.Vote[fault]
			err = fmt.Errorf("shrinking the group to its ranks %v: rank %d: %s", ranks, failed.Rank, failed.Fault)
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// join forms the new group. It gives up as soon as that has become impossible.
func (c *census) join(ranks []int, attempt int) (dist.Engine, error) {
	e := c.e
	ctx, cancel := context.WithCancelCause(context.Background())
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		for ctx.Err() == nil {
			time.Sleep(censusPace)
			if err := c.hopeless(ranks); err != nil {
				cancel(err)
			}
		}
	}()
	defer func() {
		cancel(nil)
		<-watch
	}()
	config := e.origin.config
	config.ID = fmt.Sprintf("%s, shrunk %d", config.ID, attempt)
	config.Rank, config.Size, config.Exchange = slices.Index(ranks, e.Rank()), len(ranks), nil
	if !slices.ContainsFunc(ranks, func(r int) bool { return !e.local(r) }) {
		return e.origin.backend.Join(ctx, config)
	}
	limited, stop := context.WithTimeoutCause(ctx, config.Timeout, fmt.Errorf("not joined within %v", config.Timeout))
	defer stop()
	return e.origin.backend.enter(limited, config, e.hosts.cluster.of(lists.At(e.hosts.world, ranks)))
}

// hopeless returns why some ranks cannot form a group, or nil.
func (c *census) hopeless(ranks []int) error {
	at := c.view(false)
	for _, r := range ranks {
		switch b := at.Ballots[r]; {
		case r == c.e.Rank():
		case b.Step > c.voter.Step && b.Fault != "":
			return errors.New(b.Fault)
		case b.Step <= c.voter.Step && (at.Gone[r] || at.Late[r]):
			return fmt.Errorf("%s is gone", c.e.member.Name(r))
		}
	}
	return nil
}

// settle votes until all survivors agree.
func (c *census) settle() error {
	began := time.Now()
	moved, limit := began, c.e.joined.Timeout
	c.publish()
	for ; ; time.Sleep(censusPace) {
		late := time.Since(began) > limit
		at := c.view(late)
		at.Stalled = late && time.Since(moved) > limit/4
		if c.voter.Look(at) {
			c.publish()
			moved = time.Now()
		}
		me := c.e.Rank()
		switch {
		case c.fault != nil:
			return fmt.Errorf("shrinking the group: %w", c.fault)
		case c.voter.LeftOut:
			return &dist.PeerError{Rank: me, PID: c.e.joined.PIDs[me],
				Text: fmt.Sprintf("%s is left out: the others went on without it, since it did not come within %v",
					c.e.member.Name(me), limit)}
		case c.voter.Decided:
			return nil
		case time.Since(began) > 3*limit:
			missing := c.voter.Missing(at)
			r := missing[0]
			return &dist.PeerError{Rank: r, PID: c.e.joined.PIDs[r],
				Text: fmt.Sprintf("rank %d waited %v to shrink the group without %s "+
					"(missing: ranks %v), which may live, and so takes more than half of the ranks", me, 3*limit, c.e.member.Name(r),
					missing)}
		}
	}
}

func (c *census) publish() {
	text, err := json.Marshal(c.voter.Ballot)
	if err == nil {
		err = c.e.member.Publish(text)
	}
	if err != nil {
		c.fault = err
		return
	}
	if h := c.e.hosts; h != nil {
		for _, control := range h.controls {
			if control != nil {
				control.Publish(text)
			}
		}
	}
}

// view returns what this rank knows about the others now.
func (c *census) view(late bool) survivors.View {
	e := c.e
	at := survivors.View{Ballots: c.ballots, Gone: make([]bool, e.Size()), Late: make([]bool, e.Size())}
	for r := range e.Size() {
		at.Late[r] = late
		if r == e.Rank() {
			continue
		}
		var said []byte
		if e.hosts == nil {
			why, _ := e.member.Gone(r)
			at.Gone[r] = why != ""
			said = e.member.Published(r)
		} else {
			end, _ := e.hosts.controls[r].End()
			at.Gone[r] = end == tcp.Closed || end == tcp.Left
			at.Late[r] = late || end == tcp.Cut
			said = e.hosts.note(r)
		}
		if !bytes.Equal(said, c.texts[r]) {
			var b survivors.Ballot
			if err := json.Unmarshal(said, &b); err != nil {
				c.fault = fmt.Errorf("what rank %d says: %w", r, err)
			}
			c.texts[r], c.ballots[r] = said, b
		}
	}
	if e.hosts == nil {
		at.First = c.first
	}
	return at
}

// first makes an outcome the common outcome of all ranks of this host, unless there is one already.
func (c *census) first(step int, o survivors.Outcome) (counts survivors.Outcome) {
	text, err := json.Marshal(o)
	if err == nil {
		text, err = c.e.member.Propose(step, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &counts)
	}
	if err != nil {
		c.fault = err
		return o
	}
	return counts
}
