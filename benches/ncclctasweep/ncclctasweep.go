// Package ncclctasweep is the bench `nccl-cta-sweep`: how many thread blocks (CTAs) NCCL's
// all-reduce should use, by the number of rows of a bf16 activation.
package ncclctasweep

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/nccl"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// hidden is the row length: the hidden size of gpt-oss.
const hidden = 2880

// The variables by which NCCL is told the least and the most CTAs of a collective.
const (
	least = "NCCL_MIN_CTAS"
	most  = "NCCL_MAX_CTAS"
)

// Bench declares it.
func Bench() *bench.Bench {
	values := []string{"32", "64", "128", "256"}
	return bench.New("nccl-cta-sweep", body,
		bench.Help("NCCL's all-reduce of an M x 2880 bf16 activation, by the number of thread blocks (CTAs)"),
		bench.Doc(`Times NCCL's all-reduce of M x 2880 bf16, in place, with NCCL held to so many thread
blocks (CTAs): the variables NCCL_MIN_CTAS and NCCL_MAX_CTAS move together. NCCL reads
them when it starts, so every pair gets new processes. Every element is checked.

It takes one GPU per rank. Where there are fewer, its rows are "not executed" and say
what is missing.

  kernbench run --bench nccl-cta-sweep --plan
  kernbench run --bench nccl-cta-sweep --ranks 4 --M 1,512
  kernbench run --bench nccl-cta-sweep --env NCCL_ALGO=Ring,Tree,-`),
		bench.Backends(nccl.Name),
		bench.Ranks("8"),
		bench.Ints("M", "1,32,128,512,2048,8192"),
		bench.Zip(bench.Env(least, values...), bench.Env(most, values...)),
		bench.Timeout(2*time.Minute),
		bench.Figures(figures),
	)
}

func body(ctx context.Context, s *bench.State) error {
	return collectives.AllReduce(ctx, s, collectives.AllReduceCall{DType: dist.BF16, Count: s.Int("M") * hidden, InPlace: true})
}

// figures shows the time over M, a line for each number of CTAs.
func figures(rows []journal.Row) []figure.Figure {
	f := figure.Figure{Name: "nccl_ctas", Title: "All-reduce of M x 2880 bf16 by CTAs"}
	for _, g := range rowset.GroupBy(rowset.Good(rows), func(r *journal.Row) int { return *r.NumRanks }) {
		f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("%d ranks", g.Key),
			X: figure.Axis{Label: "M", Scale: figure.Log2},
			Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros},
			Series: rowset.Series(g.Rows, ctas, func(r *journal.Row) (figure.Point, bool) {
				return figure.Point{X: rowset.Number(r, "M"), Y: r.Metrics["time_us"]}, true
			})})
	}
	if len(f.Panels) == 0 {
		return nil
	}
	return []figure.Figure{f}
}

// ctas names a line: how many CTAs NCCL was held to, and what else was set.
func ctas(r *journal.Row) string {
	var words []string
	for _, v := range r.Env {
		if v.Name != least {
			words = append(words, strings.TrimPrefix(v.Name, "NCCL_")+" "+v.Text())
		}
	}
	return strings.Join(words, ", ")
}
