package krylov

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Phase is what an Engine is doing.
type Phase uint8

// The phases of a stage.
const (
	Update       Phase = iota // assignments, and a preconditioner that is a diagonal
	Precondition              // any other one, with all that it exchanges
	Exchange                  // starting to send ghosts
	Multiply                  // the product
	Wait                      // waiting for ghosts
	Dots                      // local parts of the scalar products
	Idle                      // the stage is done
	numPhases
)

// String is the phase's name.
func (p Phase) String() string {
	if p >= numPhases {
		return fmt.Sprintf("Phase(%d)", uint8(p))
	}
	return [...]string{"update", "precondition", "exchange", "multiply", "wait", "dots", "idle"}[p]
}

// Halo brings the ghosts of a vector up to date. Start is called when the values
// of the rim are final, and must not wait; Finish when ghosts are needed.
type Halo interface {
	Start(v []float64) error
	Finish(v []float64) error
}

// NoHalo is the Halo of a matrix without ghosts.
type NoHalo struct{}

// Start does nothing.
func (NoHalo) Start([]float64) error { return nil }

// Finish does nothing.
func (NoHalo) Finish([]float64) error { return nil }

// Engine carries out stages on the rows of one rank. All that a stage does to a row is done
// in one pass over memory, the product a block of rows behind, whose vector
// is still in the nearest cache then: a stage moves every vector through memory
// once, however many operations it has.
//
// The product of a stage that overlaps is left to the pass of the next stage, which
// uses it row by row, so that it is never stored; except what of it is made while
// the scalar products are added up.
type Engine struct {
	// Trace, where set, is told when a phase starts. That costs two calls per
	// block: it is for finding out where time goes, not for finding out how much.
	Trace func(Phase)
	// Begin, where set, is given this rank's parts of the scalar products of a stage that
	// overlaps, before the rest of it. It must not wait.
	Begin func(sums []float64) error
	// Underway, where set, reports whether what Begin has begun still goes on: so long the
	// product is made that would be left to the next stage.
	Underway func() bool

	matrix   *sparse.Matrix
	interior []sparse.Range
	boundary []sparse.Range
	operator Operator // the preconditioner, unless it is a diagonal
	inverse  Diagonal
	vectors  [][]float64
	sums     []float64
	before   sparse.Sweep  // what the stage does to rows before the product
	after    sparse.Sweep  // and after
	dots     *sparse.Sweep // the one that takes the scalar products
	made     int           // of the product that the stage leaves, the interior up to this row
	block    []float64     // of the one that is left to it
	gone     Vec           // the one that was left last, unless it was assigned since; X: none
	in, next int           // the interior is multiplied up to a range, and a row of it
}

// blockRows is the number of rows worked on at a time, where the product follows:
// what it needs of a few vectors fits the nearest cache.
const blockRows = 256

// Long vectors begin with a page. The same rows of all of them would share a few sets of the
// nearest cache, which do not have room for that many where two ranks share it: so each
// begins some lines further.
const (
	page  = 4096 / 8
	apart = 9 * 64 / 8
)

// NewEngine makes the vectors of a solve. The operator is the preconditioner, where the
// solver asks for one.
func NewEngine(m *sparse.Matrix, plan *sparse.Plan, operator Operator, vectors int) *Engine {
	e := &Engine{matrix: m, interior: plan.Interior, boundary: plan.Boundary, operator: operator,
		vectors: make([][]float64, vectors), block: make([]float64, blockRows)}
	if d, fused := operator.(Diagonal); fused {
		e.operator, e.inverse = nil, d
	}
	for i := range e.vectors {
		from := i * apart % page
		e.vectors[i] = make([]float64, m.Columns()+page)[from:][:m.Columns():m.Columns()]
	}
	return e
}

// Vector is the owned part of a vector.
func (e *Engine) Vector(v Vec) []float64 { return e.vectors[v][:e.matrix.Rows()] }

// Padded is a vector with its ghosts.
func (e *Engine) Padded(v Vec) []float64 { return e.vectors[v] }

// ForgetGhosts makes the ghosts of all vectors zero: as if no other rank had rows.
func (e *Engine) ForgetGhosts() {
	for _, v := range e.vectors {
		clear(v[e.matrix.Rows():])
	}
}

// Run carries out a stage and gives this rank's parts of its scalar products,
// which are valid until the next call. Ghosts travel while the interior is
// worked on.
func (e *Engine) Run(s *Stage, halo Halo) ([]float64, error) {
	stored := s.precondition != nil && e.operator != nil
	e.compile(s, stored)
	follows := s.multiply != nil && !s.early && !stored // the product is made a block behind
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
		e.update(s, r, e.made, follows)
	}
	if s.early && e.Begin != nil {
		e.enter(Idle)
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
	e.enter(Idle)
	return e.add(s), nil
}

// compile makes of a stage what it does to rows. Scalar products are taken along with the rest, unless they
// need the product, or a preconditioner's work on all rows.
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
	if !s.early {
		precondition()
	}
	if e.dots = &e.before; !s.early && (s.multiply != nil || stored) {
		e.dots = &e.after
	}
	for _, d := range s.dots {
		x, _ := e.part(d.a)
		y, by := e.part(d.b)
		e.dots.Dot(x, y, by)
	}
	if s.early {
		precondition()
	}
	if s.multiply != nil {
		e.part(s.multiply.src) // is there
	}
}

// part is the owned part of a vector, and what it is multiplied by; nil is nothing.
func (e *Engine) part(v Vec) (rows, by []float64) {
	stored, inverted := v.of()
	if stored == e.gone && e.gone != X {
		panic(fmt.Sprintf("krylov: vector %d is a product that was left to the stage after it, as a term", stored))
	}
	if inverted {
		by = e.inverse
	}
	return e.Vector(stored), by
}

// store assigns the sum of the terms.
func (e *Engine) store(s *Stage, dst Vec) {
	if s.left != nil && (dst == s.left.src || dst == s.left.dst) {
		panic(fmt.Sprintf("krylov: vector %d is assigned while its product is still to be made", dst))
	}
	if dst == e.gone {
		e.gone = X
	}
	e.before.Store(e.Vector(dst))
}

// add gives this rank's parts of the scalar products.
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

// update does to a range of rows what comes before the product. What the stage before has left of its
// own is made on the way, but in rows up to made, where it has been.
func (e *Engine) update(s *Stage, r sparse.Range, made int, follows bool) {
	for lo := r.Lo; lo < r.Hi; lo += blockRows {
		hi := min(lo+blockRows, r.Hi)
		var block []float64
		switch {
		case !e.before.TakesBlock():
		case hi <= made:
			block = e.vectors[s.left.dst][lo:hi]
		default:
			e.enter(Multiply)
			block = e.block
			e.matrix.Product(block, e.vectors[s.left.src], lo, hi)
		}
		e.enter(Update)
		e.before.Run(lo, hi, block)
		if follows { // a row's turn comes once the vector is final as far as the matrix reaches
			e.multiplyInterior(s, hi-e.matrix.Reach())
		}
	}
}

// start starts to send what the product needs.
func (e *Engine) start(s *Stage, halo Halo) error {
	e.enter(Exchange)
	return halo.Start(e.vectors[s.multiply.src])
}

// precondition applies what is no diagonal.
func (e *Engine) precondition(s *Stage, halo Halo) error {
	e.enter(Precondition)
	if err := e.operator.Apply(e.vectors[s.precondition.dst], e.vectors[s.precondition.src]); err != nil {
		return fmt.Errorf("preconditioning: %w", err)
	}
	if s.multiply == nil {
		return nil
	}
	return e.start(s, halo)
}

// product makes what is still to be made of the product, and takes the scalar products that come after.
func (e *Engine) product(s *Stage, halo Halo) error {
	rows := e.matrix.Rows()
	if e.made = 0; s.multiply == nil {
		e.takeDots(0, rows)
		return nil
	}
	if s.multiply.dst == e.gone {
		e.gone = X
	}
	if s.leaves() {
		e.gone = s.multiply.dst
		for e.made < rows && e.Begin != nil && (e.Underway == nil || e.Underway()) {
			e.made += blockRows
			e.multiplyInterior(s, e.made)
		}
	} else {
		e.multiplyInterior(s, rows)
	}
	e.enter(Wait)
	if err := halo.Finish(e.vectors[s.multiply.src]); err != nil || s.leaves() {
		return err
	}
	for _, r := range e.boundary {
		e.multiply(s, r.Lo, r.Hi)
	}
	return nil
}

// multiplyInterior makes the product of the interior up to a row.
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
	e.enter(Multiply)
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
