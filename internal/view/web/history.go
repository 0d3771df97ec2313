package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/verdict"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/report"
)

const (
	maxChanges     = 5       // that the summary names
	maxHistory     = 1000    // runs in a history; the latest are kept, and the page says so
	maxHistoryRows = 200_000 // rows whose evidence is pooled; beyond it only the point's own rows are used
)

// historyPage shows one point, or the mean of all points, over all runs of a bench in a folder.
type historyPage struct {
	Point   string            `json:"point"` // in words
	Metric  string            `json:"metric"`
	Metrics []string          `json:"metrics"`
	Summary []string          `json:"summary"` // sentences
	State   string            `json:"state"`   // ok, failed if some change is slower, skipped if changes cannot be found
	Runs    []historyRun      `json:"runs"`
	Figures []document.Figure `json:"figures"`
}

// historyRun is the point's result in one run.
type historyRun struct {
	Info      runInfo `json:"info"`
	Value     string  `json:"value"`
	Trials    int     `json:"trials"`
	Disturbed bool    `json:"disturbed,omitempty"` // all its trials were
	Change    string  `json:"change,omitempty"`    // faster or slower than in the runs before
	Effect    string  `json:"effect,omitempty"`
	Note      string  `json:"note,omitempty"`
	Changed   string  `json:"changed,omitempty"` // inputs that differ from the run before
	Others    bool    `json:"others,omitempty"`  // it has other points than the latest run, so it is not drawn

	median, low, high float64
	failed            bool
	set               string // the points of the mean
}

// pastRuns holds the runs of one bench in one folder, the oldest first. A run that was resumed with other
// inputs occurs once for each build.
type pastRuns struct {
	infos []runInfo
	runs  []dataset.Named
	cut   int // earlier runs that were left out

	changed []string // inputs that differ from the build before, by run
}

// history answers with the results of one point in all runs of its bench in the same folder, or with the mean of
// all points if the request has no point. Runs of other folders are not included, because a bench of the same
// name there may be another program.
func (s *Server) history(r *http.Request) (any, error) {
	q := r.URL.Query()
	past, err := s.store.pastRuns(q.Get("run"))
	if err != nil {
		return nil, err
	}
	return newHistory(past, q.Get("point"), q.Get("metric"))
}

// pastRuns reads all runs of the bench of the named run in its folder.
func (s *store) pastRuns(name string) (out pastRuns, err error) {
	b, id, err := s.open(name)
	if err != nil {
		return out, err
	}
	err = s.use(b, func(j *journal.Journal) error {
		asked, err := j.Find(id)
		if err != nil {
			return notFound{err}
		}
		runs := lists.Filter(j.Runs, func(r *journal.Run) bool {
			return r.Header.Bench == asked.Header.Bench && len(r.Rows) > 0
		})
		out.cut = max(0, len(runs)-maxHistory)
		var before *dataset.Dataset
		for _, r := range runs[out.cut:] {
			builds := dataset.Builds(r)
			for i, build := range slices.Backward(builds) { // the oldest first
				name := r.ID()
				if i > 0 {
					name = fmt.Sprintf("%s build %d", name, len(builds)-i)
				}
				out.add(b, build, before, name)
				before = build
			}
		}
		return nil
	})
	return out, err
}

// add appends the rows of one build of a run. before is the build before it, nil for the first.
func (p *pastRuns) add(b *cachedJournal, r, before *dataset.Dataset, name string) {
	info := summarize(b.folder, r)
	info.Outcome = b.outcome(r.ID(), info.Outcome)
	changed := ""
	if before != nil {
		changed = strings.Join(dataset.ChangedInputs(before, r), ", ")
	}
	p.infos, p.changed = append(p.infos, info), append(p.changed, changed)
	p.runs = append(p.runs, dataset.Named{Name: name, Dataset: r})
}

// onlyPoint removes the rows of all other points. "" keeps all.
func (p *pastRuns) onlyPoint(key string) {
	if key == "" {
		return
	}
	for i := range p.runs {
		of := p.runs[i].Rows.Where(func(row *journal.Row) bool { return dataset.Key(row) == key })
		p.runs[i] = p.runs[i].WithRows(of)
	}
}

// newHistory makes the history of the point with a key, or of all points if it is "".
func newHistory(past pastRuns, key, metric string) (historyPage, error) {
	var out historyPage
	all := 0
	for _, run := range past.runs {
		all += len(run.Rows)
	}
	if all > maxHistoryRows {
		past.onlyPoint(key)
		out.Summary = append(out.Summary, "Judged by this point alone, because the runs have too many rows to pool.")
	}
	h, err := verdict.Steps(past.runs, verdict.Options{Metric: metric})
	if err != nil {
		return out, badRequest{err}
	}
	metric, out.Metric = h.Metric, h.Metric
	past.onlyPoint(key)
	changes := map[string][]verdict.Change{} // of this point or of all, by run
	for _, m := range h.Machines {
		m.Changes = lists.Filter(m.Changes, func(c verdict.Change) bool { return key == "" || c.Key == key || c.Key == "" })
		for _, c := range m.Changes {
			changes[c.First.Run] = append(changes[c.First.Run], c)
		}
		more := max(0, len(m.Changes)-maxChanges)
		m.Changes = m.Changes[:len(m.Changes)-more]
		text := m.Sentence(h.Floor)
		if more > 0 {
			text += "; and " + unit.Plural(more, "more change")
		}
		if len(h.Machines) > 1 {
			host, _, _ := strings.Cut(m.Host, ":")
			text = host + ": " + text
		}
		out.Summary = append(out.Summary, strings.ToUpper(text[:1])+text[1:]+".")
	}
	var unitName string
	for i, run := range past.runs {
		if len(run.Rows) == 0 {
			continue
		}
		out.Point = h.Bench + ", the geometric mean over its points"
		if key != "" {
			out.Point = dataset.Label(run.Rows[0])
		}
		_, out.Metrics = views.Names(&run.Header, run.Rows)
		unitName = cmp.Or(unitOf(run.Rows, metric), unitName)
		one := newHistoryRun(past.infos[i], run, metric, changes[run.ID()])
		if key == "" {
			one.takeMean(run, metric, unitName)
		}
		one.Changed = past.changed[i]
		out.Runs = append(out.Runs, one)
	}
	if len(out.Runs) == 0 {
		return out, notFound{errors.New("the run has no such point")}
	}
	for i := range out.Runs {
		out.Runs[i].Others = out.Runs[i].set != out.Runs[len(out.Runs)-1].set
	}
	out.State = stateOf(h, changes)
	counted := unit.Plural(len(out.Runs), "run") + "."
	if past.cut > 0 {
		counted = fmt.Sprintf("The latest %d of %d runs.", len(past.runs), len(past.runs)+past.cut)
	}
	out.Summary = append([]string{counted}, out.Summary...)
	out.Figures = []document.Figure{historyFigure(out, unitName)}
	return out, nil
}

// stateOf returns the state of a history with these changes by run.
func stateOf(h verdict.History, changes map[string][]verdict.Change) string {
	for _, list := range changes {
		if slices.ContainsFunc(list, func(c verdict.Change) bool { return c.Verdict == "slower" }) {
			return "failed"
		}
	}
	if slices.ContainsFunc(h.Machines, func(m verdict.Machine) bool { return m.Missing != "" }) {
		return "skipped"
	}
	return "ok"
}

// newHistoryRun summarizes the rows of the point in one run: the undisturbed ones if there are any.
func newHistoryRun(info runInfo, run dataset.Named, metric string, changes []verdict.Change) historyRun {
	rows := run.Rows.Where(func(r *journal.Row) bool { _, has := r.Metrics[metric]; return has }).Counting()
	m := historyRun{Info: info, failed: len(rows) == 0, Trials: len(rows)}
	if values := rows.Values(metric); len(rows) > 0 {
		m.Disturbed = rows[0].Disturbed() // then all of them are
		m.median, m.low, m.high = rows.Median(metric), slices.Min(values), slices.Max(values)
		m.Value = views.MetricText(m.median, unitOf(run.Rows, metric))
	}
	if len(changes) > 0 {
		c := changes[0]
		m.Change, m.Note = string(c.Verdict), c.Point
		if c.Effect != nil {
			m.Effect = fmt.Sprintf("%+.1f%%", 100*(c.Effect.Ratio-1))
		}
		if more := len(changes) - 1; more > 0 {
			m.Note += " and " + unit.Plural(more, "more point")
		}
	}
	return m
}

// takeMean replaces the value of a run by the mean over its points. A run counts as disturbed if none of its
// rows is undisturbed.
func (m *historyRun) takeMean(run dataset.Named, metric, unitName string) {
	n, ok := report.MeanOf(metric, unitName, run.Rows.Good())
	m.failed, m.median, m.low, m.high, m.set = !ok, n.Value, n.Value, n.Value, n.Set
	m.Trials = 0
	for _, trials := range run.Rows.Good().Points() {
		m.Trials = max(m.Trials, len(trials.Counting()))
	}
	if m.Value = n.Text; !ok {
		m.Value = ""
	}
}

// historyFigure shows the point over the runs, with a vertical line at each change.
func historyFigure(h historyPage, unitName string) document.Figure {
	p := figure.Panel{X: figure.Axis{Label: "start of the run", Scale: figure.Category},
		Y:    views.FigureAxis(h.Metric, unitName),
		Note: "points: median over trials, bars: from the smallest to the largest trial, hollow: disturbed"}
	if h.Runs[0].set != "" || h.Runs[len(h.Runs)-1].set != "" {
		p.Note = "points: geometric mean over the points of the run, hollow: all rows disturbed"
	}
	line := figure.Series{Name: h.Metric}
	for i, m := range h.Runs {
		p.X.Categories = append(p.X.Categories, m.Info.Start.UTC().Format("01-02 15:04"))
		if !m.Others {
			line.Points = append(line.Points, figure.Point{X: float64(i), Y: m.median, Low: m.low, High: m.high,
				Failed: m.failed, Hollow: m.Disturbed})
		}
		if m.Change != "" {
			at := float64(i) - 0.5
			label := strings.Join(lists.NonEmpty(m.Change, m.Effect, m.Info.Commit), " ")
			p.Lines = append(p.Lines, figure.Line{Label: label, X: &at})
		}
	}
	p.Series = []figure.Series{line}
	f := figure.Figure{Name: "history", Title: h.Metric + " of each run", Panels: []figure.Panel{p}}
	return document.NewFigure(f, nil)
}
