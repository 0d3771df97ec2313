package mpi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/process/culprit"
)

// coordinator verifies that all ranks of a group issue the same sequence of calls, and propagates failures
// between them, by notices: small MPI messages. Every rank sends its call to all others, so each can compare
// the calls, and knows which ranks it still waits for. Its errors have the types that package dist promises.
type coordinator struct {
	router  *noticeRouter
	token   uint64 // identifies the group in notices
	members membership

	// The router's lock guards the fields below: sends and receives run concurrently.
	calls   int      // number of calls that this rank has posted
	peers   []posted // by rank
	failure *shm.Failure
}

// posted is what is known about another rank.
type posted struct {
	calls int
	texts [2]string // of its last two calls: a rank can be one call ahead of the others
	left  bool
}

// newCoordinator returns the coordinator of the ranks of c. It is collective. Rank 0 chooses the
// token for all.
func (p *process) newCoordinator(c comm, m membership) (*coordinator, error) {
	token := []int64{rand.Int64()}
	if err := p.lib.Bcast(mpi.Memory(token), 1, p.lib.Type(dtype.I64), 0, c).Run(); err != nil {
		return nil, err
	}
	return p.notices.enter(uint64(token[0]), m), nil
}

// meet blocks until all ranks of a group have joined. The token of their meeting
// is a hash of the group's id and secret, so that ranks of different groups or jobs do not join each other.
func (p *process) meet(ctx context.Context, m membership) error {
	const joining = "joining"
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s", m.id, m.secret))
	r := p.notices.enter(binary.LittleEndian.Uint64(sum[:]), m)
	defer p.notices.exit(r)
	if err := r.post(joining); err != nil {
		return err
	}
	absent, err := r.await(ctx, joining)
	if len(absent) > 0 {
		r.retract()
		err = fmt.Errorf("%s did not join within %v: %w", culprit.FormatRanks(absent), m.timeout.Round(time.Millisecond),
			context.Cause(ctx))
	}
	p.notices.flush(flushTimeout)
	return err
}

// retract takes back what this rank has posted to a meeting. It would count for the next attempt.
func (p *coordinator) retract() {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	p.send(notice{})
}

// post publishes this rank's next call without blocking.
func (p *coordinator) post(call string) error {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	p.calls++
	if err := p.checkFailed(call); err != nil {
		return err
	}
	p.send(notice{Calls: p.calls, Text: call})
	return nil
}

// wait blocks until every rank has posted a matching call.
func (p *coordinator) wait(call string) error {
	missing, err := p.await(context.Background(), call)
	if len(missing) == 0 {
		return err
	}
	return p.Fail(shm.Failure{Kind: shm.PeerGone, Rank: missing[0],
		Text: fmt.Sprintf("rank %d waited %v for %s in %s (call %d)", p.members.rank, p.members.timeout,
			culprit.FormatRanks(missing), call, p.calls)})
}

// await blocks until every rank has posted this rank's call. It returns the ranks that have not within the
// timeout. If several are missing, some may only wait for a processor: they get the timeout again.
func (p *coordinator) await(ctx context.Context, call string) (missing []int, err error) {
	limit := p.members.timeout
	err = pace.Until(func() (bool, error) {
		missing, err = p.compare(call)
		return len(missing) == 0, err
	}, func(waited time.Duration) error {
		if waited > limit && (len(missing) == 1 || waited > 2*limit) || ctx.Err() != nil {
			return errMissing
		}
		return nil
	})
	if err == errMissing {
		return missing, nil
	}
	return nil, err
}

var errMissing = errors.New("ranks are missing")

// compare fails the group if a rank has posted another call than this one, or has left before it. It returns
// the ranks that have not posted yet.
func (p *coordinator) compare(call string) (missing []int, err error) {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	if err := p.checkFailed(call); err != nil {
		return nil, err
	}
	own := p.members.rank
	for r, peer := range p.peers {
		switch theirs := peer.texts[p.calls%2]; {
		case r == own:
		case peer.calls >= p.calls && theirs != call:
			a, b, first, second := own, r, call, theirs
			if b < a {
				a, b, first, second = b, a, second, first
			}
			return nil, p.fail(shm.Failure{Kind: shm.Disagreement,
				Text: fmt.Sprintf("ranks disagree on call %d: rank %d called %s, rank %d called %s", p.calls, a, first, b, second)})
		case peer.calls < p.calls && peer.left:
			return nil, p.fail(p.leaving(r, fmt.Sprintf("%s (call %d)", call, p.calls)))
		case peer.calls < p.calls:
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// leaving returns the failure of a group that a rank has left while this one waits for it.
func (p *coordinator) leaving(rank int, op string) shm.Failure {
	return shm.Failure{Kind: shm.PeerGone, Rank: rank,
		Text: fmt.Sprintf("rank %d has left the group while rank %d waits for it in %s", rank, p.members.rank, op)}
}

// checkFailed reads the notices that have arrived and returns the group's failure. The caller holds the lock.
func (p *coordinator) checkFailed(op string) error {
	if err := p.router.read(); err != nil {
		return err
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

// receive stores a notice that was sent to this group. The caller holds the lock.
func (p *coordinator) receive(n notice) {
	peer := &p.peers[n.From]
	switch {
	case n.Failure != nil && p.failure == nil:
		p.failure = n.Failure
	case n.Failure != nil:
	case n.Left:
		peer.left = true
	default:
		peer.calls, peer.texts[n.Calls%2] = n.Calls, n.Text
	}
}

// send sends a notice to all other ranks of the group. The caller holds the lock.
func (p *coordinator) send(n notice) {
	n.Group, n.From = p.token, p.members.rank
	for r, world := range p.members.world {
		if r != p.members.rank {
			p.router.send(world, n)
		}
	}
}

// checkPeer returns the group's failure as err. It returns the failure to report as gone if the peer has
// left. That is not yet a failure of the group, because a message that the peer sent before may still arrive.
func (p *coordinator) checkPeer(peer int, op string) (gone *shm.Failure, err error) {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	if err := p.checkFailed(op); err != nil {
		return nil, err
	}
	if !p.peers[peer].left {
		return nil, nil
	}
	f := p.leaving(peer, op)
	return &f, nil
}

// Fail marks the group as failed and returns the reason: f, or an earlier failure.
func (p *coordinator) Fail(f shm.Failure) error {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	return p.fail(f)
}

// fail is Fail for callers that hold the lock.
func (p *coordinator) fail(f shm.Failure) error {
	if p.failure == nil {
		p.failure = &f
		p.send(notice{Failure: &f})
	}
	return p.failure.Err()
}

// RefuseCall is Fail because this rank cannot make its call. first is false if the group has failed already.
func (p *coordinator) RefuseCall(reason error) (first bool) {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	first = p.failure == nil
	_ = p.fail(shm.RefusalBy(p.members.rank, reason))
	return first
}

func (p *coordinator) Failed() bool {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	return p.failure != nil
}

func (p *coordinator) Close() {
	p.router.mu.Lock()
	p.send(notice{Left: true})
	p.router.mu.Unlock()
	p.router.exit(p)
}
