package mpi

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// localCoordinator is that of ranks on one host, through shared memory.
type localCoordinator struct{ *shm.Agreement }

var _ coordinator = localCoordinator{}

// meetLocal finds the other ranks on this host, and returns once all are there.
func meetLocal(ctx context.Context, m meeting) (coordinator, error) {
	a, err := shm.MeetToAgree(ctx, shm.Identity{ID: m.id + "/" + Name, Secret: m.secret, Rank: m.rank, Size: len(m.hosts), Timeout: m.timeout})
	if err != nil {
		return nil, err
	}
	return localCoordinator{a}, nil
}

func (b localCoordinator) agree(l *label) error {
	return b.Agree(l.here)
}

func (b localCoordinator) tell(l *label) error { return b.Tell(l.here) }

func (b localCoordinator) hear(*label) error { return b.Hear() }

func (b localCoordinator) watch(peer int, doing string) (*shm.Failure, error) {
	if b.Failed() {
		return nil, b.Failure()
	}
	why, dead := b.Gone(peer)
	if why == "" {
		return nil, nil
	}
	return &shm.Failure{Kind: shm.PeerGone, Rank: peer, PID: b.Meeting.PIDs[peer], Dead: dead,
		Text: fmt.Sprintf("rank %d (pid %d) %s while rank %d waits for it in %s", peer, b.Meeting.PIDs[peer], why, b.Rank(), doing)}, nil
}

func (b localCoordinator) fail(f shm.Failure) error { return b.Fail(f) }

func (b localCoordinator) failed() bool { return b.Failed() }

func (b localCoordinator) leave() {
	b.Close()
}

// yield lets another process have the core.
func yield() {
	runtime.Gosched()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
