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

// Engine carries out stages on the rows of one rank. It works on a block of rows
// at a time, small enough that what one operation wrote is still in the nearest
// cache when the next one reads it: a stage moves every vector through memory
// once, however many operations it has.
type Engine struct {
	// Trace, where set, is told when a phase starts. That costs two calls per
	// operation and block: it is for finding out where time goes, not for
	// finding out how much.
	Trace func(Phase)
	// Begin, where set, is given this rank's parts of the scalar products of a stage that
	// overlaps, before the rest of it. It must not wait.
	Begin func(sums []float64) error

	matrix   *sparse.Matrix
	interior []sparse.Range
	rim      []sparse.Range
	operator Operator // the preconditioner, unless it is a diagonal
	inverse  Diagonal
	updated  bool // the rows of this stage are, all of them
	vectors  [][]float64
	sums     []float64
	block    []float64      // of an inverted vector
	todo     []sparse.Range // of the interior, what is not yet multiplied
}

// blockRows is the number of rows worked on at a time: a dozen vectors of this
// many fit the nearest cache.
const blockRows = 512

// NewEngine makes the vectors of a solve. The operator is the preconditioner, where the
// solver asks for one.
func NewEngine(m *sparse.Matrix, plan *sparse.Plan, operator Operator, vectors int) *Engine {
	e := &Engine{matrix: m, interior: plan.Interior, rim: plan.Rim, operator: operator,
		vectors: make([][]float64, vectors), block: make([]float64, blockRows)}
	if d, fused := operator.(Diagonal); fused {
		e.operator, e.inverse = nil, d
	}
	for i := range e.vectors {
		e.vectors[i] = make([]float64, m.Columns())
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
	e.sums = append(e.sums[:0], make([]float64, len(s.dots))...)
	e.updated = false
	stored := s.precondition != nil && e.operator != nil
	if stored || s.early {
		e.blocks(sparse.Range{Lo: 0, Hi: e.matrix.Rows()}, func(lo, hi int) {
			e.update(s, lo, hi)
			if s.early {
				e.dots(s, lo, hi)
			}
		})
		e.updated = true
	}
	if s.early && e.Begin != nil {
		e.enter(Idle)
		if err := e.Begin(e.sums); err != nil {
			return nil, err
		}
	}
	if stored {
		e.enter(Precondition)
		if err := e.operator.Apply(e.vectors[s.precondition.dst], e.vectors[s.precondition.src]); err != nil {
			return nil, fmt.Errorf("preconditioning: %w", err)
		}
	}
	if s.multiply == nil {
		e.blocks(sparse.Range{Lo: 0, Hi: e.matrix.Rows()}, func(lo, hi int) {
			e.update(s, lo, hi)
			e.lateDots(s, lo, hi)
		})
		e.enter(Idle)
		return e.sums, nil
	}
	for _, r := range e.rim {
		e.blocks(r, func(lo, hi int) { e.update(s, lo, hi) })
	}
	e.enter(Exchange)
	src := e.vectors[s.multiply.src]
	if err := halo.Start(src); err != nil {
		return nil, err
	}
	e.runInterior(s)
	e.enter(Wait)
	if err := halo.Finish(src); err != nil {
		return nil, err
	}
	for _, r := range e.rim {
		e.blocks(r, func(lo, hi int) { e.multiply(s, lo, hi) })
	}
	e.enter(Idle)
	return e.sums, nil
}

// runInterior updates the interior and multiplies behind: a row's turn comes
// once the vector is final as far as the matrix reaches, and what the update
// wrote is then still in a cache.
func (e *Engine) runInterior(s *Stage) {
	e.todo = append(e.todo[:0], e.interior...)
	todo := e.todo
	behind := func(limit int) {
		for len(todo) > 0 && todo[0].Lo < limit {
			r := todo[0]
			end := min(r.Hi, r.Lo+blockRows, limit)
			e.multiply(s, r.Lo, end)
			if todo[0].Lo = end; end == r.Hi {
				todo = todo[1:]
			}
		}
	}
	for _, r := range e.interior {
		e.blocks(r, func(lo, hi int) {
			e.update(s, lo, hi)
			behind(hi - e.matrix.Reach())
		})
	}
	behind(e.matrix.Rows())
}

// blocks cuts a range into blocks.
func (e *Engine) blocks(r sparse.Range, fn func(lo, hi int)) {
	for lo := r.Lo; lo < r.Hi; lo += blockRows {
		fn(lo, min(lo+blockRows, r.Hi))
	}
}

func (e *Engine) enter(p Phase) {
	if e.Trace != nil {
		e.Trace(p)
	}
}

func (e *Engine) update(s *Stage, lo, hi int) {
	if e.updated {
		return
	}
	e.enter(Update)
	for i := range s.assign {
		e.assign(&s.assign[i], lo, hi)
	}
	if s.precondition != nil && e.operator == nil {
		sparse.Times(e.vectors[s.precondition.dst][lo:hi], e.inverse[lo:hi], e.vectors[s.precondition.src][lo:hi])
	}
}

// part is the rows [lo, hi) of a vector, at most a block. That of an inverted one
// is valid until the next.
func (e *Engine) part(v Vec, lo, hi int) []float64 {
	stored, inverted := v.of()
	from := e.vectors[stored][lo:hi]
	if !inverted {
		return from
	}
	sparse.Times(e.block[:hi-lo], e.inverse[lo:hi], from)
	return e.block[:hi-lo]
}

func (e *Engine) assign(a *assignment, lo, hi int) {
	dst := e.vectors[a.dst][lo:hi]
	at := func(i int) []float64 { return e.part(a.terms[i].Vec, lo, hi) }
	switch len(a.terms) {
	case 0:
		clear(dst)
		return
	case 1:
		if c := a.terms[0].Coef; c == 1 {
			copy(dst, at(0))
		} else {
			for i, v := range at(0) {
				dst[i] = c * v
			}
		}
		return
	}
	sparse.Axpby(dst, a.terms[0].Coef, at(0), a.terms[1].Coef, at(1))
	for i := 2; i < len(a.terms); i++ {
		if a.terms[i].Vec == a.dst {
			panic("krylov: an assignment's own vector must be its first term")
		}
		sparse.Axpby(dst, 1, dst, a.terms[i].Coef, at(i))
	}
}

func (e *Engine) multiply(s *Stage, lo, hi int) {
	e.enter(Multiply)
	e.matrix.Multiply(e.vectors[s.multiply.dst], e.vectors[s.multiply.src], lo, hi)
	e.lateDots(s, lo, hi)
}

// lateDots takes the scalar products, unless they have been taken before.
func (e *Engine) lateDots(s *Stage, lo, hi int) {
	if !s.early {
		e.dots(s, lo, hi)
	}
}

func (e *Engine) dots(s *Stage, lo, hi int) {
	if len(s.dots) == 0 {
		return
	}
	e.enter(Dots)
	for i, d := range s.dots {
		e.sums[i] += sparse.Dot(e.vectors[d.a][lo:hi], e.part(d.b, lo, hi))
	}
}
