// Package floorplan shows the profiles of simulated kernels, as figures and in words:
// the load of the links on the floor plan of the device, the busiest links, and the
// critical path. A row's profile is a file beside the journal, written by package
// profile.
package floorplan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/profile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Seen is a row with the profile of its kernel.
type Seen struct {
	Row    *journal.Row
	Label  string // the coordinates in which it differs from other rows
	Record *profile.Record
}

// Common returns the coordinates with the same value in all rows. Labels omit them.
func Common(rows dataset.Set) []string {
	return dataset.Names(lists.Filter(dataset.Identities(rows), func(c dataset.Coord) bool { return !c.Varies(rows) }))
}

// Chosen returns the rows that get figures: in each part the good row with the longest
// kernel.
func Chosen(rows dataset.Set) (chosen dataset.Set) {
	for _, r := range rows {
		if r.Inside == "" || r.Status != journal.OK {
			continue
		}
		at := slices.IndexFunc(chosen, func(o *journal.Row) bool { return o.Part == r.Part })
		switch {
		case at < 0:
			chosen = append(chosen, r)
		case r.Metrics["time_us"] > chosen[at].Metrics["time_us"]:
			chosen[at] = r
		}
	}
	return chosen
}

func name(what string, r *journal.Row) string {
	if r.Part == "" {
		return what
	}
	return what + "_" + figure.Stem(r.Part)
}

// Load reads the profiles of the chosen rows from the folder of their run. It skips
// missing files, because a journal may have been copied without them. Damaged files
// are errors.
func Load(dir string, rows dataset.Set) (seen []Seen, errs []error) {
	chosen := Chosen(rows)
	if dir == "" || len(chosen) == 0 {
		return nil, nil
	}
	common := Common(rows)
	for _, r := range chosen {
		record, err := Read(dir, r.Inside)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, err)
		default:
			seen = append(seen, Seen{r, dataset.Label(r, common...), record})
		}
	}
	return seen, errs
}

// Read reads one profile.
func Read(dir, name string) (*profile.Record, error) {
	data, err := journal.ReadInside(dir, name, profile.MaxFile)
	if err != nil {
		return nil, err
	}
	record, err := profile.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("inside/%s: %w", name, err)
	}
	return record, nil
}

// Figures returns the figures of the profiles.
func Figures(seen []Seen) (figs []figure.Figure) {
	for _, s := range seen {
		figs = append(figs, s.loadFigure(), s.pathFigure())
	}
	return figs
}

// WithoutPlan returns a figure of the load of links without the floor plan, for a page that shows the plan itself, and
// other figures as they are.
func WithoutPlan(f figure.Figure) figure.Figure {
	rest := lists.Filter(f.Panels, func(p figure.Panel) bool { _, is := p.Content.(*Plan); return !is })
	if len(rest) == len(f.Panels) || len(rest) != 1 {
		return f
	}
	f.Title, f.Caption, f.Panels = rest[0].Title, "", rest
	f.Panels[0].Title = ""
	return f
}

// Sections returns the tables of busiest links and of critical paths.
func Sections(seen []Seen) (sections []bench.Section) {
	for _, s := range seen {
		sections = append(sections, s.links(), s.path())
	}
	return sections
}

func micros(ps int64) float64 { return float64(ps) / 1e6 }

// busiestSIP returns the SIP with the link that was sending for the longest time.
func (s Seen) busiestSIP() int {
	if len(s.Record.Links) == 0 {
		return 0
	}
	return s.Record.Links[0].SIP
}

// overTime is the number of links that are drawn over time.
const overTime = 8

// loadFigure shows the load of the links of the busiest SIP on its floor plan, and the
// load of the busiest links over time.
func (s Seen) loadFigure() figure.Figure {
	r, sip := s.Record, s.busiestSIP()
	plan := &Plan{Plan: r.Plan, Most: 1}
	for i := range r.Links {
		if l := &r.Links[i]; l.SIP == sip {
			plan.Links = append(plan.Links, Wire{l.Line, r.Share(l)})
			plan.Most = max(plan.Most, r.Share(l))
		}
	}
	slices.Reverse(plan.Links) // the busiest on top
	where := "sip0"
	if r.SIPs > 1 {
		where = fmt.Sprintf("sip%d, the busiest of %d SIPs", sip, r.SIPs)
	}
	f := figure.Figure{Name: name("link_load", s.Row), Columns: 1, Title: fmt.Sprintf("Load of the links of %s", where),
		Caption: fmt.Sprintf("%s: a kernel of %s, fabric %s. Every line is a link in one direction, on the right side "+
			"of its path. Links that carried nothing are not drawn.%s",
			s.Label, unit.FormatMicros(micros(r.Kernel)), r.Fabric, s.leftOut())}
	f.Panels = append(f.Panels, figure.Panel{Title: "Share of the time for which each link was sending", Content: plan})
	load := &figure.Timeline{Kinds: []string{"sending"}, End: micros(max(r.Bucket*int64(r.Buckets), r.Kernel))}
	for i := range min(overTime, len(r.Links)) {
		load.Rows = append(load.Rows, s.loadOverTime(&r.Links[i]))
	}
	f.Panels = append(f.Panels, figure.Panel{Content: load, X: timeAxis,
		Title: "The busiest links over time: share for which each was sending, 0 to 100 %"})
	return f
}

var timeAxis = figure.Axis{Label: "time since the start", Unit: figure.Micros}

// loadOverTime returns the load of a link, with one span for each time in which it stays the same.
func (s Seen) loadOverTime(l *profile.Link) figure.TimelineRow {
	out := figure.TimelineRow{Name: l.Name, Note: fmt.Sprintf("%.1f %%", s.Record.Share(l))}
	load := l.Load[:min(len(l.Load), s.Record.Buckets)]
	for k := 0; k < len(load); {
		from := k
		for k < len(load) && load[k] == load[from] {
			k++
		}
		if load[from] > 0 {
			out.Spans = append(out.Spans, figure.TimelineSpan{Top: float64(load[from]) / 255,
				From: micros(int64(from) * s.Record.Bucket), To: micros(int64(k) * s.Record.Bucket)})
		}
	}
	return out
}

func (s Seen) leftOut() string {
	if s.Record.Others == 0 {
		return ""
	}
	return fmt.Sprintf(" The profile has the %d busiest links; %d others carried data too.", len(s.Record.Links),
		s.Record.Others)
}

// Limits of a critical path: lanes in the figure and lines in the table.
const (
	maxLanes = 28
	maxLines = 40
)

// visits joins consecutive steps of the path at the same PE.
func visits(path []profile.Step) (out []profile.Step) {
	for _, s := range path {
		if n := len(out); n > 0 && out[n-1].PE == s.PE {
			out[n-1].To = s.To
			for cause, time := range s.Causes {
				out[n-1].Causes[cause] += time
			}
			continue
		}
		s.Causes = maps.Clone(s.Causes)
		out = append(out, s)
	}
	return out
}

// pathFigure shows the critical path by PE, with the share of each cause.
func (s Seen) pathFigure() figure.Figure {
	r := s.Record
	chain := &figure.Timeline{End: micros(r.Kernel), Joined: true}
	for _, cause := range profile.Causes() {
		var time int64
		for _, step := range r.Path {
			time += step.Causes[cause]
		}
		chain.Kinds = append(chain.Kinds, fmt.Sprintf("%s %s", cause, s.share(time)))
	}
	at := 0
	for _, v := range profile.Condense(visits(r.Path), maxLanes) {
		time := v.To - v.From
		row := figure.TimelineRow{Name: v.PE, Note: fmt.Sprintf("%s (%s)", unit.FormatMicros(micros(time)), s.share(time))}
		if v.Merged > 0 {
			row.Name = fmt.Sprintf("%d shorter visits", v.Merged)
		}
		for ; at < len(r.Path) && r.Path[at].To <= v.To; at++ {
			row.Spans = append(row.Spans, spans(r.Path[at])...)
		}
		chain.Rows = append(chain.Rows, row)
	}
	return figure.Figure{Name: name("critical_path", s.Row), Columns: 1,
		Title: fmt.Sprintf("The critical path of %s", unit.FormatMicros(micros(r.Kernel))),
		Caption: fmt.Sprintf("%s. From the common start to the end of the slowest PE, following the last dependency "+
			"to arrive: "+
			"one line for each PE on the path. A line shows the PE's own work and the message that it waits for. Every "+
			"picosecond has exactly one cause.",
			s.Label),
		Panels: []figure.Panel{{Content: chain, X: timeAxis}}}
}

// spans returns one span per cause of a step, in the order of profile.Causes.
func spans(s profile.Step) (out []figure.TimelineSpan) {
	from := s.From
	for i, cause := range profile.Causes() {
		if time := s.Causes[cause]; time > 0 {
			out = append(out, figure.TimelineSpan{Kind: i, From: micros(from), To: micros(from + time), Top: 1})
			from += time
		}
	}
	return out
}

func (s Seen) share(ps int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(ps)/float64(s.Record.Kernel))
}

// mostLinks is the number of busiest links that are listed.
const mostLinks = 10

// links lists the busiest links in a table.
func (s Seen) links() bench.Section {
	r := s.Record
	table := [][]string{{"link", "bytes", "sending", "queueing"}}
	for i := range min(mostLinks, len(r.Links)) {
		l := &r.Links[i]
		table = append(table, []string{l.Name, fmt.Sprint(l.Bytes), fmt.Sprintf("%.1f %%", r.Share(l)),
			unit.FormatMicros(micros(l.Wait))})
	}
	what := "flits"
	if r.Fabric == "whole" {
		what = "messages"
	}
	return bench.Section{Title: "The busiest links of " + s.Label, Table: table, Detail: true,
		Text: fmt.Sprintf("The share of the kernel's %s for which each link was sending, and the total time that %s "+
			"waited in its "+
			"queue.%s",
			unit.FormatMicros(micros(r.Kernel)), what, s.leftOut())}
}

// path lists the steps of the critical path in a table.
func (s Seen) path() bench.Section {
	table := [][]string{{"from", "time", "share", "where", "what", "because of"}}
	for _, step := range profile.Condense(s.Record.Path, maxLines) {
		time := step.To - step.From
		table = append(table, []string{unit.FormatMicros(micros(step.From)), unit.FormatMicros(micros(time)), s.share(time),
			step.PE, does(step), because(step)})
	}
	return bench.Section{Title: "The critical path of " + s.Label, Table: table, Detail: true,
		Text: fmt.Sprintf("The steps that make up the slowest PE's time of %s, in order. Their times add up to it.",
			unit.FormatMicros(micros(s.Record.Kernel)))}
}

// does names the part of the machine that was working in a step.
func does(s profile.Step) string {
	switch {
	case s.Merged > 0:
		return "in between"
	case s.Sender != "":
		return fmt.Sprintf("message of %s over %s", s.Sender, s.Link)
	case s.Link != "":
		return "credit back over " + s.Link
	}
	return fmt.Sprintf("%s (%s)", s.Part, s.Op)
}

// because lists the causes of a step, the longest first.
func because(s profile.Step) string {
	causes := profile.Causes()
	slices.SortStableFunc(causes, func(a, b string) int { return cmp.Compare(s.Causes[b], s.Causes[a]) })
	var parts []string
	for _, c := range causes {
		if time := s.Causes[c]; time == s.To-s.From {
			return c
		} else if time > 0 {
			parts = append(parts, c+" "+unit.FormatMicros(micros(time)))
		}
	}
	return strings.Join(parts, ", ")
}
