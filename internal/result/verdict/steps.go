package verdict

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
)

// Change is a change of level: from the run First on, a point or the whole bench was slower or faster.
type Change struct {
	First RunName `json:"first"` // first run at the new level
	Index int     `json:"-"`     // of that run in Machine.Runs
	Key   string  `json:"-"`     // dataset.Key of the point; "" for all points together
	Point string  `json:"point"` // in words
	Finding
}

// Machine is the history of a bench on one kind of machine.
type Machine struct {
	Host    string    `json:"host"`
	Runs    []RunName `json:"runs"`
	Changes []Change  `json:"changes"`
	// Missing is the reason why no change can be found; "" if changes can be found.
	Missing string `json:"missing,omitempty"`
}

// History has all changes of a bench, by kind of machine.
type History struct {
	Bench    string    `json:"bench"`
	Metric   string    `json:"metric"`
	Floor    float64   `json:"floor"`
	Machines []Machine `json:"machines"`
}

// minHistory is the number of runs from which small changes can be found.
const minHistory = 5

// Steps finds the changes over all runs of a bench, the oldest first, for each kind of machine.
func Steps(runs []dataset.Named, opts Options) (History, error) {
	opts, err := opts.withDefaults(changepoint.DefaultAlpha, 0.25)
	if err != nil {
		return History{}, err
	}
	metric, err := metricInfo(opts.Metric, runs...)
	if err != nil {
		return History{}, err
	}
	opts.Metric = metric.Name
	h := History{Bench: runs[len(runs)-1].Header.Bench, Metric: metric.Name, Floor: opts.Floor}
	for _, group := range lists.GroupBy(runs, classOf) {
		m, err := newMachine(group.Items, opts)
		if err != nil {
			return h, err
		}
		h.Machines = append(h.Machines, m)
	}
	return h, nil
}

func classOf(r dataset.Named) string { return r.Header.Host.Class() }

// newMachine finds the changes over runs on one kind of machine.
func newMachine(runs []dataset.Named, opts Options) (Machine, error) {
	m := Machine{Host: runs[len(runs)-1].Header.Host.Summary(), Runs: lists.Map(runs, nameOf)}
	t, err := newTimeline(runs, opts)
	if err != nil {
		return m, err
	}
	for _, step := range opts.rule().Scan(t.series) {
		c := Change{First: m.Runs[step.First], Index: step.First, Point: allPoints}
		exact := false
		if step.Point != changepoint.AllPoints {
			row := newest(t.points[step.Point])
			c.Key, c.Point, exact = dataset.Key(row), dataset.Label(row), t.series.Exact[step.Point]
		}
		verdict := changepoint.Faster
		if step.Change > 0 {
			verdict = changepoint.Slower
		}
		c.Finding = t.finding(changepoint.Finding{Verdict: verdict, First: step.First, Change: step.Change, Low: step.Low,
			High: step.High, P: step.P, Bound: math.NaN()}, exact)
		m.Changes = append(m.Changes, c)
	}
	if n := len(t.usable(0)); n < minHistory && len(m.Changes) == 0 && slices.Contains(t.series.Exact, false) {
		m.Missing = fmt.Sprintf("%s: at least %d are needed to see how much runs differ; fewer show only large changes",
			unit.Counted(n, "undisturbed run", "undisturbed runs"), minHistory)
	}
	return m, nil
}

// Sentence returns the changes of a machine in a sentence.
func (m Machine) Sentence(floor float64) string {
	switch {
	case len(m.Changes) > 0:
		return strings.Join(lists.Map(m.Changes, func(c Change) string { return c.Point + ": " + c.sentence() }), "; ")
	case m.Missing != "":
		return m.Missing
	}
	return fmt.Sprintf("no lasting change of more than %.0f %% found in %s", 100*floor, unit.Plural(len(m.Runs), "run"))
}

// Write prints the history as tables, one for each kind of machine, or as JSON.
func (h History) Write(w io.Writer, format, link string, width int) error {
	return h.Document(link).Write(w, format, width)
}

// Document returns the history as finished text.
func (h History) Document(link string) Document {
	total := 0
	for _, m := range h.Machines {
		total += len(m.Runs)
	}
	d := Document{Data: h, Suite: "kernbench history " + h.Bench, Link: link, Remarks: []string{""},
		Heading: []string{fmt.Sprintf("%s of bench %s, %s:", unit.Plural(total, "run"), h.Bench, h.Metric)}}
	for _, title := range []string{"since run", "commit", "point", "verdict", "change", "95% interval", "host"} {
		d.Columns = append(d.Columns, texttab.Column{Title: title, Right: title == "change" || title == "95% interval"})
	}
	var sentences []string
	for _, m := range h.Machines {
		host, _, _ := strings.Cut(m.Host, ":")
		for _, c := range m.Changes {
			change, interval, _ := effectTexts(c.Effect)
			d.Lines = append(d.Lines, Line{Class: h.Bench, Name: c.Point, Verdict: string(c.Verdict),
				Message: c.sentence(),
				Cells: []string{c.First.Run, c.First.shortCommit(), c.Point,
					string(c.Verdict),
					change, interval, host}})
		}
		if len(m.Changes) == 0 {
			sentences = append(sentences, host+": "+m.Sentence(h.Floor))
		}
	}
	d.Remarks, d.Sentence = append(d.Remarks, sentences...), strings.Join(sentences, "; ")
	return d
}
