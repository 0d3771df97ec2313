package mpi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// remoteCoordinator coordinates ranks on several hosts by MPI messages. Before each call, a
// non-blocking all-reduce with MPI_MAX over (hash, -hash) of the call's label finds the largest and the
// smallest hash of all ranks. The ranks agree if these are equal. If they differ, or if a rank does not
// arrive in time, the ranks send each other notices that name the call they wait in.
type remoteCoordinator struct {
	lib     *mpi.Library
	comm    comm // used for these all-reduces only
	notices *noticeRouter
	token   uint64 // identifies the group in notices
	members membership

	calls atomic.Int64 // number of calls posted; Fail may read it from another goroutine
	mine  []int64      // hash and -hash of this rank's call
	max   []int64      // the maximum of mine over all ranks
	slot  *mpi.Slot
	begin *mpi.Call // MPI_Iallreduce from mine to max
	test  *mpi.Call // MPI_Test of slot

	mu        sync.Mutex // guards the fields below: sends and receives run concurrently
	failure   *shm.Failure
	left      map[int]int    // by rank that has left: how many calls it had posted
	waiting   map[int]string // by rank: the call that it waits in, if it has announced one
	announced bool           // this rank has announced the call that it waits in
}

var _ coordinator = (*remoteCoordinator)(nil)

const (
	signatures = 2 // elements of the all-reduce: hash and -hash
	// labelBytes is how much of a label ranks exchange to report a disagreement.
	labelBytes = 256
	// answerTimeout is how long a waiting rank may take to announce its call.
	answerTimeout = 300 * time.Millisecond
)

// newRemoteCoordinator returns the coordinator of the ranks of c. It is collective. Rank 0 chooses the
// token for all.
func newRemoteCoordinator(proc *process, c comm, m membership) (*remoteCoordinator, error) {
	lib := proc.lib
	token := []int64{rand.Int64()}
	err := lib.Bcast(mpi.Memory(token), 1, lib.Type(dtype.I64), 0, c).Run()
	if err != nil {
		return nil, err
	}
	if c, err = lib.Dup(c); err != nil {
		return nil, err
	}
	p := &remoteCoordinator{lib: lib, comm: c, notices: proc.notices, token: uint64(token[0]), members: m,
		slot: new(mpi.Slot), mine: make([]int64, signatures), max: make([]int64, signatures),
		left: map[int]int{}, waiting: map[int]string{}}
	p.begin = lib.Iallreduce(mpi.Memory(p.mine), mpi.Memory(p.max), signatures, lib.Type(dtype.I64),
		lib.Op(dtype.I64, vec.Max), c, p.slot)
	p.test = lib.Test(p.slot)
	p.notices.enter(p)
	return p, nil
}

func (p *remoteCoordinator) post(l *label) error {
	p.calls.Add(1)
	if err := p.checkFailed(l.text); err != nil {
		return err
	}
	p.mine[0], p.mine[1] = l.hash, -l.hash
	if err := p.begin.Run(); err != nil {
		return p.failCall(l, err)
	}
	return nil
}

func (p *remoteCoordinator) wait(l *label) error {
	if err := p.await(l); err != nil {
		return err
	}
	if p.max[0] == l.hash && p.max[1] == -l.hash {
		return nil
	}
	return p.failDisagreement(l)
}

// await polls until the operation in slot is complete. It returns an error if the group fails, a rank
// has left, or the timeout passes.
func (p *remoteCoordinator) await(l *label) error {
	fail := func(err error) error { return p.failCall(l, err) }
	return poll(p.test, p.slot, fail, func(waited time.Duration) error {
		if err := p.checkFailed(l.text); err != nil {
			return err
		}
		if rank, gone := p.findLeaver(); gone {
			return p.Fail(shm.Failure{Kind: shm.PeerGone, Rank: rank,
				Text: fmt.Sprintf("rank %d has left the group while rank %d waits for it in %s (call %d)", rank,
					p.members.rank, l.text, p.calls.Load())})
		}
		if waited > p.members.timeout {
			return p.failMissing(l)
		}
		return nil
	})
}

// checkFailed reads the notices that have arrived and returns the group's failure. If another rank has
// announced that it waits, this rank announces op too, so that the other can compare.
func (p *remoteCoordinator) checkFailed(op string) error {
	if err := p.notices.read(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 {
		p.announce(op)
	}
	if p.failure == nil {
		return nil
	}
	f := *p.failure
	if f.Kind == shm.Refusal {
		f.Text += fmt.Sprintf("; rank %d calls %s", p.members.rank, op)
	}
	return f.Err()
}

// receive stores a notice that was sent to this group.
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

// announce tells the other ranks, once, that this rank waits in op. The caller holds p.mu.
func (p *remoteCoordinator) announce(op string) {
	if !p.announced {
		p.announced = true
		p.send(notice{Waiting: op})
	}
}

// send sends a notice to all other ranks of the group.
func (p *remoteCoordinator) send(n notice) {
	n.Group, n.From, n.Calls = p.token, p.members.rank, int(p.calls.Load())
	for r, world := range p.members.world {
		if r != p.members.rank {
			p.notices.send(world, n)
		}
	}
}

// findLeaver returns a rank that left before it posted the current call.
func (p *remoteCoordinator) findLeaver() (rank int, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.members.hosts {
		if calls, left := p.left[r]; left && calls < int(p.calls.Load()) {
			return r, true
		}
	}
	return 0, false
}

// failMissing handles a timeout. It announces this rank's call, waits for the announcements of the
// others, and fails the group. The error names a rank that announced nothing, or that waits in a
// different call.
func (p *remoteCoordinator) failMissing(l *label) error {
	p.mu.Lock()
	p.announce(l.text)
	p.mu.Unlock()
	for begin := time.Now(); !p.answered(time.Since(begin)); time.Sleep(time.Millisecond) {
		if err := p.checkFailed(l.text); err != nil {
			return err
		}
	}
	rank, elsewhere := p.findMissing(l.text)
	f := shm.Failure{Kind: shm.PeerGone, Rank: rank,
		Text: fmt.Sprintf("rank %d waited %v for rank %d in %s (call %d)", p.members.rank, p.members.timeout, rank, l.text,
			p.calls.Load())}
	if elsewhere != "" {
		f.Kind = shm.Disagreement
		f.Text += fmt.Sprintf(", which waits in %s", elsewhere)
	}
	return p.Fail(f)
}

// answered reports whether enough ranks have announced their calls for this rank to choose the missing
// one. If several are silent, some may only wait for a processor: they get the group's timeout again.
func (p *remoteCoordinator) answered(waited time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := len(p.members.hosts) - 1 - len(p.waiting)
	return waited > answerTimeout && silent <= 1 || waited > max(answerTimeout, p.members.timeout)
}

// findMissing returns the first rank that has not announced a call. If all have, it returns the first
// rank whose call differs from text, and that call.
func (p *remoteCoordinator) findMissing(text string) (rank int, elsewhere string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rank = -1
	for r := range p.members.hosts {
		call, waits := p.waiting[r]
		switch {
		case r == p.members.rank:
		case !waits:
			return r, ""
		case rank < 0 || elsewhere == "" && call != text:
			rank = r
			if call != text {
				elsewhere = call
			}
		}
	}
	return rank, elsewhere
}

// failDisagreement fails the group after the ranks have found that their hashes differ. All ranks get
// here, so they can exchange their labels for the error message.
func (p *remoteCoordinator) failDisagreement(l *label) error {
	mine := make([]byte, labelBytes)
	copy(mine, l.text)
	all := make([]byte, labelBytes*len(p.members.hosts))
	if err := p.lib.Iallgather(mpi.Memory(mine), mpi.Memory(all), labelBytes, p.lib.Type(dtype.U8), p.comm,
		p.slot).Run(); err != nil {
		return p.failCall(l, err)
	}
	if err := p.await(l); err != nil {
		return err
	}
	text := func(r int) string { return string(bytes.TrimRight(all[r*labelBytes:(r+1)*labelBytes], "\x00")) }
	for r := range p.members.hosts {
		if text(r) != text(0) {
			return p.Fail(shm.Failure{Kind: shm.Disagreement,
				Text: fmt.Sprintf("ranks disagree on call %d: rank 0 called %s, rank %d called %s", p.calls.Load(), text(0), r,
					text(r))})
		}
	}
	return p.Fail(shm.Failure{Kind: shm.Disagreement,
		Text: fmt.Sprintf("ranks do not agree on %s (call %d)", l.text, p.calls.Load())})
}

// failCall ends the group because an MPI function returned err.
func (p *remoteCoordinator) failCall(l *label, err error) error {
	return p.Fail(shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d in %s: %v: %v", p.members.rank, l.text, p.lib, err)})
}

func (p *remoteCoordinator) checkPeer(peer int, op string) (*shm.Failure, error) {
	if err := p.checkFailed(op); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, left := p.left[peer]; left {
		return &shm.Failure{Kind: shm.PeerGone, Rank: peer,
			Text: fmt.Sprintf("rank %d has left the group while rank %d waits for it in %s", peer, p.members.rank, op)}, nil
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
	if p.failure != nil { // an all-reduce may be pending and still write to p.max
		keepForever(p)
		return
	}
	_ = p.lib.Free(p.comm)
}

// noticeRouter receives the notices for all groups of this process. It uses one communicator that
// lives as long as MPI. A communicator per group would not do: it could be freed only after every
// notice in it was received, and the receiver of a notice may have left.
type noticeRouter struct {
	mu     sync.Mutex // guards the fields below
	box    *mailbox
	groups map[uint64]*remoteCoordinator // by token
	early  []notice                      // for groups that this rank has not joined yet
}

// notice is a message about a group. It reports a failure, a call that the sender waits in, or, if
// both are empty, that the sender leaves.
type notice struct {
	Group   uint64       // token
	From    int          // rank in the group
	Failure *shm.Failure `json:",omitempty"`
	Waiting string       `json:",omitempty"`
	Calls   int          // how many calls the sender has posted
}

// maxEarlyNotices limits noticeRouter.early, which also collects late notices for groups that this
// rank has left.
const maxEarlyNotices = 1000

// enter registers a group and delivers the notices that arrived before.
func (r *noticeRouter) enter(p *remoteCoordinator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[p.token] = p
	r.early = slices.DeleteFunc(r.early, func(n notice) bool {
		if n.Group == p.token {
			p.receive(n)
		}
		return n.Group == p.token
	})
}

func (r *noticeRouter) exit(p *remoteCoordinator) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, p.token)
}

// read delivers the notices that have arrived. It does not block.
func (r *noticeRouter) read() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		_, body, ok, err := r.box.receive()
		if err != nil || !ok {
			return err
		}
		var n notice
		if err := json.Unmarshal(body, &n); err != nil {
			return err
		}
		if p := r.groups[n.Group]; p != nil {
			p.receive(n)
			continue
		}
		if len(r.early) == maxEarlyNotices {
			r.early = r.early[1:]
		}
		r.early = append(r.early, n)
	}
}

// send sends a notice to a rank of MPI_COMM_WORLD. Errors are ignored: the group has failed or is
// being left, and the receiver has a timeout.
func (r *noticeRouter) send(to int, n notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if body, err := json.Marshal(n); err == nil {
		_ = r.box.send(to, 0, body)
	}
}
