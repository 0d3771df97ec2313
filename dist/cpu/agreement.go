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

// Every collective begins with an agreement of all ranks on the call. Ranks that make different calls then get an error
// and never each other's data. Within a host, every rank waits for every other rank. Between hosts, the first rank of
// each host represents the host, which keeps the number of messages small.

// words are small numbers that the ranks exchange in an agreement, such as the offsets of their
// buffers.
type words [3]uint64

// begin starts a call of the given number of epochs on this host.
func (e *engine) begin(l *shm.Label, epochs int) error {
	if len(e.locals) == 1 {
		epochs = 0 // there is no other rank to signal to
	}
	if err := e.member.Begin(l, epochs); err != nil {
		return err
	}
	if e.hosts != nil {
		e.hosts.countCall(l)
	}
	return nil
}

// agree makes all ranks agree on a call. It calls read with the words of each rank of this host.
func (e *engine) agree(l *shm.Label, mine words, read func(peer int, w words)) error {
	if err := e.postWords(l, mine); err != nil {
		return err
	}
	if read != nil {
		for _, peer := range e.locals {
			read(peer, e.wordsOf(peer, mine))
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
	if err := h.flush(h.leaders); err != nil {
		return err
	}
	return e.endAgreement()
}

// gather returns the words of all ranks. Every rank sends its own to every other, which is quadratic
// but acceptable for rare calls such as Split.
func (e *engine) gather(l *shm.Label, mine words) ([]words, error) {
	if err := e.postWords(l, mine); err != nil {
		return nil, err
	}
	all := make([]words, e.Size())
	for _, peer := range e.locals {
		all[peer] = e.wordsOf(peer, mine)
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
	if err := h.flush(links); err != nil {
		return nil, err
	}
	for _, link := range links {
		for i := range all[link.Peer] {
			all[link.Peer][i] = binary.LittleEndian.Uint64(in[link.Peer][8*i:])
		}
	}
	return all, e.endAgreement()
}

// postWords begins an agreement. It publishes words to the ranks of this host and waits for their words. In a group
// over several hosts, the agreement has a second epoch, which endAgreement completes.
func (e *engine) postWords(l *shm.Label, w words) error {
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

// wordsOf returns the words that a rank of this host has published with postWords.
func (e *engine) wordsOf(peer int, mine words) (w words) {
	if peer == e.Rank() {
		return mine
	}
	for i := range w {
		w[i] = *e.member.Word(peer, e.member.Next()-1, i)
	}
	return w
}

// endAgreement completes an agreement with other hosts. It is a barrier of this host: no rank continues before all have
// read the words and the first rank has received the calls of the other hosts. Only then do the other ranks of this
// host know that all hosts make the same call.
func (e *engine) endAgreement() error {
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

// census finds the survivors of a failed group, for one rank. Package survivors makes the decisions, and census does
// the I/O: it publishes ballots in the memory of the host and sends them over control connections.
type census struct {
	e       *engine
	voter   *survivors.Voter
	ballots []survivors.Ballot // the last ballot of each other rank
	texts   [][]byte           // the same, encoded
	fault   error              // error of publishing this rank's ballot
}

const (
	censusInterval = 2 * time.Millisecond // how often ballots are read
	// maxFaults limits the attempts in which the survivors fail to form a group although none is known to have died. A
	// few such failures are normal, because a rank may die right after it has voted.
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
	if err := c.vote(); err != nil {
		return nil, nil, err
	}
	faults := 0
	for attempt := 1; ; attempt++ {
		ranks := c.voter.Vote.Ranks()
		child, err := c.join(ranks, attempt)
		c.voter.Next(errorText(err))
		err = c.vote()
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

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// join forms the new group. It stops waiting as soon as a member is known to have died or failed.
func (c *census) join(ranks []int, attempt int) (dist.Engine, error) {
	e := c.e
	ctx, cancel := context.WithCancelCause(context.Background())
	watch := make(chan struct{})
	go func() {
		defer close(watch)
		for ctx.Err() == nil {
			time.Sleep(censusInterval)
			if err := c.whyImpossible(ranks); err != nil {
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
	return e.origin.backend.enter(limited, config, e.hosts.cluster.subset(lists.At(e.hosts.world, ranks)))
}

// whyImpossible returns the reason why the given ranks can no longer form a group, or nil.
func (c *census) whyImpossible(ranks []int) error {
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

// vote exchanges ballots until all survivors agree.
func (c *census) vote() error {
	began := time.Now()
	moved, limit := began, c.e.joined.Timeout
	c.publish()
	for ; ; time.Sleep(censusInterval) {
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
				Text: fmt.Sprintf("rank %d waited %v to shrink the group without %s (missing: ranks %v): "+
					"leaving out ranks that may be alive needs more than half of all ranks", me, 3*limit, c.e.member.Name(r),
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

// view returns this rank's current knowledge of the other ranks.
func (c *census) view(late bool) survivors.View {
	e := c.e
	at := survivors.View{Ballots: c.ballots, Gone: make([]bool, e.Size()), Late: make([]bool, e.Size())}
	for r := range e.Size() {
		at.Late[r] = late
		if r == e.Rank() {
			continue
		}
		var text []byte
		if e.hosts == nil {
			why, _ := e.member.Gone(r)
			at.Gone[r] = why != ""
			text = e.member.Published(r)
		} else {
			end, _ := e.hosts.controls[r].End()
			at.Gone[r] = end == tcp.Closed || end == tcp.Left
			at.Late[r] = late || end == tcp.Cut
			text = e.hosts.note(r)
		}
		if !bytes.Equal(text, c.texts[r]) {
			var b survivors.Ballot
			if err := json.Unmarshal(text, &b); err != nil {
				c.fault = fmt.Errorf("decoding the ballot of rank %d: %w", r, err)
			}
			c.texts[r], c.ballots[r] = text, b
		}
	}
	if e.hosts == nil {
		at.First = c.decideOnce
	}
	return at
}

// decideOnce makes o the outcome for all ranks of this host, unless another of them has already decided. It returns the
// decided outcome.
func (c *census) decideOnce(step int, o survivors.Outcome) (counts survivors.Outcome) {
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
