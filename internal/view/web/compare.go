package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/view/compare"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/report"
)

const (
	maxCompared = 8    // runs in a comparison
	maxLines    = 1000 // points listed in a comparison
	maxHistory  = 200  // runs in a history; the latest are kept
)

// comparedRun is one run of a comparison or a history.
type comparedRun struct {
	info runInfo
	compare.Run
}

// comparePage compares the first run with each of the others.
type comparePage struct {
	Runs        []runInfo         `json:"runs"`
	Metric      string            `json:"metric"`
	Metrics     []string          `json:"metrics"`
	Ignored     string            `json:"ignored,omitempty"` // the coordinate in which the runs differ on purpose
	Comparisons []comparison      `json:"comparisons"`
	Figures     []document.Figure `json:"figures"`
	NoFigure    string            `json:"no_figure,omitempty"`
}

// comparison compares two runs in the words of the compare command.
type comparison struct {
	Title   string     `json:"title"`
	Summary string     `json:"summary"`
	Shared  []string   `json:"shared"` // true of every point
	Columns []string   `json:"columns"`
	Lines   [][]string `json:"lines"` // the second cell is the verdict
	More    int        `json:"more,omitempty"`
	Remarks []string   `json:"remarks"`
	// Differences between the runs besides what is compared, one line each. Decisive has the names
	// of those that make points not comparable.
	Differences []string `json:"differences,omitempty"`
	Decisive    []string `json:"decisive,omitempty"`
}

// comparedRun reads a run for a comparison, with a copy of its rows.
func (s *store) comparedRun(name, only string) (out comparedRun, err error) {
	b, id, err := s.open(name)
	if err != nil {
		return out, err
	}
	err = s.use(b, func(j *journal.Journal) error {
		r, err := j.Find(id)
		if err != nil {
			return notFound{err}
		}
		r = s.bench(r.Header.Bench).View(j, r)
		out.info = summarize(b.folder, r)
		out.info.Outcome = b.outcome(r.ID(), out.info.Outcome)
		header := r.Header
		out.Run = compare.Run{Name: out.info.Run, Header: &header, Earlier: r.Earlier, Rows: slices.Clone(r.Latest()),
			Incomplete: r.Incomplete()}
		if only != "" {
			if out.Rows, err = plan.FilterRows([]string{only}, out.Rows); err != nil {
				return badRequest{err}
			}
		}
		return nil
	})
	return out, err
}

// compare answers with a comparison of the runs in the request.
func (s *Server) compare(r *http.Request) (any, error) {
	q := r.URL.Query()
	names := q["run"]
	if len(names) < 2 || len(names) > maxCompared || len(q.Get("only")) > maxQuery {
		return nil, badRequest{fmt.Errorf("%d runs: want 2 to %d, as run=A&run=B", len(names), maxCompared)}
	}
	read := func(name string) (comparedRun, error) { return s.store.comparedRun(name, q.Get("only")) }
	sides, err := lists.TryMap(names, read)
	if err != nil {
		return nil, err
	}
	return compareRuns(sides, compare.Options{Metric: cmp.Or(q.Get("metric"), compare.DefaultMetric), Ignore: q["ignore"]})
}

// compareRuns compares the first run with each of the others. The error probability is
// divided among the comparisons.
func compareRuns(sides []comparedRun, opts compare.Options) (comparePage, error) {
	out := comparePage{Metric: opts.Metric}
	opts.Alpha = compare.DefaultAlpha / float64(len(sides)-1)
	if report.BackendsDiffer(lists.Map(sides, func(one comparedRun) []journal.Row { return one.Rows })...) {
		opts.Ignore, out.Ignored = append(opts.Ignore, rowset.Backend), rowset.Backend
	}
	var rows []journal.Row
	header := *sides[0].Header
	for i, one := range sides {
		out.Runs = append(out.Runs, one.info)
		header.AddColumns(*one.Header)
		for k := range one.Rows {
			row := one.Rows[k]
			row.Run = one.info.Run // two folders may contain the same id
			rows = append(rows, row)
		}
		if i == 0 {
			continue
		}
		r, err := compare.Compare(sides[0].Run, one.Run, opts)
		if err != nil {
			return out, badRequest{fmt.Errorf("%s and %s: %w", sides[0].Name, one.Name, err)}
		}
		out.Comparisons = append(out.Comparisons, newComparison(r))
	}
	_, out.Metrics = report.Names(&header, rows)
	plot, ok := report.AutoPlot(&header, rows)
	if !ok {
		out.NoFigure = "No coordinate varies between the points, so there is no curve to draw."
		return out, nil
	}
	plot.Y = opts.Metric
	f, err := plot.Figure(&header, rows)
	if err != nil {
		out.NoFigure = err.Error()
		return out, nil
	}
	out.Figures = []document.Figure{sentFigure(f)}
	return out, nil
}

// newComparison returns the table of a comparison, at most maxLines of it.
func newComparison(r compare.Report) comparison {
	v := r.Document()
	out := comparison{Title: r.OldRun + " → " + r.NewRun, Summary: r.Summary(), Shared: v.Heading[1:], Remarks: []string{}}
	out.Columns = lists.Map(v.Columns, func(c texttab.Column) string { return c.Title })
	out.Lines = lists.Map(v.Lines[:min(len(v.Lines), maxLines)], func(l compare.Line) []string { return l.Cells })
	out.More = len(v.Lines) - len(out.Lines)
	for _, d := range r.Differences {
		out.Differences = append(out.Differences, d.String())
		if d.Decisive && !d.Ignored {
			out.Decisive = append(out.Decisive, d.Name)
		}
	}
	for _, text := range v.Remarks {
		if text != "" && text != out.Summary {
			out.Remarks = append(out.Remarks, text)
		}
	}
	return out
}

// historyPage shows one point over all runs of its bench.
type historyPage struct {
	Point   string            `json:"point"` // in words
	Metric  string            `json:"metric"`
	Metrics []string          `json:"metrics"`
	Runs    []historyRun      `json:"runs"`
	Figures []document.Figure `json:"figures"`
}

// historyRun is the point's result in one run.
type historyRun struct {
	Info   runInfo `json:"info"`
	Value  string  `json:"value"`
	Trials int     `json:"trials"`
	Change string  `json:"change,omitempty"` // faster or slower than in the runs before
	Effect string  `json:"effect,omitempty"`
	Note   string  `json:"note,omitempty"`

	median, low, high float64
	failed            bool
}

// history answers with the results of one point in all runs of its bench.
func (s *Server) history(r *http.Request) (any, error) {
	q := r.URL.Query()
	one, err := s.store.comparedRun(q.Get("run"), "")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(one.Rows, func(row journal.Row) bool { return rowset.Key(&row) == q.Get("point") })
	if i < 0 {
		return nil, notFound{errors.New("the run has no such point")}
	}
	list, err := s.store.runs()
	if err != nil {
		return nil, err
	}
	var sides []comparedRun
	for _, info := range slices.Backward(list.Runs) {
		if info.Bench != one.info.Bench {
			continue
		}
		other, err := s.store.comparedRun(info.Run, "")
		if err != nil {
			continue // it has just been deleted
		}
		other.Rows = slices.DeleteFunc(other.Rows, func(row journal.Row) bool { return rowset.Key(&row) != q.Get("point") })
		if len(other.Rows) > 0 {
			sides = append(sides, other)
		}
	}
	sides = sides[max(0, len(sides)-maxHistory):]
	return newHistory(rowset.Label(&one.Rows[i]), sides, cmp.Or(q.Get("metric"), compare.DefaultMetric)), nil
}

// newHistory makes the history of a point. The runs are in the order of their start.
func newHistory(name string, sides []comparedRun, metric string) historyPage {
	out := historyPage{Point: name, Metric: metric}
	if n := len(sides); n > 0 {
		_, out.Metrics = report.Names(sides[n-1].Header, sides[n-1].Rows)
	}
	for _, one := range sides {
		m := historyRun{Info: one.info, failed: true}
		var values []float64
		for i := range one.Rows {
			if v, ok := one.Rows[i].Metrics[metric]; ok && one.Rows[i].Status == journal.OK {
				values = append(values, v)
			}
		}
		if m.Trials = len(values); m.Trials > 0 {
			m.failed, m.median, m.low, m.high = false, stats.Median(values), slices.Min(values), slices.Max(values)
			m.Value = report.MetricText(m.median, unitOf(one, metric))
		}
		out.Runs = append(out.Runs, m)
	}
	markChanges(out.Runs, sides, metric)
	out.Figures = []document.Figure{historyFigure(out, sides)}
	return out
}

// markChanges marks the runs in which a point changed. The runs since the last change
// are a baseline. Each later run is checked against it, alone and together with the
// runs just before it. The error probability is divided among the checks.
func markChanges(runs []historyRun, sides []comparedRun, metric string) {
	opts := compare.Options{Metric: metric,
		Alpha: min(compare.DefaultCheckAlpha, compare.DefaultAlpha/float64(2*max(len(sides)-1, 1)))}
	level := 0 // the first run of the baseline
	for i := 1; i < len(sides); i++ {
		for _, first := range []int{i, i - judge.MinLaunches + 1} {
			if first <= level {
				continue
			}
			r, err := compare.CheckBaseline(runsOf(sides[level:first]), runsOf(sides[first:i+1]), opts)
			if err != nil || len(r.Pairs) != 1 {
				continue
			}
			p := r.Pairs[0]
			if p.Verdict != judge.Faster && p.Verdict != judge.Slower || p.Effect == nil {
				continue
			}
			runs[first].Change, runs[first].Effect = string(p.Verdict), fmt.Sprintf("%+.1f%%", 100*(p.Effect.Ratio-1))
			runs[first].Note = p.Over
			level = first
			break
		}
	}
}

func runsOf(sides []comparedRun) []compare.Run {
	return lists.Map(sides, func(one comparedRun) compare.Run { return one.Run })
}

func unitOf(one comparedRun, metric string) string {
	for i := range one.Rows {
		if u := one.Rows[i].Units[metric]; u != "" {
			return u
		}
	}
	return ""
}

// historyFigure shows the point over the runs, with a vertical line at each change.
func historyFigure(h historyPage, sides []comparedRun) document.Figure {
	unit := ""
	for _, one := range sides {
		unit = cmp.Or(unitOf(one, h.Metric), unit)
	}
	p := figure.Panel{X: figure.Axis{Label: "run", Scale: figure.Category}, Y: report.FigureAxis(h.Metric, unit),
		Note: "points: median over trials, bars: from the smallest to the largest trial"}
	line := figure.Series{Name: h.Metric}
	for i, m := range h.Runs {
		p.X.Categories = append(p.X.Categories, m.Info.Start.UTC().Format("01-02 15:04"))
		line.Points = append(line.Points,
			figure.Point{X: float64(i), Y: m.median, Low: m.low, High: m.high, Failed: m.failed})
		if m.Change != "" {
			at := float64(i) - 0.5
			p.Lines = append(p.Lines, figure.Line{Label: m.Change + " " + m.Effect, X: &at})
		}
	}
	p.Series = []figure.Series{line}
	f := figure.Figure{Name: "history", Title: h.Point, Panels: []figure.Panel{p}}
	return document.NewFigure(f, nil)
}
