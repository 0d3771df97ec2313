package gemm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// measured returns the good rows that have a rate.
func measured(rows []journal.Row) rowset.Set {
	return rowset.Good(rows).Where(func(r *journal.Row) bool {
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
	threads := rowset.Text(r, "threads")
	switch {
	case r.Backend != gemm.Host:
		return rowset.Text(r, "provider") + ", " + r.Backend
	case threads == "1":
		return rowset.Text(r, "provider") + ", 1 thread"
	}
	return fmt.Sprintf("%s, %s threads", rowset.Text(r, "provider"), threads)
}

// figures draws the rate of cubic products, with one panel per element type. Layers have labels ("attn_out=...") and
// appear only in the table, even if they are cubes.
func figures(rows []journal.Row) []figure.Figure {
	fig := figure.Figure{Name: "gemm_rate", Title: "Matrix multiplication by size"}
	cubes := measured(rows).Where(func(r *journal.Row) bool {
		d := dims(r)
		return d[0] == d[1] && d[1] == d[2] && d[0] != 0 && !strings.Contains(rowset.Text(r, "shape"), "=")
	})
	for _, g := range rowset.GroupBy(cubes, func(r *journal.Row) string { return rowset.Text(r, "dtype") }) {
		unit, scale := "GFLOP/s", 1.0
		if slices.ContainsFunc(g.Rows, func(r *journal.Row) bool { return r.Metrics["gflops"] >= 10_000 }) {
			unit, scale = "TFLOP/s", 1e-3
		}
		fig.Panels = append(fig.Panels, figure.Panel{
			Title: g.Key,
			X:     figure.Axis{Label: "M = N = K", Scale: figure.Log2},
			Y:     figure.Axis{Label: unit, Scale: figure.Linear, Min: new(float64)},
			Series: rowset.Series(g.Rows, seriesName, func(r *journal.Row) (figure.Point, bool) {
				return figure.Point{X: float64(dims(r)[0]), Y: scale * r.Metrics["gflops"]}, true
			}),
		})
	}
	if len(fig.Panels) == 0 {
		return nil
	}
	return []figure.Figure{fig}
}

// sections compares the built-in provider with every other one at the same point.
func sections(rows []journal.Row) []bench.Section {
	all := measured(rows)
	ours := all.At("provider", builtin)
	table := [][]string{{"shape", "type", "threads", "builtin", "of peak", "other", "", "builtin / other"}}
	for _, r := range all {
		shape, dtype, threads, provider := rowset.Text(r, "shape"), rowset.Text(r, "dtype"), rowset.Text(r, "threads"),
			rowset.Text(r, "provider")
		same := ours.At("shape", shape, "dtype", dtype, "threads", threads).Where(func(o *journal.Row) bool {
			return o.Backend == r.Backend
		})
		if provider == builtin || len(same) == 0 {
			continue
		}
		us := same[len(same)-1].Metrics
		table = append(table, []string{shape, dtype, threads,
			fmt.Sprintf("%.1f GFLOP/s", us["gflops"]), fmt.Sprintf("%.0f %%", us["peak_pct"]),
			provider, fmt.Sprintf("%.1f GFLOP/s", r.Metrics["gflops"]), fmt.Sprintf("%.2f", us["gflops"]/r.Metrics["gflops"])})
	}
	if len(table) == 1 {
		return nil
	}
	return []bench.Section{{
		Title: "Comparison with other libraries",
		Text: "Rates of the same products in the same run. The peak is arithmetic without memory access, on the cores or " +
			"on the GPU, measured in each row.",
		Table: table,
	}}
}
