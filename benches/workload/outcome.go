package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/workload/chakra"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// Prefixes of the metrics that divide the exposed communication.
const (
	exposedKind  = "exposed_"
	exposedGroup = "exposed_group_"
)

// Details of a row.
const (
	pathDetail     = "critical_path"
	partsDetail    = "critical_path_parts"
	timelineDetail = "timeline"
	unusedDetail   = "unused"
	slowestDetail  = "ranks"
)

// maxGroups is the number of process groups that have a metric of their own.
const maxGroups = 8

// record records the result of a replay in the row.
func record(s *bench.State, w *replay.Workload, r *replay.Result) {
	s.Record(timeMetric, replay.Micros(r.Time))
	s.Record(computeMetric, r.Mean(func(b replay.Breakdown) event.Time { return b.Compute }))
	s.Record(commMetric, r.Mean(func(b replay.Breakdown) event.Time { return b.Comm }))
	exposed := r.Mean(func(b replay.Breakdown) event.Time { return b.Exposed })
	s.Record(exposedMetric, exposed)
	s.Record(hostMetric, r.Mean(func(b replay.Breakdown) event.Time { return b.Host }))
	s.Record(idleMetric, r.Mean(func(b replay.Breakdown) event.Time { return b.Idle }))
	if r.Time > 0 {
		s.Record(exposedShare, 100*exposed/replay.Micros(r.Time))
	}
	perRank := func(k replay.Share) float64 { return replay.Micros(k.Exposed) / float64(w.Ranks()) }
	for _, k := range r.Kinds {
		s.Report(exposedKind+k.Name+"_us", perRank(k), "us", "lower")
	}
	for _, g := range r.Groups[:min(len(r.Groups), maxGroups)] {
		s.Report(exposedGroup+strings.Map(metricRune, g.Name)+"_us", perRank(g), "us", "lower")
	}
	if more := len(r.Groups) - maxGroups; more > 0 {
		s.Detail("groups", fmt.Sprintf("the %d process groups with the longest exposed time of %d", maxGroups,
			len(r.Groups)))
	}
	s.Detail("nodes", fmt.Sprint(w.Nodes()))
	s.Detail(pathDetail, linksText(r.Path))
	s.Detail(partsDetail, partsText(r.Path, r.Time))
	s.Detail(timelineDetail, condensed(r))
	s.Detail(slowestDetail, rankText(r))
	if notes := w.Notes(); len(notes) > 0 {
		s.Detail(unusedDetail, strings.Join(notes, "; "))
		s.Warn("%d kinds of nodes or attributes have no effect on the times: see the detail %s", len(notes), unusedDetail)
	}
}

// metricRune replaces runes that the name of a metric cannot have.
func metricRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
		return r
	}
	return '_'
}

// rankText names the ranks that compute longest and shortest.
func rankText(r *replay.Result) string {
	longest, shortest := 0, 0
	for rank, b := range r.Ranks {
		if b.Compute > r.Ranks[longest].Compute {
			longest = rank
		}
		if b.Compute < r.Ranks[shortest].Compute {
			shortest = rank
		}
	}
	if r.Ranks[longest].Compute == r.Ranks[shortest].Compute {
		return fmt.Sprintf("All ranks compute for %s", micros(r.Ranks[0].Compute))
	}
	return fmt.Sprintf("Rank %d computes longest, %s, and rank %d shortest, %s", longest, micros(r.Ranks[longest].Compute),
		shortest,
		micros(r.Ranks[shortest].Compute))
}

func micros(t event.Time) string { return unit.FormatMicros(replay.Micros(t)) }

// maxLinks is the number of links of the critical path that a row names.
const maxLinks = 24

// linksText describes the critical path. Consecutive computations of a rank are one link.
func linksText(path []replay.Link) string {
	var parts []string
	for i := 0; i < len(path); {
		l, n := path[i], 1
		for i+n < len(path) && !l.Node.Type.IsComm() && !path[i+n].Node.Type.IsComm() && path[i+n].Rank == l.Rank {
			n++
		}
		text := fmt.Sprintf("rank %d %s", l.Rank, l.Node.Name)
		if n > 1 {
			text = fmt.Sprintf("rank %d %s to %s (%d nodes)", l.Rank, l.Node.Name, path[i+n-1].Node.Name, n)
		} else if l.From != l.Rank {
			text = fmt.Sprintf("rank %d to %d %s", l.From, l.Rank, l.Node.Name)
		}
		parts = append(parts, text+" "+micros(path[i+n-1].End-l.Start))
		i += n
	}
	if more := len(parts) - maxLinks; more > 0 {
		half := maxLinks / 2
		parts = slices.Concat(parts[:half], []string{fmt.Sprintf("... %d more ...", more)}, parts[len(parts)-half:])
	}
	return strings.Join(parts, "; ")
}

// partsText divides the critical path into computation and the parts of communication.
func partsText(path []replay.Link, step event.Time) string {
	var compute, gaps, end event.Time
	var spent loggp.Spent
	for _, l := range path {
		gaps += l.Start - end
		end = l.End
		if !l.Node.Type.IsComm() {
			compute += l.Time()
			continue
		}
		spent.Local += l.Spent.Local
		spent.Wire += l.Spent.Wire
		spent.Latency += l.Spent.Latency
		spent.Queue += l.Spent.Queue
	}
	var parts []string
	for _, p := range []struct {
		name string
		time event.Time
	}{{"compute", compute}, {"bytes on links", spent.Wire}, {"latency", spent.Latency}, {"waiting for links", spent.Queue},
		{"overhead and reduction", spent.Local}, {"late start", gaps}} {
		if p.time > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", p.name, 100*float64(p.time)/float64(step)))
		}
	}
	return strings.Join(parts, ", ")
}

// busiest names the links that are busy longest.
func busiest(links []loggp.LinkUse, step event.Time) string {
	slices.SortStableFunc(links, func(a, b loggp.LinkUse) int { return cmp.Compare(b.Busy, a.Busy) })
	var parts []string
	for _, l := range links[:min(len(links), 5)] {
		if l.Busy > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f %% busy with %s bytes", l.Name, 100*float64(l.Busy)/float64(max(step, 1)),
				unit.FormatBytesApprox(float64(l.Bytes))))
		}
	}
	return strings.Join(parts, "; ")
}

// activity is what a rank does in the timeline.
func activity(n *chakra.Node) string {
	switch {
	case n.Type.IsComm():
		return n.Kind()
	case n.CPU:
		return replay.Host
	}
	return replay.Compute
}
