package terminal

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/plan"
)

// WritePlan shows what a run into the folder out would do. Took is how long points took
// there before, by key.
func WritePlan(w io.Writer, p *plan.Plan, out string, took map[string]time.Duration) {
	least, most := p.Estimate()
	fmt.Fprintf(w, "bench %s on %s: %s, %s", p.Bench.Name, p.Backend, unit.Plural(p.Points, "point"),
		unit.Counted(p.Launches(), "launch", "launches"))
	if p.Trials > 1 {
		fmt.Fprintf(w, " (%d trials, order seeded with %d)", p.Trials, p.Seed)
	}
	fmt.Fprintf(w, ", into %s\n", out)
	total, known := p.EstimateFrom(took)
	if known > 0 {
		fmt.Fprintf(w, "takes about %v, by %d of these points that ran before\n", rounded(total), known)
	}
	if p.RunsPrograms() {
		if known == 0 {
			fmt.Fprintf(w, "how long it takes is not known: none of these points is in %s\n", out)
		}
		fmt.Fprintf(w, "ends after %v at the latest, if every launch times out\n", most.Round(time.Second))
	} else {
		fmt.Fprintf(w, "sampling takes between %v and %v\n", least.Round(time.Millisecond), most.Round(time.Second))
	}
	for _, note := range p.Notes {
		fmt.Fprintln(w, note)
	}
	if len(p.Undeclared) > 0 {
		fmt.Fprintf(w, "not declared by %s, set all the same: %s\n", p.Bench.Name, strings.Join(p.Undeclared, ", "))
	}
	number := 0
	for g, tasks := range p.All() {
		number++
		writeGroup(w, number, g, tasks, p.Trials > 1)
	}
	for t := range p.AllDropped() {
		fmt.Fprintf(w, "dropped: %s ranks=%d: %s\n", t.Point, t.Ranks, t.Reason)
	}
}

// rounded is a time as exactly as an estimate of it can be.
func rounded(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond)
	case d < time.Minute:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// writeGroup shows one launch and the points that share it.
func writeGroup(w io.Writer, number int, g *plan.Group, tasks iter.Seq[plan.Task], trials bool) {
	ranks := fmt.Sprintf("ranks=%d", g.Ranks)
	if g.Ranks == 0 {
		ranks = "its own ranks"
	}
	fmt.Fprintf(w, "launch %d: %s", number, ranks)
	if g.Part.Name != "" {
		fmt.Fprintf(w, " part=%s", g.Part.Name)
	}
	if len(g.Env) > 0 {
		fmt.Fprintf(w, " %s", g.Env)
	}
	if trials {
		fmt.Fprintf(w, " trial=%d", g.Trial)
	}
	fmt.Fprintln(w)
	for t := range tasks {
		text := cmp.Or(t.Point.String(), "-")
		io.WriteString(w, "  "+text+"\n") // a million of them, perhaps
	}
}
