package mpi

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// localCoordinator is that of ranks on one host, through shared memory.
type localCoordinator struct {
	member  *shm.Member
	segment *shm.Segment
	meeting *shm.Meeting
	pids    []int
}

var _ coordinator = (*localCoordinator)(nil)

// meetLocal finds the other ranks on this host, and returns once all are there.
func meetLocal(ctx context.Context, m meeting) (*localCoordinator, error) {
	size := len(m.hosts)
	met, err := shm.Meet(ctx, shm.Identity{
		ID: m.id + "/" + Name, Secret: m.secret, Rank: m.rank, Size: size, Claim: m.rank, Timeout: m.timeout,
	}, func() (*os.File, error) { return shm.NewFile(shm.BoardBytes(size)) })
	if err != nil {
		return nil, err
	}
	segment := met.Segment
	ranks := make([]int, size)
	for r := range ranks {
		ranks[r] = r
	}
	b := &localCoordinator{segment: segment, meeting: met, pids: met.PIDs, member: shm.Join(shm.Membership{
		Segment: segment, Board: shm.BoardAt(segment, 0, size), Rank: m.rank, PIDs: met.PIDs, World: ranks, Crowded: met.Crowded, Timeout: m.timeout,
	})}
	// No rank goes on before all have made their claims: from here on a rank
	// without one is dead.
	if err := b.agree(newLabel("init")); err != nil {
		b.leave()
		return nil, err
	}
	b.member.CountFromHere()
	return b, nil
}

func (b *localCoordinator) agree(l *label) error {
	m := b.member
	if err := m.Begin(l.here, 1); err != nil {
		return outward(err)
	}
	epoch := m.Next()
	m.Signal()
	if err := m.AwaitAll(epoch); err != nil {
		return outward(err)
	}
	return nil
}

func (b *localCoordinator) watch(peer int, doing string) (*shm.Failure, error) {
	if b.member.Failed() {
		return nil, outward(b.member.Failure())
	}
	why, dead := b.member.Gone(peer)
	if why == "" {
		return nil, nil
	}
	return &shm.Failure{Kind: shm.PeerGone, Rank: peer, PID: b.pids[peer], Dead: dead,
		Text: fmt.Sprintf("rank %d (pid %d) %s while rank %d waits for it in %s", peer, b.pids[peer], why, b.member.Rank(), doing)}, nil
}

func (b *localCoordinator) fail(f shm.Failure) error { return outward(b.member.Fail(f)) }

func (b *localCoordinator) failed() bool { return b.member.Failed() }

func (b *localCoordinator) leave() {
	b.member.Leave()
	b.meeting.Close()
	b.segment.Close()
}

// yield lets another process have the core.
func yield() {
	runtime.Gosched()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
