package solve

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
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
func (t team) Exchange(to [][]float64) ([][]float64, error) { return exchange(t.Group, to) }

// Connect tells the others what this rank needs of a vector.
func (t team) Connect(plan *sparse.Plan) (krylov.Halo, error) {
	if err := tellWants(t.Group, plan); err != nil {
		return nil, fmt.Errorf("exchanging the lists of needed values: %w", err)
	}
	return newHalo(t.Group, plan)
}

// exchange sends each rank its list, and gives what each has sent here.
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
	var handles []*dist.Handle
	var failed error
	start := func(h *dist.Handle, err error) {
		if err != nil {
			failed = errors.Join(failed, err)
			return
		}
		handles = append(handles, h)
	}
	for r, list := range to {
		if r != g.Rank() && len(list) > 0 {
			start(g.Isend(dist.Of(list), r))
		}
	}
	for r, n := range theirs {
		if r != g.Rank() && n > 0 {
			from[r] = make([]E, n)
			start(g.Irecv(dist.Of(from[r]), r))
		}
	}
	for _, h := range handles {
		if err := h.Wait(); failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("exchanging lists: %w", failed)
	}
	return from, nil
}

// request asks each rank about some of its rows, and answers what others ask here.
func request[E dist.Element](g *dist.Group, rows [][]int64, answer func(row int) E) ([][]E, error) {
	asked, err := exchange(g, rows)
	if err != nil {
		return nil, err
	}
	return exchange(g, lists.Map(asked, func(rows []int64) []E {
		return lists.Map(rows, func(row int64) E { return answer(int(row)) })
	}))
}
