package gemm

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// Options for operands of i8 and u8.
const (
	typeOfBOption = "b-dtype"
	sameType      = "same"
	scalesOption  = "scales"
)

func byteOptions() []bench.Clause {
	return []bench.Clause{
		bench.Choice(typeOfBOption, "element type of B, if dtype is i8 or u8 and only A has it", sameType, dtype.I8.String(),
			dtype.U8.String()),
		bench.Option(scalesOption, bench.KindBool, "false",
			"multiply the sums of i8 or u8 by a scale per row and per column, with a result of f32"),
	}
}

// typeOfB returns the element type of B for an A of type d.
func typeOfB(s *bench.State, d dtype.DType) (dtype.DType, error) {
	name := s.Str(typeOfBOption)
	if name == sameType || name == d.String() {
		return d, nil
	}
	provider, err := providerOf(s)
	if err != nil {
		return 0, err
	}
	b, err := dtype.Parse(name)
	if err != nil {
		return 0, err
	}
	if gemm.Result(d) != dtype.I32 {
		return 0, bench.Skip("--%s %s: A is %v: only i8 and u8 can be mixed", typeOfBOption, name, d)
	}
	if err := checkType(provider, b); err != nil {
		return 0, bench.Skip("--%s %s: %v", typeOfBOption, name, err)
	}
	return b, nil
}

// scaled returns a function that multiplies with scales, and one that verifies its result. The sums are verified
// without scales first. They are converted to f32 and multiplied in a given order, so every element is known exactly.
func scaled(e gemm.Engine, sums, a, b gemm.Matrix, verifySums func() error) (multiply, verify func() error, err error) {
	q, ok := e.(gemm.Quantised)
	if !ok || sums.Type != dtype.I32 {
		return nil, nil, bench.Skip("--%s: %v multiplies %v without scales: want provider builtin with i8 or u8",
			scalesOption, e, a.Type)
	}
	if err := e.Multiply(sums, a, b); err != nil {
		return nil, nil, err
	}
	if err := verifySums(); err != nil {
		return nil, nil, err
	}
	c := gemm.New(dtype.F32, sums.Rows, sums.Cols)
	proof.Spoil(c)
	scales := gemm.Scales{Rows: reciprocals(c.Rows), Cols: reciprocals(c.Cols)}
	multiply = func() error { return q.MultiplyScaled(c, a, b, scales) }
	verify = func() error {
		var fault proof.Mistake
		got, exact := dtype.View[float32](c.Data), dtype.View[int32](sums.Data)
		for i, row := range scales.Rows {
			for j, col := range scales.Cols {
				if at := i*c.Cols + j; got[at] != float32(exact[at])*row*col {
					fault.Note("row %d, column %d is %v, want %d times %v times %v", i, j, got[at], exact[at], row, col)
				}
			}
		}
		return fault.Err()
	}
	return multiply, verify, nil
}

// reciprocals returns n different scales.
func reciprocals(n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = 1 / float32(i+2)
	}
	return s
}
