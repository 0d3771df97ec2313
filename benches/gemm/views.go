package gemm

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// measured returns the good rows that have a rate.
func measured(rows dataset.Set) dataset.Set {
	return rows.Good().Where(func(r *journal.Row) bool {
		_, has := r.Metrics["gflops"]
		return has && len(dims(r)) == 3
	})
}

// dims returns M, N and K.
func dims(r *journal.Row) []int64 {
	return r.Point.At("shape").Dims()
}

// rates declares the rate of cubic products, with one panel per element type. Layers have labels ("attn_out=...") and
// appear only in the table, even if they are cubes.
var rates = bench.Plot("x=shape.cube,y=gflops,by=provider+threads,panel=dtype,xscale=log,yscale=linear",
	bench.Named("gemm_rate"), bench.Title("Matrix multiplication by size"), bench.Label("x", "M = N = K"),
	bench.Label("y", "rate"))

// sections compares the built-in provider with every other one at the same point. A ratio needs several launches of
// both, because launches differ.
func sections(rows dataset.Set) []bench.Section {
	s := bench.Section{Title: "Comparison with other libraries",
		Table: [][]string{{"shape", "type", "threads", "builtin", "of peak", "other", "", "builtin / other"}}}
	few := false
	for _, point := range dataset.GroupBy(measured(rows), func(r *journal.Row) [4]string {
		return [4]string{dataset.Text(r, "shape"), dataset.Text(r, "dtype"), dataset.Text(r, "threads"), r.Backend}
	}) {
		ours := point.Rows.At("provider", builtin)
		for _, provider := range point.Rows.Distinct("provider") {
			if provider == builtin || len(ours) == 0 {
				continue
			}
			theirs := point.Rows.At("provider", provider)
			us, other := newRate(ours), newRate(theirs)
			line := []string{point.Key[0], point.Key[1], point.Key[2], fmt.Sprintf("%.1f GFLOP/s", us.gflops),
				fmt.Sprintf("%.0f %%", us.peak), provider, fmt.Sprintf("%.1f GFLOP/s", other.gflops), "not resolved"}
			var behind dataset.Set
			if us.repeated() && other.repeated() {
				line[7] = fmt.Sprintf("%.2f (%.2f to %.2f)", us.gflops/other.gflops, us.low/other.high, us.high/other.low)
				behind = slices.Concat(us.rows, other.rows)
			} else {
				few = true
			}
			s.AddLine("ratio", behind, line...)
		}
	}
	if len(s.Table) == 1 {
		return nil
	}
	s.Text = "Median rates of the same products in the same run, and the range of their ratio over the launches. " +
		"The peak is " +
		"arithmetic without memory access, on the cores or on the GPU, measured in each row."
	if few {
		s.Text += fmt.Sprintf(" A ratio is not resolved with fewer than %d undisturbed launches (--trials %[1]d makes more).",
			judge.MinLaunches)
	}
	return []bench.Section{s}
}

// rate is the rate of a product over the launches that count.
type rate struct {
	rows              dataset.Set
	gflops, low, high float64 // median and range
	peak              float64 // median share of the peak, in per cent
}

func newRate(trials dataset.Set) rate {
	good := dataset.Set(trials).Counting()
	values := dataset.Set(good).Values("gflops")
	return rate{rows: good, gflops: dataset.Set(good).Median("gflops"), low: slices.Min(values), high: slices.Max(values),
		peak: dataset.Set(good).Median("peak_pct")}
}

func (r rate) repeated() bool { return len(r.rows) >= judge.MinLaunches }
