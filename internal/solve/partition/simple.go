package partition

import "github.com/kernbench/kernbench/internal/solve/sparse"

func init() {
	Partitioners.Register(Partitioner{Name: Default, Help: "equal ranges of consecutive rows", Needs: Size, Weighs: true,
		Imbalance: 1, Make: simple})
}

// ranges is n rows cut into equal ranges: rank r owns [n*r/ranks, n*(r+1)/ranks).
type ranges struct{ n, ranks int }

func simple(p sparse.Problem, o Options) (sparse.Layout, error) {
	if weights := o.Weights.of(p); weights != nil {
		return cutStrips(weights, o.Ranks), nil
	}
	return ranges{p.Size(), o.Ranks}, nil
}

// cutStrips cuts where the weight before comes nearest to each rank's share of it, so that no strip is heavier
// than the mean by more than a row.
func cutStrips(weights []int32, ranks int) sparse.Strips {
	total := 0
	for _, w := range weights {
		total += int(w)
	}
	out := make(sparse.Strips, 1, ranks+1)
	row, before := 0, 0
	for r := 1; r < ranks; r++ {
		target := rowsBefore(r, total, ranks)
		for row < len(weights) && 2*(target-before) > int(weights[row]) { // nearer with the row than without
			before += int(weights[row])
			row++
		}
		out = append(out, row)
	}
	return append(out, len(weights))
}

func (s ranges) Owner(row int) int { return piece(row, s.n, s.ranks) }

func (s ranges) Rows(rank int) []sparse.Range {
	r := sparse.Range{Lo: s.n * rank / s.ranks, Hi: s.n * (rank + 1) / s.ranks}
	if r.Len() == 0 {
		return nil
	}
	return []sparse.Range{r}
}

// piece is which of k equal pieces of 0..n-1 holds i: the last one that starts,
// at n*piece/k rounded down, no later than i.
func piece(i, n, k int) int { return (k*(i+1) - 1) / n }
