package sparse

import (
	"fmt"
	"math"
	"slices"
)

// The portable kernels below define the results. Each product is converted to float64 before it is added. The
// conversion forbids the compiler to fuse multiplication and addition, so the bits are the same on every machine.

// minusZero is the initial value of every sum over a row. Adding to -0 changes nothing, while +0 would turn a first
// product of -0 into +0.
var minusZero = math.Copysign(0, -1)

// float is the type of the values of a vector.
type float interface{ float32 | float64 }

func sameLength[T float](a, b, c []T) int {
	if len(a) != len(b) || len(a) != len(c) {
		panic(fmt.Sprintf("sparse: vectors of lengths %d, %d and %d", len(a), len(b), len(c)))
	}
	return len(a)
}

func axpby[T float](dst []T, a T, x []T, b T, y []T) {
	for i := range dst {
		dst[i] = T(a*x[i]) + T(b*y[i])
	}
}

func times[T float](dst, x, y []T) {
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

// halves adds up the lanes of a scalar product and overwrites them.
func halves(lane []float64) float64 {
	for half := len(lane) / 2; half > 0; half /= 2 {
		for l := range half {
			lane[l] += lane[l+half]
		}
	}
	return lane[0]
}

func portableConstant[T float](c *constant, dst, x []T, lo, hi int) {
	for i := lo; i < hi; i++ {
		sum := T(minusZero)
		for k, off := range c.offs {
			sum += T(T(c.coefs[k]) * x[i+off/8])
		}
		dst[i-lo] = sum
	}
}

func portableVarying[T float](v *varying, dst, x []T, lo, hi, base int) {
	for i := lo; i < hi; i++ {
		sum := T(minusZero)
		for k, off := range v.offs {
			sum += T(T(v.value(k*v.n+i-base)) * x[i+off/8])
		}
		dst[i-lo] = sum
	}
}

// portableScattered multiplies n slices from slice s on. It defines the results of the assembly kernels.
func portableScattered[T float](c *scattered, dst, x []T, s, n, row int) {
	for i := range n {
		sum := dst[8*i:][:8]
		for l := range sum {
			sum[l] = T(minusZero)
		}
		at := int(c.starts[s+i].entry)
		for _, mask := range c.masks[c.starts[s+i].mask:c.starts[s+i+1].mask] {
			for l := range sum {
				if mask>>l&1 != 0 {
					sum[l] += T(T(c.value(s+i, at)) * x[c.column(at, row+8*i)])
					at++
				}
			}
		}
	}
}

// value returns the value of an entry of slice s.
func (c *scattered) value(s, at int) float64 {
	switch {
	case c.vals64 != nil:
		return c.vals64[at]
	case c.vals16 != nil:
		if k := at - int(c.starts[s].entry); k < c.firsts(s) {
			return float64(c.vals32[8*s+k])
		}
		return widen(c.vals16[at-8*s-c.firsts(s)])
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

// Sweep is a list of operations on vectors that one pass over memory executes. The pass does all operations on a few
// rows, then on the next rows, so it loads and stores each vector only once. The bits are the same as if each operation
// ran over all rows before the next.
//
//	s.Add(beta, p, nil)       // p = beta p + d r, d a diagonal
//	s.Add(1, r, d)
//	s.Store(p)
//	s.Dot(p, r, nil)          // and the scalar product of p and r
//	s.Run(lo, hi, nil)
type Sweep struct {
	ops       []op
	sums      [][lanes]float64
	rows      int  // length of the shortest vector
	usesBlock bool // some operation uses the block
}

// lanes is the number of partial sums of a scalar product.
const lanes = 32

// An op adds a term to the current sum, or multiplies the current sum with a vector for a scalar product. The assembly
// kernels depend on this layout.
type op struct {
	x, by []float64
	dst   []float64 // vector that receives the sum, nil for none
	coef  float64
	sum   int // offset in bytes of the scalar product in Sweep.sums
	does  int // flags, see below
}

const (
	opBy    = 1 << iota // multiply by another vector, element by element
	opScale             // multiply by coef
	opAdd               // add to the previous terms; otherwise start a new sum
	opStore             // store the sum
	opDot               // take a scalar product instead of adding a term
	opBlock             // x is the block that Run is given
	opFresh             // no earlier operation touched the vector, so prefetch it
	opZero              // set the sum to zero instead of adding a term
)

// Reset removes all operations.
func (s *Sweep) Reset() {
	s.ops, s.sums = s.ops[:0], s.sums[:0]
	s.rows, s.usesBlock = math.MaxInt, false
}

// Empty reports whether the sweep has no operations.
func (s *Sweep) Empty() bool { return len(s.ops) == 0 }

// Zero starts a sum with the value zero.
func (s *Sweep) Zero() { s.ops = append(s.ops, op{does: opZero}) }

// Add adds the term coef*x to the sum, or coef*x*by element by element if by is not nil. The first Add after a Store or
// a Dot starts a new sum.
func (s *Sweep) Add(coef float64, x, by []float64) {
	s.rows = min(s.rows, len(x))
	s.add(coef, x, by, 0)
}

// AddBlock adds coef times the block that Run is given.
func (s *Sweep) AddBlock(coef float64) {
	s.usesBlock = true
	s.add(coef, nil, nil, opBlock)
}

// add appends an operation that adds a term, and notes whether it is the first to touch its vector.
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

// fresh reports whether no operation uses the vector yet.
func (s *Sweep) fresh(x []float64) bool {
	return len(x) > 0 && !slices.ContainsFunc(s.ops, func(o op) bool { return sameMemory(o.x, x) || sameMemory(o.dst, x) })
}

// sameMemory reports whether two vectors share their memory.
func sameMemory(x, y []float64) bool { return len(x) > 0 && len(y) > 0 && &x[0] == &y[0] }

// TakesBlock reports whether an operation uses the block that Run is given.
func (s *Sweep) TakesBlock() bool { return s.usesBlock }

// Store assigns the sum to dst. dst may be one of the terms.
func (s *Sweep) Store(dst []float64) {
	s.rows = min(s.rows, len(dst))
	last := &s.ops[len(s.ops)-1]
	last.dst, last.does = dst, last.does|opStore
}

// Dot takes the scalar product of x and y, or of x and y*by element by element if by is not nil. Sum returns the
// results, numbered in the order of the calls.
func (s *Sweep) Dot(x, y, by []float64) {
	var held []float64 // the vector that equals the current sum
	if n := len(s.ops); n > 0 && by == nil {
		held = s.ops[n-1].dst
	}
	if sameMemory(held, x) {
		x, y = y, x
	}
	if !sameMemory(held, y) {
		s.Add(1, y, by)
	}
	if by != nil {
		y = nil
	}
	s.rows = min(s.rows, len(x))
	s.ops = append(s.ops, op{x: x, dst: y, sum: 8 * lanes * len(s.sums), does: opDot})
	s.sums = append(s.sums, [lanes]float64{})
}

// Sum returns the k-th scalar product over all passes so far. The order of summation is fixed: each of 32 lanes adds
// every 32nd product of a pass, and the lanes are then added by halves.
func (s *Sweep) Sum(k int) float64 {
	lane := s.sums[k]
	return halves(lane[:])
}

// Run executes the operations on rows [lo, hi). block holds these rows of the vector that AddBlock adds.
func (s *Sweep) Run(lo, hi int, block []float64) {
	if lo < 0 || hi > s.rows || s.usesBlock && len(block) < hi-lo {
		panic(fmt.Sprintf("sparse: a pass over the rows [%d, %d) of %d, with a block of %d", lo, hi, s.rows, len(block)))
	}
	if lo < hi && len(s.ops) > 0 {
		s.run(lo, hi, block)
	}
}

// portable defines the results of Run.
func (s *Sweep) portable(lo, hi int, block []float64) {
	var sum [512]float64 // the length is a multiple of lanes
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
