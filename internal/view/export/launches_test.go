package export

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The spread between launches has a column of its own. It is empty for one launch, which a note
// explains once, and absent for computed values.
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
		want string // ±trials of the first line, "none" without the column
		note int
	}{
		"one launch":      {[]journal.Row{row(1024, unset(), 0, 10)}, "", 1},
		"two tables":      {[]journal.Row{row(1024, unset(), 0, 10), other}, "", 1},
		"two launches":    {[]journal.Row{row(1024, unset(), 0, 10), row(1024, unset(), 1, 12), disturbed}, "9.1%", 0},
		"one of two":      {[]journal.Row{row(1024, unset(), 0, 10), disturbed}, "", 1},
		"repeated launch": {[]journal.Row{repeated}, "55.0%", 0},
		"simulated":       {[]journal.Row{simulated}, "none", 0},
		"failed": {[]journal.Row{failed(row(1024, unset(), 0, 0), journal.Failed, "x")},
			"none", 0},
	} {
		for _, format := range []string{"table", "markdown"} {
			text := write(t, format, Input{Header: header(), Rows: c.rows}, Options{})
			if got := strings.Count(text, LaunchesNote); got != c.note {
				t.Errorf("%s, %s: %d notes, want %d:\n%s", name, format, got, c.note, text)
			}
			shown := strings.Contains(strings.ReplaceAll(text, LaunchesNote, ""), "±trials")
			if shown != (c.want != "none") || shown && !strings.Contains(text, c.want) {
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
		r.Warnings = []string{journal.ModesWarning + "some text"}
		return r
	}
	launches := lists.Map(lists.Range[int](12), func(i int) journal.Row {
		return row(4096, unset(), i, 33.7*float64(1+i%2)*(1+float64(i)/1000))
	})
	rows := append([]journal.Row{within(1024, 0, 200), within(2048, 0, 300), row(2048, unset(), 1, 310)}, launches...)
	text := write(t, "table", Input{Header: header(), Rows: rows}, Options{})
	for _, want := range []string{"two modes", "200 (52%) or 400 (48%)", "300 (52%) or 600 (48%) in 1/2 trials",
		"33.9 (50%) or 67.8 (50%) of the launches"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "some text") ||
		!strings.Contains(write(t, "csv", Input{Rows: rows}, Options{}), "some text") {
		t.Errorf("the warning is repeated in the table, or missing from csv:\n%s", text)
	}
}
