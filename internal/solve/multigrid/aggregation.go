package multigrid

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
)

func init() {
	precondition.Register(precondition.Preconditioner{Name: "amg", Help: "algebraic multigrid: smoothed aggregation, one V-cycle",
		Needs: krylov.SymmetricDefinite,
		New:   func(l *precondition.Local) (krylov.Operator, error) { return build(l, &aggregation{threshold: strong}) }})
}

// strong is the part of the diagonals' geometric mean from which on rows of the finest level are
// strongly coupled; it halves from level to level, as couplings spread out. It is below that of a
// 27-point stencil (1/26) and above that of a hundred times weaker one.
const strong = 0.02

// aggregation gathers strongly coupled rows of a rank, and smooths the piecewise constant
// interpolation from them by one step of damped Jacobi.
type aggregation struct {
	threshold float64
	of        []int // the aggregate of each row, -1 for a row that is coupled to none
	diagonal  []float64
}

// coupled reports whether a row is strongly coupled to another unknown, at a place in a vector.
func (g *aggregation) coupled(i, at int, val float64) bool {
	return at != i && val*val > g.threshold*g.threshold*math.Abs(g.diagonal[i]*g.diagonal[at])
}

// free marks a row that is in no aggregate yet.
const free = -2

// pick makes the aggregates: whole neighbourhoods first, then rows beside one join it, then
// what is left (Vanek, Mandel and Brezina, algorithm 1).
func (g *aggregation) pick(f *fine) (int, error) {
	var err error
	if g.diagonal, err = f.exchanged(f.diagonal); err != nil {
		return 0, err
	}
	g.of = slices.Repeat([]int{free}, len(f.diagonal))
	count := g.neighbourhoods(f)
	whole := slices.Clone(g.of)
	for i := range g.of {
		if g.of[i] == free {
			g.each(f, i, func(at int) bool {
				if at < len(whole) && whole[at] >= 0 {
					g.of[i] = whole[at]
					return false
				}
				return true
			})
		}
	}
	for i := range g.of {
		if g.of[i] == free {
			g.claim(f, i, count)
			count++
		}
	}
	return count, nil
}

// neighbourhoods makes an aggregate of each row that is free with all its strong neighbours.
func (g *aggregation) neighbourhoods(f *fine) (count int) {
	for i := range g.of {
		alone, whole := true, g.of[i] == free
		g.each(f, i, func(at int) bool {
			alone = false
			whole = whole && (at >= len(g.of) || g.of[at] == free)
			return whole
		})
		switch {
		case alone:
			g.of[i] = -1
		case whole:
			g.claim(f, i, count)
			count++
		}
	}
	return count
}

// claim makes an aggregate of a row and its free strong neighbours.
func (g *aggregation) claim(f *fine, i, number int) {
	g.of[i] = number
	g.each(f, i, func(at int) bool {
		if at < len(g.of) && g.of[at] == free {
			g.of[at] = number
		}
		return true
	})
}

// each calls fn with the places of a row's strong neighbours, until it says no.
func (g *aggregation) each(f *fine, i int, fn func(at int) bool) {
	cols, vals := f.rows.row(i)
	for k, c := range cols {
		if at := f.local(c); g.coupled(i, at, vals[k]) && !fn(at) {
			return
		}
	}
}

// interpolate smooths: P = (I - omega D^-1 A) times the aggregates' ones, where weak couplings are
// added to the diagonal. A constant stays one wherever the rows of A have the sum zero.
func (g *aggregation) interpolate(f *fine, first int, owners share) (*rows, error) {
	ids := make([]float64, len(g.of))
	for i, a := range g.of {
		if ids[i] = -1; a >= 0 {
			ids[i] = float64(first + a)
		}
	}
	ids, err := f.exchanged(ids)
	if err != nil {
		return nil, err
	}
	omega := 4. / 3 / f.smoother.Largest()
	p := newRows(len(g.of), 2*len(g.of))
	sum := newAccumulator(owners, f.team.Rank())
	for i := range g.of {
		if g.of[i] < 0 {
			p.end()
			continue
		}
		cols, vals := f.rows.row(i)
		diagonal := 0.0
		for k, c := range cols {
			if at := f.local(c); !g.coupled(i, at, vals[k]) {
				diagonal += vals[k]
			}
		}
		if diagonal <= 0 {
			diagonal = f.diagonal[i]
		}
		sum.add(int(ids[i]), 1-omega)
		for k, c := range cols {
			if at := f.local(c); g.coupled(i, at, vals[k]) && ids[at] >= 0 {
				sum.add(int(ids[at]), -omega*vals[k]/diagonal)
			}
		}
		sum.flush(p)
	}
	g.threshold /= 2
	return p, nil
}
