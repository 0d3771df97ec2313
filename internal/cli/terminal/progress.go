package terminal

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// Progress shows a run as it goes: a bar with an estimate on a terminal, plain
// lines otherwise, nothing when quiet.
type Progress struct {
	w       io.Writer // for lines; above the bar when there is one
	quiet   bool
	name    string
	backend string
	total   int
	done    int
	there   int // of these, before the run was resumed
	current string
	bars    *mpb.Progress
	bar     *mpb.Bar
}

// NewProgress shows a run of the bench on w, or, with a bar, on the terminal.
func NewProgress(w, terminal io.Writer, bench, backend string, bar, quiet bool) *Progress {
	p := &Progress{w: w, quiet: quiet, name: bench, backend: backend}
	if bar && !quiet {
		p.bars = mpb.New(mpb.WithOutput(terminal), mpb.WithWidth(40))
		p.w = Guard(p.bars)
	}
	return p
}

// Observe takes what the run tells.
func (p *Progress) Observe(e run.Event) {
	if p.quiet {
		return
	}
	switch {
	case e.Started != nil:
		p.start(e.Started)
	case e.Task != nil:
		p.current = texttab.Plain(describe(*e.Task))
	case e.Recorded != nil:
		p.recorded(e.Recorded)
	case e.Note != "":
		fmt.Fprintf(p.w, "note: %s\n", e.Note)
	}
}

func (p *Progress) start(s *run.Started) {
	p.total, p.done, p.there = s.Rows, s.Done, s.Done
	begun := time.Now()
	fmt.Fprintf(p.w, "%s on %s: %s, %s, into %s (run %s)\n", p.name, p.backend, unit.Plural(s.Rows, "row"),
		unit.Counted(s.Launches, "launch", "launches"), s.Dir, s.Run)
	if s.Follows != nil {
		fmt.Fprintf(p.w, "%s: following %v\n", p.name, s.Follows)
	}
	if s.Done > 0 {
		fmt.Fprintf(p.w, "%s: %s already there\n", p.name, unit.Plural(s.Done, "row"))
	}
	if p.bars != nil {
		p.bar = p.bars.AddBar(int64(p.total),
			mpb.PrependDecorators(decor.CountersNoUnit("%d/%d "), decor.OnComplete(decor.Any(func(s decor.Statistics) string {
				return left(time.Since(begun), int(s.Current)-p.there, int(s.Total-s.Current))
			}), "done")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.current })))
		p.bar.SetCurrent(int64(p.done))
	}
}

// left estimates the rest of a run by the rows that it has made itself.
func left(elapsed time.Duration, made, rest int) string {
	if made <= 0 {
		return "?"
	}
	return (elapsed / time.Duration(made) * time.Duration(rest)).Round(time.Second).String()
}

func (p *Progress) recorded(row *journal.Row) {
	p.done++
	if p.bar != nil {
		p.bar.Increment()
		if !row.Status.Bad() {
			return // the bar says it; failures are worth a line
		}
	}
	fmt.Fprintf(p.w, "[%d/%d] %s %s\n", p.done, max(p.total, p.done), describe(plan.Task{Part: row.Part, Point: row.Point,
		Ranks: rowset.Ranks(row), Env: row.Env, Trial: row.Trial}), result(row))
}

// Close ends the bar.
func (p *Progress) Close() {
	if p.bar != nil {
		p.bar.Abort(false)
		p.bars.Wait()
	}
}

func describe(t plan.Task) string {
	s := t.Label()
	if t.Trial > 0 {
		s += fmt.Sprintf(" trial=%d", t.Trial)
	}
	return s
}

func result(row *journal.Row) string {
	switch {
	case row.Status != journal.OK && row.Rank != nil:
		return fmt.Sprintf("%s at rank %d: %s", row.Status, *row.Rank, firstLine(row.Reason))
	case row.Status != journal.OK:
		return fmt.Sprintf("%s: %s", row.Status, firstLine(row.Reason))
	}
	text := value(row)
	if n := len(row.Measurements); n > 1 {
		text += fmt.Sprintf(", the least disturbed of %d measurements", n)
	}
	if why := row.Disturbed(); why != "" {
		text += fmt.Sprintf(" (disturbed: %s)", why)
	}
	return text
}

// value is the row's time, or its first metric that is not the count of wrong results.
func value(row *journal.Row) string {
	if us, ok := row.Metrics["time_us"]; ok {
		return unit.FormatMicros(us)
	}
	for _, name := range slices.Sorted(maps.Keys(row.Metrics)) {
		if name != "wrong" {
			return strings.TrimSpace(fmt.Sprintf("%s %s %s", name, unit.FormatMetric(row.Metrics[name]), row.Units[name]))
		}
	}
	return string(row.Status)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
