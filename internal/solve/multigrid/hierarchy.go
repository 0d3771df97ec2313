package multigrid

import (
	"math"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// lastRows is the number of rows from which on a level is factored. Tests take less.
var lastRows = 300

const (
	// stalled is the part of the unknowns that a coarser level may have at most.
	stalled = 0.8
	// mostLevels ends a hierarchy that would not.
	mostLevels = 30
	// The smoother: it is to make small the upper part of the spectrum, which the
	// coarser level does not see.
	smootherDegree = 2
	smootherRatio  = 4
)

// fine is a level while the next coarser one is being made.
type fine struct {
	team     precondition.Team
	rows     *rows
	share    share
	diagonal []float64
	square   precondition.Square
	ghost    map[int]int // the place of an unknown of another rank in a vector
	smoother *precondition.Chebyshev
}

// first is the number of the rank's first unknown.
func (f *fine) first() int { return f.share[f.team.Rank()] }

// local is the place of an unknown in a vector.
func (f *fine) local(id int) int {
	if k := id - f.first(); k >= 0 && k < len(f.diagonal) {
		return k
	}
	return f.ghost[id]
}

// exchanged is a vector with its ghosts.
func (f *fine) exchanged(owned []float64) ([]float64, error) {
	v := make([]float64, max(1, f.square.Matrix.Columns()))
	copy(v, owned)
	if err := f.square.Halo.Start(v); err != nil {
		return nil, err
	}
	return v, f.square.Halo.Finish(v)
}

// A coarsener chooses coarse unknowns and interpolates from them.
type coarsener interface {
	// pick chooses among a rank's own unknowns, and gives their number.
	pick(f *fine) (int, error)
	// interpolate gives the rank's rows of P. The unknowns that it picked have the numbers from
	// first on, and will belong to the owners.
	interpolate(f *fine, first int, owners share) (*rows, error)
}

// numbered counts unknowns rank by rank.
func numbered(team precondition.Team, own int) (share, error) {
	counts := make([]float64, team.Size())
	counts[team.Rank()] = float64(own)
	counts, err := team.Sum(counts)
	out := make(share, len(counts)+1)
	for r, n := range counts {
		out[r+1] = out[r] + int(n)
	}
	return out, err
}

// finest is the matrix itself, its unknowns numbered rank by rank.
func finest(l *precondition.Local) (*fine, error) {
	f := &fine{team: l.Team, square: precondition.Square{Matrix: l.Matrix, Halo: l.Halo}, ghost: map[int]int{},
		diagonal: make([]float64, l.Plan.Owned), rows: newRows(l.Plan.Owned, l.Matrix.Entries())}
	var err error
	if f.share, err = numbered(l.Team, l.Plan.Owned); err != nil {
		return nil, err
	}
	ids := make([]float64, l.Plan.Owned)
	for i := range ids {
		ids[i] = float64(f.first() + i)
	}
	if ids, err = f.exchanged(ids); err != nil {
		return nil, err
	}
	far := make(map[int]int, len(l.Plan.Ghosts))
	for k, g := range l.Plan.Ghosts {
		id := int(ids[l.Plan.Owned+k])
		far[g], f.ghost[id] = id, l.Plan.Owned+k
	}
	err = l.EachRow(func(_, _ int, r *sparse.Row) error {
		for k, c := range r.Cols {
			if own := l.Plan.Local(c); own >= 0 {
				f.rows.add(f.first()+own, r.Vals[k])
			} else {
				f.rows.add(far[c], r.Vals[k])
			}
		}
		f.rows.end()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, f.prepare()
}

// prepare finds the diagonal and the smoother.
func (f *fine) prepare() error {
	inverse := make([]float64, len(f.diagonal))
	for i := range f.diagonal {
		cols, vals := f.rows.row(i)
		for k, c := range cols {
			if c == f.first()+i {
				f.diagonal[i] += vals[k]
			}
		}
		if inverse[i] = 1; f.diagonal[i] != 0 { // a coarse unknown that nothing depends on
			inverse[i] = 1 / f.diagonal[i]
		}
	}
	var err error
	f.smoother, err = precondition.NewChebyshev(f.square, inverse, smootherDegree, smootherRatio, f.team,
		func(i int) int { return f.first() + i })
	return err
}

// build makes all levels.
func build(l *precondition.Local, c coarsener) (krylov.Operator, error) {
	f, err := finest(l)
	if err != nil {
		return nil, err
	}
	out := &Cycle{}
	for {
		lv, err := newLevel(f)
		if err != nil {
			return nil, err
		}
		out.levels = append(out.levels, lv)
		if f.share.total() <= lastRows && f.share.alone() || len(out.levels) == mostLevels {
			break
		}
		next, err := lv.coarsen(f, c)
		if err != nil {
			return nil, err
		}
		if next == nil {
			break
		}
		f = next
	}
	last := out.levels[len(out.levels)-1]
	if f.share.alone() && f.share.total() <= lastRows {
		last.factor, err = factored(f)
	}
	return out, l.Agree(err)
}

// newLevel makes the vectors of a level.
func newLevel(f *fine) (*level, error) {
	width := f.square.Matrix.Columns()
	lv := &level{a: f.square, smoother: f.smoother, owned: len(f.diagonal),
		x: make([]float64, width), t: make([]float64, width), b: make([]float64, len(f.diagonal))}
	sums, err := f.team.Sum([]float64{float64(len(f.diagonal)), float64(len(f.rows.cols))})
	if err != nil {
		return nil, err
	}
	lv.rows, lv.entries = sums[0], sums[1]
	return lv, nil
}

// coarsen makes the next level, or nil where there is none.
func (lv *level) coarsen(f *fine, c coarsener) (*fine, error) {
	own, err := c.pick(f)
	if err != nil {
		return nil, err
	}
	numbers, err := numbered(f.team, own)
	if err != nil {
		return nil, err
	}
	if n := numbers.total(); n == 0 || float64(n) > stalled*float64(f.share.total()) && f.share.total() > 1 {
		return nil, nil
	}
	owners := numbers.gathered()
	p, err := c.interpolate(f, numbers[f.team.Rank()], owners)
	if err != nil {
		return nil, err
	}
	r, err := transpose(f.team, p, f.first(), owners)
	if err != nil {
		return nil, err
	}
	if lv.p, err = assemble(f.team, p, owners); err != nil {
		return nil, err
	}
	if lv.r, err = assemble(f.team, r, f.share); err != nil {
		return nil, err
	}
	coarse, err := galerkin(f.team, f.rows, f.share, p, owners)
	if err != nil {
		return nil, err
	}
	next := &fine{team: f.team, rows: coarse, share: owners, diagonal: make([]float64, coarse.count()), ghost: map[int]int{}}
	a, err := assemble(f.team, coarse, owners)
	if err != nil {
		return nil, err
	}
	next.square = a.Square
	for k, id := range a.ghosts {
		next.ghost[id] = a.owned + k
	}
	return next, next.prepare()
}

// factored is the Cholesky factor of a level that belongs to one rank; nil on the others.
func factored(f *fine) (*cholesky, error) {
	n := f.rows.count()
	if n == 0 {
		return nil, nil
	}
	dense := make([]float64, n*n)
	for i := range n {
		cols, vals := f.rows.row(i)
		for k, c := range cols {
			dense[i*n+c-f.first()] += vals[k]
		}
	}
	return newCholesky(dense, n)
}

// cholesky is the lower factor of a symmetric matrix, row by row.
type cholesky struct {
	n     int
	lower []float64
}

// tiny is the part of its diagonal from which on a pivot is rounding: such an unknown is
// left as it is, which is right where the matrix is singular and the right-hand side allows it.
const tiny = 1e-12

func newCholesky(a []float64, n int) (*cholesky, error) {
	for i := range n {
		for j := 0; j <= i; j++ {
			sum := a[i*n+j]
			for k := range j {
				sum -= a[i*n+k] * a[j*n+k]
			}
			switch pivot := a[j*n+j]; {
			case i == j && sum < -1e-8*math.Abs(a[i*n+i]):
				return nil, errNotDefinite
			case i == j && sum <= tiny*a[i*n+i]:
				a[i*n+i] = 0
			case i == j:
				a[i*n+i] = math.Sqrt(sum)
			case pivot == 0:
				a[i*n+j] = 0
			default:
				a[i*n+j] = sum / pivot
			}
		}
	}
	return &cholesky{n, a}, nil
}

// solve sets x to the solution for b.
func (c *cholesky) solve(x, b []float64) {
	n := c.n
	for i := range n {
		sum := b[i]
		for k := range i {
			sum -= c.lower[i*n+k] * x[k]
		}
		if x[i] = 0; c.lower[i*n+i] != 0 {
			x[i] = sum / c.lower[i*n+i]
		}
	}
	for i := n - 1; i >= 0; i-- {
		sum := x[i]
		for k := i + 1; k < n; k++ {
			sum -= c.lower[k*n+i] * x[k]
		}
		if x[i] = 0; c.lower[i*n+i] != 0 {
			x[i] = sum / c.lower[i*n+i]
		}
	}
}
