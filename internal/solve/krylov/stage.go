package krylov

import (
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Vec is the number of a vector of the solve.
type Vec int

// Every method has the vectors X and B. The others belong to the method.
const (
	X Vec = iota // the solution; methods start from zero
	B            // the right-hand side, never changed

	FirstOwn // the first vector that a method may use for itself
)

// Inverted stands for the preconditioner times a vector, in a term or as the second argument of Dot. The engine
// computes it block by block and never stores it, which saves a vector and its memory traffic.
func Inverted(v Vec) Vec { return ^v }

// of returns the stored vector, and whether the preconditioner is to be applied to it.
func (v Vec) of() (stored Vec, inverted bool) {
	if v < 0 {
		return ^v, true
	}
	return v, false
}

// Term is a vector times a number.
type Term struct {
	Coef float64
	Vec  Vec
}

// assignment sets dst to the sum of the terms, element by element. dst may be one of the terms.
type assignment struct {
	dst   Vec
	terms []Term
}

// application sets dst to an operator times src.
type application struct{ dst, src Vec }

// product is the scalar product of two vectors.
type product struct{ a, b Vec }

// Stage is a request of a method. Its operations are done in this order: the assignments, the preconditioner, the
// product with the matrix, the scalar products. The assignments must not write the destination of the product.
//
// An overlapping stage takes the scalar products before the preconditioner. If the preconditioner is a diagonal, the
// stage leaves the product to the next stage, which may use it only as a term of assignments, and must assign neither
// the product nor the multiplied vector. After that the product is undefined.
type Stage struct {
	assign       []assignment
	precondition *application
	multiply     *application
	dots         []product    // their sums over all ranks are the argument of the next step
	overlaps     bool         // the scalar products come right after the assignments
	stored       bool         // the preconditioner is not a diagonal
	left         *application // the product that the previous stage left to this one

	apply [3]application
	terms []Term // memory for the terms of all assignments
}

func (s *Stage) reset(stored bool) *Stage {
	if s.left = nil; s.leaves() {
		s.apply[2] = *s.multiply
		s.left = &s.apply[2]
	}
	s.stored = stored
	s.assign, s.dots, s.terms = s.assign[:0], s.dots[:0], s.terms[:0]
	s.precondition, s.multiply, s.overlaps = nil, nil, false
	return s
}

// Set assigns the sum of the terms to dst, or zero without terms.
func (s *Stage) Set(dst Vec, terms ...Term) *Stage {
	from := len(s.terms)
	s.terms = append(s.terms, terms...)
	s.assign = append(s.assign, assignment{dst, s.terms[from:len(s.terms):len(s.terms)]})
	return s
}

// Add adds c*v to dst.
func (s *Stage) Add(dst Vec, c float64, v Vec) *Stage {
	return s.Set(dst, Term{1, dst}, Term{c, v})
}

// Precondition applies the preconditioner. It does nothing if dst is src, which is how methods express that there is no
// preconditioner, or if dst is Inverted(src), which is never stored.
func (s *Stage) Precondition(dst, src Vec) *Stage {
	if dst != src && dst != Inverted(src) {
		s.apply[0] = application{dst, src}
		s.precondition = &s.apply[0]
	}
	return s
}

// Multiply sets dst to the matrix times src.
func (s *Stage) Multiply(dst, src Vec) *Stage {
	s.apply[1] = application{dst, src}
	s.multiply = &s.apply[1]
	return s
}

// Dot requests the scalar product of two vectors.
func (s *Stage) Dot(a, b Vec) *Stage {
	s.dots = append(s.dots, product{a, b})
	return s
}

// Overlap moves the scalar products to directly after the assignments, so that they can be added up over the ranks
// while the preconditioner and the matrix are applied. Only the next stage may use the product.
func (s *Stage) Overlap() *Stage {
	s.overlaps = true
	return s
}

// leaves reports whether the product is left to the next stage.
func (s *Stage) leaves() bool {
	return s.overlaps && s.multiply != nil && !(s.stored && s.precondition != nil)
}

// AddWork adds the work of a stage on the rows of a plan to its phases. All operations of a stage on a row are one pass
// over memory, so vectors count once, with the updates, and the scalar products find them in a cache. precond is the
// work of one application of the preconditioner.
func AddWork(work *[NumPhases]Work, s *Stage, plan *sparse.Plan, m *sparse.Matrix, precond Work) {
	rows, sums := float64(plan.Owned), float64(len(s.dots))
	work[Updates].Add(8*rows*float64(s.passes()), rows*(float64(s.flops())-2*sums))
	if sums > 0 {
		work[Dots].Add(0, 2*rows*sums)
		work[AllReduce].Add(8*sums, 0)
	}
	if s.multiply != nil {
		ghosts, sent := 8*float64(len(plan.Ghosts)), 0.0
		for i := range plan.Peers {
			sent += 8 * float64(plan.Peers[i].SendCount())
		}
		work[SpMV].Add(float64(m.Bytes())+ghosts, 2*float64(m.Entries()))
		work[HaloPack].Add(sent, 0)
		work[HaloWait].Add(ghosts, 0)
	}
	if s.precondition != nil {
		work[Precond].Add(precond.Bytes, precond.Flops)
	}
}

// passes returns the number of vectors that the fused stage moves through memory. Each vector counts once for reading,
// unless an earlier operation wrote it, and once for writing. A product that is left to the next stage is computed
// there and not stored; rows that are computed while the reduction is in flight are not counted. The diagonal of the
// preconditioner counts as a vector, and the matrix does not count.
func (s *Stage) passes() int {
	n := 0
	var cached, written []Vec // cached: in a cache since an earlier operation
	diagonal := s.precondition != nil
	read := func(v Vec) {
		v, inverted := v.of()
		diagonal = diagonal || inverted
		if s.left != nil && v == s.left.dst {
			v = s.left.src
		}
		if !slices.Contains(cached, v) {
			cached = append(cached, v)
			n++
		}
	}
	write := func(v Vec) {
		if !slices.Contains(written, v) {
			written = append(written, v)
			n++
		}
		if !slices.Contains(cached, v) {
			cached = append(cached, v)
		}
	}
	for _, a := range s.assign {
		for _, t := range a.terms {
			read(t.Vec)
		}
		write(a.dst)
	}
	dots := func() {
		for _, d := range s.dots {
			read(d.a)
			read(d.b)
		}
	}
	if s.overlaps {
		dots()
	}
	if s.precondition != nil {
		read(s.precondition.src)
		write(s.precondition.dst)
	}
	if s.overlaps {
		cached = cached[:0]
	}
	if s.multiply != nil && !s.leaves() {
		read(s.multiply.src)
		write(s.multiply.dst)
	}
	if !s.overlaps {
		dots()
	}
	if diagonal {
		n++
	}
	return n
}

// flops returns the number of operations per row, without the operations of the matrix and of a preconditioner that is
// not a diagonal.
func (s *Stage) flops() int {
	n := 0
	value := func(v Vec) {
		if _, inverted := v.of(); inverted {
			n++
		}
	}
	for _, a := range s.assign {
		for i, t := range a.terms {
			value(t.Vec)
			if t.Coef != 1 && t.Coef != -1 {
				n++
			}
			if i > 0 {
				n++
			}
		}
	}
	if s.precondition != nil {
		n++
	}
	for _, d := range s.dots {
		value(d.a)
		value(d.b)
		n += 2
	}
	return n
}
