package solve

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
func layout(g *dist.Group, spec *Spec, outline Problem) (owners sparse.Layout, seconds float64, err error) {
	p, err := partition.Partitioners.Lookup(spec.Partitioner)
	if err != nil {
		return nil, 0, err
	}
	problem := outline
	central := p.NeedsAllRows(outline, spec.Weights)
	if central {
		if g.Rank() != 0 {
			owners, err = distribute(g, spec, nil, nil)
			return owners, 0, err
		}
		problem, err = spec.rows(nil)
	}
	began := g.Clock().Now()
	if err == nil {
		owners, err = p.Partition(problem,
			partition.Options{Ranks: g.Size(), Objective: spec.Objective, Weights: spec.Weights, Seed: spec.Seed})
	}
	seconds = float64(g.Clock().Now()-began) / 1e12
	if central {
		owners, err = distribute(g, spec, owners, err)
	}
	return owners, seconds, err
}

// distribute sends each rank its rows and the owners of the rows that they are coupled to. Rank 0 passes the layout, or
// the error that kept it from making one; every rank then returns that error.
func distribute(g *dist.Group, spec *Spec, owners sparse.Layout, failed error) (sparse.Layout, error) {
	if err := (&precondition.Local{Team: team{g}}).Agree(failed); err != nil {
		return nil, err
	}
	rows := make([][]int64, g.Size())
	for r := 1; r < g.Size() && g.Rank() == 0; r++ {
		for _, own := range owners.Rows(r) {
			rows[r] = append(rows[r], int64(own.Lo), int64(own.Hi))
		}
	}
	received, err := exchange(g, rows)
	if err != nil {
		return nil, err
	}
	ghosts := make([][]int64, g.Size())
	if g.Rank() == 0 {
		_, err = request(g, ghosts, func(row int) int64 { return int64(owners.Owner(row)) })
		return owners, err
	}
	s := &partition.Share{Rank: g.Rank()}
	for list := received[0]; len(list) > 0; list = list[2:] {
		s.Own = append(s.Own, sparse.Range{Lo: int(list[0]), Hi: int(list[1])})
	}
	problem, err := spec.rows(func(row int) bool { return s.Owner(row) == s.Rank })
	if err == nil {
		s.Ghosts = partition.Couplings(problem, s.Own)
		ghosts[0] = toInt64s(s.Ghosts)
	}
	// Take part in the exchange after an error too: the other ranks wait for this rank's list.
	theirs, failed := request[int64](g, ghosts, nil)
	if failed == nil {
		s.Owners = toInts(theirs[0])
	}
	return s, errors.Join(err, failed)
}

// toInt64s and toInts convert row numbers to the elements of a message and back.
func toInt64s(rows []int) []int64 { return lists.Map(rows, func(r int) int64 { return int64(r) }) }
func toInts(rows []int64) []int   { return lists.Map(rows, func(r int64) int { return int(r) }) }

// ghostsByOwner returns the rows that this rank needs from each other rank.
func ghostsByOwner(g *dist.Group, plan *sparse.Plan) [][]int64 {
	rows := make([][]int64, g.Size())
	for i := range plan.Peers {
		rows[plan.Peers[i].Rank] = toInt64s(plan.Wants(&plan.Peers[i]))
	}
	return rows
}

// sendWants sends each rank the list of its rows that this rank needs, and adds the lists that arrive to the plan.
func sendWants(g *dist.Group, plan *sparse.Plan) error {
	asked, err := exchange(g, ghostsByOwner(g, plan))
	if err != nil {
		return err
	}
	for r, rows := range asked {
		if err := plan.Serve(r, toInts(rows)); err != nil {
			return err
		}
	}
	return nil
}

// team is the group of ranks that set up a preconditioner. It implements precondition.Team.
type team struct{ *dist.Group }

// Sum implements precondition.Team.
func (t team) Sum(values []float64) ([]float64, error) {
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

// Exchange implements precondition.Team.
func (t team) Exchange(to [][]float64) ([][]float64, error) { return exchange(t.Group, to) }

// Connect implements precondition.Team.
func (t team) Connect(plan *sparse.Plan) (krylov.Halo, error) { return t.connect(plan) }

func (t team) connect(plan *sparse.Plan) (*halo, error) {
	if err := sendWants(t.Group, plan); err != nil {
		return nil, fmt.Errorf("exchanging the lists of needed values: %w", err)
	}
	return newHalo(t.Group, plan, 1)
}

// exchange sends to[r] to each rank r, and returns the lists that the ranks sent here. It first exchanges the lengths,
// so that each rank knows how much to receive.
func exchange[E dist.Element](g *dist.Group, to [][]E) ([][]E, error) {
	from := make([][]E, g.Size())
	from[g.Rank()] = to[g.Rank()]
	if g.Size() == 1 {
		return from, nil
	}
	mine, theirs := make([]int64, g.Size()), make([]int64, g.Size())
	for r, list := range to {
		mine[r] = int64(len(list))
	}
	if err := g.AllToAll(dist.Of(theirs), dist.Of(mine)); err != nil {
		return nil, fmt.Errorf("exchanging the lengths of lists: %w", err)
	}
	var started []*dist.Op
	var failed error
	start := func(c dist.Call) {
		op, err := g.Start(c)
		if err != nil {
			failed = errors.Join(failed, err)
			return
		}
		started = append(started, op)
	}
	for r, list := range to {
		if r != g.Rank() && len(list) > 0 {
			start(dist.Call{Op: dist.Send, In: dist.Of(list), Peer: r})
		}
	}
	for r, n := range theirs {
		if r != g.Rank() && n > 0 {
			from[r] = make([]E, n)
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
func request[E dist.Element](g *dist.Group, rows [][]int64, answer func(row int) E) ([][]E, error) {
	asked, err := exchange(g, rows)
	if err != nil {
		return nil, err
	}
	return exchange(g, lists.Map(asked, func(rows []int64) []E {
		return lists.Map(rows, func(row int64) E { return answer(int(row)) })
	}))
}
