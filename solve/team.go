package solve

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// team is the ranks of a group, as the set-up of a preconditioner asks them. It implements
// precondition.Team.
type team struct{ *dist.Group }

// Sum adds up over the ranks.
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

// Exchange sends each rank its list.
func (t team) Exchange(to [][]float64) ([][]float64, error) {
	from := make([][]float64, t.Size())
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
	var out mail
	for r, list := range to {
		if r != t.Rank() && len(list) > 0 {
			out.start(t.Isend(dist.Of(list), r))
		}
	}
	for r, n := range theirs {
		if r != t.Rank() && n > 0 {
			from[r] = make([]float64, n)
			out.start(t.Irecv(dist.Of(from[r]), r))
		}
	}
	if err := out.wait(); err != nil {
		return nil, fmt.Errorf("exchanging lists: %w", err)
	}
	return from, nil
}

// Connect tells the others what this rank needs of a vector.
func (t team) Connect(plan *sparse.Plan) (krylov.Halo, error) {
	if err := tellWants(t.Group, plan); err != nil {
		return nil, fmt.Errorf("exchanging the lists of needed values: %w", err)
	}
	return newHalo(t.Group, plan)
}
