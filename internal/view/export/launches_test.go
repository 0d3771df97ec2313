package export

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The spread between launches has a column of its own if some point has several launches. A note says once that
// other points have one only. Computed values have neither.
func TestSpreadBetweenLaunches(t *testing.T) {
	repeated := row(1024, unset(), 0, 10) // a program that was launched until its time was precise
	repeated.Clock, repeated.Sampling = "program", &journal.Sampling{MaxSamples: 50}
	simulated := row(1024, unset(), 0, 10)
	simulated.Kind, simulated.Stats = journal.Simulated, nil
	disturbed := row(1024, unset(), 2, 90)
	disturbed.Quality = journal.QualityDisturbed
	other := row(1024, unset(), 0, 10)
	other.Part = "other"
	for name, c := range map[string]struct {
		rows []journal.Row
		want string // ±trials of the first line, "" without the column
		note string
	}{
		"one launch":      {[]journal.Row{row(1024, unset(), 0, 10)}, "", SingleNote},
		"two tables":      {[]journal.Row{row(1024, unset(), 0, 10), other}, "", SingleNote},
		"two launches":    {[]journal.Row{row(1024, unset(), 0, 10), row(1024, unset(), 1, 12), disturbed}, "9.1%", ""},
		"one of two":      {[]journal.Row{row(1024, unset(), 0, 10), disturbed}, "", SingleNote},
		"some lines":      {[]journal.Row{repeated, row(2048, unset(), 0, 10)}, "55.0%", LaunchesNote},
		"some tables":     {[]journal.Row{repeated, other}, "55.0%", LaunchesNote},
		"repeated launch": {[]journal.Row{repeated}, "55.0%", ""},
		"simulated":       {[]journal.Row{simulated}, "", ""},
		"failed":          {[]journal.Row{failed(row(1024, unset(), 0, 0), journal.Failed, "x")}, "", ""},
	} {
		for _, format := range []string{"table", "markdown"} {
			text := write(t, format, Input{Header: header(), Rows: dataset.All(c.rows)}, Options{})
			for _, note := range []string{SingleNote, LaunchesNote} {
				if got := strings.Count(text, note); got > 1 || (got == 1) != (note == c.note) {
					t.Errorf("%s, %s: %d notes, want %q:\n%s", name, format, got, c.note, text)
				}
			}
			shown := strings.Contains(strings.ReplaceAll(text, LaunchesNote, ""), "±trials")
			if shown != (c.want != "") || !strings.Contains(text, c.want) {
				t.Errorf("%s, %s: want %q:\n%s", name, format, c.want, text)
			}
		}
	}
}

// Two modes are shown with their shares for every line, of samples or of launches, and not again as a
// remark, whose legend would give the numbers of one line only.
func TestModesColumn(t *testing.T) {
	within := func(size int64, trial int, center float64) journal.Row {
		r := row(size, unset(), trial, center)
		s := r.Stats.Get(headline)
		s.Modes = []stats.Mode{{Center: center, Share: 0.52}, {Center: 2 * center, Share: 0.48}}
		r.Stats = r.Stats.With(headline, s)
		r.Conditions = []journal.Condition{journal.NewCondition(journal.CodeModes, journal.Named{
			"first": center, "first_share": 0.52,
			"second": 2 * center, "second_share": 0.48}, "us")}
		return r
	}
	launches := lists.Map(lists.Range[int](12), func(i int) journal.Row {
		return row(4096, unset(), i, 33.7*float64(1+i%2)*(1+float64(i)/1000))
	})
	rows := append([]journal.Row{within(1024, 0, 200), within(2048, 0, 300), row(2048, unset(), 1, 310)}, launches...)
	text := write(t, "table", Input{Header: header(), Rows: dataset.All(rows)}, Options{})
	for _, want := range []string{"two modes", "200 (52%) or 400 (48%)", "300 (52%) or 600 (48%) in 1/2 trials",
		"33.9 (50%) or 67.8 (50%) of the launches"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "of the samples") ||
		!strings.Contains(write(t, "csv", Input{Rows: dataset.All(rows)}, Options{}), "200 µs (52 % of the samples)") {
		t.Errorf("the warning is repeated in the table, or missing from csv:\n%s", text)
	}
}
