package krylov

import "slices"

// Vec is the number of a vector of the solve.
type Vec int

// The vectors that every method has. The others are its own.
const (
	X Vec = iota // the solution; methods start from zero
	B            // the right-hand side, never changed

	firstOwn // the first vector that a method may use as it likes
)

// inverted is the preconditioner times a vector, where a stage needs that only
// for itself: in a term or as the second of a scalar product. It is made block by
// block and never stored, which spares a vector and its way through memory.
func inverted(v Vec) Vec { return ^v }

// of is the stored vector, and whether the preconditioner is to be applied.
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

// Assign sets Dst to the sum of the terms, element by element; no term is zero.
// Where Dst is itself a term, it is the first one; at most one of the first two is
// inverted.
type Assign struct {
	Dst   Vec
	Terms []Term
}

// Apply sets Dst to an operator times Src.
type Apply struct{ Dst, Src Vec }

// Dot is the scalar product of two vectors.
type Dot struct{ A, B Vec }

// Stage is what a method wants done, in this order: the assignments, the
// preconditioner, the product with the matrix, the scalar products. The
// product's Dst is none of the vectors that the assignments write.
type Stage struct {
	Assign       []Assign
	Precondition *Apply
	Multiply     *Apply
	Dots         []Dot // their sums over all ranks go to the next call of Next

	apply [2]Apply
	terms []Term // the memory of all Terms
}

// The methods build stages through these; the memory is used again.

func (s *Stage) reset() *Stage {
	s.Assign, s.Dots, s.terms = s.Assign[:0], s.Dots[:0], s.terms[:0]
	s.Precondition, s.Multiply = nil, nil
	return s
}

func (s *Stage) set(dst Vec, terms ...Term) *Stage {
	from := len(s.terms)
	s.terms = append(s.terms, terms...)
	s.Assign = append(s.Assign, Assign{dst, s.terms[from:len(s.terms):len(s.terms)]})
	return s
}

// add is dst += c*v.
func (s *Stage) add(dst Vec, c float64, v Vec) *Stage {
	return s.set(dst, Term{1, dst}, Term{c, v})
}

// precondition asks for nothing where dst is src, which is how methods write
// that there is no preconditioner.
func (s *Stage) precondition(dst, src Vec) *Stage {
	if dst != src {
		s.apply[0] = Apply{dst, src}
		s.Precondition = &s.apply[0]
	}
	return s
}

func (s *Stage) multiply(dst, src Vec) *Stage {
	s.apply[1] = Apply{dst, src}
	s.Multiply = &s.apply[1]
	return s
}

func (s *Stage) dot(a, b Vec) *Stage {
	s.Dots = append(s.Dots, Dot{a, b})
	return s
}

// Passes is how many vectors the stage moves through memory when it is fused:
// each vector once for reading, unless an operation before wrote it, and once
// for writing. The preconditioner's diagonal is one of them; the matrix is not
// counted.
func (s *Stage) Passes() int {
	n := 0
	var near, written []Vec // near: in a cache since an earlier operation
	diagonal := s.Precondition != nil
	read := func(v Vec) {
		v, inverted := v.of()
		diagonal = diagonal || inverted
		if !slices.Contains(near, v) {
			near = append(near, v)
			n++
		}
	}
	write := func(v Vec) {
		if !slices.Contains(written, v) {
			written = append(written, v)
			n++
		}
		if !slices.Contains(near, v) {
			near = append(near, v)
		}
	}
	for _, a := range s.Assign {
		for _, t := range a.Terms {
			read(t.Vec)
		}
		write(a.Dst)
	}
	if s.Precondition != nil {
		read(s.Precondition.Src)
		write(s.Precondition.Dst)
	}
	if s.Multiply != nil {
		read(s.Multiply.Src)
		write(s.Multiply.Dst)
	}
	for _, d := range s.Dots {
		read(d.A)
		read(d.B)
	}
	if diagonal {
		n++
	}
	return n
}
