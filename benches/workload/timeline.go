package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// writeTimeline writes a replay for Perfetto and closes the file. Each rank is a process, and so is the critical path.
// Nodes that overlap are on different threads.
func writeTimeline(out io.WriteCloser, r *replay.Result) error {
	t := &sim.Trace{}
	digits := len(fmt.Sprint(len(r.Ranks) - 1)) // equal widths, because groups are sorted as texts
	rank, ends := -1, map[string][]event.Time{} // of the nodes that are last on the threads of an activity
	for s := range r.Spans() {
		if s.Rank != rank {
			rank = s.Rank
			clear(ends)
		}
		lane := activity(s.Node)
		if s.Node.Group != "" {
			lane += " " + s.Node.Group
		}
		free := slices.IndexFunc(ends[lane], func(end event.Time) bool { return end <= s.Start })
		if free < 0 {
			free = len(ends[lane])
			ends[lane] = append(ends[lane], 0)
		}
		ends[lane][free] = s.End
		if free > 0 {
			lane = fmt.Sprintf("%s (%d)", lane, free+1)
		}
		t.Spans = append(t.Spans, sim.Span{Group: fmt.Sprintf("rank %0*d", digits, s.Rank), Lane: lane, Name: s.Node.Name,
			From: s.Start,
			To:   s.End})
	}
	for _, l := range r.Path {
		t.Spans = append(t.Spans, sim.Span{Group: "critical path", Lane: activity(l.Node),
			Name: fmt.Sprintf("rank %d %s", l.Rank, l.Node.Name), From: l.Start, To: l.End})
	}
	return errors.Join(accel.WriteTrace(out, &sim.Result{Trace: t}), out.Close())
}

// bins and timelineRanks are the size of the timeline in a row.
const (
	bins          = 240
	timelineRanks = 16
)

// picture is the timeline of some ranks in a row: each rank's activity in time bins of equal length.
type picture struct {
	Activities []string `json:"activities"` // the letters a, b, c... of the lines stand for
	Ranks      []int    `json:"ranks"`
	Lines      []string `json:"lines"` // one letter for each bin; a blank is idle
}

// condensed returns the timeline of the row as JSON. A bin shows the activity with the longest time in it. If a rank
// computes and communicates at the same time, computation is shown.
func condensed(r *replay.Result) string {
	n := min(len(r.Ranks), timelineRanks)
	p := picture{Ranks: make([]int, n), Lines: make([]string, n)}
	row := map[int]int{}
	for i := range n {
		p.Ranks[i] = i * len(r.Ranks) / n
		row[p.Ranks[i]] = i
	}
	type cell map[string]event.Time
	cells := make([][]cell, n)
	for s := range r.Spans() {
		i, drawn := row[s.Rank]
		if !drawn || r.Time == 0 {
			continue
		}
		if cells[i] == nil {
			cells[i] = make([]cell, bins)
		}
		what := activity(s.Node)
		at := func(bin int) event.Time { return event.Time(float64(bin) / bins * float64(r.Time)) }
		first := int(float64(s.Start) / float64(r.Time) * bins)
		for b := max(first-1, 0); b < bins && at(b) < s.End; b++ {
			if d := min(s.End, at(b+1)) - max(s.Start, at(b)); d > 0 {
				if cells[i][b] == nil {
					cells[i][b] = cell{}
				}
				cells[i][b][what] += d
			}
		}
		if !slices.Contains(p.Activities, what) {
			p.Activities = append(p.Activities, what)
		}
	}
	slices.SortFunc(p.Activities, func(a, b string) int { return order(a) - order(b) })
	for i := range n {
		line := make([]byte, bins)
		for b := range line {
			line[b] = letter(p.Activities, cells[i], b, event.Time(float64(r.Time)/bins))
		}
		p.Lines[i] = string(line)
	}
	text, _ := json.Marshal(p) // strings and numbers only
	return string(text)
}

// order returns the place of an activity in the legend.
func order(what string) int {
	return slices.Index(drawnActivities, what)
}

// letter returns what a bin shows: computation if it fills half of the bin, else what takes longest, or a blank.
func letter[C ~map[string]event.Time](activities []string, cells []C, b int, length event.Time) byte {
	if cells == nil || cells[b] == nil {
		return ' '
	}
	best, busy := 0, event.Time(0)
	for i, what := range activities {
		d := cells[b][what]
		if what == "compute" && 2*d >= length {
			return byte('a' + i)
		}
		if d > busy {
			best, busy = i, d
		}
	}
	if 4*busy < length {
		return ' '
	}
	return byte('a' + best)
}
