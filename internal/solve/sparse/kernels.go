package sparse

import (
	"fmt"
	"math"
	"slices"
)

// The portable kernels, which define the results. A product is converted to
// float64 before it is added, which forbids the compiler to fuse the two on
// machines that could: the bits are the same everywhere.

// minusZero starts every sum over a row: adding to it changes nothing, while
// a plain zero would turn a first product of -0 into 0.
var minusZero = math.Copysign(0, -1)

func sameLength(a, b, c []float64) int {
	if len(a) != len(b) || len(a) != len(c) {
		panic(fmt.Sprintf("sparse: vectors of lengths %d, %d and %d", len(a), len(b), len(c)))
	}
	return len(a)
}

func axpby(dst []float64, a float64, x []float64, b float64, y []float64) {
	for i := range dst {
		dst[i] = float64(a*x[i]) + float64(b*y[i])
	}
}

func times(dst, x, y []float64) {
	for i := range dst {
		dst[i] = x[i] * y[i]
	}
}

func dot(x, y []float64) float64 {
	var lane [8]float64
	n := len(x) &^ 7
	for i := 0; i < n; i += 8 {
		for l := range lane {
			lane[l] += float64(x[i+l] * y[i+l])
		}
	}
	for i := n; i < len(x); i++ {
		lane[i-n] += float64(x[i] * y[i])
	}
	return halves(lane[:])
}

// halves adds up the lanes of a scalar product, and overwrites them.
func halves(lane []float64) float64 {
	for half := len(lane) / 2; half > 0; half /= 2 {
		for l := range half {
			lane[l] += lane[l+half]
		}
	}
	return lane[0]
}

func (c *constant) portable(dst, x []float64, lo, hi int) {
	for i := lo; i < hi; i++ {
		sum := minusZero
		for k, off := range c.offs {
			sum += float64(c.coefs[k] * x[i+off/8])
		}
		dst[i-lo] = sum
	}
}

func (v *varying) portable(dst, x []float64, lo, hi, base int) {
	for i := lo; i < hi; i++ {
		sum := minusZero
		for k, off := range v.offs {
			sum += float64(v.value(k*v.n+i-base) * x[i+off/8])
		}
		dst[i-lo] = sum
	}
}

func (c *scattered) portable(dst, x []float64, s, n, row int) {
	for i := range n {
		sum := [8]float64{minusZero, minusZero, minusZero, minusZero, minusZero, minusZero, minusZero, minusZero}
		at := int(c.starts[s+i].entry)
		masks := c.masks[c.starts[s+i].mask:c.starts[s+i+1].mask]
		for _, mask := range masks {
			for l := range sum {
				if mask>>l&1 != 0 {
					sum[l] += float64(c.value(at) * x[c.column(at, row+8*i)])
					at++
				}
			}
		}
		copy(dst[8*i:8*i+8], sum[:])
	}
}

func (c *scattered) value(at int) float64 {
	switch {
	case c.vals64 != nil:
		return c.vals64[at]
	case c.vals32 != nil:
		return float64(c.vals32[at])
	}
	return c.dict[c.vals8[at]]
}

func (c *scattered) column(at, row int) int {
	if c.near != nil {
		return row + int(c.near[at])
	}
	return int(c.wide[at])
}

// Sweep is a list of operations on the rows of vectors, which one pass over memory carries out: all of
// them on a few rows, then on the next, so that each vector is fetched and written once, whatever else
// is done to it. The bits are the same as if every operation went over all rows before the next.
//
//	s.Add(beta, p, nil)       // p = beta p + d r, d a diagonal
//	s.Add(1, r, d)
//	s.Store(p)
//	s.Dot(p, r, nil)          // and the scalar product of p and r
//	s.Run(lo, hi, nil)
type Sweep struct {
	ops  []op
	sums [][lanes]float64
	rows int  // that every vector has
	uses bool // the block
}

// lanes is how many sums a scalar product is made of.
const lanes = 32

// An op adds a term to a row's sum, or takes the sum's product with a row. The kernels know its layout.
type op struct {
	x, by []float64
	dst   []float64 // the vector that the sum then is; nil: none
	coef  float64
	sum   int // bytes from the first scalar product to this one
	does  int // of the following
}

const (
	opBy    = 1 << iota // times the row of another vector
	opScale             // times a number
	opAdd               // to the terms before; else it is the first
	opStore             // the sum
	opDot               // no term
	opBlock             // the vector is the block that Run is given
	opFresh             // no operation before has touched the vector: it is fetched ahead
	opZero              // no term: the sum is zero
)

// Reset takes all operations away.
func (s *Sweep) Reset() {
	s.ops, s.sums = s.ops[:0], s.sums[:0]
	s.rows, s.uses = math.MaxInt, false
}

// Empty reports whether there are none.
func (s *Sweep) Empty() bool { return len(s.ops) == 0 }

// Zero starts a sum.
func (s *Sweep) Zero() { s.ops = append(s.ops, op{does: opZero}) }

// Add adds a term: a number times a vector, times another one row by row unless that is nil. The first
// after a Store or a Dot starts a sum.
func (s *Sweep) Add(coef float64, x, by []float64) {
	s.rows = min(s.rows, len(x))
	s.add(coef, x, by, 0)
}

// AddBlock adds a number times the block of rows that Run is given.
func (s *Sweep) AddBlock(coef float64) {
	s.uses = true
	s.add(coef, nil, nil, opBlock)
}

func (s *Sweep) add(coef float64, x, by []float64, does int) {
	if by != nil {
		s.rows = min(s.rows, len(by))
		does |= opBy
	}
	if coef != 1 {
		does |= opScale
	}
	if n := len(s.ops); n > 0 && s.ops[n-1].does&(opStore|opDot) == 0 {
		does |= opAdd
	}
	if s.fresh(x) {
		does |= opFresh
	}
	s.ops = append(s.ops, op{x: x, by: by, coef: coef, does: does})
}

// fresh reports whether no operation has touched the vector.
func (s *Sweep) fresh(x []float64) bool {
	return len(x) > 0 && !slices.ContainsFunc(s.ops, func(o op) bool { return alike(o.x, x) || alike(o.dst, x) })
}

// alike reports whether two vectors are the same memory.
func alike(x, y []float64) bool { return len(x) > 0 && len(y) > 0 && &x[0] == &y[0] }

// TakesBlock reports whether a term is the block that Run is given.
func (s *Sweep) TakesBlock() bool { return s.uses }

// Store assigns the sum to a vector. It may be one of the terms.
func (s *Sweep) Store(dst []float64) {
	s.rows = min(s.rows, len(dst))
	last := &s.ops[len(s.ops)-1]
	last.dst, last.does = dst, last.does|opStore
}

// Dot takes a scalar product, the next of those that Sum gives: of two vectors, the second times
// another one row by row unless that is nil.
func (s *Sweep) Dot(x, y, by []float64) {
	var held []float64 // the vector that the sum is
	if n := len(s.ops); n > 0 && by == nil {
		held = s.ops[n-1].dst
	}
	if alike(held, x) {
		x, y = y, x
	}
	if !alike(held, y) {
		s.Add(1, y, by)
	}
	if by != nil {
		y = nil
	}
	s.rows = min(s.rows, len(x))
	s.ops = append(s.ops, op{x: x, dst: y, sum: 8 * lanes * len(s.sums), does: opDot})
	s.sums = append(s.sums, [lanes]float64{})
}

// Sum is the k-th scalar product over all passes so far. Its order of summation is fixed: 32 lanes,
// each adding every 32nd product of a pass, are added by halves.
func (s *Sweep) Sum(k int) float64 {
	lane := s.sums[k]
	return halves(lane[:])
}

// Run carries the operations out on the rows [lo, hi). The block has these rows of what AddBlock adds.
func (s *Sweep) Run(lo, hi int, block []float64) {
	if lo < 0 || hi > s.rows || s.uses && len(block) < hi-lo {
		panic(fmt.Sprintf("sparse: a pass over the rows [%d, %d) of %d, with a block of %d", lo, hi, s.rows, len(block)))
	}
	if lo < hi && len(s.ops) > 0 {
		s.run(lo, hi, block)
	}
}

// portable is what defines the results of Run.
func (s *Sweep) portable(lo, hi int, block []float64) {
	var sum [512]float64 // a multiple of the lanes
	for first := lo; lo < hi; lo += len(sum) {
		n := min(len(sum), hi-lo)
		for i := range s.ops {
			o := &s.ops[i]
			var x []float64
			switch {
			case o.does&opBlock != 0:
				x = block[lo-first:][:n]
			case o.does&opZero == 0:
				x = o.x[lo:][:n]
			}
			switch {
			case o.does&opZero != 0:
				clear(sum[:n])
			case o.does&opDot != 0:
				lane := &s.sums[o.sum/(8*lanes)]
				for k, v := range x {
					lane[k%lanes] += float64(sum[k] * v)
				}
			default:
				o.term(sum[:n], x, lo)
			}
			if o.does&opStore != 0 {
				copy(o.dst[lo:], sum[:n])
			}
		}
	}
}

func (o *op) term(sum, x []float64, lo int) {
	for k, v := range x {
		if o.does&opBy != 0 {
			v *= o.by[lo+k]
		}
		if v = float64(v * o.coef); o.does&opAdd != 0 {
			v += sum[k]
		}
		sum[k] = v
	}
}
