package gemm

import (
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func at(t *testing.T, shape, operand, provider string, threads int64) point.Point {
	t.Helper()
	s := must.Get(point.Parse(point.Tuple, shape))(t)
	d := must.Get(point.Parse(point.DType, operand))(t)
	return point.Point{{Name: "shape", Value: s}, {Name: "dtype", Value: d},
		{Name: "provider", Value: point.StringValue(provider)}, {Name: "threads", Value: point.IntValue(threads)}}
}

func TestDeclaration(t *testing.T) {
	if err := Bench().Validate(); err != nil {
		t.Error(err)
	}
}

// Unsupported points are rejected when planning.
func TestCheckPoint(t *testing.T) {
	for _, test := range []struct{ shape, dtype, provider, want string }{
		{"8x8x8", "f32", "builtin", ""},
		{"8x8x8", "bf16", "builtin", ""},
		{"8x8x8", "f64", "openblas", ""},
		{"8x8x8", "bf16", "openblas", "cannot multiply bf16"},
		{"8x8", "f32", "builtin", "MxNxK"},
		{"8x0x8", "f32", "builtin", "an empty product"},
		{"8x8x8", "i32", "builtin", "cannot multiply i32"},
		{"8x8x8", "f32", "mkl", "unknown provider"},
		{"8x8x8", "e4m3", "cublaslt", ""},
		{"8x8x8", "tf32", "cublaslt-exhaustive", ""},
		{"8x8x8", "e4m3", "openblas", "cannot multiply e4m3"},
		{"8x8x8", "i64", "cublaslt", "cannot multiply i64"},
	} {
		err := checkPoint(at(t, test.shape, test.dtype, test.provider, 1))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// A wrong product fails the point before it is timed.
func TestWrongProductIsFound(t *testing.T) {
	e := must.Get(gemm.Builtin().Open(1))(t)
	defer e.Close()
	a, b, c := gemm.New(dtype.F32, 9, 9), gemm.New(dtype.F32, 9, 9), gemm.New(dtype.F32, 9, 9)
	if err := checkExact(e, c, a, b, 1); err != nil {
		t.Errorf("a correct engine: %v", err)
	}
	if err := checkExact(offByOne{e}, c, a, b, 1); err == nil || !strings.Contains(err.Error(), "1 wrong elements") {
		t.Errorf("an engine that is off by one: %v", err)
	}
}

// A product of f32 that is computed with operands of tf32 or bf16, as libraries do by default or by an environment
// variable, is wrong. The error bound for real numbers grows with k and would accept it.
func TestLowerPrecisionIsFound(t *testing.T) {
	e := must.Get(gemm.Builtin().Open(1))(t)
	defer e.Close()
	const k = 2048
	a, b, c := gemm.New(dtype.F32, 4, k), gemm.New(dtype.F32, k, 5), gemm.New(dtype.F32, 4, 5)
	must.Do(t, checkExact(e, c, a, b, 1))
	for _, narrower := range []dtype.DType{dtype.TF32, dtype.BF16} {
		if err := checkExact(rounding{e, narrower}, c, a, b, 1); err == nil {
			t.Errorf("a product of operands that were rounded to %v passes", narrower)
		}
	}
}

type rounding struct {
	gemm.Engine
	to dtype.DType
}

func (e rounding) Multiply(c, a, b gemm.Matrix) error {
	narrow := func(m gemm.Matrix) gemm.Matrix {
		out := gemm.New(m.Type, m.Rows, m.Cols)
		for i := range m.Rows {
			for j := range m.Cols {
				v := []float64{m.At(i, j)}
				e.to.Round(v)
				out.Set(i, j, v[0])
			}
		}
		return out
	}
	return e.Engine.Multiply(c, narrow(a), narrow(b))
}

// Products of bytes along a k whose sums could exceed i32 have smaller operands.
func TestLongProductsOfBytes(t *testing.T) {
	e := must.Get(gemm.Builtin().Open(1))(t)
	defer e.Close()
	const k = 53248
	a, b, c := gemm.New(dtype.U8, 2, k), gemm.New(dtype.U8, k, 3), gemm.New(dtype.I32, 2, 3)
	must.Do(t, checkExact(e, c, a, b, 1))
	must.Do(t, proof.Reals(a, b, 1))
	must.Do(t, e.Multiply(c, a, b))
	must.Do(t, proof.Close(c, a, b, samples, 1))
}

type offByOne struct{ gemm.Engine }

func (e offByOne) Multiply(c, a, b gemm.Matrix) error {
	err := e.Engine.Multiply(c, a, b)
	c.Set(3, 4, c.At(3, 4)+1)
	return err
}

// The comparison has one line per point that both providers have.
func TestSections(t *testing.T) {
	row := func(shape, provider string, gflops float64) journal.Row {
		return journal.Row{Status: journal.OK, Point: at(t, shape, "f32", provider, 1),
			Metrics: map[string]float64{"gflops": gflops, "peak_pct": 80, "time_us": 1e3 / gflops}}
	}
	rows := []journal.Row{row("8x8x8", "builtin", 30), row("8x8x8", "openblas", 20), row("9x9x9", "openblas", 20)}
	if got := sections(dataset.All(rows)); len(got) != 1 || len(got[0].Table) != 2 ||
		got[0].Table[1][7] != "not resolved" {
		t.Errorf("one launch each: %+v", got)
	}
	four := slices.Concat(rows, rows, rows, []journal.Row{row("8x8x8", "builtin", 27), row("8x8x8", "openblas", 20)})
	got := sections(dataset.All(four))
	if len(got) != 1 || len(got[0].Table) != 2 || got[0].Table[1][7] != "1.50 (1.35 to 1.50)" ||
		len(got[0].Lines) != 1 || len(got[0].Lines[0].Rows) != 8 {
		t.Errorf("sections: %+v", got)
	}
	if figs := benchtest.Figures(t, Bench(), dataset.All(rows)); len(figs) != 1 || len(figs[0].Panels) != 1 ||
		len(figs[0].Panels[0].Series) != 2 {
		t.Errorf("figures: %+v", figs)
	}
	if sections(nil) != nil || benchtest.Figures(t, Bench(), nil) != nil {
		t.Error("views of no rows")
	}
}
