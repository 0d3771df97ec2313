package graph

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// level is a level of a tree of switches.
type level struct {
	Spec
	name  string
	size  int   // children of each switch: ranks, or switches of the level below
	links int   // parallel links from each child
	over  int64 // over-subscription in thousandths; 0: Rate is given
}

// readLevels reads a tree of switches, from the ranks to the root. Each child of a switch of a level is connected
// to it with the level's links. The bandwidth of a level above the first one follows from its over-subscription:
// the links of all ranks below a child have that many times the bandwidth of the links above it.
func readLevels(f *file, n yamlfile.Node, what string) *builder {
	nodes, ok := f.List(n, what)
	if !ok {
		return nil
	}
	list, below, ranks := make([]level, len(nodes)), 0.0, 1
	for i, node := range nodes {
		l := &list[i]
		l.links = 1
		at := fmt.Sprintf("%s[%d]", what, i)
		rate := f.rate("bandwidth_gbs", &l.Rate)
		rate.Optional = i > 0
		f.Struct(node, at, yamlfile.Field{Key: "name", Read: func(n yamlfile.Node, what string) { l.name = f.word(n, what) }},
			f.IntField("size", &l.size, 1, maxRanks), rate, NS(f.Reader, "latency_ns", &l.Latency), f.share(&l.over),
			f.energy(&l.Spec), f.IntField("links", &l.links, 1, 1024).Opt())
		if ranks *= max(l.size, 1); ranks > maxRanks {
			f.Fault(node, "%s: more than %d ranks", at, maxRanks)
			return nil
		}
		switch {
		case l.Rate > 0 && l.over > 0:
			f.Fault(node, "%s: bandwidth_gbs and oversubscription exclude each other", at)
		case l.Rate == 0 && i > 0:
			l.Rate = divided(below, l.over, l.links)
		}
		below = float64(l.size) * float64(l.links) * float64(l.Rate) // bandwidth of the links of all children together
	}
	if f.Err() != nil {
		return nil
	}
	return buildLevels(list, ranks)
}

// divided returns the bandwidth of each of the links above a switch: the total of the links below it, divided by the
// over-subscription, which is in thousandths, and by the number of links.
func divided(total float64, over int64, links int) Rate {
	return Rate(min(max(total*1000/float64(max(over, 1000))/float64(max(links, 1)), 1), MaxRate))
}

// word reads a name that can be part of the name of a link in an option.
func (f *file) word(n yamlfile.Node, what string) string {
	s, ok := f.Text(n, what)
	if ok && (s.Text == "" || strings.ContainsAny(s.Text, ":,;=+ \t\n\"'")) {
		f.Fault(n, "%s: want a name without blanks, quotes and any of : , ; = +, have %q", what, s.Text)
	}
	return s.Text
}

func buildLevels(list []level, ranks int) *builder {
	b := newBuilder(ranks)
	children, first := ranks, int32(0)
	var sizes []string
	for _, l := range list {
		parents := children / l.size
		parent := b.switches(l.name, parents)
		for range l.links {
			b.attach(l.name, first, children, parent, l.size, l.Spec)
		}
		children, first = parents, parent
		sizes = append(sizes, fmt.Sprintf("%s of %d", l.name, l.size))
	}
	b.Text = fmt.Sprintf("%d ranks in levels: %s", ranks, strings.Join(sizes, ", "))
	return b
}
