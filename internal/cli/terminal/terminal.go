// Package terminal shows the plan and the progress of a run to the user at the terminal.
package terminal

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Is reports whether f is a terminal.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Width returns the number of columns, or 0 if f is not a terminal.
func Width(f *os.File) int {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(ws.Col)
}

// UTF8 reports whether the locale of an environment is UTF-8.
func UTF8(environ []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // in order of precedence
		if value := jobenv.Variable(environ, name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// Color reports whether the environment permits colours (NO_COLOR, TERM).
func Color(environ []string) bool {
	return jobenv.Variable(environ, "NO_COLOR") == "" && jobenv.Variable(environ, "TERM") != "dumb"
}

// Guard returns a writer that makes control characters visible, except line ends and tabs. Output
// of programs and text in journals must not be able to control the user's terminal.
func Guard(w io.Writer) io.Writer { return &guard{w: w} }

type guard struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // incomplete UTF-8 sequence at the end of the last write
}

func (g *guard) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := append(g.rest, p...)
	g.rest = nil
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if last := text[len(text)-back:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				text, g.rest = text[:len(text)-back], append([]byte(nil), last...)
			}
			break
		}
	}
	if _, err := io.WriteString(g.w, texttab.Lines(string(text))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WritePlan prints what a run into the folder would do. took holds the earlier durations of
// points in that folder, by key.
func WritePlan(out texttab.Out, p *plan.Plan, folder string, took map[string]time.Duration) {
	shortest, longest := p.Estimate()
	out.Printf("bench %s on %s: %s, %s", p.Bench.Name, p.Backend, unit.Plural(p.Points, "point"),
		unit.Counted(p.Launches(), "launch", "launches"))
	if upTo := ""; p.Trials > 1 {
		if p.Tasks() < p.Points*p.Trials {
			upTo = "up to "
		}
		out.Printf(" (%s%d trials, order seeded with %d)", upTo, p.Trials, p.Seed)
	}
	out.Printf(", into %s\n", folder)
	total, known := p.EstimateFrom(took)
	if known > 0 {
		out.Printf("takes about %v, judging by %d of these points that ran before\n", rounded(total), known)
	}
	if p.RunsPrograms() {
		if known == 0 {
			out.Printf("duration unknown: none of these points is in %s\n", folder)
		}
		out.Printf("ends after at most %v, if every launch times out\n", longest.Round(time.Second))
	} else {
		out.Printf("sampling takes between %v and %v\n", rounded(shortest), rounded(max(shortest, longest)))
	}
	for _, note := range p.Notes {
		out.Printf("%s\n", note)
	}
	for _, input := range p.Untracked() {
		out.Printf("not fingerprinted: %s\n", input)
	}
	if len(p.Undeclared) > 0 {
		out.Printf("set although %s does not declare them: %s\n", p.Bench.Name, strings.Join(p.Undeclared, ", "))
	}
	number := 0
	defaults := p.AtDefault()
	for g, tasks := range p.All() {
		number++
		writeGroup(out, number, g, tasks, defaults, p.Trials > 1)
	}
	for t := range p.AllDropped() {
		out.Printf("dropped: %s ranks=%d: %s\n", t.Point.Without(defaults...), t.Ranks, t.Reason)
	}
}

// rounded rounds a time to the precision of an estimate.
func rounded(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// writeGroup prints one launch and its points.
func writeGroup(out texttab.Out, number int, g *plan.Group, tasks iter.Seq[plan.Task], defaults []string, trials bool) {
	ranks := fmt.Sprintf("ranks=%d", g.Ranks)
	if g.Ranks == 0 {
		ranks = "one process"
	}
	out.Printf("launch %d: %s", number, ranks)
	if g.Part.Name != "" {
		out.Printf(" part=%s", g.Part.Name)
	}
	if len(g.Env) > 0 {
		out.Printf(" %s", g.Env)
	}
	if trials {
		out.Printf(" trial=%d", g.Trial)
	}
	out.Printf("\n")
	for t := range tasks {
		text := texttab.Plain(cmp.Or(t.Point.Without(defaults...).String(), "all axes at their defaults"))
		io.WriteString(out.Writer(), "  "+text+"\n") // faster than Printf, for plans of a million points
	}
}

// Progress shows the progress of a run: a bar with an estimate on a terminal, plain lines
// otherwise, nothing if quiet.
type Progress struct {
	out     texttab.Out // for lines, which appear above the bar if there is one
	quiet   bool
	name    string
	backend string

	defaults []string // axes to leave out, see run.Started
	metrics  []journal.MetricInfo
	total    int
	done     int
	current  atomic.Value // text of the task that runs, which the bar shows from a goroutine of its own
	bars     *mpb.Progress
	bar      *mpb.Bar
}

// NewProgress returns the progress display of a bench. It writes to w or, with a bar, to the
// terminal.
func NewProgress(w, terminal io.Writer, bench, backend string, bar, quiet bool) *Progress {
	p := &Progress{out: texttab.ForTerminal(w), quiet: quiet, name: bench, backend: backend}
	if bar && !quiet {
		p.bars = mpb.New(mpb.WithOutput(terminal), mpb.WithWidth(40), mpb.WithAutoRefresh())
		p.out = texttab.ForTerminal(Guard(p.bars))
	}
	return p
}

// Observe shows an event of the run.
func (p *Progress) Observe(e run.Event) {
	if p.quiet {
		return
	}
	switch {
	case e.Started != nil:
		p.start(e.Started)
	case e.Task != nil:
		p.current.Store(texttab.Plain(p.describe(*e.Task)))
	case e.Recorded != nil:
		p.recorded(e.Recorded)
	case e.Note != "":
		p.out.Printf("note: %s\n", e.Note)
	}
}

func (p *Progress) start(s *run.Started) {
	p.total, p.done = s.Rows, s.Done
	p.defaults, p.metrics = s.Defaults, s.Metrics
	begun, there := time.Now(), s.Done // rows from before the run was resumed
	p.out.Printf("%s on %s: %s, %s, into %s (run %s)\n", p.name, p.backend, unit.Plural(s.Rows, "row"),
		unit.Counted(s.Launches, "launch", "launches"), s.Dir, s.Run)
	if s.Follows != nil {
		p.out.Printf("%s: following %v\n", p.name, s.Follows)
	}
	if s.Done > 0 {
		p.out.Printf("%s: %s already there\n", p.name, unit.Plural(s.Done, "row"))
	}
	if p.bars != nil {
		p.bar = p.bars.AddBar(int64(p.total),
			mpb.PrependDecorators(decor.CountersNoUnit("%d/%d "), decor.OnComplete(decor.Any(func(s decor.Statistics) string {
				return left(time.Since(begun), int(s.Current)-there, int(s.Total-s.Current))
			}), "done")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
				text, _ := p.current.Load().(string) // "" before the first task
				return text
			})))
		p.bar.SetCurrent(int64(p.done))
	}
}

// left estimates the remaining time from the mean time of the rows recorded since the start.
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
			return // the bar shows it; only failures get a line
		}
	}
	text := p.describe(plan.Task{Part: row.Part, Point: row.Point, Ranks: dataset.Ranks(row), Env: row.Env,
		Trial: row.Trial}) + " " + p.result(row)
	p.out.Printf("[%d/%d] %s\n", p.done, max(p.total, p.done), text)
}

// Close ends the bar.
func (p *Progress) Close() {
	if p.bar != nil {
		p.bar.Abort(false)
		p.bars.Wait()
	}
}

// describe returns the coordinates of a task, without axes at their defaults.
func (p *Progress) describe(t plan.Task) string {
	t.Point = t.Point.Without(p.defaults...)
	s := strings.TrimSpace(t.Label())
	if t.Trial > 0 {
		s += fmt.Sprintf(" trial=%d", t.Trial)
	}
	return s
}

func (p *Progress) result(row *journal.Row) string {
	switch {
	case row.Status != journal.OK && row.Rank != nil:
		return fmt.Sprintf("%s at rank %d: %s", row.Status, *row.Rank, firstLine(string(row.Reason)))
	case row.Status != journal.OK:
		return fmt.Sprintf("%s: %s", row.Status, firstLine(string(row.Reason)))
	}
	text := p.value(row)
	if n := len(row.Measurements); n > 1 {
		text += fmt.Sprintf(", the least disturbed of %d measurements", n)
	}
	if row.Disturbed() {
		text += fmt.Sprintf(" (disturbed: %s)", row.Conditions.Strongest().Sentence())
	}
	return text
}

// value returns the row's main metric. The count of wrong elements does not qualify.
func (p *Progress) value(row *journal.Row) string {
	main, ok := dataset.Main(lists.Filter(dataset.Set{row}.Metrics(&journal.Header{Metrics: p.metrics}),
		func(m journal.MetricInfo) bool { return m.Name != decl.WrongMetric.Name }))
	switch v := row.Metrics[main.Name]; {
	case !ok:
		return string(row.Status)
	case main.Name == dataset.TimeMetric:
		return unit.FormatMicros(v)
	default:
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", main.Name, unit.FormatMetric(v), unit.Symbol(row.Units[main.Name])))
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Output is a writer that records the first error, because most code that prints ignores errors.
type Output struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

// NewOutput returns an Output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
		err = o.err // the same as before, so that callers can recognize it
	}
	return n, err
}

// Err returns the error of the first write that failed.
func (o *Output) Err() error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
