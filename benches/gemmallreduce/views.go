package gemmallreduce

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/machine"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// result is a good row's point and numbers.
type result struct {
	product
	partitions string // as asked for
	overlap    bool
	settled    bool   // its time can stand for it
	recovery   string // which share it recovered, in words
	loses      bool   // overlap takes longer, beyond its interval
	outcome
}

// product is what rows must share to be compared.
type product struct {
	backend, shape, dtype, split string
	on                           string // which of several machines
	way                          string // by which product, and how overlapped, where there is a choice
	ranks                        int
	m, n, k                      int64
}

func (p product) String() string {
	s := fmt.Sprintf("%s, %d ranks, %s, split %s", machine.With(p.backend, p.on), p.ranks, p.shape, p.split)
	if p.dtype != "f32" {
		s += ", " + p.dtype
	}
	return s + p.way
}

func results(rows []journal.Row) (all []result) {
	label := machine.Curves(rowset.Good(rows))
	for _, r := range rowset.Good(rows) {
		shape := r.Point.At(shapeAxis)
		d := shape.Dims()
		if len(d) != 3 || r.NumRanks == nil || !(r.Metrics["bound_us"] > 0) {
			continue
		}
		x := result{partitions: rowset.Text(r, partitionsAxis), overlap: rowset.Text(r, overlapAxis) == "true"}
		x.product = product{backend: r.Backend, shape: shape.String(), dtype: rowset.Text(r, dtypeAxis),
			split: rowset.Text(r, splitAxis), on: label(r), way: wayOf(r),
			ranks: rowset.Ranks(r), m: d[0], n: d[1], k: d[2]}
		m := r.Metrics
		x.gemm, x.allReduce, x.sequential, x.time = m["gemm_us"], m["allreduce_us"], m["sequential_us"], m["time_us"]
		x.gemmParts, x.allReduceParts = m["gemm_parts_us"], m["allreduce_parts_us"]
		x.plan.Partitions, x.plan.Overlap = int(m["parts"]), x.overlap
		x.settled = model.TimeOf([]*journal.Row{r}).Settled()
		x.recovery = recovery(x.outcome, m)
		high, known := m["recovered_high_pct"]
		x.loses = x.overlap && x.plan.Partitions > 1 && x.time > slower*x.sequential && (!known || high < 0)
		all = append(all, x)
	}
	return all
}

// wayOf words the axes of GPUs.
func wayOf(r *journal.Row) (text string) {
	if provider := rowset.Text(r, providerAxis); provider != "" {
		text = ", " + provider
	}
	if rowset.Text(r, methodAxis) == oneKernel {
		text += ", one kernel"
	}
	if rowset.Text(r, pdlAxis) == "true" {
		text += ", dependent launches"
	}
	return text
}

// recovery words the share that a row recovered.
func recovery(o outcome, m map[string]float64) string {
	if !o.shows() {
		return "cannot show: " + o.unequal()
	}
	percent, _ := o.recovered()
	low, known := m["recovered_low_pct"]
	if high := m["recovered_high_pct"]; known && high > low {
		return fmt.Sprintf("%.0f %% (%.0f to %.0f)", percent, low, high)
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// figures draws the time over the bound against the partitions: at 1 the
// shorter of the two is hidden entirely. All backends are in the same panels.
func figures(rows []journal.Row) []figure.Figure {
	fig := figure.Figure{Name: "gemm_allreduce", Title: "Matrix product and all-reduce, overlapped",
		Caption: "Time over that of the longer one alone. 1 is the bound: all of the shorter one is hidden. One partition " +
			"is one after the other."}
	all := results(rows)
	bound, below := 1.0, 0.9 // the bound is not the panel's edge
	type system struct {
		m, n  int64
		split string
		ranks int
	}
	panels, lines := map[system]int{}, map[string]int{}
	for _, r := range all {
		one := strings.HasSuffix(r.way, "one kernel")
		if r.partitions == auto && !one || !r.overlap && r.partitions != "1" {
			continue // a number among the others, and not overlapped
		}
		key := system{r.m, r.n, r.split, r.ranks}
		at, ok := panels[key]
		if !ok {
			at = len(fig.Panels)
			panels[key] = at
			fig.Panels = append(fig.Panels, figure.Panel{
				Title: fmt.Sprintf("%d x %d, split %s, %d ranks", r.m, r.n, r.split, r.ranks),
				X:     figure.Axis{Label: "partitions", Scale: figure.Log2},
				Y:     figure.Axis{Label: "time / bound", Min: &below},
				Lines: []figure.Line{{Label: "bound", Y: &bound}},
			})
		}
		panel := &fig.Panels[at]
		name := fmt.Sprintf("%s, %s, K = %d%s", machine.With(r.backend, r.on), r.dtype, r.k, r.way)
		if one { // its tiles are as many as there are
			y := r.time / r.bound()
			panel.Lines = append(panel.Lines, figure.Line{Label: name, Y: &y})
			continue
		}
		line, ok := lines[fmt.Sprint(key, name)]
		if !ok {
			line = len(panel.Series)
			lines[fmt.Sprint(key, name)] = line
			panel.Series = append(panel.Series, figure.Series{Name: name})
		}
		y := r.time / r.bound()
		panel.Series[line].Points = append(panel.Series[line].Points,
			figure.Point{X: float64(r.outcome.plan.Partitions), Y: y})
		if y < below { // noise, which is to be seen
			panel.Y.Min = nil
		}
	}
	for _, p := range fig.Panels {
		for _, s := range p.Series {
			rowset.SortByX(s.Points)
		}
	}
	if len(fig.Panels) == 0 {
		return nil
	}
	return machine.Caption([]figure.Figure{fig}, rows)
}

// summary is of one product: its fastest row, of those that have settled if any has, what
// auto took, and where overlap lost.
type summary struct {
	product
	best   result
	auto   *result
	losing []result
}

// slower is by how much a time must exceed the other to be called a loss, beside being
// beyond its interval.
const slower = 1.01

func summaries(rows []journal.Row) (out []*summary) {
	byProduct := map[product]*summary{}
	for _, r := range results(rows) {
		s := byProduct[r.product]
		if s == nil {
			s = &summary{product: r.product, best: r}
			byProduct[r.product] = s
			out = append(out, s)
		}
		if r.settled && !s.best.settled || r.settled == s.best.settled && r.time < s.best.time {
			s.best = r
		}
		if r.partitions == auto && r.overlap {
			s.auto = &r
		}
		if r.loses {
			s.losing = append(s.losing, r)
		}
	}
	return out
}

// sections say what overlap gains, and where it loses and why.
func sections(rows []journal.Row) []bench.Section {
	all := summaries(rows)
	if len(all) == 0 {
		return nil
	}
	us := func(v float64) string { return unit.FormatSig(v, 3) }
	gain := [][]string{{"", "product", "all-reduce", "one after the other", "bound", "best", "partitions", "recovered",
		"auto took", "auto / sequential"}}
	loss := [][]string{{"", "partitions", "slower than sequential by", "why"}}
	for _, s := range all {
		b := s.best
		took, ratio := "", ""
		if s.auto != nil {
			took, ratio = fmt.Sprint(s.auto.outcome.plan.Partitions), fmt.Sprintf("%.2f", s.auto.time/s.auto.sequential)
		}
		gain = append(gain, []string{s.String(), us(b.gemm), us(b.allReduce), us(b.sequential), us(b.bound()), us(b.time),
			fmt.Sprint(b.outcome.plan.Partitions), b.recovery, took, ratio})
		for _, r := range s.losing {
			loss = append(loss, []string{s.String(), fmt.Sprint(r.outcome.plan.Partitions),
				fmt.Sprintf("%.0f %%", 100*(r.time/r.sequential-1)), why(r.outcome)})
		}
	}
	out := []bench.Section{{
		Title: "What overlap gains",
		Text: "Times in microseconds, of the same cores, or of the same share of a GPU. The bound is the longer of the " +
			"two alone; recovered is which part of the shorter one the best number of partitions saved, with its 95 % interval; " +
			"where one takes less than a tenth of the other, overlap cannot show. A best of one partition means that overlap " +
			"does not pay there.",
		Table: gain,
	}}
	if len(loss) > 1 {
		out = append(out, bench.Section{
			Title: "Where overlap loses",
			Text:  "Numbers of partitions that take longer than the product and then the all-reduce.",
			Table: loss,
		})
	}
	return out
}

// why says where the time of an overlap that lost has gone, from its halves
// alone in the same partitions.
func why(o outcome) string {
	var reasons []string
	if o.gemmParts > 0 {
		lost := o.time - o.sequential
		if extra := o.gemmParts - o.gemm; extra > lost/3 {
			reasons = append(reasons, fmt.Sprintf("the product in %d pieces takes %.0f %% longer", o.plan.Partitions,
				100*extra/o.gemm))
		}
		if extra := o.allReduceParts - o.allReduce; extra > lost/3 {
			reasons = append(reasons, fmt.Sprintf("the all-reduce in %d pieces takes %.1f times as long", o.plan.Partitions,
				o.allReduceParts/o.allReduce))
		}
	}
	if !o.shows() {
		reasons = append(reasons, o.unequal())
	}
	if len(reasons) == 0 {
		return "the two slow each other down: they share cores (of a GPU: multiprocessors) and memory, and ranks wait for " +
			"each other in each partition"
	}
	return strings.Join(reasons, "; ")
}
