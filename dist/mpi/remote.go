package mpi

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// remoteCoordinator is that of ranks on several hosts, by MPI's own messages. Before
// each call an all-reduce, which does not block, finds the largest and the
// smallest signature of all ranks; equal ones mean agreement. Otherwise, and when
// a rank does not come, the ranks send each other notices of what they wait in.
type remoteCoordinator struct {
	lib     *mpi.Library
	comm    comm // where nothing but these all-reduces is
	notices *noticeRouter
	token   uint64
	meeting meeting

	calls atomic.Int64 // read when a watched context ends, at any time
	mine  []int64      // signature and its opposite
	most  []int64      // the largest of all ranks
	slot  *mpi.Slot
	begin *mpi.Call
	test  *mpi.Call

	mu      sync.Mutex // of the rest: sends and receives watch at any time
	failure *shm.Failure
	left    map[int]int    // the last call of ranks that have left
	waiting map[int]string // what ranks said that they wait in
	told    bool           // so did this one
}

var _ coordinator = (*remoteCoordinator)(nil)

const (
	signatures = 2
	// labelBytes is how much of a call's text ranks that disagree exchange.
	labelBytes = 256
	// answerTime is how long a rank that waits somewhere may take to say so.
	answerTime = 300 * time.Millisecond
)

// newRemoteCoordinator is made by all ranks of a communicator.
func newRemoteCoordinator(of *process, c comm, m meeting) (*remoteCoordinator, error) {
	lib := of.lib
	token := []int64{rand.Int64()}
	err := lib.Bcast(mpi.Memory(token), 1, lib.Type(dtype.I64), 0, c).Run()
	if err != nil {
		return nil, err
	}
	if c, err = lib.Dup(c); err != nil {
		return nil, err
	}
	p := &remoteCoordinator{lib: lib, comm: c, notices: of.notices, token: uint64(token[0]), meeting: m,
		slot: new(mpi.Slot),
		mine: make([]int64, signatures), most: make([]int64, signatures), left: map[int]int{}, waiting: map[int]string{}}
	p.begin = lib.Iallreduce(mpi.Memory(p.mine), mpi.Memory(p.most), signatures, lib.Type(dtype.I64),
		lib.Op(dtype.I64, vec.Max), c, p.slot)
	p.test = lib.Test(p.slot)
	p.notices.enter(p)
	return p, nil
}

func (p *remoteCoordinator) agree(l *label) error {
	if err := p.tell(l); err != nil {
		return err
	}
	return p.hear(l)
}

func (p *remoteCoordinator) tell(l *label) error {
	p.calls.Add(1)
	if err := p.ended(l.text); err != nil {
		return err
	}
	p.mine[0], p.mine[1] = l.sig, -l.sig
	if err := p.begin.Run(); err != nil {
		return p.broken(l, err)
	}
	return nil
}

func (p *remoteCoordinator) hear(l *label) error {
	if err := p.await(l); err != nil {
		return err
	}
	if p.most[0] == l.sig && p.most[1] == -l.sig {
		return nil
	}
	return p.compare(l)
}

// await looks until what was started has ended, or will not.
func (p *remoteCoordinator) await(l *label) error {
	var w backoff
	for {
		if err := p.test.Run(); err != nil {
			return p.broken(l, err)
		}
		if p.slot.Done() {
			return nil
		}
		waited := w.pause()
		if w.looks%watchEvery != 0 {
			continue
		}
		if err := p.ended(l.text); err != nil {
			return err
		}
		if rank, gone := p.leftBehind(); gone {
			return p.Fail(shm.Failure{Kind: shm.PeerGone, Rank: rank,
				Text: fmt.Sprintf("rank %d has left the group while rank %d waits for it in %s (call %d)", rank, p.meeting.rank,
					l.text, p.calls.Load())})
		}
		if waited > p.meeting.timeout {
			return p.missing(l)
		}
	}
}

// ended reads the notices that have arrived and tells what ended the group.
func (p *remoteCoordinator) ended(doing string) error {
	if err := p.notices.read(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 {
		p.announce(doing) // a rank that waits answers one that asks by waiting
	}
	if p.failure == nil {
		return nil
	}
	f := *p.failure
	if f.Kind == shm.Refusal {
		f.Text += fmt.Sprintf("; rank %d calls %s", p.meeting.rank, doing)
	}
	return f.Err()
}

// receive takes a notice that was sent to this group.
func (p *remoteCoordinator) receive(n notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case n.Failure != nil:
		if p.failure == nil {
			p.failure = n.Failure
		}
	case n.Waiting == "":
		p.left[n.From] = n.Calls
	default:
		p.waiting[n.From] = n.Waiting
	}
}

// announce says once what this rank waits in.
func (p *remoteCoordinator) announce(doing string) {
	if !p.told {
		p.told = true
		p.send(notice{Waiting: doing})
	}
}

// send sends a notice to all others.
func (p *remoteCoordinator) send(n notice) {
	n.Group, n.From, n.Calls = p.token, p.meeting.rank, int(p.calls.Load())
	for r, world := range p.meeting.world {
		if r != p.meeting.rank {
			p.notices.send(world, n)
		}
	}
}

// leftBehind finds a rank that left before the present call.
func (p *remoteCoordinator) leftBehind() (rank int, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.meeting.hosts {
		if calls, left := p.left[r]; left && calls < int(p.calls.Load()) {
			return r, true
		}
	}
	return 0, false
}

// missing finds out, at the time-out, which rank does not come: the one that
// does not say that it waits too.
func (p *remoteCoordinator) missing(l *label) error {
	p.mu.Lock()
	p.announce(l.text)
	p.mu.Unlock()
	for end := time.Now().Add(answerTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := p.ended(l.text); err != nil {
			return err
		}
	}
	rank, elsewhere := p.missingRank(l.text)
	f := shm.Failure{Kind: shm.PeerGone, Rank: rank,
		Text: fmt.Sprintf("rank %d waited %v for rank %d in %s (call %d)", p.meeting.rank, p.meeting.timeout, rank, l.text,
			p.calls.Load())}
	if elsewhere != "" {
		f.Kind = shm.Disagreement
		f.Text += fmt.Sprintf(", which waits in %s", elsewhere)
	}
	return p.Fail(f)
}

// missingRank is the first rank that did not answer, or the first that waits in
// something else, and what.
func (p *remoteCoordinator) missingRank(text string) (rank int, elsewhere string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rank = -1
	for r := range p.meeting.hosts {
		said, waits := p.waiting[r]
		switch {
		case r == p.meeting.rank:
		case !waits:
			return r, ""
		case rank < 0 || elsewhere == "" && said != text:
			rank = r
			if said != text {
				elsewhere = said
			}
		}
	}
	return rank, elsewhere
}

// compare finds out who calls what, once all know that they disagree.
func (p *remoteCoordinator) compare(l *label) error {
	mine := make([]byte, labelBytes)
	copy(mine, l.text)
	all := make([]byte, labelBytes*len(p.meeting.hosts))
	if err := p.lib.Iallgather(mpi.Memory(mine), mpi.Memory(all), labelBytes, p.lib.Type(dtype.U8), p.comm,
		p.slot).Run(); err != nil {
		return p.broken(l, err)
	}
	if err := p.await(l); err != nil {
		return err
	}
	said := func(r int) string { return string(bytes.TrimRight(all[r*labelBytes:(r+1)*labelBytes], "\x00")) }
	for r := range p.meeting.hosts {
		if said(r) != said(0) {
			return p.Fail(shm.Failure{Kind: shm.Disagreement,
				Text: fmt.Sprintf("ranks disagree on call %d: rank 0 called %s, rank %d called %s", p.calls.Load(), said(0), r,
					said(r))})
		}
	}
	return p.Fail(shm.Failure{Kind: shm.Disagreement,
		Text: fmt.Sprintf("ranks do not agree on %s (call %d)", l.text, p.calls.Load())})
}

func (p *remoteCoordinator) broken(l *label, err error) error {
	return p.Fail(shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d in %s: %v: %v", p.meeting.rank, l.text, p.lib, err)})
}

func (p *remoteCoordinator) watch(peer int, doing string) (*shm.Failure, error) {
	if err := p.ended(doing); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, left := p.left[peer]; left {
		return &shm.Failure{Kind: shm.PeerGone, Rank: peer,
			Text: fmt.Sprintf("rank %d has left the group while rank %d waits for it in %s", peer, p.meeting.rank, doing)}, nil
	}
	return nil, nil
}

func (p *remoteCoordinator) Fail(f shm.Failure) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		p.failure = &f
		p.send(notice{Failure: &f})
	}
	return p.failure.Err()
}

func (p *remoteCoordinator) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure != nil
}

func (p *remoteCoordinator) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send(notice{})
	p.notices.exit(p)
	if p.failure != nil { // an all-reduce may be left in it, with this memory
		abandon(p)
		return
	}
	_ = p.lib.Free(p.comm)
}
