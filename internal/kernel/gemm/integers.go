package gemm

import (
	"fmt"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Scales are the factors of quantised operands: the sum of row i and column j is multiplied by Rows[i] x Cols[j].
type Scales struct{ Rows, Cols []float32 }

// Quantised is an engine that multiplies operands of i8 or u8 with scales.
type Quantised interface {
	Engine
	// MultiplyScaled sets c, of f32, to the exact product of a and b, of i8 or u8, times the scales of rows and
	// columns.
	MultiplyScaled(c, a, b Matrix, s Scales) error
}

var _ Quantised = (*engine)(nil)

// MultiplyScaled implements Quantised. The scales are applied to the sums before they leave the caches.
func (e *engine) MultiplyScaled(c, a, b Matrix, s Scales) error {
	sums := c
	if sums.Type = dtype.I32; c.Type != dtype.F32 || Result(a.Type) != dtype.I32 {
		return fmt.Errorf("multiplying with scales: operands of %v with a result of %v: want i8 or u8, and f32", a.Type,
			c.Type)
	}
	if err := Check(&sums, &a, &b, e.types); err != nil {
		return fmt.Errorf("multiplying with scales: %w", err)
	}
	if len(s.Rows) != c.Rows || len(s.Cols) != c.Cols {
		return fmt.Errorf("multiplying with scales: %d and %d scales for C of %d x %d: want one per row and column",
			len(s.Rows), len(s.Cols), c.Rows, c.Cols)
	}
	if c.ColStep != 1 { // the transposed product is stored by rows
		c, sums, a, b, s = c.T(), sums.T(), b.T(), a.T(), Scales{s.Cols, s.Rows}
	}
	if e.kernels[a.Type].Strips && a.Cols > 0 {
		e.scales = &s
		defer func() { e.scales = nil }()
		return e.multiply(sums, a, b)
	}
	if err := e.Multiply(sums, a, b); err != nil {
		return err
	}
	for i := range c.Rows {
		for j := range c.Cols {
			x := (*float32)(c.at(i, j))
			*x = float32(*(*int32)(unsafe.Pointer(x))) * s.Rows[i] * s.Cols[j]
		}
	}
	return nil
}

// widened multiplies bytes as f64, on processors without a kernel for them. Sums of up to 2^39 products are
// exact.
func (e *engine) widened(c, a, b Matrix) error {
	var w [3]Matrix
	for i, m := range []*Matrix{&c, &a, &b} {
		if err := e.wide[i].grow(m.Rows * m.Cols * 8); err != nil {
			return err
		}
		w[i] = Matrix{Type: dtype.F64, Rows: m.Rows, Cols: m.Cols, RowStep: m.Cols, ColStep: 1,
			Data: e.wide[i].mem[:m.Rows*m.Cols*8]}
		if i == 0 {
			continue
		}
		values := dtype.View[float64](w[i].Data)
		for r := range m.Rows {
			for k := range m.Cols {
				if x := m.at(r, k); m.Type == dtype.I8 {
					values[r*m.Cols+k] = float64(*(*int8)(x))
				} else {
					values[r*m.Cols+k] = float64(*(*uint8)(x))
				}
			}
		}
	}
	if err := e.multiply(w[0], w[1], w[2]); err != nil {
		return err
	}
	sums := dtype.View[float64](w[0].Data)
	for i := range c.Rows {
		for j := range c.Cols {
			*(*int32)(c.at(i, j)) = int32(int64(sums[i*c.Cols+j])) // wraps around as the tile registers do
		}
	}
	keepAlive(&c, &a, &b)
	return nil
}
