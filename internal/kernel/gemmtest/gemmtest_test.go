package gemmtest

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// liar is a correct provider with one fault added after each product, or before the checks of its arguments.
type liar struct {
	gemm.Provider
	types []dtype.DType
	twist func(c, a, b gemm.Matrix)
	lax   bool
}

type lyingEngine struct {
	gemm.Engine
	of liar
}

func (l liar) Types() []dtype.DType { return l.types }

func (l liar) Open(threads int) (gemm.Engine, error) {
	if l.lax {
		threads = 1
	}
	e, err := l.Provider.Open(threads)
	if err != nil {
		return nil, err
	}
	return lyingEngine{e, l}, nil
}

func (e lyingEngine) Multiply(c, a, b gemm.Matrix) error {
	if err := e.Engine.Multiply(c, a, b); err != nil && !e.of.lax {
		return err
	}
	if c.Rows > 0 && c.Cols > 0 && e.of.twist != nil {
		e.of.twist(c, a, b)
	}
	return nil
}

// The suite finds every kind of fault.
func TestFaultsAreFound(t *testing.T) {
	lies := map[string]liar{
		"one element is off by one":       {twist: func(c, a, b gemm.Matrix) { add(c, c.Rows-1, c.Cols-1, 1) }},
		"an element is not written":       {twist: func(c, a, b gemm.Matrix) { c.Set(c.Rows/2, c.Cols/2, math.NaN()) }},
		"the last step along k is lost":   {twist: lastStep},
		"rows are exchanged":              {twist: exchange},
		"rounded to 12 bits":              {twist: round},
		"operands rounded to 11 bits":     {twist: narrow},
		"memory behind a line is written": {twist: behind},
		"an operand is written":           {twist: func(c, a, b gemm.Matrix) { scratch(a) }},
		"misuse is accepted":              {lax: true},
	}
	for name, l := range lies {
		l.Provider, l.types = gemm.Builtin(), []dtype.DType{dtype.F32}
		if len(Faults(l, 1)) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
	honest := liar{Provider: gemm.Builtin(), types: []dtype.DType{dtype.F32}}
	for _, err := range Faults(honest, 1) {
		t.Errorf("without a fault: %v", err)
	}
}

// forgetful keeps the elements of the first B, and mistaken exchanges the scales of rows and columns.
type forgetful struct {
	gemm.Engine
	kept gemm.Matrix
}

func (e *forgetful) Keep(b gemm.Matrix) error {
	if e.kept.Data == nil {
		e.kept = b
		e.kept.Data = bytes.Clone(b.Data)
	}
	return nil
}

func (e *forgetful) Multiply(c, a, b gemm.Matrix) error {
	if b.Rows == e.kept.Rows {
		b = e.kept
	}
	return e.Engine.Multiply(c, a, b)
}

type mistaken struct{ gemm.Quantised }

func (e mistaken) MultiplyScaled(c, a, b gemm.Matrix, s gemm.Scales) error {
	if len(s.Rows) == c.Rows && len(s.Cols) == c.Cols {
		rows, cols := slices.Clone(s.Rows), slices.Clone(s.Cols)
		rows[0], cols[0] = cols[0], rows[0]
		s = gemm.Scales{Rows: rows, Cols: cols}
	}
	return e.Quantised.MultiplyScaled(c, a, b, s)
}

// The checks of kept operands and of scales find faults.
func TestKeptAndScaledFaultsAreFound(t *testing.T) {
	e := must.Get(gemm.Builtin().Open(1))(t)
	defer e.Close()
	if keeping(&forgetful{Engine: e}, dtype.F32) == nil {
		t.Error("old elements of a kept B were not found")
	}
	if scaled(mistaken{e.(gemm.Quantised)}) == nil {
		t.Error("exchanged scales were not found")
	}
	must.Do(t, scaled(e.(gemm.Quantised)))
}

func add(m gemm.Matrix, i, j int, x float64) { m.Set(i, j, m.At(i, j)+x) }

func lastStep(c, a, b gemm.Matrix) {
	if l := a.Cols - 1; l >= 0 {
		add(c, 0, 0, -a.At(0, l)*b.At(l, 0))
	}
}

func exchange(c, _, _ gemm.Matrix) {
	for j := range c.Cols {
		x, y := c.At(0, j), c.At(c.Rows-1, j)
		c.Set(0, j, y)
		c.Set(c.Rows-1, j, x)
	}
}

func round(c, _, _ gemm.Matrix) {
	for i := range c.Rows {
		for j := range c.Cols {
			bits := math.Float32bits(float32(c.At(i, j)))
			c.Set(i, j, float64(math.Float32frombits(bits&^0xfff)))
		}
	}
}

// narrow repeats the product with operands rounded to tf32.
func narrow(c, a, b gemm.Matrix) {
	tf32 := func(v float64) float64 {
		one := []float64{v}
		dtype.TF32.Round(one)
		return one[0]
	}
	for i := range c.Rows {
		for j := range c.Cols {
			sum := 0.0
			for l := range a.Cols {
				sum += tf32(a.At(i, l)) * tf32(b.At(l, j))
			}
			c.Set(i, j, sum)
		}
	}
}

func behind(c, _, _ gemm.Matrix) {
	if c.ColStep == 1 && c.RowStep > c.Cols {
		c.Data[c.Cols*c.Type.Size()] = 0
	}
}

func scratch(m gemm.Matrix) {
	if m.Rows > 0 && m.Cols > 0 {
		m.Set(0, 0, m.At(0, 0)+1)
	}
}
