package krylov

import "slices"

// Vec is the number of a vector of the solve.
type Vec int

// The vectors that every method has. The others are its own.
const (
	X Vec = iota // the solution; methods start from zero
	B            // the right-hand side, never changed

	FirstOwn // the first vector that a method may use as it likes
)

// Inverted is the preconditioner times a vector, where a stage needs that only
// for itself: in a term or as the second of a scalar product. It is made block by
// block and never stored, which spares a vector and its way through memory.
func Inverted(v Vec) Vec { return ^v }

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

// assignment sets dst to the sum of the terms, element by element, of which dst may be one.
type assignment struct {
	dst   Vec
	terms []Term
}

// application sets dst to an operator times src.
type application struct{ dst, src Vec }

// product is the scalar product of two vectors.
type product struct{ a, b Vec }

// Stage is what a method wants done, in this order: the assignments, the
// preconditioner, the product with the matrix, the scalar products. The
// product's destination is none of the vectors that the assignments write.
//
// A stage that overlaps takes the scalar products before the preconditioner. Unless that
// is more than a diagonal, the stage leaves the product to the next one: as a term of
// assignments, which write neither it nor what was multiplied. Then it is gone.
type Stage struct {
	assign       []assignment
	precondition *application
	multiply     *application
	dots         []product    // their sums over all ranks go to the next call of Next
	early        bool         // the scalar products come right after the assignments
	stored       bool         // the preconditioner is no diagonal
	left         *application // the product that the stage before has left to this one

	apply [3]application
	terms []Term // the memory of all assignments
}

func (s *Stage) reset(stored bool) *Stage {
	if s.left = nil; s.leaves() {
		s.apply[2] = *s.multiply
		s.left = &s.apply[2]
	}
	s.stored = stored
	s.assign, s.dots, s.terms = s.assign[:0], s.dots[:0], s.terms[:0]
	s.precondition, s.multiply, s.early = nil, nil, false
	return s
}

// Set assigns the sum of the terms to dst; without terms that is zero.
func (s *Stage) Set(dst Vec, terms ...Term) *Stage {
	from := len(s.terms)
	s.terms = append(s.terms, terms...)
	s.assign = append(s.assign, assignment{dst, s.terms[from:len(s.terms):len(s.terms)]})
	return s
}

// Add is dst += c*v.
func (s *Stage) Add(dst Vec, c float64, v Vec) *Stage {
	return s.Set(dst, Term{1, dst}, Term{c, v})
}

// Precondition applies the preconditioner. It asks for nothing where dst is src, which is how methods write
// that there is no preconditioner, and where it is the inverted src, which is never stored.
func (s *Stage) Precondition(dst, src Vec) *Stage {
	if dst != src && dst != Inverted(src) {
		s.apply[0] = application{dst, src}
		s.precondition = &s.apply[0]
	}
	return s
}

// Multiply applies the matrix.
func (s *Stage) Multiply(dst, src Vec) *Stage {
	s.apply[1] = application{dst, src}
	s.multiply = &s.apply[1]
	return s
}

// Dot asks for the scalar product of two vectors.
func (s *Stage) Dot(a, b Vec) *Stage {
	s.dots = append(s.dots, product{a, b})
	return s
}

// Overlap asks for the scalar products as soon as the assignments are done, so that
// they can be added up over the ranks while the preconditioner and the matrix are applied. The
// product is then for the next stage alone.
func (s *Stage) Overlap() *Stage {
	s.early = true
	return s
}

// Overlaps reports whether the scalar products come before the preconditioner and the product.
func (s *Stage) Overlaps() bool { return s.early }

// leaves reports whether the product is left to the next stage.
func (s *Stage) leaves() bool {
	return s.early && s.multiply != nil && !(s.stored && s.precondition != nil)
}

// Preconditions reports whether the stage asks for a preconditioner that is to be stored.
func (s *Stage) Preconditions() bool { return s.precondition != nil }

// Multiplies reports whether the stage has a product with the matrix.
func (s *Stage) Multiplies() bool { return s.multiply != nil }

// Passes is how many vectors the stage moves through memory when it is fused:
// each vector once for reading, unless an operation before wrote it, and once
// for writing. A product that is left to the next stage is made there and never
// stored, but for what is made while the scalar products are added up, which is not
// counted. The preconditioner's diagonal is one of the vectors; the matrix is not counted.
func (s *Stage) Passes() int {
	n := 0
	var near, written []Vec // near: in a cache since an earlier operation
	diagonal := s.precondition != nil
	read := func(v Vec) {
		v, inverted := v.of()
		diagonal = diagonal || inverted
		if s.left != nil && v == s.left.dst {
			v = s.left.src
		}
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
	if s.early {
		dots()
	}
	if s.precondition != nil {
		read(s.precondition.src)
		write(s.precondition.dst)
	}
	if s.early {
		near = near[:0]
	}
	if s.multiply != nil && !s.leaves() {
		read(s.multiply.src)
		write(s.multiply.dst)
	}
	if !s.early {
		dots()
	}
	if diagonal {
		n++
	}
	return n
}

// Flops is how many operations the stage makes per row, without those of the matrix and of a
// preconditioner that is no diagonal.
func (s *Stage) Flops() int {
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
