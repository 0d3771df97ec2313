package multigrid

import (
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// A smoother removes the part of the error that a coarser level cannot represent.
type smoother interface {
	// before improves the solution x of A x = b, on the way to the coarser level. If fresh, it takes x as zero.
	before(x, b []float64, fresh bool) error
	// after does the same on the way back. It is the adjoint of before, so that the whole cycle is symmetric.
	after(x, b []float64) error
	// work returns the memory traffic in bytes and the operations of before or after.
	work() (bytes, flops float64)
}

// newSmoother sets the smoother of a level up. In a hierarchy of aggregates the degree of the polynomial grows by one
// from level to level, beginning with the second coarse one. A V-cycle solves each level only approximately, so errors
// add up from level to level, and with the same degree on all of them the iterations grow with the size: by 1.36 from
// 1e5 to 1e7 unknowns in 3-D, instead of 1.2. These levels are small: cycles move 1 to 3 % more bytes.
//
// inverse holds the reciprocals of the diagonal, and bound is an upper bound of the eigenvalues of D^-1 A from the rows
// of this rank.
func newSmoother(f *fine, inverse []float64, bound float64) (err error) {
	degree, ratio, times := f.options.Sweeps, float64(smootherRatio), 1
	if f.options.Smoother == precondition.SmoothJacobi {
		degree, ratio, times = 1, jacobiRatio, degree
	} else if more := f.depth - 1; f.deepens && more > 0 {
		degree, ratio = degree+more, ratio+float64(ratioPerDegree*more)
	}
	c, err := precondition.NewChebyshev(f.square, inverse, bound, degree, ratio, f.team,
		func(i int) int { return f.space.first + i })
	if err != nil {
		return err
	}
	f.largest, f.smoother = c.Largest(), polynomial{c, times}
	if f.options.Smoother == precondition.SmoothGaussSeidel {
		f.smoother = newGaussSeidel(f, f.options.Sweeps)
	}
	return nil
}

// polynomial smooths by a Chebyshev polynomial, several times.
type polynomial struct {
	*precondition.Chebyshev
	times int
}

func (p polynomial) before(x, b []float64, fresh bool) error {
	for k := range p.times {
		if err := p.Smooth(x, b, fresh && k == 0); err != nil {
			return err
		}
	}
	return nil
}

func (p polynomial) after(x, b []float64) error { return p.before(x, b, false) }

func (p polynomial) work() (bytes, flops float64) {
	return float64(p.times * p.Bytes()), float64(p.times) * p.Flops()
}

// gaussSeidel relaxes the rows of a rank one after the other: forward before the coarse correction, backward after it.
// For rows of other ranks it uses the values from before the sweep.
type gaussSeidel struct {
	a       precondition.Square
	rows    *sparse.Shapes
	inverse []float64
	sweeps  int
}

// newGaussSeidel adds half of the couplings to other ranks to the diagonal, which makes sweeps converge on any number
// of ranks (Baker, Falgout, Kolev and Yang, 2011).
func newGaussSeidel(f *fine, sweeps int) *gaussSeidel {
	g := &gaussSeidel{a: f.square, rows: f.rows, inverse: make([]float64, f.space.own), sweeps: sweeps}
	for i := range g.inverse {
		first, offsets, vals := f.rows.Row(i)
		diagonal := f.diagonal[i]
		for k, d := range offsets {
			if int(first+d) >= f.space.own {
				diagonal += max(vals[k], -vals[k]) / 2
			}
		}
		if diagonal != 0 {
			g.inverse[i] = 1 / diagonal
		}
	}
	return g
}

func (g *gaussSeidel) before(x, b []float64, fresh bool) error {
	if fresh {
		clear(x)
	}
	for k := range g.sweeps {
		if !fresh || k > 0 {
			if err := g.a.Exchange(x); err != nil {
				return err
			}
		}
		for i := range g.inverse {
			g.relax(i, x, b)
		}
	}
	return nil
}

func (g *gaussSeidel) after(x, b []float64) error {
	for range g.sweeps {
		if err := g.a.Exchange(x); err != nil {
			return err
		}
		for i := len(g.inverse) - 1; i >= 0; i-- {
			g.relax(i, x, b)
		}
	}
	return nil
}

// relax changes x[i] so that the equation of row i holds.
func (g *gaussSeidel) relax(i int, x, b []float64) {
	first, offsets, vals := g.rows.Row(i)
	vals = vals[:len(offsets)]
	sum := b[i]
	for k, d := range offsets {
		sum -= vals[k] * x[first+d]
	}
	x[i] += sum * g.inverse[i]
}

func (g *gaussSeidel) work() (bytes, flops float64) {
	rows, sweeps := float64(len(g.inverse)), float64(g.sweeps)
	// 12 bytes for each stored entry; 8 for the place of each row; b and the diagonal, and x twice
	return sweeps * (12*float64(g.rows.Stored()) + 40*rows), sweeps * (2*float64(g.rows.Entries()) + 2*rows)
}
