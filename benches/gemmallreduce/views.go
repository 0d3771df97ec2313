package gemmallreduce

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Titles of sections.
const (
	gainTitle = "Gain from overlap"
	lossTitle = "Where overlap is slower"
)

// declaredViews declares the time relative to the bound over the number of partitions, a table of the times, and
// sentences about each product. A row of auto repeats the row of the number that it chose, so it is not drawn, except
// for a single kernel: that requires auto, and its partitions are its tiles.
func declaredViews() []bench.Clause {
	words := []bench.ViewText{bench.Label(partitionsAxis, "partitions {}"), bench.Label(splitAxis, "split {}"),
		bench.Label(methodAxis, "method {}"), bench.Label(pdlAxis, "dependent launches"), bench.Label("shape.2", "K = {}")}
	return []bench.Clause{
		bench.Plot(`x=parts,y=time_us/bound_us,by=backend+dtype+shape.2+provider+method+pdl,xscale=log,ideal=1,`+
			`panel=shape.0+shape.1+split+num_ranks,where=(partitions!="auto" && (overlap || partitions=="1")) || `+
			`method=="`+oneKernel+`"`, append(words, bench.Named("gemm_allreduce"),
			bench.Title("Matrix product and all-reduce, overlapped"), bench.Label("x", "partitions"),
			bench.Label("y", "time / bound"), bench.Label("ideal", "bound"), bench.Label("shape.0", "M = {}"),
			bench.Label("shape.1", "N = {}"), bench.Caption("Time relative to the longer of the two operations alone. 1 is "+
				"the bound: the shorter one is hidden entirely. One partition is the product and then the all-reduce."))...),
		bench.Pivot("rows=point,value=gemm_us+allreduce_us+sequential_us+bound_us+time_us+parts+recovered_pct",
			append(words, bench.Title(gainTitle), bench.Label("gemm_us", "product"), bench.Label("allreduce_us", "all-reduce"),
				bench.Label("sequential_us", "sequential"), bench.Label("bound_us", "bound"), bench.Label("time_us", "time"),
				bench.Label("parts", "partitions"), bench.Label("recovered_pct", "recovered"), bench.Caption("Times are on the "+
					"same cores or on the same share of a GPU. Sequential is the product and then the all-reduce. The bound is "+
					"the longer of the two alone. Recovered is the share of the shorter one that overlap saves. It is missing "+
					"if one takes less than a tenth of the other."))...),
		bench.Sentences(products, fastest, unresolved, slower),
	}
}

// product holds the points of one product: its numbers of partitions.
type product struct {
	name   string
	points []tried
	best   tried   // the fastest, if possible among those with a settled time
	auto   []tried // none or one
}

// tried is a point with its trials merged.
type tried struct {
	model.Sample
	row *bench.Row
}

func (t tried) overlaps() bool { return dataset.Text(t.row, overlapAxis) == "true" }

func products(rows dataset.Set) []product {
	good := rows.Good().Where(func(r *bench.Row) bool { return r.Metrics["bound_us"] > 0 })
	ignore := []string{partitionsAxis, overlapAxis}
	name := views.Words{}.PointNames(good, "the product", ignore...)
	return lists.Map(lists.GroupBy(good, func(r *bench.Row) string { return dataset.Key(r, ignore...) }),
		func(g lists.Group[string, dataset.Set]) product {
			p := product{name: name(g.Items[0]), points: lists.Map(g.Items.Points(), func(trials dataset.Set) tried {
				return tried{model.TimeOf(trials), trials.Merge()}
			})}
			eligible := lists.Filter(p.points, func(t tried) bool { return t.Settled() })
			if len(eligible) == 0 {
				eligible = p.points
			}
			p.best = slices.MinFunc(eligible, func(a, b tried) int { return cmp.Compare(a.TimeUS, b.TimeUS) })
			p.auto = lists.Filter(p.points, func(t tried) bool {
				return dataset.Text(t.row, partitionsAxis) == auto && t.overlaps()
			})
			return p
		})
}

// fastest names the number of partitions with the shortest time, and what overlap saves.
var fastest = views.Each(slices.Clone[[]product], bench.Rule[product]{ID: "fastest", Section: gainTitle,
	Rows: func(p product) (rows dataset.Set) {
		for _, t := range append(p.auto, p.best) {
			rows = append(rows, t.Rows...)
		}
		return lists.Distinct(rows)
	},
	Text: func(p product) string {
		o, m := outcomeOf(p.best.row), p.best.row.Metrics
		text := fmt.Sprintf("- %s: fastest with %s, %s instead of %s in sequence", p.name,
			unit.Plural(o.plan.Partitions, "partition"), unit.FormatMicros(o.time), unit.FormatMicros(o.sequential))
		if percent, _ := o.recovered(); o.conclusive() {
			text += fmt.Sprintf(": %.0f %% of the shorter one is recovered", percent)
		} else {
			text += ". Overlap cannot show: " + o.imbalance()
		}
		if high, known := m["recovered_high_pct"]; known && o.conclusive() {
			text += fmt.Sprintf(" (%.0f to %.0f)", m["recovered_low_pct"], high)
		}
		for _, t := range p.auto {
			if t.row != p.best.row {
				text += fmt.Sprintf(". auto chose %.0f, %s", t.row.Metrics["parts"], unit.FormatMicros(t.TimeUS))
			}
		}
		return text + "."
	}})

// unresolved says that the fastest number of partitions is only the fastest launch.
var unresolved = bench.Rule[[]product]{ID: "unresolved", Section: gainTitle,
	When: func(all []product) bool {
		return slices.ContainsFunc(all, func(p product) bool { return !p.best.Repeated() })
	},
	Text: func([]product) string {
		return fmt.Sprintf("Which number of partitions is the fastest is not resolved with fewer than %d undisturbed "+
			"launches (--trials %[1]d makes more): the list has the fastest launch.", judge.MinLaunches)
	}}

// minSlowdown is the ratio to the sequential time from which the report calls a time slower. The interval must show it
// too.
const minSlowdown = 1.01

// slower explains the points in which overlap takes longer than the sequential operation.
var slower = views.Each(func(all []product) (list []product) {
	for _, p := range all {
		for _, t := range p.points {
			high, known := t.row.Metrics["recovered_high_pct"]
			if t.overlaps() && t.row.Metrics["parts"] > 1 && t.TimeUS > minSlowdown*t.row.Metrics["sequential_us"] &&
				(!known || high < 0) {
				list = append(list, product{name: p.name, best: t})
			}
		}
	}
	return list
}, bench.Rule[product]{ID: "slower", Section: lossTitle,
	Rows: func(p product) dataset.Set { return p.best.Rows },
	Text: func(p product) string {
		o := outcomeOf(p.best.row)
		return fmt.Sprintf("- %s, %d partitions: %.0f %% slower than in sequence, because %s.", p.name,
			o.plan.Partitions, 100*(o.time/o.sequential-1), reasons(o))
	}})

// outcomeOf reads the times of a row.
func outcomeOf(r *bench.Row) (o outcome) {
	m := r.Metrics
	o.gemm, o.allReduce, o.sequential, o.time = m["gemm_us"], m["allreduce_us"], m["sequential_us"], m["time_us"]
	o.gemmParts, o.allReduceParts = m["gemm_parts_us"], m["allreduce_parts_us"]
	o.plan.Partitions = int(m["parts"])
	return o
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
	return cmp.Or(strings.Join(list, "; "), fmt.Sprintf("the two slow each other down or wait for each other: alone, "+
		"neither takes much longer in %d partitions", o.plan.Partitions))
}
