package milestone1h

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// Operands are -1, 0 and 1, hashed from the position, and the epilogue's row whole
// numbers up to 8. Sums are exact in f32 for every K, and results, which are of
// the size of the square root of K, in f16 for every K that is ever tried: up to
// 2048. One that is larger is refused rather than rounded.

const exactF16 = 2048

func entry(matrix, i int) int { return input(matrix, 0, i, 2) - 1 }

func rowEntry(i int) int { return input(2, 0, i, 16) - 8 }

func cells(n int, value func(i int) int) []dtype.Float16 {
	out := make([]dtype.Float16, n)
	for i := range out {
		out[i] = dtype.Float16From(float32(value(i)))
	}
	return out
}

func (c productCase) operands() kernels.Operands {
	return kernels.Operands{A: cells(c.M*c.K, func(i int) int {
		return entry(0, i)
	}), B: cells(c.K*c.N, func(i int) int { return entry(1, i) }),
		Row: cells(c.N, rowEntry)}
}

// run makes the product once and checks all of it.
func (c productCase) run() (*sim.Result, error) {
	var in kernels.Operands
	if c.verify {
		in = c.operands()
	}
	p, err := c.Matmul.Run(c.system, in)
	if err != nil {
		return nil, err
	}
	if c.verify {
		if err := c.check(p.C); err != nil {
			return nil, err
		}
	}
	return p.Result, nil
}

// check compares with the product in integers. Both sides are first multiplied by a
// vector of numbers none of which is zero: a row with one wrong element always
// differs, and one with several is missed once in 2^30. A row that differs is
// computed element by element, and so are all where the epilogue is not linear.
func (c productCase) check(got []dtype.Float16) error {
	b := make([]int64, c.K*c.N)
	for i := range b {
		b[i] = int64(entry(1, i))
	}
	probe := proof.Probe(c.N, 1)
	depth := make([]int64, c.K) // B times the vector
	for k := range depth {
		for n, v := range b[k*c.N : (k+1)*c.N] {
			depth[k] += v * probe[n]
		}
	}
	linear := !slices.Contains(c.Epilogue, tl.Maximum)
	var wrong bench.Wrong
	for m := range c.M {
		if linear && c.rowHolds(got, m, probe, depth) {
			continue
		}
		if err := c.checkRow(got, m, b, &wrong); err != nil {
			return err
		}
	}
	return wrong.Err()
}

// rowHolds compares row m of both sides times the vector.
func (c productCase) rowHolds(got []dtype.Float16, m int, probe, depth []int64) bool {
	var have, want int64
	for n, p := range probe {
		f := got[m*c.N+n].Float32()
		if f != f || f > exactF16 || f < -exactF16 || f != float32(int64(f)) {
			return false
		}
		have += int64(f) * p
		want += int64(c.finish(0, rowEntry(n))) * p
	}
	for k, d := range depth {
		want += int64(entry(0, m*c.K+k)) * d
	}
	return have == want
}

// checkRow computes row m again and counts what is wrong in it.
func (c productCase) checkRow(got []dtype.Float16, m int, b []int64, wrong *bench.Wrong) error {
	row := make([]int64, c.N)
	for k := range c.K {
		a := int64(entry(0, m*c.K+k))
		for n, v := range b[k*c.N : (k+1)*c.N] {
			row[n] += a * v
		}
	}
	for n, sum := range row {
		want := c.finish(int(sum), rowEntry(n))
		if want > exactF16 || want < -exactF16 {
			return fmt.Errorf("element %d,%d of the product is %d, which f16 cannot hold exactly: K = %d is too large to verify", m, n, want, c.K)
		}
		if have := got[m*c.N+n].Float32(); have != float32(want) {
			wrong.Note("element %d,%d of the product is %v, want %d", m, n, have, want)
		}
	}
	return nil
}

// finish is the epilogue in integers.
func (c productCase) finish(sum, row int) int {
	for _, fn := range c.Epilogue {
		switch fn {
		case tl.Add:
			sum += row
		case tl.Maximum:
			sum = max(sum, row)
		}
	}
	return sum
}
