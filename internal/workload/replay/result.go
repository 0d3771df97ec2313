package replay

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// Result is the outcome of a replay.
type Result struct {
	Time   event.Time // of the step: until the last node has ended
	Ranks  []Breakdown
	Kinds  []Share // by kind of collective, and send and recv; the largest exposed time first
	Groups []Share // by name of the process group; the largest exposed time first
	Path   []Link  // the critical path, from the beginning of the step to its end

	workload *Workload
}

// Breakdown divides the time of a step on one rank. Compute, Exposed, Host and Idle add up to the step.
type Breakdown struct {
	Compute event.Time // at least one stream computes
	Comm    event.Time // at least one communication operation is under way
	Exposed event.Time // the part of Comm in which nothing is computed
	Host    event.Time // only the host computes
	Idle    event.Time
}

// Share is the part of one kind or process group in the exposed communication of a step, summed over the ranks. A
// moment in which several operations are exposed belongs to the one that started first.
type Share struct {
	Name    string
	Exposed event.Time
}

// Activity is a time in which a rank does one thing, as Breakdown counts it: compute, host, or a kind of communication
// while nothing is computed.
type Activity struct {
	Name       string
	Start, End event.Time
}

// Names of activities besides the kinds of communication.
const (
	Compute = "compute"
	Host    = "host"
)

// Span is the time of a node.
type Span struct {
	Rank       int
	Node       *chakra.Node
	Start, End event.Time
}

// interval is a time in which a rank does something.
type interval struct {
	start, end event.Time
	node       int32
}

// result computes the outcome from the times of the nodes.
func (w *Workload) result() *Result {
	r := &Result{workload: w, Ranks: make([]Breakdown, len(w.traces))}
	for i := range w.nodes {
		r.Time = max(r.Time, w.nodes[i].end)
	}
	kinds, groups := map[string]event.Time{}, map[string]event.Time{}
	for rank := range w.traces {
		r.Ranks[rank] = w.breakdown(rank, r.Time, func(n *chakra.Node, exposed event.Time) {
			kinds[n.Kind()] += exposed
			if n.Type == chakra.Coll {
				groups[label(n.Group)] += exposed
			}
		}, func(Activity) {})
	}
	r.Kinds, r.Groups = sorted(kinds), sorted(groups)
	r.Path = w.path()
	return r
}

// Activities returns what a rank does. They do not overlap, and their sums are in the rank's Breakdown.
func (r *Result) Activities(rank int) (list []Activity) {
	r.workload.breakdown(rank, r.Time, func(*chakra.Node, event.Time) {}, func(a Activity) { list = append(list, a) })
	return list
}

// breakdown divides a rank's step. It calls share for each communication node, with the exposed time that belongs to
// it, and show for each activity.
func (w *Workload) breakdown(rank int, step event.Time, share func(n *chakra.Node, exposed event.Time),
	show func(Activity)) (b Breakdown) {
	var compute, comm, host []interval
	for _, i := range w.order[w.base[rank]:w.base[rank+1]] {
		n := &w.nodes[i]
		at := interval{n.start, n.end, i}
		switch n.lane {
		case computeLane:
			compute = append(compute, at)
		case hostLane:
			host = append(host, at)
		case commLane, receiveLane:
			comm = append(comm, at)
		}
	}
	// outside shows the parts of an interval and returns their sum.
	outside := func(name string, parts []interval) (sum event.Time) {
		for _, v := range parts {
			sum += v.end - v.start
			show(Activity{name, v.start, v.end})
		}
		return sum
	}
	computing := union(compute)
	b.Compute = outside(Compute, computing)
	each(comm, computing, func(i int32, own event.Time, parts []interval) {
		_, n := w.origin(i)
		exposed := outside(n.Kind(), parts)
		b.Comm += own
		b.Exposed += exposed
		share(n, exposed)
	})
	each(host, union(slices.Concat(computing, comm)), func(_ int32, _ event.Time, parts []interval) {
		b.Host += outside(Host, parts)
	})
	b.Idle = step - b.Compute - b.Exposed - b.Host
	return b
}

func byStart(a, b interval) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.node, b.node))
}

// union merges intervals. The result is sorted and disjoint.
func union(list []interval) (merged []interval) {
	list = slices.Clone(list)
	slices.SortFunc(list, byStart)
	for _, v := range list {
		if last := len(merged) - 1; last >= 0 && v.start <= merged[last].end {
			merged[last].end = max(merged[last].end, v.end)
		} else {
			merged = append(merged, v)
		}
	}
	return merged
}

// each cuts overlapping intervals, so that every moment belongs to the one that started first. It calls f with the
// length of each interval's own part, and the parts of that outside of cover. f must not keep the parts.
func each(list, cover []interval, f func(node int32, own event.Time, outside []interval)) {
	slices.SortFunc(list, byStart)
	assigned := event.Time(0) // all time before it already belongs to an interval
	var outside []interval
	for _, v := range list {
		start := max(v.start, assigned)
		own := max(v.end-start, 0)
		outside = outside[:0]
		for len(cover) > 0 && cover[0].end <= start {
			cover = cover[1:]
		}
		for _, c := range cover {
			if c.start >= v.end {
				break
			}
			if c.start > start {
				outside = append(outside, interval{start, c.start, v.node})
			}
			start = max(start, c.end)
		}
		if start < v.end {
			outside = append(outside, interval{start, v.end, v.node})
		}
		assigned = max(assigned, v.end)
		f(v.node, own, outside)
	}
}

// sorted returns the shares, the largest first.
func sorted(exposed map[string]event.Time) []Share {
	list := lists.Map(slices.Sorted(maps.Keys(exposed)), func(name string) Share { return Share{name, exposed[name]} })
	slices.SortStableFunc(list, func(a, b Share) int { return cmp.Compare(b.Exposed, a.Exposed) })
	return list
}

// Spans returns the times of the nodes that take time, rank by rank, in issue order.
func (r *Result) Spans() iter.Seq[Span] {
	w := r.workload
	return func(yield func(Span) bool) {
		for _, i := range w.order {
			n := &w.nodes[i]
			if n.lane == noLane {
				continue
			}
			rank, of := w.origin(i)
			if !yield(Span{rank, of, n.start, n.end}) {
				return
			}
		}
	}
}

// Mean returns the mean of a part over the ranks, in microseconds.
func (r *Result) Mean(part func(Breakdown) event.Time) float64 {
	sum := 0.0
	for _, b := range r.Ranks {
		sum += Micros(part(b))
	}
	return sum / float64(len(r.Ranks))
}

// Micros converts a time to microseconds.
func Micros(t event.Time) float64 { return float64(t) / float64(event.Microsecond) }
