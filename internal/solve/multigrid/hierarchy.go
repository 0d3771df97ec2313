package multigrid

import (
	"math"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// lastRows is the largest number of rows of a level that is factored. Tests reduce it.
var lastRows = 300

const (
	// stalled is the largest ratio of the unknowns of two consecutive levels. Above it, coarsening saves too little work
	// and the hierarchy ends.
	stalled = 0.8
	// maxLevels limits the number of levels.
	maxLevels = 30
	// smootherRatio is the part of the spectrum that the smoother damps, the upper three quarters. The coarser level
	// cannot represent it. Polynomials of a higher degree than asked for damp a larger part: each additional degree adds
	// ratioPerDegree.
	smootherRatio  = 4
	ratioPerDegree = 2
	// jacobiRatio makes a polynomial of degree 1 a Jacobi step that is damped by 4/3 over the largest eigenvalue.
	jacobiRatio = 2
)

// Hierarchy describes the levels of a multigrid preconditioner, the finest first.
type Hierarchy struct {
	Sizes []Size
	trace func(level int)
}

// Size is the number of rows and entries of the matrix of a level, over all ranks.
type Size struct{ Rows, Entries float64 }

// newSize adds up the sizes of all ranks.
func newSize(team precondition.Team, rows, entries int) (Size, error) {
	sums, err := team.Sum([]float64{float64(rows), float64(entries)})
	if err != nil {
		return Size{}, err
	}
	return Size{sums[0], sums[1]}, nil
}

// Levels returns the number of levels.
func (h *Hierarchy) Levels() int { return len(h.Sizes) }

// Size returns the number of rows and entries of the matrix of a level, over all ranks.
func (h *Hierarchy) Size(level int) (rows, entries float64) {
	return h.Sizes[level].Rows, h.Sizes[level].Entries
}

// Complexities returns the entries and the unknowns of all levels, relative to the finest.
func (h *Hierarchy) Complexities() (operator, grid float64) {
	for _, s := range h.Sizes {
		operator += s.Entries / max(1, h.Sizes[0].Entries)
		grid += s.Rows / max(1, h.Sizes[0].Rows)
	}
	return operator, grid
}

// Trace makes fn the function that is called whenever work on a level begins, on the way down and up; nil removes it.
func (h *Hierarchy) Trace(fn func(level int)) { h.trace = fn }

func (h *Hierarchy) enter(level int) {
	if h.trace != nil {
		h.trace(level)
	}
}

// fine is a level while the next coarser level is being made.
type fine struct {
	team     precondition.Team
	space    *space
	rows     *sparse.Shapes // columns are positions in space
	diagonal []float64
	square   precondition.Square
	smoother smoother
	largest  float64       // estimate of the largest eigenvalue of D^-1 A
	format   sparse.Format // storage format of coarser matrices
	options  precondition.Multigrid
	vector   []float64 // buffer of exchanged
	depth    int       // 0 for the finest level
	deepens  bool      // the degree of the smoothing polynomial grows from level to level
}

// exchanged returns a vector of the rank's values and their ghosts. It is valid until the next call.
func (f *fine) exchanged(value func(i int) float64) ([]float64, error) {
	if f.vector == nil {
		f.vector = make([]float64, max(1, f.square.Matrix.Columns()))
	}
	for i := range f.space.own {
		f.vector[i] = value(i)
	}
	return f.vector, f.square.Exchange(f.vector)
}

// positions returns the position in the coarse space that belongs to each row and ghost, or none. of holds the coarse
// unknown of each row, counted from the rank's first, or none.
func (f *fine) positions(of []int32, first int, coarse *space) ([]int32, error) {
	ids, err := f.exchanged(func(i int) float64 {
		if of[i] < 0 {
			return none
		}
		return float64(first + int(of[i]))
	})
	if err != nil {
		return nil, err
	}
	return lists.Map(ids, func(id float64) int32 {
		if id < 0 {
			return none
		}
		return coarse.place(int(id))
	}), nil
}

// A coarsener chooses coarse unknowns and interpolates from them.
type coarsener interface {
	// pick chooses coarse unknowns among the rank's own and returns how many it chose.
	pick(f *fine) (int, error)
	// interpolate returns the rank's rows of P. The unknowns that pick chose have consecutive numbers, beginning with
	// first. Columns are positions in the coarse space, whose strips say which rank will own them.
	interpolate(f *fine, first int, coarse *space) (*sparse.Shapes, error)
}

// choice returns the coarsener for a matrix, given its finest level.
type choice func(l *precondition.Local, f *fine) (coarsener, error)

// last reports whether the level is small and owned by one rank.
func (f *fine) last() bool {
	n := f.space.Total()
	return n <= lastRows && f.space.Of(f.space.Owner(0)) == n
}

// numbered assigns numbers to unknowns rank by rank.
func numbered(team precondition.Team, own int) (sparse.Strips, error) {
	counts := make([]float64, team.Size())
	counts[team.Rank()] = float64(own)
	counts, err := team.Sum(counts)
	out := make(sparse.Strips, len(counts)+1)
	for r, n := range counts {
		out[r+1] = out[r] + int(n)
	}
	return out, err
}

// finest returns the matrix itself as a level, with its unknowns numbered rank by rank.
func finest(l *precondition.Local, format sparse.Format) (*fine, error) {
	f := &fine{team: l.Team, square: precondition.Square{Matrix: l.Matrix, Halo: l.Halo}, rows: l.Matrix.Shapes(),
		format: format, options: l.Multigrid.WithDefaults()}
	shares, err := numbered(l.Team, l.Plan.Owned)
	if err != nil {
		return nil, err
	}
	if format != sparse.Compressed {
		if f.square.Matrix, err = f.rows.Matrix(l.Matrix.Columns(), format); err != nil {
			return nil, err
		}
	}
	f.space = newSpace(shares, l.Team.Rank())
	ids, err := f.exchanged(func(i int) float64 { return float64(f.space.first + i) })
	if err != nil {
		return nil, err
	}
	for _, id := range ids[l.Plan.Owned : l.Plan.Owned+len(l.Plan.Ghosts)] { // the numbers ascend
		f.space.place(int(id))
	}
	return f, f.prepare()
}

// prepare computes the diagonal and sets up the smoother. By Gershgorin's theorem no eigenvalue of D^-1 A exceeds the
// largest sum of magnitudes in a row of D^-1 A.
func (f *fine) prepare() error {
	f.diagonal = make([]float64, f.space.own)
	inverse := make([]float64, f.space.own)
	bound := 0.0
	for i := range f.diagonal {
		if f.rows.Follows(i, 1, 1) {
			f.diagonal[i], inverse[i] = f.diagonal[i-1], inverse[i-1]
			continue
		}
		first, offsets, vals := f.rows.Row(i)
		sum := 0.0
		for k, d := range offsets {
			if sum += math.Abs(vals[k]); int(first+d) == i {
				f.diagonal[i] += vals[k]
			}
		}
		if inverse[i] = 1; f.diagonal[i] != 0 { // zero for a coarse unknown that nothing depends on
			inverse[i] = 1 / f.diagonal[i]
		}
		bound = max(bound, sum*math.Abs(inverse[i]))
	}
	return newSmoother(f, inverse, bound)
}

// register registers a preconditioner, and variants of it whose cycle stores its matrices with shorter values. They
// move fewer bytes and are accurate enough for a preconditioner. The arithmetic, the vectors and the method around the
// cycle stay in double precision.
func register(p precondition.Preconditioner, choose choice) {
	for _, v := range []struct {
		format       sparse.Format
		suffix, help string
	}{
		{format: sparse.Compressed},
		{sparse.Single, "-f32", "the same with its matrices in single precision"},
		{sparse.Bfloat16, "-bf16", "the same with the couplings of its matrices in bfloat16"},
	} {
		q := p
		if v.suffix != "" {
			q.Name, q.Help, q.Levels = p.Name+v.suffix, v.help, p.Levels|precondition.RoundedLevels
			q.Trial = 0
		}
		if v.format == sparse.Single {
			q.Improves = p.Name
		}
		q.New = func(l *precondition.Local) (krylov.Operator, error) { return build(l, choose, v.format) }
		precondition.Preconditioners.Register(q)
	}
}

// betweenLevels returns the format of restriction and interpolation. Bfloat16 is for square matrices: there is no
// diagonal entry that could keep the sums of the rows, and without them P would not interpolate constants.
func betweenLevels(format sparse.Format) sparse.Format {
	if format == sparse.Bfloat16 {
		return sparse.Single
	}
	return format
}

// build makes all levels.
func build(l *precondition.Local, choose choice, format sparse.Format) (krylov.Operator, error) {
	f, err := finest(l, format)
	if err != nil {
		return nil, err
	}
	c, err := choose(l, f)
	if err != nil {
		return nil, err
	}
	out := &Cycle{kind: f.options.Cycle, team: l.Team}
	for {
		lv, err := newLevel(f)
		if err != nil {
			return nil, err
		}
		out.levels, out.Sizes = append(out.levels, lv), append(out.Sizes, lv.size)
		if f.last() || len(out.levels) == maxLevels {
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
	if last.direct = f.last() && f.options.Coarsest == precondition.CoarsestDirect; last.direct {
		last.factor, err = factorOf(f, l.Traits.Singular)
	}
	for l := 1; l < len(out.levels)-1 && out.kind != precondition.CycleV; l++ {
		out.levels[l].revisit = newRevisit(out.levels[l])
	}
	return out, l.Agree(err)
}

// newLevel allocates the vectors of a level.
func newLevel(f *fine) (*level, error) {
	lv := &level{a: f.square, smoother: f.smoother, owned: len(f.diagonal), b: make([]float64, len(f.diagonal))}
	var err error
	lv.size, err = newSize(f.team, len(f.diagonal), f.rows.Entries())
	return lv, err
}

// coarsen makes the next level. It returns nil if there is none.
func (lv *level) coarsen(f *fine, c coarsener) (*fine, error) {
	own, err := c.pick(f)
	if err != nil {
		return nil, err
	}
	numbers, err := numbered(f.team, own)
	if err != nil {
		return nil, err
	}
	if n := numbers.Total(); n == 0 || float64(n) > stalled*float64(f.space.Total()) && f.space.Total() > 1 {
		return nil, nil
	}
	coarse := newSpace(gathered(numbers), f.team.Rank())
	p, err := c.interpolate(f, numbers[f.team.Rank()], coarse)
	if err != nil {
		return nil, err
	}
	return lv.descend(f, p, coarse)
}

// descend makes restriction, interpolation and the coarse matrix from the rank's rows of P.
func (lv *level) descend(f *fine, p *sparse.Shapes, coarse *space) (*fine, error) {
	r := transposed(p, coarse.width())
	own := *p
	if err := fetch(f.team, p, f.space, coarse); err != nil {
		return nil, err
	}
	rows, err := galerkin(f.team, f.rows, p, r, coarse)
	if err != nil {
		return nil, err
	}
	if lv.p, err = assemble(f.team, &own, coarse.clone(), betweenLevels(f.format)); err != nil {
		return nil, err
	}
	known := f.space.clone()
	if r, err = restriction(f.team, r, known, coarse); err != nil {
		return nil, err
	}
	if lv.r, err = assemble(f.team, r, known, betweenLevels(f.format)); err != nil {
		return nil, err
	}
	a, err := assemble(f.team, rows, coarse, f.format)
	if err != nil {
		return nil, err
	}
	// lv.p.x also holds the solution of the next level, which has other ghosts
	if more := a.Matrix.Columns() - len(lv.p.x); more > 0 {
		lv.p.x = append(lv.p.x, make([]float64, more)...)
	}
	next := &fine{team: f.team, space: coarse, rows: rows, square: a.Square, format: f.format, options: f.options,
		depth: f.depth + 1, deepens: f.deepens}
	return next, next.prepare()
}

// factorOf returns the Cholesky factor of a level on the rank that owns it, and nil on other ranks. If the matrix is
// singular, its null space is the constants. Then a constant is added to every entry, which makes the matrix definite
// and does not change solutions that add up to zero.
func factorOf(f *fine, singular bool) (*cholesky, error) {
	n := f.rows.Rows()
	if n == 0 {
		return nil, nil
	}
	dense := make([]float64, n*n)
	for i := range n {
		first, offsets, vals := f.rows.Row(i)
		for k, d := range offsets {
			dense[i*n+int(first+d)] += vals[k]
		}
	}
	if singular {
		shift := 0.0
		for _, d := range f.diagonal {
			shift += d / float64(n*n)
		}
		for i := range dense {
			dense[i] += shift
		}
	}
	return newCholesky(dense, n)
}

// cholesky is the lower factor of a symmetric matrix, row by row.
type cholesky struct {
	n     int
	lower []float64
}

// tiny is the size of a pivot, relative to its diagonal, below which the pivot is only rounding error. Such an unknown
// is set to zero, which is right if the matrix is singular and the system has a solution.
const tiny = 1e-12

// newCholesky factors a dense symmetric matrix of n rows, which it overwrites. It returns an error if the matrix is
// not positive semidefinite.
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
