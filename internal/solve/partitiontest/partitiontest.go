// Package partitiontest is the conformance suite for partitioners. Each row must have one owner, rows and owners must
// agree, parts must be as even as the registration guarantees, unsuitable problems must be refused, and the same call
// must give the same layout.
package partitiontest

import (
	"fmt"
	"math"
	"testing"

	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Problems returns the problems that the suite partitions: grids, an irregular mesh, a problem with neither grid nor
// coordinates, and very small ones.
func Problems(t testing.TB) map[string]sparse.Problem {
	out := map[string]sparse.Problem{}
	for name, p := range map[string]struct {
		kind string
		sparse.Params
	}{
		"plane":    {"poisson", sparse.Params{Rows: 1200}},
		"space":    {"poisson", sparse.Params{Rows: 1000, Dim: 3, Stencil: 27}},
		"mesh":     {"mesh", sparse.Params{Rows: 1500, Seed: 3}},
		"one row":  {"poisson", sparse.Params{Rows: 1}},
		"few rows": {"variable", sparse.Params{Rows: 6, Dim: 3}},
	} {
		problem, err := sparse.New(p.kind, p.Params)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = problem
	}
	out["bare"] = bare{out["mesh"]}
	return out
}

// bare hides everything but the rows, like a matrix from a file.
type bare struct{ inner sparse.Problem }

func (b bare) Size() int                { return b.inner.Size() }
func (b bare) Row(i int, r *sparse.Row) { b.inner.Row(i, r) }
func (b bare) Traits() sparse.Traits    { return b.inner.Traits() }

// Run checks a partitioner against its registration.
func Run(t *testing.T, p partition.Partitioner) {
	t.Run("weights", func(t *testing.T) { weights(t, p) })
	counts := []int{1, 2, 3, 5, 7, 8, 16}
	if testing.Short() {
		counts = []int{1, 7}
	}
	for name, problem := range Problems(t) {
		for _, ranks := range counts {
			t.Run(fmt.Sprintf("%s/%d", name, ranks), func(t *testing.T) {
				o := partition.Options{Ranks: ranks, Seed: 9}
				layout, err := p.Partition(problem, o)
				if p.Check(problem) != nil {
					if err == nil {
						t.Fatal("was not refused")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(layout, problem.Size(), ranks); err != nil {
					t.Fatal(err)
				}
				if err := CheckEven(layout, problem.Size(), ranks, p.Imbalance, p.Slack); err != nil {
					t.Error(err)
				}
				again, err := p.Partition(problem, o)
				if err != nil {
					t.Fatal(err)
				}
				for i := range problem.Size() {
					if layout.Owner(i) != again.Owner(i) {
						t.Fatalf("row %d went to rank %d, and to rank %d the second time", i, layout.Owner(i), again.Owner(i))
					}
				}
			})
		}
	}
	plane := Problems(t)["plane"]
	if _, err := p.Partition(plane, partition.Options{}); err == nil {
		t.Error("0 ranks were accepted")
	}
	if _, err := p.Partition(plane, partition.Options{Ranks: 2, Objective: "beauty"}); err == nil {
		t.Error("an unknown objective was accepted")
	}
}

// weights checks that every rank gets about the same number of entries, if the partitioner supports that.
func weights(t *testing.T, p partition.Partitioner) {
	all := Problems(t)
	for _, name := range []string{"space", "mesh", "bare"} {
		delete(all, name)
	}
	hub, err := sparse.New("hub", sparse.Params{Rows: 600})
	if err != nil {
		t.Fatal(err)
	}
	all["hub"] = hub
	for name, problem := range all {
		for _, ranks := range []int{1, 3, 7} {
			layout, err := p.Partition(problem, partition.Options{Ranks: ranks, Seed: 9, Weights: partition.ByEntries})
			switch {
			case !p.Weighs || p.Check(problem) != nil:
				if err == nil {
					t.Errorf("%s: weights were accepted", name)
				}
				continue
			case err == nil:
				err = Check(layout, problem.Size(), ranks)
			}
			if err == nil {
				err = CheckEntries(layout, problem, ranks, p.Imbalance, p.Slack)
			}
			if err != nil {
				t.Errorf("%s on %d ranks: %v", name, ranks, err)
			}
		}
	}
	if _, err := p.Partition(Problems(t)["plane"], partition.Options{Ranks: 2, Weights: "gold"}); err == nil {
		t.Error("unknown weights were accepted")
	}
}

// CheckEntries returns an error if a part has more entries than guaranteed. The longest row, times one plus the slack,
// is added to the guarantee.
func CheckEntries(layout sparse.Layout, problem sparse.Problem, ranks int, imbalance float64, slack int) error {
	parts := make([]float64, ranks)
	total, longest := 0.0, 0.0
	var row sparse.Row
	for i := range problem.Size() {
		problem.Row(i, &row)
		n := float64(len(row.Cols))
		parts[layout.Owner(i)] += n
		total, longest = total+n, max(longest, n)
	}
	limit := imbalance*total/float64(ranks) + longest*float64(1+slack)
	for rank, n := range parts {
		if n > limit {
			return fmt.Errorf("rank %d has %.0f entries, the mean is %.1f, the longest row %.0f: the registration promises "+
				"at most %.1f", rank, n, total/float64(ranks), longest, limit)
		}
	}
	return nil
}

// Check returns an error if a layout is inconsistent.
func Check(layout sparse.Layout, rows, ranks int) error {
	seen := make([]bool, rows)
	for rank := range ranks {
		end := -1
		for _, r := range layout.Rows(rank) {
			if r.Lo <= end || r.Hi <= r.Lo || r.Lo < 0 || r.Hi > rows {
				return fmt.Errorf("rank %d: range %v after one that ends at %d, of %d rows", rank, r, end, rows)
			}
			end = r.Hi
			for i := r.Lo; i < r.Hi; i++ {
				if seen[i] {
					return fmt.Errorf("row %d has two owners", i)
				}
				seen[i] = true
				if owner := layout.Owner(i); owner != rank {
					return fmt.Errorf("row %d is listed for rank %d, but its owner is rank %d", i, rank, owner)
				}
			}
		}
	}
	for i, s := range seen {
		if !s {
			return fmt.Errorf("row %d has no owner", i)
		}
	}
	return nil
}

// CheckEven returns an error if a part has more rows than guaranteed.
func CheckEven(layout sparse.Layout, rows, ranks int, imbalance float64, slack int) error {
	mean := float64(rows) / float64(ranks)
	limit := max(imbalance*mean, math.Ceil(mean)+float64(slack))
	for rank := range ranks {
		n := 0
		for _, r := range layout.Rows(rank) {
			n += r.Len()
		}
		if float64(n) > limit {
			return fmt.Errorf("rank %d has %d rows, the mean is %.1f: the registration promises at most %.1f", rank, n, mean,
				limit)
		}
	}
	return nil
}
