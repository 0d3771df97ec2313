package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// engine is one rank's end of a group.
type engine struct {
	process     *process
	meeting     meeting
	coordinator coordinator
	comm        comm
	splits      int // so far, for the names of the parts
	sent        atomic.Bool
}

var _ dist.Engine = (*engine)(nil)

// newEngine makes the group of ranks that have met and will all make its
// communicator. Those on one host have a coordinator already.
func (p *process) newEngine(m meeting, b coordinator, make func() (comm, error)) (dist.Engine, error) {
	e := &engine{process: p, meeting: m, coordinator: b}
	var err error
	if e.comm, err = make(); err == nil && b == nil {
		e.coordinator, err = newRemoteCoordinator(p, e.comm, m)
	}
	if err != nil {
		if b != nil {
			b.Close()
		}
		return nil, err
	}
	return e, nil
}

func (e *engine) Rank() int { return e.meeting.rank }
func (e *engine) Size() int { return len(e.meeting.hosts) }

func (e *engine) Capabilities() dist.Capabilities { return capabilities() }

// Facts returns what the group runs on, for [dist.Group.Facts].
func (e *engine) Facts() dist.Facts { return dist.Facts{Library: e.process.lib.String()} }

// capabilities are those of any library. It chooses the algorithms.
func capabilities() dist.Capabilities {
	return dist.Capabilities{Ops: dist.Collectives(), DTypes: dtype.All(), Reductions: dtype.Reductions(),
		Features: []dist.Feature{dist.FusedEpilogue, dist.UnevenBlocks}}
}

func (e *engine) Prepare(p dist.Plan) (func() error, error) {
	if p.Op.PointToPoint() {
		return e.message(p)
	}
	return e.collective(p)
}

func (e *engine) Refuse(reason error) {
	_ = e.coordinator.Fail(shm.RefusalBy(e.Rank(), reason))
}

// broken ends the group because MPI's own call failed.
func (e *engine) broken(doing string, err error) error {
	return e.coordinator.Fail(shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d in %s: %v: %v", e.Rank(), doing, e.process.lib, err)})
}

// Split lets MPI divide the communicator, and each part meet anew.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	if err := e.coordinator.agree(newLabel("split")); err != nil {
		return nil, err
	}
	e.splits++
	lib := e.process.lib
	c, err := lib.Split(e.comm, color, key)
	if err != nil {
		return nil, e.broken("split", err)
	}
	if color < 0 {
		return nil, nil
	}
	rank, size, err := lib.RankSize(c)
	if err != nil {
		return nil, e.broken("split", err)
	}
	m := meeting{id: fmt.Sprintf("%s/%d.%d", e.meeting.id, e.splits, color), secret: e.meeting.secret, rank: rank,
		timeout: e.meeting.timeout}
	if err := m.locate(e.process, c, size); err != nil {
		return nil, e.broken("split", err)
	}
	var b coordinator
	if m.oneHost() {
		ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
		defer cancel()
		if b, err = meetLocal(ctx, m); err != nil {
			return nil, fmt.Errorf("splitting: %w", err)
		}
	}
	return e.process.newEngine(m, b, func() (comm, error) { return c, nil })
}

// Alloc gives memory of this rank alone, or an error on every rank.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	if err := e.coordinator.agree(newLabel(fmt.Sprintf("alloc of %d %v", count, d))); err != nil {
		return dist.Buffer{}, err
	}
	b, failed := e.process.heap.alloc(d, count)
	ok := make([]int32, 2)
	if failed == nil {
		ok[0] = 1
	}
	lib := e.process.lib
	err := lib.Allreduce(mpi.Memory(ok), mpi.Memory(ok[1:]), 1, lib.Type(dtype.I32), lib.Op(dtype.I32, vec.Min),
		e.comm).Run()
	if err != nil {
		return dist.Buffer{}, e.broken("alloc", err)
	}
	if failed == nil && ok[1] == 0 {
		failed = errors.Join(errors.New("another rank has no memory left"), e.process.heap.free(b))
	}
	if failed != nil {
		return dist.Buffer{}, fmt.Errorf("allocating %d %v: %w", count, d, failed)
	}
	return b, nil
}

func (e *engine) Free(b dist.Buffer) error { return e.process.heap.free(b) }

// Close leaves the group. Its communicator is given back only if nothing can be
// left in it that would turn up in the next one: what was started on a group that
// failed may never end, and what was sent may never have been received.
func (e *engine) Close() error {
	left := e.coordinator.Failed() || e.sent.Load()
	e.coordinator.Close()
	if left {
		return nil
	}
	return e.process.lib.Free(e.comm)
}
