package partition

import "github.com/kernbench/kernbench/internal/solve/sparse"

func init() {
	Register(Partitioner{Name: Default, Help: "equal ranges of consecutive rows", Needs: Size, Imbalance: 1, Make: simple})
}

// ranges is n rows cut into equal ranges: rank r owns [n*r/ranks, n*(r+1)/ranks).
type ranges struct{ n, ranks int }

func simple(p sparse.Problem, o Options) (sparse.Layout, error) {
	return ranges{p.Size(), o.Ranks}, nil
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
