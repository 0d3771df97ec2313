package gemmallreduce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/model"
)

// result is the point and the times of a good row.
type result struct {
	product
	partitions string // the value of the axis, which may be auto
	overlap    bool
	settled    bool   // the time has a narrow enough interval
	repeated   bool   // it comes from enough launches to be compared
	recovery   string // the recovered share in words
	slower     bool   // than the sequential operation, beyond its interval
	outcome
}

// product holds everything in which rows must agree to be compared.
type product struct {
	backend, shape, dtype, split string
	machine                      string // label of the simulated machine, if there are several
	variant                      string // provider and method on GPUs, as a suffix for labels
	ranks                        int
	m, n, k                      int64
}

func (p product) String() string {
	s := fmt.Sprintf("%s, %d ranks, %s, split %s", machine.With(p.backend, p.machine), p.ranks, p.shape, p.split)
	if p.dtype != "f32" {
		s += ", " + p.dtype
	}
	return s + p.variant
}

// minSlowdown is the ratio to the sequential time from which the report calls a time slower. The
// interval must show it too.
const minSlowdown = 1.01

// results reads the good rows. Trials count by their medians.
func results(rows dataset.Set) (all []result) {
	label := machine.Curves(rows.Good())
	for _, trials := range dataset.GroupBy(rows.Good(), func(r *journal.Row) string { return dataset.Key(r) }) {
		time := model.TimeOf(trials.Rows)
		r := trials.Rows.Merge()
		shape := r.Point.At(shapeAxis)
		d := shape.Dims()
		if len(d) != 3 || r.NumRanks == nil || !(r.Metrics["bound_us"] > 0) {
			continue
		}
		x := result{partitions: dataset.Text(r, partitionsAxis), overlap: dataset.Text(r, overlapAxis) == "true"}
		x.product = product{backend: r.Backend, shape: shape.String(), dtype: dataset.Text(r, dtypeAxis),
			split: dataset.Text(r, splitAxis), machine: label(r), variant: variantOf(r),
			ranks: dataset.Ranks(r), m: d[0], n: d[1], k: d[2]}
		m := r.Metrics
		x.gemm, x.allReduce, x.sequential, x.time = m["gemm_us"], m["allreduce_us"], m["sequential_us"], m["time_us"]
		x.gemmParts, x.allReduceParts = m["gemm_parts_us"], m["allreduce_parts_us"]
		x.plan.Partitions, x.plan.Overlap = int(m["parts"]), x.overlap
		x.settled, x.repeated = time.Settled(), time.Repeated()
		x.recovery = recovery(x.outcome, m)
		high, known := m["recovered_high_pct"]
		x.slower = x.overlap && x.plan.Partitions > 1 && x.time > minSlowdown*x.sequential && (!known || high < 0)
		all = append(all, x)
	}
	return all
}

// variantOf describes the values of the GPU axes.
func variantOf(r *journal.Row) (text string) {
	if provider := dataset.Text(r, providerAxis); provider != "" {
		text = ", " + provider
	}
	if dataset.Text(r, methodAxis) == oneKernel {
		text += ", one kernel"
	}
	if dataset.Text(r, pdlAxis) == "true" {
		text += ", dependent launches"
	}
	return text
}

// recovery describes the share that a row recovered.
func recovery(o outcome, m map[string]float64) string {
	if !o.conclusive() {
		return "inconclusive: " + o.imbalance()
	}
	percent, _ := o.recovered()
	low, known := m["recovered_low_pct"]
	if high := m["recovered_high_pct"]; known && high > low {
		return fmt.Sprintf("%.0f %% (%.0f to %.0f)", percent, low, high)
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// figures draws the time relative to the bound over the number of partitions. A ratio of 1 means that the shorter
// operation is hidden entirely. All backends share the panels.
func figures(rows dataset.Set) []figure.Figure {
	// A row of auto repeats the row of the number that it chose. The single kernel requires auto and has no number.
	drawn := lists.Filter(results(rows), func(r result) bool {
		return (r.partitions != auto || r.oneKernel()) && (r.overlap || r.partitions == "1")
	})
	if len(drawn) == 0 {
		return nil
	}
	type panelKey struct {
		m, n  int64
		split string
		ranks int
	}
	fig := figure.Figure{Name: "gemm_allreduce", Title: "Matrix product and all-reduce, overlapped",
		Caption: "Time relative to the longer of the two operations alone. 1 is the bound: the shorter one is hidden " +
			"entirely. One partition is the product and then the all-reduce."}
	for _, g := range lists.GroupBy(drawn, func(r result) panelKey { return panelKey{r.m, r.n, r.split, r.ranks} }) {
		fig.Panels = append(fig.Panels, panel(fmt.Sprintf("%d x %d, split %s, %d ranks", g.Key.m, g.Key.n, g.Key.split,
			g.Key.ranks), g.Items))
	}
	return machine.Caption([]figure.Figure{fig}, rows)
}

// oneKernel reports whether one kernel multiplies and reduces. Its number of tiles is fixed.
func (r result) oneKernel() bool { return strings.HasSuffix(r.variant, "one kernel") }

// ratio returns the time relative to the bound.
func (r result) ratio() float64 { return r.time / r.bound() }

// panel draws the results of one size. The single kernel is a horizontal line.
func panel(title string, all []result) figure.Panel {
	bound, yMin := 1.0, 0.9 // the axis starts below the bound, so that its line is visible
	p := figure.Panel{Title: title, X: figure.Axis{Label: "partitions", Scale: figure.Log2},
		Y: figure.Axis{Label: "time / bound", Min: &yMin}, Lines: []figure.Line{{Label: "bound", Y: &bound}}}
	name := func(r result) string {
		return fmt.Sprintf("%s, %s, K = %d%s", machine.With(r.backend, r.machine), r.dtype, r.k, r.variant)
	}
	for _, g := range lists.GroupBy(all, name) {
		series := figure.Series{Name: g.Key}
		for _, r := range g.Items {
			y := r.ratio()
			if r.oneKernel() {
				p.Lines = append(p.Lines, figure.Line{Label: g.Key, Y: &y})
				continue
			}
			series.Points = append(series.Points, figure.Point{X: float64(r.outcome.plan.Partitions), Y: y})
			if y < yMin { // noise, which must stay visible
				p.Y.Min = nil
			}
		}
		if len(series.Points) > 0 {
			dataset.SortByX(series.Points)
			p.Series = append(p.Series, series)
		}
	}
	return p
}

// summary is about one product: its fastest row, if possible among those with a settled time, the row of auto, and the
// rows in which overlap is slower.
type summary struct {
	product
	best   result
	auto   *result
	slower []result
}

func summaries(rows dataset.Set) []summary {
	return lists.Map(lists.GroupBy(results(rows), func(r result) product { return r.product }),
		func(g lists.Group[product, result]) summary {
			s := summary{product: g.Key, best: g.Items[0]}
			for _, r := range g.Items {
				if r.settled && !s.best.settled || r.settled == s.best.settled && r.time < s.best.time {
					s.best = r
				}
				if r.partitions == auto && r.overlap {
					s.auto = &r
				}
				if r.slower {
					s.slower = append(s.slower, r)
				}
			}
			return s
		})
}

// sections reports the gain from overlap, and where and why it is slower.
func sections(rows dataset.Set) []bench.Section {
	all := summaries(rows)
	if len(all) == 0 {
		return nil
	}
	us := func(v float64) string { return unit.FormatSig(v, 3) }
	gain := [][]string{{"", "product", "all-reduce", "sequential", "bound", "best", "partitions", "recovered",
		"auto chose", "auto / sequential"}}
	loss := [][]string{{"", "partitions", "slower than sequential by", "reason"}}
	for _, s := range all {
		b := s.best
		chosen, ratio := "", ""
		if s.auto != nil {
			chosen, ratio = fmt.Sprint(s.auto.outcome.plan.Partitions), fmt.Sprintf("%.2f", s.auto.time/s.auto.sequential)
		}
		gain = append(gain, []string{s.String(), us(b.gemm), us(b.allReduce), us(b.sequential), us(b.bound()), us(b.time),
			fmt.Sprint(b.outcome.plan.Partitions), b.recovery, chosen, ratio})
		for _, r := range s.slower {
			loss = append(loss, []string{s.String(), fmt.Sprint(r.outcome.plan.Partitions),
				fmt.Sprintf("%.0f %%", 100*(r.time/r.sequential-1)), reasons(r.outcome)})
		}
	}
	text := "Times in microseconds, on the same cores or on the same share of a GPU. Sequential is the product and then " +
		"the all-reduce. The bound is the longer of the two alone. Recovered is the share of the shorter one that the " +
		"best number of partitions saves, with its 95 % interval. It is inconclusive if one takes less than a tenth of " +
		"the other. If the best number of partitions is 1, overlap does not pay."
	if slices.ContainsFunc(all, func(s summary) bool { return !s.best.repeated }) {
		text += fmt.Sprintf(" Which number of partitions is the best is not resolved with fewer than %d undisturbed "+
			"launches (--trials %[1]d makes more): the table has the fastest launch.", judge.MinLaunches)
	}
	out := []bench.Section{{Title: "Gain from overlap", Text: text, Table: gain}}
	if len(loss) > 1 {
		out = append(out, bench.Section{
			Title: "Where overlap is slower",
			Text:  "Numbers of partitions that take longer than the product and then the all-reduce.",
			Table: loss,
		})
	}
	return out
}

// reasons explains a slow overlap from the times of the product and the all-reduce alone in the same partitions.
func reasons(o outcome) string {
	var list []string
	if o.gemmParts > 0 {
		loss := o.time - o.sequential
		if extra := o.gemmParts - o.gemm; extra > loss/3 {
			list = append(list, fmt.Sprintf("the product in %d partitions takes %.0f %% longer", o.plan.Partitions,
				100*extra/o.gemm))
		}
		if extra := o.allReduceParts - o.allReduce; extra > loss/3 {
			list = append(list, fmt.Sprintf("the all-reduce in %d partitions takes %.1f times as long", o.plan.Partitions,
				o.allReduceParts/o.allReduce))
		}
	}
	if !o.conclusive() {
		list = append(list, o.imbalance())
	}
	if len(list) == 0 {
		return fmt.Sprintf("the two slow each other down or wait for each other: alone, neither takes much longer in %d "+
			"partitions", o.plan.Partitions)
	}
	return strings.Join(list, "; ")
}
