package krylov

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Phase is a part of an iteration that is timed separately.
type Phase int

// The phases of an iteration. The caller of the engine times AllReduce; the engine reports all others.
const (
	SpMV      Phase = iota // the product with the matrix
	HaloPack               // starting to send ghosts
	HaloWait               // waiting for ghosts
	Dots                   // local parts of the scalar products
	AllReduce              // adding up the scalar products over the ranks
	Updates                // vector updates, including a diagonal preconditioner
	Precond                // a non-diagonal preconditioner, including its communication
	Other                  // everything else, such as the scalar arithmetic of the method
	NumPhases
)

// String returns the name of the phase in metrics.
func (p Phase) String() string {
	if p < 0 || p >= NumPhases {
		return fmt.Sprintf("Phase(%d)", int(p))
	}
	return [...]string{"spmv", "halo_pack", "halo_wait", "dots", "allreduce", "updates", "precond", "other"}[p]
}

// Work is what a phase does: how often it runs, the bytes that it moves, and its operations. For a phase that
// communicates, Bytes counts what this rank sends and receives.
type Work struct{ Count, Bytes, Flops float64 }

// Add adds a run of the phase.
func (w *Work) Add(bytes, flops float64) {
	w.Count++
	w.Bytes += bytes
	w.Flops += flops
}

// Halo updates the ghosts of a vector, or of a block vector of width columns. Start is called when the values of the
// boundary rows are final, and must not wait. Finish is called when the ghosts are needed.
type Halo interface {
	Start(v []float64, width int) error
	Finish(v []float64, width int) error
}

// NoHalo is the Halo of a matrix without ghosts.
type NoHalo struct{}

func (NoHalo) Start([]float64, int) error { return nil }

func (NoHalo) Finish([]float64, int) error { return nil }

// Engine carries out stages on the rows of one rank. It fuses all operations of a stage on a row into one pass over
// memory. The product follows a block of rows behind, while the block is still in the first-level cache. So a stage
// moves every vector through memory once, however many operations it has.
//
// An overlapping stage leaves its product to the pass of the next stage, which uses it row by row, so that the product
// is never stored. The exception are rows that are multiplied while the reduction is in flight.
type Engine struct {
	// Trace, if set, is called when a phase starts. It costs two calls per block, so it shows the shares of the phases,
	// not the exact time.
	Trace func(Phase)
	// Begin, if set, receives this rank's parts of the scalar products of an overlapping stage before the rest of the
	// stage runs. It must not wait.
	Begin func(sums []float64) error
	// Underway, if set, reports whether the reduction that Begin started is still in flight. While it is, the engine
	// already computes the product that would otherwise be left to the next stage.
	Underway func() bool

	matrix   *sparse.Matrix
	interior []sparse.Range
	boundary []sparse.Range
	operator Operator // the preconditioner, unless it is a diagonal
	inverse  Diagonal
	vectors  [][]float64
	sums     []float64
	before   sparse.Sweep  // operations on rows before the product
	after    sparse.Sweep  // operations on rows after the product
	dots     *sparse.Sweep // before or after, whichever takes the scalar products
	computed int           // interior rows up to this one of the left product are computed
	block    []float64     // rows of the product that the previous stage left
	leftVec  Vec           // destination of the last product that was left, unless assigned since; X means none
	in, next int           // next interior range and row to multiply
}

// blockRows is the number of rows that the engine works on at a time if a product follows. The rows of a few vectors
// fit in the first-level cache.
const blockRows = 256

// Long vectors start at a page boundary. The same rows of all vectors would then share a few sets of the first-level
// cache, which are too small for them if two ranks share the cache. So each vector starts some cache lines further.
const (
	page        = 4096 / 8   // values per page
	vectorShift = 9 * 64 / 8 // distance between the starts of consecutive vectors, modulo a page: 9 cache lines
)

// NewEngine allocates the vectors of a solve. operator is the preconditioner, or nil.
func NewEngine(m *sparse.Matrix, plan *sparse.Plan, operator Operator, vectors int) *Engine {
	e := &Engine{matrix: m, interior: plan.Interior, boundary: plan.Boundary, operator: operator,
		vectors: make([][]float64, vectors), block: make([]float64, blockRows)}
	if d, fused := operator.(Diagonal); fused {
		e.operator, e.inverse = nil, d
	}
	for i := range e.vectors {
		e.vectors[i] = newVector(m.Columns(), i)
	}
	return e
}

// newVector returns the i-th vector of a solve, of n values.
func newVector(n, i int) []float64 {
	return sparse.NewVector[float64](n + page)[i*vectorShift%page:][:n:n]
}

// Vector returns the owned part of a vector.
func (e *Engine) Vector(v Vec) []float64 { return e.vectors[v][:e.matrix.Rows()] }

// Padded returns a vector with its ghosts.
func (e *Engine) Padded(v Vec) []float64 { return e.vectors[v] }

// Bytes returns the memory of the vectors.
func (e *Engine) Bytes() int { return 8 * len(e.vectors) * e.matrix.Columns() }

// ForgetGhosts sets the ghosts of all vectors to zero, as if no other rank had rows.
func (e *Engine) ForgetGhosts() {
	for _, v := range e.vectors {
		clear(v[e.matrix.Rows():])
	}
}

// Run carries out a stage and returns this rank's parts of its scalar products. The slice is valid until the next call.
// Ghosts are in flight while the engine works on the interior rows.
func (e *Engine) Run(s *Stage, halo Halo) ([]float64, error) {
	stored := s.precondition != nil && e.operator != nil
	e.compile(s, stored)
	follows := s.multiply != nil && !s.overlaps && !stored // the product follows one block behind
	e.in, e.next = 0, 0
	for _, r := range e.boundary {
		e.update(s, r, 0, false)
	}
	if s.multiply != nil && !stored {
		if err := e.start(s, halo); err != nil {
			return nil, err
		}
	}
	for _, r := range e.interior {
		e.update(s, r, e.computed, follows)
	}
	if s.overlaps && e.Begin != nil {
		e.enter(Other)
		if err := e.Begin(e.add(s)); err != nil {
			return nil, err
		}
	}
	if stored {
		if err := e.precondition(s, halo); err != nil {
			return nil, err
		}
	}
	if err := e.product(s, halo); err != nil {
		return nil, err
	}
	e.enter(Other)
	return e.add(s), nil
}

// compile translates a stage into operations on rows. Scalar products are taken in the same pass, unless they need the
// product or the result of a preconditioner that works on all rows.
func (e *Engine) compile(s *Stage, stored bool) {
	e.before.Reset()
	e.after.Reset()
	for _, a := range s.assign {
		if len(a.terms) == 0 {
			e.before.Zero()
		}
		for _, t := range a.terms {
			if s.left != nil && t.Vec == s.left.dst {
				e.before.AddBlock(t.Coef)
			} else {
				v, by := e.part(t.Vec)
				e.before.Add(t.Coef, v, by)
			}
		}
		e.store(s, a.dst)
	}
	precondition := func() {
		if s.precondition != nil && !stored {
			v, _ := e.part(s.precondition.src)
			e.before.Add(1, v, e.inverse)
			e.store(s, s.precondition.dst)
		}
	}
	if !s.overlaps {
		precondition()
	}
	if e.dots = &e.before; !s.overlaps && (s.multiply != nil || stored) {
		e.dots = &e.after
	}
	for _, d := range s.dots {
		x, _ := e.part(d.a)
		y, by := e.part(d.b)
		e.dots.Dot(x, y, by)
	}
	if s.overlaps {
		precondition()
	}
	if s.multiply != nil {
		e.part(s.multiply.src) // panics if the vector does not exist
	}
}

// part returns the owned part of a vector, and the vector that multiplies it, or nil.
func (e *Engine) part(v Vec) (rows, by []float64) {
	stored, inverted := v.of()
	if stored == e.leftVec && e.leftVec != X {
		panic(fmt.Sprintf("krylov: vector %d is a product that was left to the stage after it, as a term", stored))
	}
	if inverted {
		by = e.inverse
	}
	return e.Vector(stored), by
}

// store assigns the sum of the terms to dst.
func (e *Engine) store(s *Stage, dst Vec) {
	if s.left != nil && (dst == s.left.src || dst == s.left.dst) {
		panic(fmt.Sprintf("krylov: vector %d is assigned while its product is still to be made", dst))
	}
	if dst == e.leftVec {
		e.leftVec = X
	}
	e.before.Store(e.Vector(dst))
}

// add returns this rank's parts of the scalar products.
func (e *Engine) add(s *Stage) []float64 {
	e.sums = e.sums[:0]
	for k := range s.dots {
		e.sums = append(e.sums, e.dots.Sum(k))
	}
	return e.sums
}

func (e *Engine) enter(p Phase) {
	if e.Trace != nil {
		e.Trace(p)
	}
}

// update does the operations before the product on a range of rows. On the way it computes the product that the
// previous stage left, except for rows below computed.
func (e *Engine) update(s *Stage, r sparse.Range, computed int, follows bool) {
	for lo := r.Lo; lo < r.Hi; lo += blockRows {
		hi := min(lo+blockRows, r.Hi)
		var block []float64
		switch {
		case !e.before.TakesBlock():
		case hi <= computed:
			block = e.vectors[s.left.dst][lo:hi]
		default:
			e.enter(SpMV)
			block = e.block
			e.matrix.Product(block, e.vectors[s.left.src], lo, hi)
		}
		e.enter(Updates)
		e.before.Run(lo, hi, block)
		if follows { // a row can be multiplied once the vector is final up to the reach of the matrix
			e.multiplyInterior(s, hi-e.matrix.Reach())
		}
	}
}

// start starts to send the values that the product needs.
func (e *Engine) start(s *Stage, halo Halo) error {
	e.enter(HaloPack)
	return halo.Start(e.vectors[s.multiply.src], 1)
}

// precondition applies a preconditioner that is not a diagonal.
func (e *Engine) precondition(s *Stage, halo Halo) error {
	e.enter(Precond)
	if err := e.operator.Apply(e.vectors[s.precondition.dst], e.vectors[s.precondition.src]); err != nil {
		return fmt.Errorf("preconditioning: %w", err)
	}
	if s.multiply == nil {
		return nil
	}
	return e.start(s, halo)
}

// product computes the rest of the product, and takes the scalar products that depend on it.
func (e *Engine) product(s *Stage, halo Halo) error {
	rows := e.matrix.Rows()
	if e.computed = 0; s.multiply == nil {
		e.takeDots(0, rows)
		return nil
	}
	if s.multiply.dst == e.leftVec {
		e.leftVec = X
	}
	if s.leaves() {
		e.leftVec = s.multiply.dst
		for e.computed < rows && e.Begin != nil && (e.Underway == nil || e.Underway()) {
			e.computed += blockRows
			e.multiplyInterior(s, e.computed)
		}
	} else {
		e.multiplyInterior(s, rows)
	}
	e.enter(HaloWait)
	if err := halo.Finish(e.vectors[s.multiply.src], 1); err != nil || s.leaves() {
		return err
	}
	for _, r := range e.boundary {
		e.multiply(s, r.Lo, r.Hi)
	}
	return nil
}

// multiplyInterior multiplies the interior rows up to limit.
func (e *Engine) multiplyInterior(s *Stage, limit int) {
	for ; e.in < len(e.interior); e.in++ {
		r := e.interior[e.in]
		for e.next = max(e.next, r.Lo); e.next < min(r.Hi, limit); {
			end := min(r.Hi, limit, e.next+blockRows)
			e.multiply(s, e.next, end)
			e.next = end
		}
		if e.next < r.Hi {
			return
		}
	}
}

func (e *Engine) multiply(s *Stage, lo, hi int) {
	e.enter(SpMV)
	e.matrix.Multiply(e.vectors[s.multiply.dst], e.vectors[s.multiply.src], lo, hi)
	e.takeDots(lo, hi)
}

// takeDots takes the scalar products that come after the product.
func (e *Engine) takeDots(lo, hi int) {
	if !e.after.Empty() {
		e.enter(Dots)
		e.after.Run(lo, hi, nil)
	}
}
