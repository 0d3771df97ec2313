package system

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// layout decides which rank owns which rows. Partitioners that need only the numbering or the grid run on every rank.
// Partitioners that need the whole problem run on rank 0, which then sends each rank its rows and the
// owners of the rows that they are coupled to. The seconds are the time of the partitioner, on the
// ranks where it ran.
func (t team) layout(spec *Spec, outline sparse.Problem) (owners sparse.Layout, seconds float64, err error) {
	p, err := partition.Partitioners.Lookup(spec.Partitioner)
	if err != nil {
		return nil, 0, err
	}
	problem := outline
	central := p.NeedsAllRows(outline, spec.Weights)
	if central {
		if t.Rank() != 0 {
			owners, err = t.distribute(spec, nil, nil)
			return owners, 0, err
		}
		problem, err = spec.rows(nil)
	}
	began := t.Clock().Now()
	if err == nil {
		owners, err = p.Partition(problem,
			partition.Options{Ranks: t.Size(), Objective: spec.Objective, Weights: spec.Weights, Seed: spec.Seed})
	}
	seconds = float64(t.Clock().Now()-began) / 1e12
	if central {
		owners, err = t.distribute(spec, owners, err)
	}
	return owners, seconds, err
}

// distribute sends each rank its rows and the owners of the rows that they are coupled to. Rank 0 passes the layout, or
// the error that kept it from making one; every rank then returns that error.
func (t team) distribute(spec *Spec, owners sparse.Layout, failed error) (sparse.Layout, error) {
	if err := precondition.Agree(t, failed); err != nil {
		return nil, err
	}
	rows := make([][]sparse.Range, t.Size())
	for r := 1; r < t.Size() && t.Rank() == 0; r++ {
		rows[r] = owners.Rows(r)
	}
	received, err := precondition.Exchange(t, rows)
	if err != nil {
		return nil, err
	}
	ghosts := make([][]int, t.Size())
	if t.Rank() == 0 {
		_, err = request(t, ghosts, owners.Owner)
		return owners, err
	}
	s := &partition.Share{Rank: t.Rank(), Own: received[0]}
	problem, err := spec.rows(func(row int) bool { return s.Owner(row) == s.Rank })
	if err == nil {
		s.Ghosts = partition.Couplings(problem, s.Own)
		ghosts[0] = s.Ghosts
	}
	// Take part in the exchange after an error too: the other ranks wait for this rank's list.
	theirs, failed := request[int](t, ghosts, nil)
	if failed == nil {
		s.Owners = theirs[0]
	}
	return s, errors.Join(err, failed)
}

// ghostsByOwner returns the rows that this rank needs from each other rank.
func (t team) ghostsByOwner(plan *sparse.Plan) [][]int {
	rows := make([][]int, t.Size())
	for i := range plan.Peers {
		rows[plan.Peers[i].Rank] = plan.Wants(&plan.Peers[i])
	}
	return rows
}

// team is the group of ranks of a system, whose communication is timed. It implements precondition.Team.
type team struct {
	*dist.Group
	meter *meter
}

// Sum implements precondition.Team.
func (t team) Sum(values []float64) ([]float64, error) {
	defer t.meter.add(&t.meter.reduce, t.meter.clock.Now())
	out := make([]float64, len(values))
	if t.Size() == 1 || len(values) == 0 {
		copy(out, values)
		return out, nil
	}
	if err := t.AllReduce(dist.Of(out), dist.Of(values), dist.Sum); err != nil {
		return nil, fmt.Errorf("adding up over the ranks: %w", err)
	}
	return out, nil
}

// Connect implements precondition.Team.
func (t team) Connect(plan *sparse.Plan) (krylov.Halo, error) {
	if err := t.tellWants(plan); err != nil {
		return nil, err
	}
	return t.newHalo(plan, 1)
}

// tellWants sends each rank the list of its rows that this rank needs, and adds the lists that arrive to the plan.
func (t team) tellWants(plan *sparse.Plan) error {
	asked, err := precondition.Exchange(t, t.ghostsByOwner(plan))
	if err != nil {
		return fmt.Errorf("exchanging the lists of needed values: %w", err)
	}
	for r, rows := range asked {
		if err := plan.Serve(r, rows); err != nil {
			return fmt.Errorf("exchanging the lists of needed values: %w", err)
		}
	}
	return nil
}

// Exchange implements precondition.Team. It first exchanges the lengths, so that each rank knows how much to receive.
func (t team) Exchange(to [][]byte) ([][]byte, error) {
	from := make([][]byte, t.Size())
	from[t.Rank()] = to[t.Rank()]
	if t.Size() == 1 {
		return from, nil
	}
	mine, theirs := make([]int64, t.Size()), make([]int64, t.Size())
	for r, list := range to {
		mine[r] = int64(len(list))
	}
	if err := t.AllToAll(dist.Of(theirs), dist.Of(mine)); err != nil {
		return nil, fmt.Errorf("exchanging the lengths of lists: %w", err)
	}
	var started []*dist.Op
	var failed error
	start := func(c dist.Call) {
		op, err := t.Start(c)
		if err != nil {
			failed = errors.Join(failed, err)
			return
		}
		started = append(started, op)
	}
	for r, list := range to {
		if r != t.Rank() && len(list) > 0 {
			start(dist.Call{Op: dist.Send, In: dist.Of(list), Peer: r})
		}
	}
	for r, n := range theirs {
		if r != t.Rank() && n > 0 {
			from[r] = make([]byte, n)
			start(dist.Call{Op: dist.Recv, Out: dist.Of(from[r]), Peer: r})
		}
	}
	for _, op := range started {
		if err := op.Wait(); failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("exchanging lists: %w", failed)
	}
	return from, nil
}

// request asks each rank r about its rows rows[r], and returns the answers in the same order. It calls answer for each
// row that other ranks ask about here.
func request[E any](t team, rows [][]int, answer func(row int) E) ([][]E, error) {
	asked, err := precondition.Exchange(t, rows)
	if err != nil {
		return nil, err
	}
	return precondition.Exchange(t, lists.Map(asked, func(rows []int) []E { return lists.Map(rows, answer) }))
}
