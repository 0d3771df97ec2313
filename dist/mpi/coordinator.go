package mpi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

// coordinator verifies that all ranks of a group issue the same sequence of calls, and propagates
// failures between them. Its errors have the types that package dist promises.
type coordinator interface {
	// post publishes this rank's next call without blocking.
	post(l *label) error
	// wait blocks until every rank has posted a matching call.
	wait(l *label) error
	// checkPeer returns the group's failure as err. It returns the failure to report as gone if the
	// peer has left or died. That is not yet a failure of the group, because a message that the peer
	// sent before may still arrive.
	checkPeer(peer int, op string) (gone *shm.Failure, err error)
	// Fail marks the group as failed and returns the reason: f, or an earlier failure.
	Fail(f shm.Failure) error
	Failed() bool
	Close()
}

// agree blocks until all ranks are known to issue the call that l describes.
func agree(c coordinator, l *label) error {
	if err := c.post(l); err != nil {
		return err
	}
	return c.wait(l)
}

// label describes a call: everything that must be equal on all ranks.
type label struct {
	local *shm.Label // for ranks on one host
	text  string
	hash  int64 // of text, for ranks on several hosts; not negative, so that -hash does not overflow
}

func newLabel(text string) *label {
	h := fnv.New64a()
	h.Write([]byte(text))
	return &label{shm.NewLabel(text), text, int64(h.Sum64() >> 1)}
}

// membership describes a group and this rank's place in it.
type membership struct {
	id      string // unique among the groups of the job
	secret  string
	rank    int
	timeout time.Duration
	hosts   []uint64 // host id by rank
	world   []int    // rank in MPI_COMM_WORLD by rank
}

// locate sets hosts and world from all ranks of c. It is collective.
func (m *membership) locate(p *process, c comm, size int) (err error) {
	if m.hosts, err = p.allGather(c, p.hosts[p.rank], size); err != nil {
		return err
	}
	numbers, err := p.allGather(c, uint64(p.rank), size)
	m.world = lists.Map(numbers, func(n uint64) int { return int(n) })
	return err
}

// oneHost reports whether all ranks are on one host.
func (m membership) oneHost() bool {
	return !slices.ContainsFunc(m.hosts, func(h uint64) bool { return h != m.hosts[0] })
}

// backoff paces one wait: it spins at first, then yields the core, then sleeps between polls.
type backoff struct {
	polls   int
	started time.Time
}

const (
	spinPolls  = 100                   // a few tens of microseconds: how far apart ranks usually arrive
	yieldPolls = 2000                  // polls between which the core is yielded
	pollPause  = 50 * time.Microsecond // sleep between later polls
	checkEvery = 32                    // polls between two checks of the group's state
)

// pause is called between two polls. It returns how long the wait has lasted, or 0 while spinning,
// when reading the clock would cost more than a poll.
func (b *backoff) pause() (waited time.Duration) {
	b.polls++
	switch {
	case b.polls < spinPolls:
		return 0
	case b.polls < spinPolls+yieldPolls:
		shm.Yield()
	default:
		time.Sleep(pollPause)
	}
	if b.started.IsZero() {
		b.started = time.Now()
	}
	return time.Since(b.started)
}

// poll runs test until the request in slot is done. Errors of test are returned through fail. Every
// checkEvery polls it calls check with the time waited so far, and returns its error if there is one.
func poll(test *mpi.Call, slot *mpi.Slot, fail func(error) error, check func(waited time.Duration) error) error {
	var b backoff
	for {
		if err := test.Run(); err != nil {
			return fail(err)
		}
		if slot.Done() {
			return nil
		}
		waited := b.pause()
		if b.polls%checkEvery != 0 {
			continue
		}
		if err := check(waited); err != nil {
			return err
		}
	}
}

// localCoordinator coordinates ranks on one host, through shared memory.
type localCoordinator struct{ *shm.CallChecker }

var _ coordinator = localCoordinator{}

// meetLocal blocks until all ranks of a group on this host have joined.
func meetLocal(ctx context.Context, m membership) (coordinator, error) {
	a, err := shm.JoinCallChecker(ctx,
		shm.Identity{ID: m.id + "/" + Name, Secret: m.secret, Rank: m.rank, Size: len(m.hosts), Timeout: m.timeout})
	if err != nil {
		return nil, err
	}
	return localCoordinator{a}, nil
}

func (b localCoordinator) post(l *label) error { return b.Post(l.local) }
func (b localCoordinator) wait(*label) error   { return b.Wait() }

func (b localCoordinator) checkPeer(peer int, op string) (*shm.Failure, error) {
	if b.Failed() {
		return nil, b.Failure()
	}
	why, dead := b.Gone(peer)
	if why == "" {
		return nil, nil
	}
	f := b.PeerFailure(peer, dead, why, op)
	return &f, nil
}

// meetRemote blocks until all ranks of a group on several hosts have joined. Each rank sends hello to
// all others and waits for theirs. The message contains a hash of the group's id and secret, so that
// ranks of different groups or jobs do not join each other.
func (p *process) meetRemote(ctx context.Context, m membership) error {
	tag := groupTag(m.id)
	box := newMailbox(p.lib, p.bootstrap, tag)
	proof := fmt.Sprintf("%x %s", sha256.Sum256(fmt.Appendf(nil, "%s/%s", m.id, m.secret)), m.id)
	sendAll := func(kind string) (err error) {
		for r := range m.hosts {
			if r != m.rank && err == nil {
				err = box.send(r, tag, []byte(kind+proof))
			}
		}
		return err
	}
	if err := sendAll(hello); err != nil {
		return err
	}
	joined := make([]bool, len(m.hosts))
	joined[m.rank] = true
	err := m.receive(ctx, box, proof, joined)
	if err != nil {
		_ = sendAll(goodbye) // a hello that is not taken back would count for the next attempt
	}
	box.flush(flushTimeout)
	return err
}

// The messages of meetRemote: a rank has arrived, or has stopped waiting.
const (
	hello   = "+"
	goodbye = "-"
)

// flushTimeout is how long to wait for small messages to be sent.
const flushTimeout = time.Second

// receive blocks until joined is true for all ranks, or ctx ends.
func (m membership) receive(ctx context.Context, box *mailbox, proof string, joined []bool) error {
	for b := (backoff{}); slices.Contains(joined, false); b.pause() {
		from, body, ok, err := box.receive()
		text := string(body)
		switch {
		case err != nil:
			return err
		case ok && text[1:] != proof:
			return fmt.Errorf("rank %d joins another group at the same time, or has another secret", from)
		case ok:
			joined[from] = text[:1] == hello
		case ctx.Err() != nil:
			absent := lists.Filter(lists.Range[int](len(joined)), func(r int) bool { return !joined[r] })
			return fmt.Errorf("%s did not join within %v: %w", culprit.FormatRanks(absent),
				m.timeout.Round(time.Millisecond), ctx.Err())
		}
	}
	return nil
}
