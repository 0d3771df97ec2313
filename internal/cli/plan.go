package cli

import (
	"fmt"
	"strings"
	"time"
)

// printPlan shows what a run would do.
func (a *app) printPlan(j planned) {
	p := j.plan
	least, most := p.Estimate()
	fmt.Fprintf(a.stdout, "bench %s on %s: %s, %s", p.Bench.Name, p.Backend, count(p.Points, "point"), count(p.Launches(), "launch"))
	if p.Trials > 1 {
		fmt.Fprintf(a.stdout, " (%d trials, order seeded with %d)", p.Trials, p.Seed)
	}
	fmt.Fprintf(a.stdout, ", into %s\n", j.out)
	if p.Groups[0].Part.Command != nil {
		fmt.Fprintf(a.stdout, "takes at most %v, if every launch runs into its time-out\n", most.Round(time.Second))
	} else {
		fmt.Fprintf(a.stdout, "sampling takes between %v and %v\n", least.Round(time.Millisecond), most.Round(time.Second))
	}
	for i, g := range p.Groups {
		ranks := fmt.Sprintf("ranks=%d", g.Ranks)
		if g.Ranks == 0 {
			ranks = "its own ranks"
		}
		fmt.Fprintf(a.stdout, "launch %d: %s", i+1, ranks)
		if g.Part.Name != "" {
			fmt.Fprintf(a.stdout, " part=%s", g.Part.Name)
		}
		if len(g.Env) > 0 {
			fmt.Fprintf(a.stdout, " %s", g.Env)
		}
		if p.Trials > 1 {
			fmt.Fprintf(a.stdout, " trial=%d", g.Trial)
		}
		fmt.Fprintln(a.stdout)
		for _, t := range g.Tasks {
			fmt.Fprintf(a.stdout, "  %s\n", orDash(t.Point.String()))
		}
	}
	for _, t := range p.Dropped {
		fmt.Fprintf(a.stdout, "dropped: %s ranks=%d: %s\n", t.Point, t.Ranks, t.Reason)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// count is a number of things in words: 1 point, 2 points, 2 launches.
func count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
