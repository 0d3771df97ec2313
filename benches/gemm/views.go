package gemm

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// result is a good row's point and numbers.
type result struct {
	shape           point.Value
	dtype, provider string
	threads         int64
	gflops, peakPct float64
}

func results(rows []journal.Row) (all []result) {
	for _, r := range rows {
		shape, ok := r.Point.Get("shape")
		gflops, measured := r.Metrics["gflops"]
		if r.Status != journal.OK || !ok || !measured || len(shape.Dims()) != 3 {
			continue
		}
		d, _ := r.Point.Get("dtype")
		p, _ := r.Point.Get("provider")
		t, _ := r.Point.Get("threads")
		all = append(all, result{shape, d.String(), p.String(), t.Int(), gflops, r.Metrics["peak_pct"]})
	}
	return all
}

// who names a line of the figure and a column of comparison.
func (r result) who() string {
	if r.threads == 1 {
		return r.provider + ", 1 thread"
	}
	return fmt.Sprintf("%s, %d threads", r.provider, r.threads)
}

// size is the edge of the cube with as many multiplications.
func (r result) size() float64 {
	d := r.shape.Dims()
	return math.Cbrt(float64(d[0]) * float64(d[1]) * float64(d[2]))
}

// figures draws the rate of the cubes, one panel per element type.
func figures(rows []journal.Row) []figure.Figure {
	fig := figure.Figure{Name: "gemm_rate", Title: "Matrix multiplication by size"}
	panels, series := map[string]int{}, map[string]int{}
	for _, r := range results(rows) {
		d := r.shape.Dims()
		if d[0] != d[1] || d[1] != d[2] || d[0] == 0 {
			continue
		}
		at, ok := panels[r.dtype]
		if !ok {
			at = len(fig.Panels)
			panels[r.dtype] = at
			fig.Panels = append(fig.Panels, figure.Panel{
				Title: r.dtype,
				X:     figure.Axis{Label: "M = N = K", Scale: figure.Log2},
				Y:     figure.Axis{Label: "GFLOP/s", Scale: figure.Linear, Min: new(float64)},
			})
		}
		panel := &fig.Panels[at]
		line, ok := series[r.dtype+r.who()]
		if !ok {
			line = len(panel.Series)
			series[r.dtype+r.who()] = line
			panel.Series = append(panel.Series, figure.Series{Name: r.who()})
		}
		panel.Series[line].Points = append(panel.Series[line].Points, figure.Point{X: r.size(), Y: r.gflops})
	}
	if len(fig.Panels) == 0 {
		return nil
	}
	return []figure.Figure{fig}
}

// sections compares the built-in provider with every other at the same point.
func sections(rows []journal.Row) []bench.Section {
	all := results(rows)
	type place struct {
		shape, dtype string
		threads      int64
	}
	ours := map[place]result{}
	for _, r := range all {
		if r.provider == "builtin" {
			ours[place{r.shape.String(), r.dtype, r.threads}] = r
		}
	}
	table := [][]string{{"shape", "type", "threads", "builtin", "of peak", "other", "", "builtin / other"}}
	for _, r := range all {
		us, ok := ours[place{r.shape.String(), r.dtype, r.threads}]
		if r.provider == "builtin" || !ok {
			continue
		}
		table = append(table, []string{r.shape.String(), r.dtype, fmt.Sprint(r.threads),
			fmt.Sprintf("%.1f GFLOP/s", us.gflops), fmt.Sprintf("%.0f %%", us.peakPct),
			r.provider, fmt.Sprintf("%.1f GFLOP/s", r.gflops), fmt.Sprintf("%.2f", us.gflops/r.gflops)})
	}
	if len(table) == 1 {
		return nil
	}
	return []bench.Section{{
		Title: "Beside other libraries",
		Text:  "Rates of the same products in the same run. The peak is the cores' arithmetic alone, measured in each row.",
		Table: table,
	}}
}
