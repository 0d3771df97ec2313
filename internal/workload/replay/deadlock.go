package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// deadlock explains why nodes have not ended. It goes from each node to one that it waits for until a node repeats, and
// describes that cycle.
func (p *player) deadlock() error {
	at := int32(slices.IndexFunc(p.nodes, func(n node) bool { return n.state != done }))
	var path []int32
	var why []string
	for !slices.Contains(path, at) {
		path = append(path, at)
		next, because := p.blocker(at)
		if next < 0 {
			return fmt.Errorf("%s never ends", p.describe(at))
		}
		why = append(why, because)
		at = next
	}
	from := slices.Index(path, at)
	circle := append(slices.Clone(path[from:]), at)
	var text strings.Builder
	text.WriteString("the ranks wait for each other for ever: " + p.describe(circle[0]))
	for i, n := range circle[1:] {
		if i == maxNamed {
			fmt.Fprintf(&text, ", and so on over %d more nodes", len(circle)-1-i)
			break
		}
		if i > 0 {
			text.WriteString(", which")
		}
		fmt.Fprintf(&text, " %s %s", why[from+i], p.describe(n))
	}
	return errors.New(text.String())
}

// maxNamed is the largest number of nodes that the message names.
const maxNamed = 12

// blocker returns an unfinished node for which node i waits, and why it waits, in words for the message. next is -1 if
// there is none.
func (p *player) blocker(i int32) (next int32, why string) {
	n := &p.nodes[i]
	switch {
	case n.state == waiting:
		for _, d := range p.order[p.base[n.rank]:p.base[n.rank+1]] {
			if p.nodes[d].state != done && slices.Contains(p.successors[p.first[d]:p.first[d+1]], i) {
				return d, "needs"
			}
		}
	case n.state == ready && n.queue >= 0 && p.queues[n.queue].nodes[p.queues[n.queue].next] != i:
		q := &p.queues[n.queue]
		return q.nodes[q.next], "comes in its process group after"
	case n.state == ready:
		for _, other := range p.order[p.base[n.rank]:p.base[n.rank+1]] {
			if o := &p.nodes[other]; o.state == running && o.lane == n.lane {
				return other, "waits for the stream of"
			}
		}
	case n.operation >= 0:
		for _, other := range p.operations[n.operation].nodes {
			if s := p.nodes[other].state; s != running && s != done {
				return other, "waits for"
			}
		}
	}
	return -1, ""
}
