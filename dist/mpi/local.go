package mpi

import (
	"context"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// localCoordinator is that of ranks on one host, through shared memory.
type localCoordinator struct{ *shm.CallChecker }

var _ coordinator = localCoordinator{}

// meetLocal finds the other ranks on this host, and returns once all are there.
func meetLocal(ctx context.Context, m meeting) (coordinator, error) {
	a, err := shm.JoinCallChecker(ctx,
		shm.Identity{ID: m.id + "/" + Name, Secret: m.secret, Rank: m.rank, Size: len(m.hosts), Timeout: m.timeout})
	if err != nil {
		return nil, err
	}
	return localCoordinator{a}, nil
}

func (b localCoordinator) agree(l *label) error { return b.Check(l.here) }
func (b localCoordinator) tell(l *label) error  { return b.Post(l.here) }
func (b localCoordinator) hear(*label) error    { return b.Wait() }

func (b localCoordinator) watch(peer int, doing string) (*shm.Failure, error) {
	if b.Failed() {
		return nil, b.Failure()
	}
	why, dead := b.Gone(peer)
	if why == "" {
		return nil, nil
	}
	f := b.PeerFailure(peer, dead, why, doing)
	return &f, nil
}
