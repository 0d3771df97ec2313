package partition

import "github.com/kernbench/kernbench/internal/solve/sparse"

func init() {
	Partitioners.Register(Partitioner{Name: Default, Help: "equal ranges of consecutive rows", Needs: Size, Weighs: true,
		Imbalance: 1, Make: simple})
}

// simple cuts the rows into strips of equal size, or of equal weight.
func simple(p sparse.Problem, o Options) (sparse.Layout, error) {
	if weights := o.Weights.of(p); weights != nil {
		return cutStrips(weights, o.Ranks), nil
	}
	out := make(sparse.Strips, o.Ranks+1)
	for r := range out {
		out[r] = rowsBefore(r, p.Size(), o.Ranks)
	}
	return out, nil
}

// cutStrips cuts before each rank where the accumulated weight is nearest to the share of the earlier ranks. So no
// strip exceeds the mean by more than the weight of one row.
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

// piece returns which of k equal pieces of 0..n-1 contains i. Piece p starts at n*p/k, rounded down.
func piece(i, n, k int) int { return (k*(i+1) - 1) / n }
