package solve

import (
	"errors"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// layout decides who owns which rows. A partitioner that follows the numbering
// or the grid runs on every rank. One that looks at the whole problem runs on
// rank 0, which tells each rank its rows, and then who owns those that they are
// coupled to. The seconds are the partitioner's own, where it ran.
func layout(g *dist.Group, spec Spec, outline sparse.Problem) (owners sparse.Layout, seconds float64, err error) {
	p, err := partition.Partitioners.Lookup(spec.Partitioner)
	if err != nil {
		return nil, 0, err
	}
	whole := outline
	alone := p.Whole(outline, spec.Weights)
	if alone {
		if g.Rank() != 0 {
			owners, err = share(g, spec.Source, nil, nil)
			return owners, 0, err
		}
		whole, err = spec.Source.Rows(nil)
	}
	began := g.Clock().Now()
	if err == nil {
		owners, err = p.Partition(whole,
			partition.Options{Ranks: g.Size(), Objective: spec.Objective, Weights: spec.Weights, Seed: spec.Seed})
	}
	seconds = float64(g.Clock().Now()-began) / 1e12
	if alone {
		owners, err = share(g, spec.Source, owners, err)
	}
	return owners, seconds, err
}

// share has rank 0, which knows all owners, tell every rank its rows and then the owners of
// the others that they are coupled to; or why there are none: whichever rank is heard
// first, the reason is.
func share(g *dist.Group, source Source, owners sparse.Layout, failed error) (sparse.Layout, error) {
	if err := (&precondition.Local{Team: team{g}}).Agree(failed); err != nil {
		return nil, err
	}
	rows := make([][]int64, g.Size())
	for r := 1; r < g.Size() && g.Rank() == 0; r++ {
		for _, own := range owners.Rows(r) {
			rows[r] = append(rows[r], int64(own.Lo), int64(own.Hi))
		}
	}
	told, err := exchange(g, rows)
	if err != nil {
		return nil, err
	}
	ghosts := make([][]int64, g.Size())
	if g.Rank() == 0 {
		_, err = request(g, ghosts, func(row int) int64 { return int64(owners.Owner(row)) })
		return owners, err
	}
	s := &partition.Share{Rank: g.Rank()}
	for list := told[0]; len(list) > 0; list = list[2:] {
		s.Own = append(s.Own, sparse.Range{Lo: int(list[0]), Hi: int(list[1])})
	}
	problem, err := source.Rows(func(row int) bool { return s.Owner(row) == s.Rank })
	if err == nil {
		s.Ghosts = partition.Couplings(problem, s.Own)
		ghosts[0] = widen(s.Ghosts)
	}
	// The others wait for the list, also of a rank that cannot make it.
	theirs, failed := request[int64](g, ghosts, nil)
	if failed == nil {
		s.Owners = narrow(theirs[0])
	}
	return s, errors.Join(err, failed)
}

// widen and narrow turn row numbers into elements of a message and back.
func widen(rows []int) []int64  { return lists.Map(rows, func(r int) int64 { return int64(r) }) }
func narrow(rows []int64) []int { return lists.Map(rows, func(r int64) int { return int(r) }) }

// wants are the rows that this rank needs of each other one.
func wants(g *dist.Group, plan *sparse.Plan) [][]int64 {
	rows := make([][]int64, g.Size())
	for i := range plan.Peers {
		rows[plan.Peers[i].Rank] = widen(plan.Wants(&plan.Peers[i]))
	}
	return rows
}

// tellWants tells every rank which of its rows others need.
func tellWants(g *dist.Group, plan *sparse.Plan) error {
	asked, err := exchange(g, wants(g, plan))
	if err != nil {
		return err
	}
	for r, rows := range asked {
		if err := plan.Serve(r, narrow(rows)); err != nil {
			return err
		}
	}
	return nil
}
