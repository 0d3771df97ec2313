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
	"github.com/kernbench/kernbench/internal/base/lists"
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

// picture is the timeline of some ranks in a row: for each rank and activity, the share of the time in bins of equal
// length. A share is a letter of levels.
type picture struct {
	Activities []string   `json:"activities"`
	Ranks      []int      `json:"ranks"`
	Shares     [][]string `json:"shares"` // by rank and activity, a letter for each bin
}

// levels are the letters of a share, from none to the whole bin.
const levels = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// condensed returns the timeline of the row as JSON.
func condensed(r *replay.Result) string {
	n := min(len(r.Ranks), timelineRanks)
	p := picture{Ranks: make([]int, n), Shares: make([][]string, n)}
	times := make([]map[string]*[bins]float64, n)
	var found lists.Set[string]
	for i := range n {
		p.Ranks[i] = i * len(r.Ranks) / n
		times[i] = map[string]*[bins]float64{}
		for _, a := range r.Activities(p.Ranks[i]) {
			found.Add(a.Name)
			if times[i][a.Name] == nil {
				times[i][a.Name] = new([bins]float64)
			}
			spread(times[i][a.Name], float64(a.Start)/float64(r.Time)*bins, float64(a.End)/float64(r.Time)*bins)
		}
	}
	p.Activities = found.List
	slices.SortFunc(p.Activities, func(a, b string) int { return order(a) - order(b) })
	for i := range n {
		p.Shares[i] = lists.Map(p.Activities, func(name string) string { return letters(times[i][name]) })
	}
	text, _ := json.Marshal(p) // strings and numbers only
	return string(text)
}

// spread adds an interval to the bins. One bin has the length 1.
func spread(to *[bins]float64, start, end float64) {
	for b := int(start); b < bins && float64(b) < end; b++ {
		to[b] += max(0, min(end, float64(b+1))-max(start, float64(b)))
	}
}

// letters returns the shares as letters. The rounding error of a bin is carried to the next one, so that the sum over
// many bins is right, even if each share is smaller than a level.
func letters(shares *[bins]float64) string {
	if shares == nil {
		return ""
	}
	line, carry := make([]byte, bins), 0.0
	for b, share := range shares {
		exact := share*float64(len(levels)-1) + carry
		level := min(max(int(exact+0.5), 0), len(levels)-1)
		line[b], carry = levels[level], exact-float64(level)
	}
	return string(line)
}

// order returns the place of an activity in the legend.
func order(what string) int {
	return slices.Index(drawnActivities, what)
}
