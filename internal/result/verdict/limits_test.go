package verdict

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

func TestLimitsOfOptions(t *testing.T) {
	for alpha, good := range map[float64]bool{-0.01: false, 0.01: true, 0.49: true, 0.5: false, 1: false} {
		if _, err := (Options{Alpha: alpha}).withDefaults(DefaultAlpha, 0.5); (err == nil) != good {
			t.Errorf("alpha %g: %v", alpha, err)
		}
	}
	for floor, good := range map[float64]bool{-0.01: false, 0.01: true, 0.99: true, 1: false, 1.5: false} {
		if _, err := (Options{Floor: floor}).withDefaults(DefaultAlpha, 0.5); (err == nil) != good {
			t.Errorf("floor %g: %v", floor, err)
		}
	}
	if (*Side)(nil).value() != 0 || (&Side{Value: 3}).value() != 3 || (Point{}).ratio() != 1 || (Point{}).p() != 1 {
		t.Error("a side or an effect that is missing has a value")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestNumberOfLines checks documents with no line, with one, and with one more than a comment shows.
func TestNumberOfLines(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "point 0", maxComment: "", maxComment + 1: "1 more changed."} {
		d := Document{Heading: []string{"h:"}, Columns: []texttab.Column{{Title: "title"}},
			Remarks: []string{"a: remark", "warning: warned"}}
		for i := range n {
			name := fmt.Sprint("point ", i)
			d.Lines = append(d.Lines, Line{Cells: []string{name}, Name: name, Outcome: Bad})
		}
		var table, comment strings.Builder
		must.Do(t, d.Write(&table, "table", 0))
		must.Do(t, d.Write(&comment, "github", 0))
		if strings.Contains(table.String(), "title") != (n > 0) || !strings.Contains(comment.String(), want) ||
			strings.Contains(comment.String(), "more changed") != (n > maxComment) {
			t.Errorf("%d lines:\n%s\n%s", n, table.String(), comment.String())
		}
		if strings.Contains(comment.String(), "a: remark") != (n > 0) || !strings.Contains(comment.String(), "warned") {
			t.Errorf("%d lines: the remarks of the table are missing, or remain without it:\n%s", n, comment.String())
		}
		for _, format := range Formats() {
			if err := d.Write(failingWriter{}, format, 0); err == nil {
				t.Errorf("%s: a failed write is not reported", format)
			}
		}
	}
}

// With several lines, only axes whose values differ are shown.
func TestVaryingAxes(t *testing.T) {
	at := func(a, b int64) Speedup {
		return Speedup{Point: point.Point{{Name: "a", Value: point.IntValue(a)}, {Name: "b", Value: point.IntValue(b)}}}
	}
	for _, test := range []struct {
		lines []Speedup
		want  []string
	}{
		{[]Speedup{at(1, 2)}, []string{"a", "b"}},
		{[]Speedup{at(1, 2), at(1, 3)}, []string{"b"}},
		{[]Speedup{at(1, 2), at(1, 2)}, nil},
	} {
		if got := varyingAxes(test.lines); !slices.Equal(got, test.want) {
			t.Errorf("%d lines: %v, want %v", len(test.lines), got, test.want)
		}
	}
}

// TestExitCodes checks which verdicts decide the exit code.
func TestExitCodes(t *testing.T) {
	counts := func(v ...judge.Verdict) Report {
		r := Report{Counts: map[judge.Verdict]int{}, Points: make([]Point, len(v))}
		for _, one := range v {
			r.Counts[one]++
		}
		return r
	}
	for _, c := range []struct {
		verdicts []judge.Verdict
		mean     judge.Verdict
		want     int
	}{
		{[]judge.Verdict{judge.Same, judge.Faster, Fixed, New, Broken}, judge.Faster, 0},
		{[]judge.Verdict{judge.Same}, judge.Slower, 1}, {[]judge.Verdict{judge.Same, judge.Slower}, "", 1},
		{[]judge.Verdict{judge.Ambiguous, Lost}, "", 1}, {[]judge.Verdict{judge.Same, judge.Ambiguous}, "", 3},
		{[]judge.Verdict{judge.Same, NotComparable}, "", 3}, {[]judge.Verdict{Broken, Broken}, "", 3},
	} {
		r := counts(c.verdicts...)
		if c.mean != "" {
			r.Whole = &Whole{Finding: Finding{Verdict: c.mean}}
		}
		if got := r.ExitCode(); got != c.want {
			t.Errorf("%v, mean %q: exit %d, want %d", c.verdicts, c.mean, got, c.want)
		}
	}
}

// TestLongLists checks how many points a Markdown table has, and how many names a comment has.
func TestLongLists(t *testing.T) {
	for n, more := range map[int]string{maxMarkdown: "", maxMarkdown + 1: "\nand 1 more\n"} {
		d := Document{Heading: []string{"h:"}, Columns: []texttab.Column{{Title: "title"}}}
		for range n {
			d.Lines = append(d.Lines, Line{Cells: []string{"cell"}, Outcome: Bad})
		}
		var b strings.Builder
		must.Do(t, d.Write(&b, "markdown", 0))
		if strings.Count(b.String(), "cell") != maxMarkdown || !strings.Contains(b.String(), more) ||
			strings.Contains(b.String(), "more") != (more != "") {
			t.Errorf("%d lines: %d are shown, and %q", n, strings.Count(b.String(), "cell"), b.String()[b.Len()-40:])
		}
	}
	lines := slices.Repeat([]Line{{Name: "a", Verdict: "same"}}, maxNames+1)
	for n, want := range map[int]string{1: "1 point, same (a)", maxNames: "5 points, same (a; a; a; a; a)",
		maxNames + 1: "6 points, same (a; a; a; a; a; ...)"} {
		if got := nameLines(lines[:n]); got != want {
			t.Errorf("%d names: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "", 3: "a, b, c", 4: "a, b, c and 1 more"} {
		if got := joinTexts([]string{"a", "b", "c", "d"}[:n]); got != want {
			t.Errorf("%d texts: %q, want %q", n, got, want)
		}
	}
}

// TestTexts checks texts that leave out what is unknown or too small to matter.
func TestTexts(t *testing.T) {
	for ratio, want := range map[float64]string{1.00004: "0%", 0.99996: "0%", 1.00006: "+0.01%", 0.99994: "-0.01%",
		2: "+100.00%", 0.5: "-50.00%"} {
		if got := percent(ratio); got != want {
			t.Errorf("ratio %v: %s, want %s", ratio, got, want)
		}
	}
	nan := math.NaN()
	for want, r := range map[string]judge.Ratio{"1 to 2": {Low: 1, High: 2}, "at most 2": {Low: nan, High: 2},
		"too few pairs": {Low: nan, High: nan}} {
		if got := intervalText(r); got != want {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
	for want, h := range map[string]hostinfo.Host{
		"": {Memory: 1 << 30}, "2 threads, 1.5 usable": {CPU: hostinfo.CPU{Threads: 2, Usable: 1.5}},
		"1 thread, 1 usable, about 64GiB":   {CPU: hostinfo.CPU{Threads: 1, Usable: 1}, Memory: 62 << 30},
		"1 thread, 1 usable, about 90.5GiB": {CPU: hostinfo.CPU{Threads: 1, Usable: 1}, Memory: 92 << 30},
	} {
		if got := machineSize(h); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
	if got := samplingRule(nil); got != "" {
		t.Errorf("no rule: %q", got)
	}
	for want, s := range map[string]journal.Sampling{
		"": {MinSamples: 1}, "1 to 5 samples": {MinSamples: 1, MaxSamples: 5},
		"1 to 0 samples, ±1%": {MinSamples: 1, Target: 0.01}, "0 to 0 samples, at most 2 s": {MaxTime: 2},
	} {
		if got := samplingRule(&s); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

// TestSpeedupGoals checks the texts about the goals of a table.
func TestSpeedupGoals(t *testing.T) {
	line := Speedup{Point: point.Point{{Name: "n", Value: point.IntValue(1)}}}
	for _, c := range []struct {
		table SpeedupTable
		goals Goals
		want  []string
	}{
		{SpeedupTable{Ranks: 1, Mean: judge.NotResolved}, Goals{}, []string{"ours, 1 rank:\n", "  not slower  ",
			"not slower at any point:",
			"geometric mean: not resolved: no trial has undisturbed times at all points\n"}},
		{SpeedupTable{Mean: judge.NotComparable}, Goals{Least: 0.95, Mean: 1}, []string{"ours:\n", "  goal 0.95  ",
			"at least 0.95 times as fast at every point:", "geometric mean: not comparable\n"}},
		{SpeedupTable{Mean: judge.Met, Geomean: judge.Ratio{Median: 2, Low: 1, High: 3, Pairs: 1}}, Goals{Mean: 1},
			[]string{"geometric mean 2 times faster (1 to 3), goal 1: met (1 pair)\n"}},
	} {
		c.table.Lines = []Speedup{line}
		var b strings.Builder
		must.Do(t, c.table.Write(&b, "ours", c.goals, 0))
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%q is missing from\n%s", want, b.String())
			}
		}
	}
}

// TestUnitOfMetric checks that the unit is the latest one that a run declares or that a row has.
func TestUnitOfMetric(t *testing.T) {
	in := func(unit string) dataset.Named {
		run := sideOf("", nil, dataset.All(trialsOf(1, 10)))
		for i := range run.Rows {
			run.Rows[i].Units = map[string]string{dataset.TimeMetric: unit}
		}
		return run
	}
	declared := runOf("a", trialsOf(1, 10)) // in us
	for _, c := range []struct {
		old, new dataset.Named
		want     string
	}{
		{in("us"), in("ms"), "ms"}, {in("us"), in(""), "us"}, {in(""), in(""), ""}, {declared, in("ms"), "ms"},
		{declared, in(""), "us"}, {in("ms"), declared, "us"},
	} {
		if info := must.Get(metricInfo(dataset.TimeMetric, c.old, c.new))(t); info.Unit != c.want || info.Better != "lower" {
			t.Errorf("%v and %v: %+v, want the unit %q", c.old.Rows[0].Units, c.new.Rows[0].Units, info, c.want)
		}
	}
}
