// Package gemmtest is the conformance suite for matrix multiplication: the rules that every gemm.Provider must obey.
// Its own tests show that each check can fail.
package gemmtest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// T is the part of *testing.T that the suite needs, so that a program can run it too.
type T[Self any] interface {
	Run(name string, f func(Self)) bool
	Error(args ...any)
}

// Run tests a provider with the given numbers of threads. A missing library is a failure, not a skip.
func Run[Self T[Self]](t Self, p gemm.Provider, threads ...int) {
	for _, threads := range threads {
		t.Run(fmt.Sprintf("%s/threads=%d", p.Name(), threads), func(t Self) {
			for _, err := range Faults(p, threads) {
				t.Error(err)
			}
		})
	}
}

// shapes lists M, N, K: empty, one element, whole tiles of every kernel and one more or less, more than one block along
// k, long thin matrices, and few rows with columns in whole groups.
var shapes = [][3]int{
	{0, 5, 3}, {5, 0, 3}, {5, 3, 0}, {0, 0, 0},
	{1, 1, 1}, {1, 7, 9}, {7, 1, 9}, {9, 7, 1}, {2, 3, 4},
	{14, 32, 16}, {15, 33, 17}, {13, 31, 15}, {6, 16, 8}, {32, 32, 64}, {33, 65, 31},
	{1, 300, 200}, {300, 1, 200}, {64, 64, 64}, {61, 67, 59},
	{100, 120, 110}, {97, 101, 130}, {77, 70, 900}, {35, 260, 801}, {3, 500, 400}, {3, 192, 37}, {16, 128, 150},
	{34, 40, 2100},
}

// Faults returns everything that is wrong with a provider at a number of threads.
func Faults(p gemm.Provider, threads int) (faults []error) {
	e, err := p.Open(threads)
	if err != nil {
		return []error{err}
	}
	defer e.Close()
	if p.Name() == "" || e.String() == "" || len(p.Types()) == 0 {
		faults = append(faults, errors.New("a name, a description or the types are missing"))
	}
	for _, threads := range []int{0, -1, gemm.MaxThreads + 1} {
		if e, err := p.Open(threads); err == nil {
			e.Close()
			faults = append(faults, fmt.Errorf("%d threads were accepted", threads))
		}
	}
	types := lists.Filter(p.Types(), func(d dtype.DType) bool { return supports(e, d) })
	if len(types) == 0 {
		return append(faults, errors.New("no type can be multiplied here"))
	}
	for t, d := range types {
		for i, s := range shapes {
			// Two of the eight layouts, different ones for every shape and type.
			for _, trans := range []int{(i + t) % 8, (3*i + t + 4) % 8} {
				faults = append(faults, product(e, layout{d, d, s, trans, i % 3}))
			}
		}
		faults = append(faults, parts(e, d), misuse(e, d))
	}
	if slices.Contains(types, dtype.I8) && slices.Contains(types, dtype.U8) {
		for i, s := range shapes {
			faults = append(faults, product(e, layout{dtype.I8, dtype.U8, s, i % 8, i % 3}),
				product(e, layout{dtype.U8, dtype.I8, s, (i + 4) % 8, i % 3}))
		}
	}
	if k, ok := e.(gemm.Keeper); ok {
		faults = append(faults, keeping(k, types[0]))
	}
	if q, ok := e.(gemm.Quantised); ok && slices.Contains(types, dtype.I8) {
		faults = append(faults, scaled(q))
	}
	if r, ok := e.(gemm.Resident); ok {
		faults = append(faults, large(r, types))
	}
	return lists.Filter(faults, func(err error) bool { return err != nil })
}

// supports reports whether the device multiplies a type. A provider for several devices may have types that only
// some of them can multiply.
func supports(e gemm.Engine, d dtype.DType) bool {
	var missing *gemm.MissingError
	return !errors.As(product(e, layout{d, d, [3]int{2, 3, 4}, 0, 0}), &missing)
}

// large computes products that more than fill a GPU, several in a row, with operands that stay there.
func large(e gemm.Resident, types []dtype.DType) error {
	d := types[0]
	if slices.Contains(types, dtype.BF16) {
		d = dtype.BF16
	}
	const m, n, k = 2200, 2310, 30
	c, a, b := gemm.New(gemm.Result(d), m, n), gemm.New(d, m, k), gemm.New(d, n, k).T()
	proof.Integers(a, 1)
	proof.Integers(b, 2)
	if err := e.Load(c, a, b); err != nil {
		return fmt.Errorf("loading %d x %d x %d: %w", m, n, k, err)
	}
	for products := 1; products <= 2; products++ {
		proof.Spoil(c)
		if _, err := e.Sample(products); err != nil {
			return fmt.Errorf("%d products in a row: %w", products, err)
		}
		if err := e.Fetch(c); err != nil {
			return err
		}
		if err := proof.Exact(c, a, b, 3); err != nil {
			return fmt.Errorf("%d products of %d x %d x %d in a row: %w", products, m, n, k, err)
		}
	}
	return nil
}

// keeping checks products with a kept B, with another B meanwhile, and with new elements after another call of Keep.
func keeping(e gemm.Keeper, d dtype.DType) error {
	for _, rows := range []int{5, 70} {
		l := layout{d, d, [3]int{rows, 83, 66}, 0, 1}
		c, a, b := l.matrices()
		_, _, other := l.matrices()
		proof.Integers(a, 1)
		proof.Integers(other, 4)
		for seed := range uint64(2) {
			proof.Integers(b, 5+seed)
			if err := e.Keep(b); err != nil {
				return fmt.Errorf("%v: keeping B: %w", l, err)
			}
			for i, x := range []gemm.Matrix{b, b, other, b} {
				proof.Spoil(c)
				if err := e.Multiply(c, a, x); err != nil {
					return fmt.Errorf("%v: product %d with a kept B: %w", l, i, err)
				}
				if err := proof.Exact(c, a, x, 3); err != nil {
					return fmt.Errorf("%v: product %d with a kept B: %w", l, i, err)
				}
			}
		}
	}
	return nil
}

// scaled checks products of bytes with scales, with an odd shape and C in both directions.
func scaled(e gemm.Quantised) error {
	for _, trans := range []int{0, 4} {
		l := layout{dtype.I8, dtype.I8, [3]int{37, 45, 130}, trans, 3}
		sums, a, b := l.matrices()
		proof.Integers(a, 1)
		proof.Integers(b, 2)
		if err := e.Multiply(sums, a, b); err != nil {
			return err
		}
		c := l.matrix(dtype.F32, sums.Rows, sums.Cols, 2)
		s := gemm.Scales{Rows: make([]float32, c.Rows), Cols: make([]float32, c.Cols)}
		for i := range s.Rows {
			s.Rows[i] = 1 / float32(1+i)
		}
		for j := range s.Cols {
			s.Cols[j] = float32(3 + j)
		}
		proof.Spoil(c)
		if err := e.MultiplyScaled(c, a, b, s); err != nil {
			return fmt.Errorf("%v with scales: %w", l, err)
		}
		for i := range c.Rows {
			for j := range c.Cols {
				want := sums.At(i, j) * float64(s.Rows[i]) * float64(s.Cols[j])
				if got := c.At(i, j); !(math.Abs(got-want) <= 0x1p-21*math.Abs(want)) {
					return fmt.Errorf("%v with scales: (%d, %d) is %v, want %v", l, i, j, got, want)
				}
			}
		}
		if err := untouched(c, l.gap); err != nil {
			return fmt.Errorf("%v with scales: %w", l, err)
		}
		s.Cols = s.Cols[1:]
		if err := e.MultiplyScaled(c, a, b, s); err == nil {
			return errors.New("too few scales were accepted")
		}
	}
	return nil
}

// layout is a product to compute: the types of A and B, which operands are transposed (one bit each for A, B and C),
// and how many elements of other memory follow every line.
type layout struct {
	a, b  dtype.DType
	shape [3]int
	trans int
	gap   int
}

func (l layout) String() string {
	return fmt.Sprintf("%v x %v %dx%dx%d transposed %03b gap %d", l.a, l.b, l.shape[0], l.shape[1], l.shape[2], l.trans,
		l.gap)
}

// matrix allocates an operand and fills the memory between its lines with a pattern.
func (l layout) matrix(d dtype.DType, rows, cols, bit int) gemm.Matrix {
	if l.trans>>bit&1 == 1 {
		l.trans = 0
		return l.matrix(d, cols, rows, bit).T()
	}
	stride := cols + l.gap
	m := gemm.New(d, rows, stride)
	for i := range m.Data {
		m.Data[i] = 0x5a
	}
	m.Cols = cols
	return m
}

func (l layout) matrices() (c, a, b gemm.Matrix) {
	m, n, k := l.shape[0], l.shape[1], l.shape[2]
	return l.matrix(gemm.Result(l.a), m, n, 2), l.matrix(l.a, m, k, 0), l.matrix(l.b, k, n, 1)
}

// product checks one product, exactly and with reals, and checks that nothing else was written.
func product(e gemm.Engine, l layout) error {
	c, a, b := l.matrices()
	for _, variant := range []struct {
		fill  func(a, b gemm.Matrix, seed uint64) error
		check func() error
	}{
		{proof.Operands, func() error { return proof.Exact(c, a, b, 3) }},
		{proof.Reals, func() error { return proof.Close(c, a, b, 20, 3) }},
	} {
		if err := variant.fill(a, b, 1); err != nil {
			return err
		}
		proof.Spoil(c)
		operands := append(bytes.Clone(a.Data), b.Data...)
		if err := e.Multiply(c, a, b); err != nil {
			return fmt.Errorf("%v: %w", l, err)
		}
		if !bytes.Equal(operands, append(bytes.Clone(a.Data), b.Data...)) {
			return fmt.Errorf("%v: an operand was written", l)
		}
		if err := variant.check(); err != nil {
			return fmt.Errorf("%v: %w", l, err)
		}
		if err := untouched(c, l.gap); err != nil {
			return fmt.Errorf("%v: %w", l, err)
		}
	}
	return nil
}

// untouched checks that the pattern of layout.matrix is still in the memory between the lines of C.
func untouched(c gemm.Matrix, gap int) error {
	if c.ColStep != 1 {
		c = c.T()
	}
	size := c.Type.Size()
	for i := range c.Rows {
		end := (i*c.RowStep + c.Cols) * size
		for _, x := range c.Data[end : end+gap*size] {
			if x != 0x5a {
				return fmt.Errorf("memory after line %d of C was written", i)
			}
		}
	}
	return nil
}

// parts computes C in uneven ranges of rows and of columns, like the overlap with communication does.
func parts(e gemm.Engine, d dtype.DType) error {
	l := layout{d, d, [3]int{75, 83, 66}, 0, 1}
	c, a, b := l.matrices()
	proof.Integers(a, 1)
	proof.Integers(b, 2)
	for _, byRows := range []bool{true, false} {
		proof.Spoil(c)
		extent := map[bool]int{true: c.Rows, false: c.Cols}[byRows]
		rnd := rand.New(rand.NewPCG(1, 2))
		for from := 0; from < extent; {
			to := min(from+rnd.IntN(40), extent) // includes empty ranges
			var err error
			if byRows {
				err = e.Multiply(c.RowRange(from, to), a.RowRange(from, to), b)
			} else {
				err = e.Multiply(c.ColRange(from, to), a, b.ColRange(from, to))
			}
			if err != nil {
				return fmt.Errorf("part %d to %d, by rows %v: %w", from, to, byRows, err)
			}
			from = to
		}
		if err := proof.Exact(c, a, b, 3); err != nil {
			return fmt.Errorf("%v in parts, by rows %v: %w", l, byRows, err)
		}
	}
	return nil
}

// misuse checks that each kind of wrong argument gives an error, not a crash or a product.
func misuse(e gemm.Engine, d dtype.DType) error {
	fits := func() (c, a, b gemm.Matrix) { return layout{d, d, [3]int{3, 4, 5}, 0, 0}.matrices() }
	for name, spoil := range map[string]func(c, a, b *gemm.Matrix){
		"K differs":         func(c, a, b *gemm.Matrix) { b.Rows = 4 },
		"M differs":         func(c, a, b *gemm.Matrix) { c.Rows = 2 },
		"N differs":         func(c, a, b *gemm.Matrix) { c.Cols = 3 },
		"no memory":         func(c, a, b *gemm.Matrix) { a.Data = a.Data[:len(a.Data)-1] },
		"rows overlap":      func(c, a, b *gemm.Matrix) { c.RowStep = 3 },
		"no unit step":      func(c, a, b *gemm.Matrix) { b.ColStep = 2 },
		"negative":          func(c, a, b *gemm.Matrix) { a.Rows, c.Rows = -1, -1 },
		"an integer type":   func(c, a, b *gemm.Matrix) { a.Type, b.Type = dtype.I32, dtype.I32 },
		"types differ":      func(c, a, b *gemm.Matrix) { *b = gemm.New(dtype.I64, 5, 4) },
		"the result's type": func(c, a, b *gemm.Matrix) { *c = gemm.New(dtype.I64, 3, 4) },
	} {
		c, a, b := fits()
		spoil(&c, &a, &b)
		if err := e.Multiply(c, a, b); err == nil {
			return fmt.Errorf("%v: misuse (%s) was accepted", d, name)
		}
	}
	return nil
}
