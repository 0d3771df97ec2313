package gemm

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/model"
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
	for _, point := range lists.GroupBy(measured(rows), func(r *journal.Row) [4]string {
		return [4]string{dataset.Text(r, "shape"), dataset.Text(r, "dtype"), dataset.Text(r, "threads"), r.Backend}
	}) {
		ours := point.Items.At("provider", builtin).Counting()
		for _, provider := range point.Items.Distinct("provider") {
			if provider == builtin || len(ours) == 0 {
				continue
			}
			theirs := point.Items.At("provider", provider).Counting()
			rate, other := ours.Median("gflops"), theirs.Median("gflops")
			line := []string{point.Key[0], point.Key[1], point.Key[2], fmt.Sprintf("%.1f GFLOP/s", rate),
				fmt.Sprintf("%.0f %%", ours.Median("peak_pct")), provider, fmt.Sprintf("%.1f GFLOP/s", other), "not resolved"}
			var behind dataset.Set
			if min(len(ours), len(theirs)) >= judge.MinLaunches {
				low, high := model.TimeOf(theirs).RatioTo(model.TimeOf(ours))
				line[7] = fmt.Sprintf("%.2f (%.2f to %.2f)", rate/other, low, high)
				behind = slices.Concat(ours, theirs)
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
