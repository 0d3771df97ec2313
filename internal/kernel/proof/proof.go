// Package proof checks a product of matrices in far less time than another
// multiplication takes.
//
// It fills operands, spoils the result in advance so that what was not written
// is noticed, and checks in two ways: exactly, with operands of small whole
// numbers, whose sums no order of additions can round; and within the error
// bound of the precision, with ordinary numbers, of which a sample is checked.
package proof

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Mistake is the error of a product that is wrong.
type Mistake struct {
	Count  int64  // wrong elements found; there may be more
	Detail string // the first: where, have, want
}

func (m *Mistake) Error() string {
	return fmt.Sprintf("%d wrong elements, first: %s", m.Count, m.Detail)
}

// largest is the greatest whole number among the operands. Sums of up to
// MaxDepth products stay below 2^24, up to which f32 has every whole number.
const largest = 4

// MaxDepth is the most products of Integers that an exact sum may have.
const MaxDepth = 1 << 20

// Integers fills a matrix with whole numbers from -4 to 4.
func Integers(m gemm.Matrix, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	each(&m, func(i, j int) { m.Set(i, j, float64(rnd.IntN(2*largest+1)-largest)) })
}

// Reals fills a matrix with numbers from -1 to 1.
func Reals(m gemm.Matrix, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	each(&m, func(i, j int) { m.Set(i, j, 2*rnd.Float64()-1) })
}

// Spoil fills a matrix with values that no product has.
func Spoil(m gemm.Matrix) { each(&m, func(i, j int) { m.Set(i, j, math.NaN()) }) }

func each(m *gemm.Matrix, do func(i, j int)) {
	for i := range m.Rows {
		for j := range m.Cols {
			do(i, j)
		}
	}
}

// Exact checks c = a x b for operands that Integers filled. It multiplies both
// sides with a vector of random whole numbers, none of them zero, in integers:
// a row with one wrong element is always found, and one with several is missed
// once in 2^30. Rows that differ are then computed element by element.
func Exact(c, a, b gemm.Matrix, seed uint64) error {
	if a.Cols > MaxDepth {
		return fmt.Errorf("checking a product over k = %d: whole numbers are exact up to %d", a.Cols, MaxDepth)
	}
	x := Probe(c.Cols, seed)
	want := Times(a, Times(b, x))
	var fault Mistake
	for i := range c.Rows {
		if got, whole := RowTimes(&c, i, x); whole && got == want[i] {
			continue
		}
		compareRow(c, a, b, i, &fault)
		const enough = 4 // rows to look at closely, each as long as k x n
		if fault.Count > 0 && i >= enough {
			break
		}
	}
	if fault.Count > 0 {
		return &fault
	}
	return nil
}

// Probe is a vector of random whole numbers, none of them zero. A row that
// differs from what it should be in one element differs in its product with it.
func Probe(n int, seed uint64) []int64 {
	rnd := rand.New(rand.NewPCG(seed, 3))
	x := make([]int64, n)
	for j := range x {
		x[j] = 1 + rnd.Int64N(1<<30)
	}
	return x
}

// Times is a matrix of whole numbers times a vector; the sums wrap around, on
// both sides of a comparison alike.
func Times(m gemm.Matrix, x []int64) []int64 {
	y := make([]int64, m.Rows)
	for i := range y {
		y[i], _ = RowTimes(&m, i, x)
	}
	return y
}

// RowTimes is one row times a vector, and whether the row has whole numbers.
func RowTimes(m *gemm.Matrix, i int, x []int64) (sum int64, whole bool) {
	whole = true
	for j, f := range x {
		v := m.At(i, j)
		n := int64(v)
		whole = whole && float64(n) == v
		sum += n * f
	}
	return sum, whole
}

func compareRow(c, a, b gemm.Matrix, i int, fault *Mistake) {
	for j := range c.Cols {
		want := 0.0
		for l := range a.Cols {
			want += a.At(i, l) * b.At(l, j)
		}
		if got := c.At(i, j); got != want {
			fault.note(i, j, fmt.Sprintf("is %v, want %v", got, want))
		}
	}
}

func (m *Mistake) note(i, j int, what string) {
	if m.Count == 0 {
		m.Detail = fmt.Sprintf("row %d, column %d %s", i, j, what)
	}
	m.Count++
}

// Close checks a sample of the elements of c = a x b against a product in f64.
// A sum of k products in any order is off by at most k roundings of the sum of
// their magnitudes (Higham, Accuracy and Stability, section 3.1).
func Close(c, a, b gemm.Matrix, samples int, seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, 4))
	unit := 0x1p-24
	if c.Type == dtype.F64 {
		unit = 0x1p-53
	}
	var fault Mistake
	if c.Rows == 0 || c.Cols == 0 {
		return nil
	}
	for range samples {
		i, j := rnd.IntN(c.Rows), rnd.IntN(c.Cols)
		sum, magnitude := 0.0, 0.0
		for l := range a.Cols {
			p := a.At(i, l) * b.At(l, j)
			sum += p
			magnitude += math.Abs(p)
		}
		// Twice, since the sum here has roundings too.
		bound := 2 * float64(a.Cols+1) * unit * magnitude
		if got := c.At(i, j); !(math.Abs(got-sum) <= bound) { // a NaN is not close
			fault.note(i, j, fmt.Sprintf("is %v, want %v within %.2g", got, sum, bound))
		}
	}
	if fault.Count > 0 {
		return &fault
	}
	return nil
}
