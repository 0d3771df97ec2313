// Package proof checks a matrix product in much less time than a second multiplication takes.
//
// It fills operands, and fills the result with NaN in advance so that elements which were not written are noticed. It
// checks in two ways: exactly, with operands of small whole numbers, whose sums need no rounding in any order; and
// within the error bound of the precision, for a sample of the elements, with arbitrary numbers.
package proof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Mistake is the error for a wrong result.
type Mistake struct {
	Count  int64  // wrong elements found; there may be more
	Detail string // the first one: position, value, expected value
}

func (m *Mistake) Error() string {
	return fmt.Sprintf("%d wrong elements, first: %s", m.Count, m.Detail)
}

// Note counts a wrong element and describes the first.
func (m *Mistake) Note(format string, args ...any) {
	if m.Count == 0 {
		m.Detail = fmt.Sprintf(format, args...)
	}
	m.Count++
}

// Err returns the mistake, or nil if no element was wrong.
func (m *Mistake) Err() error {
	if m.Count == 0 {
		return nil
	}
	return m
}

// largest is the largest whole number among the operands. The sum of MaxDepth products is at most 2^20 x 4 x 4 = 2^24,
// and f32 represents every whole number up to 2^24.
const largest = 4

// MaxDepth is the largest number of products of Integers whose sum is exact.
const MaxDepth = 1 << 20

// Integers fills a matrix with whole numbers from -4 to 4, or with all values of i8 or u8.
func Integers(m gemm.Matrix, seed uint64) { integers(m, seed, 256) }

// integers limits the values of i8 and u8 to a largest magnitude.
func integers(m gemm.Matrix, seed uint64, magnitude int) {
	fill(m, rand.NewPCG(seed, 1), func(rnd *rand.Rand) float64 {
		switch m.Type {
		case dtype.I8:
			low, high := max(-128, -magnitude), min(127, magnitude)
			return float64(low + rnd.IntN(high-low+1))
		case dtype.U8:
			return float64(rnd.IntN(min(255, magnitude) + 1))
		}
		return float64(rnd.IntN(2*largest+1) - largest)
	})
}

// Operands fills A and B with whole numbers such that every sum of products is exact, in any order. They are Integers
// with two exceptions. If k is so large that sums of i8 or u8 could exceed i32, their values are smaller. And one
// element of each row of A and of each column of B needs more bits than narrower types have, so that the product is
// wrong if operands are rounded to such a type, as f32 is to tf32 by some libraries.
func Operands(a, b gemm.Matrix, seed uint64) error {
	k := a.Cols
	limit := int(math.Sqrt(math.MaxInt32 / float64(max(k, 1))))
	if bytes := gemm.Result(a.Type) == dtype.I32; bytes && limit == 0 || !bytes && k > MaxDepth {
		return fmt.Errorf("checking a product over k = %d: sums of %v are not exact", k, a.Type)
	}
	integers(a, seed, limit)
	integers(b, seed+1, limit)
	wide := wideBits[a.Type]
	if wide == 0 || k > MaxDepth/2 { // half of the range is for the wide elements
		return nil
	}
	rnd := rand.New(rand.NewPCG(seed, 5))
	number := func() float64 { return float64(int64(1)<<(wide-1) | rnd.Int64N(1<<(wide-1)) | 1) }
	// Wide elements of A are at even positions along k, and wide elements of B at odd ones, so that two of them are
	// never multiplied with each other.
	if even := (k + 1) / 2; even > 0 {
		for i := range a.Rows {
			a.Set(i, 2*(i%even), number())
		}
	}
	if odd := k / 2; odd > 0 {
		for j := range b.Cols {
			b.Set(2*(j%odd)+1, j, number())
		}
	}
	return nil
}

// wideBits is the number of bits of the wide elements of Operands: more than narrower types hold, which are tf32 and
// f16 with 11, bf16 with 8, and two bf16 together with 16. An f32 times 4 is then at most 2^22, twice in a sum.
var wideBits = [dtype.Last + 1]int{dtype.F64: 40, dtype.F32: 20, dtype.TF32: 11, dtype.F16: 11, dtype.BF16: 8}

// Reals fills A and B with numbers from -1 to 1. Types i8 and u8 have no such numbers and get Operands.
func Reals(a, b gemm.Matrix, seed uint64) error {
	if gemm.Result(a.Type) == dtype.I32 {
		return Operands(a, b, seed)
	}
	for i, m := range []gemm.Matrix{a, b} {
		fill(m, rand.NewPCG(seed+uint64(i), 2), func(rnd *rand.Rand) float64 { return 2*rnd.Float64() - 1 })
	}
	return nil
}

// Constant fills a matrix with one value.
func Constant(m gemm.Matrix, v float64) {
	fill(m, rand.NewPCG(0, 0), func(*rand.Rand) float64 { return v })
}

// Spoil fills a matrix with a value that no product contains: NaN, or the least value of i32.
func Spoil(m gemm.Matrix) {
	if m.Type == dtype.I32 {
		Constant(m, math.MinInt32)
		return
	}
	Constant(m, math.NaN())
}

// fill assigns every element. Each line in the direction of the memory has its own random numbers, so that several
// processors can work in parallel.
func fill(m gemm.Matrix, seeds *rand.PCG, value func(*rand.Rand) float64) {
	if m.ColStep != 1 {
		m = m.T()
	}
	first, second := seeds.Uint64(), seeds.Uint64()
	lines(m, func(i int, line []byte, values []float64) {
		rnd := rand.New(rand.NewPCG(first, second+uint64(i)))
		for j := range values {
			values[j] = value(rnd)
		}
		m.Type.Encode(line, values)
	})
}

// lines calls do for every row of a matrix with contiguous rows, on all processors, with a buffer for its values.
func lines(m gemm.Matrix, do func(i int, line []byte, values []float64)) {
	if m.Cols == 0 {
		return
	}
	const least = 1 << 16 // smallest number of elements that is worth a goroutine
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), m.Rows*m.Cols/least+1) {
		wait.Go(func() {
			values := make([]float64, m.Cols)
			for i := int(next.Add(1)) - 1; i < m.Rows; i = int(next.Add(1)) - 1 {
				do(i, m.Run(i, 0, m.Cols), values)
			}
		})
	}
	wait.Wait()
}

// Exact checks c = a x b for operands that were filled by Operands, or by Integers along a k of at most MaxDepth. It
// multiplies both sides with a vector of random nonzero integers (Freivalds' algorithm), which takes O(n²) operations
// instead of O(n³). A row with one wrong element is always found, and a row with several is missed once in 2^30. Rows
// that differ are then recomputed element by element.
func Exact(c, a, b gemm.Matrix, seed uint64) error {
	x := Probe(c.Cols, seed)
	want := Times(a, Times(b, x))
	got, whole := WholeTimes(c, x)
	var fault Mistake
	for i := range c.Rows {
		if whole[i] && got[i] == want[i] {
			continue
		}
		compareRow(c, a, b, i, &fault)
		const enough = 4 // rows to recompute; each takes k x n operations
		if fault.Count > 0 && i >= enough {
			break
		}
	}
	return fault.Err()
}

// Probe returns a vector of random nonzero integers. If one element of a row is wrong, the product of the row with the
// vector is wrong too.
func Probe(n int, seed uint64) []int64 {
	rnd := rand.New(rand.NewPCG(seed, 3))
	x := make([]int64, n)
	for j := range x {
		x[j] = 1 + rnd.Int64N(1<<30)
	}
	return x
}

// Times returns a matrix of whole numbers times a vector. Sums may wrap around, which is the same on both sides of a
// comparison.
func Times(m gemm.Matrix, x []int64) []int64 {
	y, _ := WholeTimes(m, x)
	return y
}

// WholeTimes is Times, and also reports which rows contain only whole numbers. Each processor writes its results once,
// because cache lines that several processors add to would cost more than the products.
func WholeTimes(m gemm.Matrix, x []int64) (y []int64, whole []bool) {
	y, whole = make([]int64, m.Rows), slices.Repeat([]bool{true}, m.Rows)
	if m.ColStep == 1 {
		lines(m, func(i int, line []byte, values []float64) {
			m.Type.Decode(values, line)
			sum, all := int64(0), true
			for j, v := range values {
				n := int64(v)
				all = all && float64(n) == v
				sum += n * x[j]
			}
			y[i], whole[i] = sum, all
		})
		return y, whole
	}
	const band = 256 // rows that a processor takes at a time
	var wait sync.WaitGroup
	for from := 0; from < m.Rows; from += band {
		wait.Go(func() { bandTimes(m.T(), x, y[from:min(from+band, m.Rows)], whole[from:], from) })
	}
	wait.Wait()
	return y, whole
}

// bandTimes is WholeTimes for some rows of a matrix with contiguous columns. t is its transpose.
func bandTimes(t gemm.Matrix, x, y []int64, whole []bool, from int) {
	values, sums, odd := make([]float64, len(y)), make([]int64, len(y)), make([]bool, len(y))
	for j := range t.Rows {
		t.Type.Decode(values, t.Run(j, from, len(y)))
		for i, v := range values {
			n := int64(v)
			if float64(n) != v {
				odd[i] = true
			}
			sums[i] += n * x[j]
		}
	}
	copy(y, sums)
	for i := range odd {
		whole[i] = !odd[i]
	}
}

func compareRow(c, a, b gemm.Matrix, i int, fault *Mistake) {
	for j := range c.Cols {
		want := 0.0
		for l := range a.Cols {
			want += a.At(i, l) * b.At(l, j)
		}
		if got := c.At(i, j); got != want {
			fault.Note("row %d, column %d is %v, want %v", i, j, got, want)
		}
	}
}

// shortSums is the error bound of sums of e4m3 products, relative to the magnitudes. The matrix units keep 13 bits of
// the larger addend, for 32 products at a time, and the results of 128 products are added up in f32.
const shortSums = 4 * 0x1p-13

// Close checks a sample of the elements of c = a x b against a product in f64. In any order, the error of a sum of k
// products is at most k roundings of the sum of their magnitudes (Higham, Accuracy and Stability, section 3.1).
func Close(c, a, b gemm.Matrix, samples int, seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, 4))
	unit := 0x1p-24
	switch c.Type {
	case dtype.F64:
		unit = 0x1p-53
	case dtype.I32:
		unit = 0 // exact
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
		// Twice the bound, because the sum in f64 is rounded too.
		bound := 2 * float64(a.Cols+1) * unit * magnitude
		if a.Type == dtype.E4M3 {
			bound += shortSums * magnitude
		}
		if got := c.At(i, j); !(math.Abs(got-sum) <= bound) { // false for NaN
			fault.Note("row %d, column %d is %v, want %v within %.2g", i, j, got, sum, bound)
		}
	}
	return fault.Err()
}
