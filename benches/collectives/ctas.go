package collectives

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// hidden is the row length: the hidden size of gpt-oss.
const hidden = 2880

// The environment variables that set NCCL's minimum and maximum number of CTAs.
const (
	minCTAs = "NCCL_MIN_CTAS"
	maxCTAs = "NCCL_MAX_CTAS"
)

// CTASweep returns the declaration of the bench `nccl-cta-sweep`. It finds the number of thread blocks (CTAs) that
// NCCL's all-reduce should use, depending on the number of rows of a bf16 activation.
func CTASweep() *bench.Bench {
	values := []string{"32", "64", "128", "256"}
	return bench.New("nccl-cta-sweep", reduceActivation, append(KernelTimes(),
		bench.Help("NCCL's all-reduce of an M x 2880 bf16 activation, by the number of thread blocks (CTAs)"),
		bench.Doc(`Times NCCL's all-reduce of M x 2880 bf16, in place, with a fixed number of thread blocks
(CTAs): NCCL_MIN_CTAS and NCCL_MAX_CTAS are set to the same value. NCCL reads them when it
starts, so every value gets new processes. Every element is checked.

It needs one GPU per rank. With fewer GPUs, its rows are "not executed" and say what is
missing.

  kernbench run --bench nccl-cta-sweep --plan
  kernbench run --bench nccl-cta-sweep --ranks 4 --M 1,512
  kernbench run --bench nccl-cta-sweep --env NCCL_ALGO=Ring,Tree,-`),
		bench.Backends("nccl"),
		bench.Ranks("8"),
		bench.Ints("M", "1,32,128,512,2048,8192"),
		bench.Zip(bench.Env(minCTAs, values...), bench.Env(maxCTAs, values...)),
		bench.Timeout(2*time.Minute),
		bench.Headline("time_us", "busbw"),
		bench.Figures(ctaFigures),
	)...)
}

// reduceActivation times the all-reduce of M rows.
func reduceActivation(ctx context.Context, s *bench.State) error {
	return timeCall(ctx, s, shape{op: allReduce, dtype: dist.BF16, reduction: dist.Sum, count: s.Int("M") * hidden,
		inPlace: true, buffers: symmetric, algorithm: auto, choice: tuning.Choice{Algorithm: auto}})
}

// ctaFigures draws the time by M, with one line for each number of CTAs.
func ctaFigures(rows dataset.Set) []figure.Figure {
	f := figure.Figure{Name: "nccl_ctas", Title: "All-reduce of M x 2880 bf16 by CTAs"}
	for _, g := range dataset.GroupBy(rows.Good(), func(r *journal.Row) int { return *r.NumRanks }) {
		f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("%d ranks", g.Key),
			X: figure.Axis{Label: "M", Scale: figure.Log2},
			Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros},
			Series: dataset.Series(g.Rows, ctaSeries, func(r *journal.Row) (figure.Point, bool) {
				return figure.Point{X: dataset.Number(r, "M"), Y: r.Metrics["time_us"]}, true
			})})
	}
	if len(f.Panels) == 0 {
		return nil
	}
	return []figure.Figure{f}
}

// ctaSeries labels a line with the number of CTAs and the other environment variables.
func ctaSeries(r *journal.Row) string {
	var words []string
	for _, v := range r.Env {
		if v.Name != minCTAs {
			words = append(words, strings.TrimPrefix(v.Name, "NCCL_")+" "+v.Text())
		}
	}
	return strings.Join(words, ", ")
}
