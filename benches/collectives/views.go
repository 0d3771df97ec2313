package collectives

import (
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/views"
)

func size(r *journal.Row) float64 { return dataset.Number(r, "size") }

// panelOf returns the title of the panel in which a row is drawn.
func panelOf(r *journal.Row) string {
	name := fmt.Sprintf("%s, %s", dataset.Text(r, "op"), dataset.Text(r, "dtype"))
	if red := dataset.Text(r, "reduction"); red != "sum" {
		name += " " + red
	}
	if r.NumRanks != nil {
		name += fmt.Sprintf(", %d ranks", *r.NumRanks)
	}
	return name
}

// declaredViews declares time and bus bandwidth against size, with the limits: a panel for each operation, element type
// and number of ranks, and a line for each algorithm and kind of buffers.
func declaredViews() (out []bench.Clause) {
	for _, f := range [][3]string{{"time_us,yscale=log", "collectives_time", "Time by size"},
		{"busbw,yscale=linear", "collectives_busbw", "Bus bandwidth by size"}} {
		out = append(out, bench.Plot("x=size,xscale=log,by=algorithm+buffers+inplace,panel=op+dtype+num_ranks,limit=least,"+
			"where=size>0,y="+f[0], bench.Named(f[1]), bench.Title(f[2]), bench.Label("busbw", "bus bandwidth"),
			bench.Label("inplace", "in place")))
	}
	return append(out, bench.Sections(sections))
}

// regret is how much slower auto was at one point than the fastest algorithm of the sweep.
type regret struct {
	row               *journal.Row // of auto
	on                string       // the machine, if there are several
	best              string
	rows              dataset.Set // of auto and its rivals
	factor, low, high float64     // auto's time over the best's, and its interval
}

// name names the point without its size.
func (r regret) name() string { return strings.Join(lists.NonEmpty(panelOf(r.row), r.on), ", ") }

// unranked counts the points whose algorithms cannot be ranked.
type unranked struct {
	unsettled int // no settled time
	few       int // measured in too few launches to show how launches differ
}

// regrets returns the regret of each point that has both auto and fixed algorithms. It uses only computed
// times and settled times of enough launches; left counts the points without such times. The time of
// several trials is their median. If the ranges of auto and of the best algorithm overlap, the factor is 1.
func regrets(rows dataset.Set) (out []regret, skipped unranked) {
	timed := rows.Good().Where(func(r *journal.Row) bool { return r.Metrics["time_us"] > 0 })
	on := machine.Names(timed, "op", "dtype", "reduction", dataset.NumRanks, "size", "buffers", "inplace", "algorithm")
	for _, same := range lists.GroupBy(timed, func(r *journal.Row) [5]string {
		return [5]string{panelOf(r), dataset.Text(r, "size"), dataset.Text(r, "buffers"), dataset.Text(r, "inplace"),
			on(r)}
	}) {
		mine := same.Items.At("algorithm", auto)
		algorithms := same.Items.Distinct("algorithm")
		if len(mine) == 0 || len(algorithms) < 2 {
			continue
		}
		own := model.TimeOf(mine)
		reg, fastest := regret{row: mine[0], on: same.Key[4], best: auto, factor: 1}, own
		rivals, repeated := 0, own.Repeated()
		for _, name := range algorithms {
			s := model.TimeOf(same.Items.At("algorithm", name))
			if name == auto || !s.Settled() {
				continue
			}
			repeated = repeated && s.Repeated()
			if rivals++; s.TimeUS < fastest.TimeUS {
				fastest, reg.best = s, name
			}
		}
		if !own.Settled() || rivals == 0 {
			skipped.unsettled++
			continue
		}
		if !repeated {
			skipped.few++
			continue
		}
		reg.rows = same.Items
		reg.low, reg.high = own.RatioTo(fastest)
		if own.Slower(fastest) {
			reg.factor = own.TimeUS / fastest.TimeUS
		}
		out = append(out, reg)
	}
	return out, skipped
}

// sections reports the rows without data and the regret of auto.
func sections(rows dataset.Set) []bench.Section {
	return append(virtualSections(rows), autoSections(rows)...)
}

// virtualSections names the machines on which no data moved.
func virtualSections(rows dataset.Set) []bench.Section {
	of := lists.Filter(rows, func(r *journal.Row) bool { return r.Details[dataDetail] != "" && r.Status == journal.OK })
	if len(of) == 0 {
		return nil
	}
	machines := lists.Distinct(lists.Map(of, func(r *journal.Row) string { return r.Details[machineDetail] }))
	return []bench.Section{{Title: "Simulated without data",
		Text: fmt.Sprintf("In %s, the schedule was proved for these ranks and elements, and a model timed its steps (%s); "+
			"data was not executed.",
			unit.Plural(len(of), "row"), strings.Join(machines, "; "))}}
}

func autoSections(rows dataset.Set) []bench.Section {
	all, missing := regrets(rows)
	if len(all)+missing.unsettled+missing.few == 0 {
		return nil
	}
	const title = "Regret of algorithm=auto"
	left := ""
	if n := missing.unsettled; n > 0 {
		left = fmt.Sprintf(" %s left out: their times have not settled (no 95 %% interval, or one wider than 10 %% to "+
			"either side).", unit.Plural(n, "point"))
	}
	if n := missing.few; n > 0 {
		left += fmt.Sprintf(" %s not resolved: fewer than %d undisturbed launches (--trials %[2]d makes more).",
			unit.Plural(n, "point"), judge.MinLaunches)
	}
	if len(all) == 0 {
		return []bench.Section{{Title: title, Text: "Not known." + left}}
	}
	table := [][]string{{"operation", "size", "buffers", "auto took", "best", "auto slower by", "range"}}
	sum, worst := 0.0, all[0]
	var behind dataset.Set
	for _, reg := range all {
		behind = append(behind, reg.rows...)
		sum += math.Log(reg.factor)
		if reg.factor > worst.factor {
			worst = reg
		}
		slower := "within noise"
		if reg.factor > 1 {
			slower = fmt.Sprintf("%.1f %%", 100*(reg.factor-1))
		}
		table = append(table, []string{reg.name(), unit.FormatBytes(int64(size(reg.row))),
			dataset.Text(reg.row, "buffers"),
			reg.row.Details["algorithm"], reg.best, slower, fmt.Sprintf("%+.1f to %+.1f %%", 100*(reg.low-1), 100*(reg.high-1))})
	}
	text := fmt.Sprintf("How much slower auto is than the fastest algorithm of this sweep, where "+
		"the ranges of their launches do not overlap: %.1f %% in the geometric mean over %s, at most %.1f %% (%s, %s).%s",
		100*(math.Exp(sum/float64(len(all)))-1), unit.Plural(len(all), "point"), 100*(worst.factor-1),
		worst.name(), unit.FormatBytes(int64(size(worst.row))), left)
	return []bench.Section{{Title: title, Sentences: []views.Sentence{{ID: "regret", Text: text, Rows: behind}},
		Table: table}}
}
