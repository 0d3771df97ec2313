package findings

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// launchOfRun is one trial of a random timed point.
type launchOfRun struct {
	us, noise float64 // time, and half of its 95 % interval relative to the time
	disturbed bool
}

// cellOfRun is a random timed point. The tests judge it without the code of the package.
type cellOfRun struct {
	algorithm string
	size      int64
	limit     float64 // least time in microseconds; 0 if there is none
	executed  string  // the algorithm that auto took
	launches  []launchOfRun
	required  bool // there is a row that says that it did not run
}

// counting returns the launches that count: the undisturbed ones, or all if all were disturbed.
func (c cellOfRun) counting() (list []launchOfRun, disturbed bool) {
	for _, l := range c.launches {
		if !l.disturbed {
			list = append(list, l)
		}
	}
	if len(list) == 0 {
		return c.launches, true
	}
	return list, false
}

// time returns the median over the launches that count and their range, or the interval of a single one.
func (c cellOfRun) time() (us, low, high float64) {
	list, _ := c.counting()
	if len(list) == 1 {
		l := list[0]
		return l.us, l.us * (1 - l.noise), l.us * (1 + l.noise)
	}
	var all []float64
	for _, l := range list {
		all = append(all, l.us)
	}
	slices.Sort(all)
	n := len(all)
	return (all[n/2] + all[(n-1)/2]) / 2, all[0], all[n-1]
}

func (c cellOfRun) ran() bool { return len(c.launches) > 0 }

// settled repeats the rule of docs/statistics.md: no disturbance, and an interval of at most 20 % of the time.
func (c cellOfRun) settled() bool {
	if _, disturbed := c.counting(); !c.ran() || disturbed {
		return false
	}
	us, low, high := c.time()
	return high-low <= 0.2*us
}

// repeated reports whether the point has the four launches that a comparison needs.
func (c cellOfRun) repeated() bool { list, _ := c.counting(); return len(list) >= 4 }

// slower reports whether c takes longer than d: beyond both ranges, and by more than 2 %.
func (c cellOfRun) slower(d cellOfRun) bool {
	us, low, _ := c.time()
	other, _, high := d.time()
	return c.repeated() && d.repeated() && low > high && us > 1.02*other
}

// rows returns the rows of the point, one for each trial.
func (c cellOfRun) rows() (rows []journal.Row) {
	ranks := 4
	r := journal.Row{Bench: "allreduce-eval", Part: matrix.Performance, Backend: "cpu", NumRanks: &ranks,
		Status: journal.OK, Kind: journal.Measured, Samples: 40, Host: "here",
		Details: map[string]string{"buffers": "symmetric", "algorithm": c.executed},
		Point: point.Point{{Name: "algorithm", Value: point.StringValue(c.algorithm)},
			{Name: "dtype", Value: point.StringValue("f32")}, {Name: "size", Value: point.BytesValue(c.size)}}}
	if c.limit > 0 {
		r.Limits = map[string]float64{"bandwidth": c.limit}
	}
	if c.required {
		r.Status, r.Reason = journal.NotExecuted, "no memory"
		return []journal.Row{r}
	}
	for i, l := range c.launches {
		low, high := l.us*(1-l.noise), l.us*(1+l.noise)
		r.Trial, r.Metrics = i, map[string]float64{"time_us": l.us}
		r.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {CILow: &low, CIHigh: &high}})
		r.Quality = ""
		if l.disturbed {
			r.Quality = journal.QualityDisturbed
		}
		rows = append(rows, r)
	}
	return rows
}

// runOfCells is a random run: timed points and cells of the correctness matrix.
type runOfCells struct {
	timed []cellOfRun
	// checks holds the outcomes of the rows of the matrix: one letter for each cell, p(assed), f(ailed)
	// or n(ot executed).
	checks []string
}

var outcomes = map[rune]string{'p': "ok", 'f': "failed", 'n': "not-executed"}

// rows returns the rows of the run, and for each the index of its timed point or -1.
func (r runOfCells) rows() (rows []journal.Row, of map[*journal.Row]int) {
	var cells []int
	for i, c := range r.timed {
		for _, row := range c.rows() {
			rows, cells = append(rows, row), append(cells, i)
		}
	}
	for i, text := range r.checks {
		ranks := 2
		row := journal.Row{Bench: "allreduce-eval", Part: matrix.Correctness, Backend: "cpu", NumRanks: &ranks,
			Status: journal.OK, Point: point.Point{{Name: "algorithm", Value: point.StringValue("ring")},
				{Name: "dtype", Value: point.StringValue(fmt.Sprint("type", i))}}}
		var names []string
		for j, o := range text {
			names = append(names, fmt.Sprintf("%d=%s", j, outcomes[o]))
		}
		row.Details = map[string]string{"cells": strings.Join(names, ", ")}
		switch {
		case strings.Contains(text, "f"):
			row.Status = journal.Failed
		case strings.Contains(text, "n"):
			row.Status = journal.NotExecuted
		}
		rows, cells = append(rows, row), append(cells, -1)
	}
	of = map[*journal.Row]int{}
	for i := range rows {
		of[&rows[i]] = cells[i]
	}
	return rows, of
}

// randomRun returns a run of a few algorithms and sizes with missing, disturbed, noisy, tied, identical and
// contradictory times, in one to five trials.
func randomRun(rnd *rand.Rand) (r runOfCells) {
	algorithms := []string{"naive", "ring", "tree", "two-stage", "quickreduce", "auto"}
	rnd.Shuffle(len(algorithms), func(i, j int) { algorithms[i], algorithms[j] = algorithms[j], algorithms[i] })
	algorithms = algorithms[:2+rnd.IntN(5)]
	calm, trials := rnd.IntN(3) > 0, []int{1, 3, 4, 4, 4, 5}[rnd.IntN(6)] // most comparisons should be resolved
	limited, twins := rnd.IntN(2) == 0, rnd.IntN(8) == 0
	for i := range 2 + rnd.IntN(4) {
		for j, a := range algorithms {
			c := cellOfRun{algorithm: a, size: 1 << (10 + 3*i)}
			us := 10 * (1 + rnd.Float64())
			if rnd.IntN(4) == 0 {
				us = 15 // ties
			}
			if a == "auto" {
				c.executed = []string{"ring", "two-stage"}[rnd.IntN(2)]
			}
			if limited {
				c.limit = us * (0.2 + 0.7*rnd.Float64())
				if rnd.IntN(20) == 0 {
					c.limit = 1.5 * us
				}
			}
			for range trials {
				l := launchOfRun{us: us * (1 + 0.02*(rnd.Float64()-0.5)), noise: 0.01 + 0.02*rnd.Float64()}
				if !calm {
					l.disturbed = rnd.IntN(8) == 0
					if rnd.IntN(10) == 0 {
						l.us, l.noise = l.us*1.4, 0.3
					}
				}
				c.launches = append(c.launches, l)
			}
			if twins && j == 1 { // an option without effect
				c.launches = r.timed[len(r.timed)-1].launches
			}
			if rnd.IntN(15) == 0 {
				c.launches, c.required = nil, rnd.IntN(2) == 0
			}
			r.timed = append(r.timed, c)
		}
	}
	for range rnd.IntN(4) {
		kinds := []string{"pppp", "pppp", "ppnp", "pfpn", "nnnn", "pffp"}
		r.checks = append(r.checks, kinds[rnd.IntN(len(kinds))])
	}
	return r
}

// comparisons lists the kinds of sentences that compare times, and so need settled times of several launches.
var comparisons = []string{"fastest", "speed", "llm", "best", "tuning", "fit"}

// Every generated sentence agrees with a second computation from random rows and cites rows that support it. Nothing
// is claimed where the data cannot tell.
func TestRandomRuns(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	seen := map[string]int{} // sentences by kind
	for range 200 {
		r := randomRun(rnd)
		rows, of := r.rows()
		sections := Sections(dataset.All(rows), nil)
		text := map[string]string{}
		tables := map[string][][]string{}
		for _, s := range sections {
			text[s.Title], tables[s.Title] = strings.TrimPrefix(s.Text+"\n"+texts(s.Sentences), "\n"), s.Table
		}
		o := oracle{r}
		problems := o.evidence(sections, of)
		problems = append(problems, o.verdicts(text["In short"])...)
		problems = append(problems, o.fastest(text["In short"])...)
		problems = append(problems, o.best(tables["Best algorithm by size"])...)
		problems = append(problems, o.tuning(rows, text["Tuning table"], tables["Tuning table"])...)
		problems = append(problems, o.warnings(text["Physics checks"])...)
		problems = append(problems, o.fits(text["Fits: time = alpha + bytes / beta"],
			tables["Fits: time = alpha + bytes / beta"])...)
		problems = append(problems, o.advice(text["Recommendations"])...)
		problems = append(problems, o.inference(text["What it means for LLM inference"])...)
		if len(problems) > 0 {
			t.Fatalf("seed %d: %s\n%s\n%+v", seed, strings.Join(problems, "\n"), dumpSections(sections), r)
		}
		for _, s := range sections {
			for _, e := range append(slices.Clip(s.Sentences), s.Lines...) {
				if len(e.Rows) > 0 {
					seen[e.ID]++
				}
			}
		}
		if strings.Contains(text["In short"], "not resolved") {
			seen["abstention"]++
		}
	}
	for _, kind := range append(slices.Clone(comparisons), "verdict", "correct", "missing", "warning", "plausible",
		"advice", "abstention") {
		if seen[kind] < 10 {
			t.Errorf("seed %d: %d sentences of kind %s: the runs test too little", seed, seen[kind], kind)
		}
	}
}

func dumpSections(list []bench.Section) string {
	var b strings.Builder
	for _, s := range list {
		if s.Title != "Coverage gaps" && s.Title != "Times" {
			fmt.Fprintf(&b, "## %s\n%s\n%s\n", s.Title, s.Text, texts(s.Sentences))
			for _, line := range s.Table {
				fmt.Fprintln(&b, strings.Join(line, " | "))
			}
		}
	}
	return b.String()
}
