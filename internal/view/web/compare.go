package web

import (
	"fmt"
	"net/http"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/verdict"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/report"
)

const (
	maxCompared = 8    // runs in a comparison
	maxLines    = 1000 // points listed in a comparison
)

// comparedRun is one run of a comparison.
type comparedRun struct {
	info runInfo
	dataset.Named
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

// comparison is the comparison of two runs, with the texts of the compare command.
type comparison struct {
	Title   string     `json:"title"`
	Summary string     `json:"summary"`
	Shared  []string   `json:"shared"` // true of every point
	Columns []string   `json:"columns"`
	Lines   [][]string `json:"lines"` // the second cell is the verdict
	More    int        `json:"more,omitempty"`
	Remarks []string   `json:"remarks"`
	// Differences lists how the runs differ besides what is compared, one line each. Decisive has the names
	// of the differences that make points not comparable.
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
		d := decl.View(s.bench(r.Header.Bench), j, r)
		out.info = summarize(b.folder, d)
		out.info.Outcome = b.outcome(r.ID(), out.info.Outcome)
		rows := d.Rows
		if only != "" {
			if rows, err = rows.Select(only); err != nil {
				return badRequest{err}
			}
		}
		out.Named = dataset.Named{Name: out.info.Run, Dataset: d}.WithRows(rows)
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
	return compareRuns(sides, verdict.Options{Metric: q.Get("metric"), Ignore: q["ignore"]})
}

// compareRuns compares the first run with each of the others. The error probability is
// divided among the comparisons.
func compareRuns(sides []comparedRun, opts verdict.Options) (comparePage, error) {
	var out comparePage
	opts.Alpha = verdict.DefaultAlpha / float64(len(sides)-1)
	if report.BackendsDiffer(lists.Map(sides, func(one comparedRun) dataset.Set { return one.Rows })...) {
		opts.Ignore, out.Ignored = append(opts.Ignore, dataset.Backend), dataset.Backend
	}
	var rows dataset.Set
	header := sides[0].Header
	for i, one := range sides {
		out.Runs = append(out.Runs, one.info)
		header.Add(one.Header)
		for _, r := range one.Rows {
			row := *r
			row.Run = one.info.Run // two folders may contain the same id
			rows = append(rows, &row)
		}
		if i == 0 {
			continue
		}
		r, err := verdict.Compare(sides[0].Named, one.Named, opts)
		if err != nil {
			return out, badRequest{fmt.Errorf("%s and %s: %w", sides[0].Name, one.Name, err)}
		}
		out.Metric = r.Metric
		out.Comparisons = append(out.Comparisons, newComparison(r))
	}
	_, out.Metrics = views.Names(&header, rows)
	plot, ok := views.AutoPlot(&header, rows)
	if !ok {
		out.NoFigure = "No coordinate varies between the points, so there is no curve to draw."
		return out, nil
	}
	plot.Y = lists.NonEmpty(out.Metric)
	f, err := plot.Figure(&header, rows)
	if err != nil {
		out.NoFigure = err.Error()
		return out, nil
	}
	out.Figures = []document.Figure{sentFigure(f)}
	return out, nil
}

// newComparison returns the table of a comparison, at most maxLines of it.
func newComparison(r verdict.Report) comparison {
	v := r.Document()
	out := comparison{Title: r.OldRun + " → " + r.NewRun, Summary: r.Summary(), Shared: v.Heading[1:], Remarks: []string{}}
	out.Columns = lists.Map(v.Columns, func(c texttab.Column) string { return c.Title })
	out.Lines = lists.Map(v.Lines[:min(len(v.Lines), maxLines)], func(l verdict.Line) []string { return l.Cells })
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

// unitOf returns the unit of a metric in the first row that has one.
func unitOf(rows dataset.Set, metric string) string {
	for _, r := range rows {
		if u := r.Units[metric]; u != "" {
			return u
		}
	}
	return ""
}
