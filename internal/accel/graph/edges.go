package graph

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/yamlfile"
)

// edge is an entry of an edge list.
type edge struct {
	Spec
	from, to     []string // nodes; one cable for each combination
	name, level  string
	links        int
	oneWay       bool
	at           yamlfile.Node
	fromAt, toAt yamlfile.Node
}

// readEdges reads a list of links. Nodes with a number are ranks, which must be 0, 1, 2 and so on without a gap;
// all others are switches. 0..7 stands for the ranks 0 to 7.
func readEdges(f *file, n yamlfile.Node, what string) *builder {
	nodes, ok := f.List(n, what)
	if !ok {
		return nil
	}
	list, ranks := make([]edge, len(nodes)), map[int]bool{}
	for i, node := range nodes {
		list[i] = f.edge(node, fmt.Sprintf("%s[%d]", what, i))
		for _, name := range append(append([]string(nil), list[i].from...), list[i].to...) {
			if rank, err := strconv.Atoi(name); err == nil {
				ranks[rank] = true
			}
		}
	}
	if f.Err() != nil {
		return nil
	}
	for rank := range len(ranks) {
		if !ranks[rank] {
			f.Fault(n, "%s: there is no rank %d, but %d others: ranks are 0, 1, 2 and so on", what, rank, len(ranks))
			return nil
		}
	}
	if len(ranks) == 0 {
		f.Fault(n, "%s: no node is a rank: ranks are nodes with the names 0, 1, 2 and so on", what)
		return nil
	}
	b := newBuilder(len(ranks))
	for _, e := range list {
		if !f.build(b, e) {
			return nil
		}
	}
	b.Text = fmt.Sprintf("%d ranks, %d switches, %d cables", b.Ranks, len(b.Nodes)-b.Ranks, len(b.Cables))
	return b
}

func (f *file) edge(n yamlfile.Node, what string) edge {
	e := edge{level: "links", links: 1, at: n}
	node := func(key string, into *[]string, at *yamlfile.Node) yamlfile.Field {
		return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) { *into, *at = f.nodes(n, what), n }}
	}
	word := func(key string, into *string) yamlfile.Field {
		return yamlfile.Field{Key: key, Read: func(n yamlfile.Node, what string) { *into = f.word(n, what) }}.Opt()
	}
	f.Struct(n, what, append(f.spec(&e.Spec), node("from", &e.from, &e.fromAt), node("to", &e.to, &e.toAt),
		word("name", &e.name), word("level", &e.level), f.IntField("links", &e.links, 1, 1024).Opt(),
		yamlfile.Field{Key: "one_way", Read: func(n yamlfile.Node, what string) {
			text, _ := f.Word(n, what, "boolean", "true", "false")
			e.oneWay = text == "true"
		}}.Opt())...)
	return e
}

// nodes reads the name of a node, or a range of ranks.
func (f *file) nodes(n yamlfile.Node, what string) []string {
	text := f.word(n, what)
	first, last, isRange := strings.Cut(text, "..")
	if !isRange {
		if rank, err := strconv.Atoi(text); err == nil && (rank < 0 || strconv.Itoa(rank) != text) {
			f.Fault(n, "%s: a rank is a number such as 0 or 17, have %q", what, text)
		}
		return []string{text}
	}
	from, bad := strconv.Atoi(first)
	to, worse := strconv.Atoi(last)
	if bad != nil || worse != nil || from < 0 || to < from || to >= maxRanks {
		f.Fault(n, "%s: want a range of ranks such as 0..7, have %q", what, text)
		return nil
	}
	var list []string
	for rank := from; rank <= to; rank++ {
		list = append(list, strconv.Itoa(rank))
	}
	return list
}

// build adds the cables of an entry. It returns false after a fault.
func (f *file) build(b *builder, e edge) bool {
	if !f.fits(e.at, "edges", maxLinks, len(e.from), len(e.to), e.links) {
		return false
	}
	many := len(e.from)*len(e.to)*e.links > 1
	for _, from := range e.from {
		for _, to := range e.to {
			for range e.links {
				switch {
				case from == to:
					f.Fault(e.toAt, "edges: a link from node %s to itself", from)
					return false
				case e.name != "" && (many || b.has(e.name)):
					f.Fault(e.at, "edges: the name %q stands for more than one link", e.name)
					return false
				}
				source, target := b.node(from), b.node(to)
				cable := b.cable(e.name, source, target)
				if b.link(cable, e.level, source, target, e.Spec); !e.oneWay {
					b.link(cable, e.level, target, source, e.Spec)
				}
			}
		}
	}
	return true
}
