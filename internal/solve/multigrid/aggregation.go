package multigrid

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	register(precondition.Preconditioner{Name: "amg", Help: "algebraic multigrid: smoothed aggregation, one V-cycle",
		Needs: krylov.SymmetricDefinite}, func(*precondition.Local) coarsener { return &aggregation{threshold: strong} })
}

// strong is the threshold for a strong coupling on the finest level, relative to the geometric mean of the two
// diagonals. It halves from level to level, because couplings spread out. It is smaller than the couplings of a
// 27-point stencil (1/26) and larger than couplings that are a hundred times weaker.
const strong = 0.02

// aggregation groups strongly coupled rows of a rank into aggregates, and smooths the piecewise constant interpolation
// from them by one step of damped Jacobi.
type aggregation struct {
	threshold float64
	of        []int32     // the aggregate of each row; none for a row without strong couplings
	strong    *sparse.CSR // strong couplings of each row, then one entry for the rest, which is added to the diagonal
}

const (
	none = -1
	free = -2 // not in an aggregate yet
)

// filter finds the strong couplings.
func (g *aggregation) filter(f *fine) error {
	diagonal, err := f.exchanged(func(i int) float64 { return f.diagonal[i] })
	if err != nil {
		return err
	}
	for i, d := range diagonal { // each of the two rows contributes a factor to the threshold
		diagonal[i] = g.threshold * math.Abs(d)
	}
	g.strong = sparse.NewCSR(f.space.own, f.rows.Entries())
	for i := range f.space.own {
		first, far, vals := f.rows.Row(i)
		least, rest := diagonal[i], 0.0
		for k, d := range far {
			c := first + d
			if v := vals[k]; int(c) != i && v*v > least*diagonal[c] {
				g.strong.Add(c, v)
			} else {
				rest += v
			}
		}
		g.strong.Add(int32(i), rest)
		g.strong.End()
	}
	return nil
}

// neighbours returns the positions of the rows that row i is strongly coupled to.
func (g *aggregation) neighbours(i int) []int32 {
	cols, _ := g.strong.Row(i)
	return cols[:len(cols)-1]
}

// pick makes the aggregates (Vanek, Mandel and Brezina, algorithm 1): first whole neighbourhoods, then rows join an
// adjacent aggregate, then the remaining rows form their own.
func (g *aggregation) pick(f *fine) (int, error) {
	if err := g.filter(f); err != nil {
		return 0, err
	}
	g.of = slices.Repeat([]int32{free}, f.space.own)
	count := g.neighbourhoods()
	whole := slices.Clone(g.of)
	for i := range g.of {
		if g.of[i] != free {
			continue
		}
		for _, at := range g.neighbours(i) {
			if int(at) < len(whole) && whole[at] >= 0 {
				g.of[i] = whole[at]
				break
			}
		}
	}
	for i := range g.of {
		if g.of[i] == free {
			g.claim(i, count)
			count++
		}
	}
	return int(count), nil
}

// neighbourhoods makes an aggregate of each row that is free together with all its strong neighbours.
func (g *aggregation) neighbourhoods() (count int32) {
	for i := range g.of {
		near := g.neighbours(i)
		whole := g.of[i] == free
		for k := 0; k < len(near) && whole; k++ {
			whole = int(near[k]) >= len(g.of) || g.of[near[k]] == free
		}
		switch {
		case len(near) == 0:
			g.of[i] = none
		case whole:
			g.claim(i, count)
			count++
		}
	}
	return count
}

// claim makes an aggregate of a row and its free strong neighbours.
func (g *aggregation) claim(i int, number int32) {
	g.of[i] = number
	for _, at := range g.neighbours(i) {
		if int(at) < len(g.of) && g.of[at] == free {
			g.of[at] = number
		}
	}
}

// interpolate returns P = (I - omega D^-1 A) T, where T is the piecewise constant interpolation and weak couplings of A
// are added to the diagonal. Where the rows of A add up to zero, P interpolates constants exactly.
func (g *aggregation) interpolate(f *fine, first int, coarse *space) (*sparse.Shapes, error) {
	ids, err := f.exchanged(func(i int) float64 {
		if g.of[i] < 0 {
			return none
		}
		return float64(first + int(g.of[i]))
	})
	if err != nil {
		return nil, err
	}
	to := make([]int32, len(ids)) // position of the aggregate of each row and ghost
	for i, id := range ids {
		if to[i] = none; id >= 0 {
			to[i] = coarse.place(int(id))
		}
	}
	omega := 4. / 3 / f.smoother.Largest()
	p := sparse.NewShapes(len(g.of), 2*len(g.of))
	sum := newAccumulator(coarse.width())
	for i, a := range g.of {
		if a < 0 {
			p.End()
			continue
		}
		cols, vals := g.strong.Row(i)
		last := len(cols) - 1
		diagonal := vals[last]
		if diagonal <= 0 {
			diagonal = f.diagonal[i]
		}
		sum.add(to[i], 1-omega)
		for k, c := range cols[:last] {
			if to[c] >= 0 {
				sum.add(to[c], -omega*vals[k]/diagonal)
			}
		}
		sum.flush(p)
	}
	g.threshold /= 2
	return p, nil
}
