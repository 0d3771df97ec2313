package replay

import (
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// Link is a part of the critical path: the time of a node from Start to End. In an operation of several ranks the
// time begins at the start of the rank that delayed it, which is From.
type Link struct {
	Rank       int
	Node       *chakra.Node
	From       int
	Start, End event.Time
	Spent      loggp.Spent // of communication
}

// Time returns the length of the link.
func (l Link) Time() event.Time { return l.End - l.Start }

// path follows the last dependency to end, from the node that ended last back to the beginning. Links without time
// are left out, so each link begins when the previous one ends.
func (w *Workload) path() (links []Link) {
	at := int32(0)
	for i := range w.nodes {
		if w.nodes[i].end > w.nodes[at].end {
			at = int32(i)
		}
	}
	for at >= 0 {
		n := &w.nodes[at]
		begin := at
		if n.operation >= 0 {
			begin = w.operations[n.operation].nodes[n.cause]
		}
		rank, of := w.origin(at)
		link := Link{Rank: rank, Node: of, From: int(w.nodes[begin].rank), Start: w.nodes[begin].start, End: n.end}
		if n.operation >= 0 {
			link.Spent = n.spent
		}
		if link.Time() > 0 {
			links = append(links, link)
		}
		at = w.nodes[begin].reason
	}
	slices.Reverse(links)
	return links
}
