package gemm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
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

// seriesName names a line of the figure.
func seriesName(r *journal.Row) string {
	threads := dataset.Text(r, "threads")
	switch {
	case r.Backend != gemm.Host:
		return dataset.Text(r, "provider") + ", " + r.Backend
	case threads == "1":
		return dataset.Text(r, "provider") + ", 1 thread"
	}
	return fmt.Sprintf("%s, %s threads", dataset.Text(r, "provider"), threads)
}

// figures draws the rate of cubic products, with one panel per element type. Layers have labels ("attn_out=...") and
// appear only in the table, even if they are cubes.
func figures(rows dataset.Set) []figure.Figure {
	fig := figure.Figure{Name: "gemm_rate", Title: "Matrix multiplication by size"}
	cubes := measured(rows).Where(func(r *journal.Row) bool {
		d := dims(r)
		return d[0] == d[1] && d[1] == d[2] && d[0] != 0 && !strings.Contains(dataset.Text(r, "shape"), "=")
	})
	for _, g := range dataset.GroupBy(cubes, func(r *journal.Row) string { return dataset.Text(r, "dtype") }) {
		unit, scale := "GFLOP/s", 1.0
		if slices.ContainsFunc(g.Rows, func(r *journal.Row) bool { return r.Metrics["gflops"] >= 10_000 }) {
			unit, scale = "TFLOP/s", 1e-3
		}
		fig.Panels = append(fig.Panels, figure.Panel{
			Title: g.Key,
			X:     figure.Axis{Label: "M = N = K", Scale: figure.Log2},
			Y:     figure.Axis{Label: unit, Scale: figure.Linear, Min: new(float64)},
			Series: dataset.Series(g.Rows, seriesName, func(r *journal.Row) (figure.Point, bool) {
				return figure.Point{X: float64(dims(r)[0]), Y: scale * r.Metrics["gflops"]}, true
			}),
		})
	}
	if len(fig.Panels) == 0 {
		return nil
	}
	return []figure.Figure{fig}
}

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
