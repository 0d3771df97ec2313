// Package graph describes a network as ranks, switches and directed links, and finds the paths of messages.
// It knows no time; package loggp simulates messages on the links.
//
// # Paths
//
// A message takes a path that passes through the fewest ranks and, among these, has the fewest links. So a
// rank forwards messages of others only if no path through switches exists, as in a torus. If several next
// links are equally good, a hash of the source, the destination and the node chooses one, as ECMP does. The
// path of a source and a destination is therefore always the same, and different pairs spread over the links.
//
// # Names
//
// Rank r is the node "r". A link between nodes a and b is a cable named "a-b" with two directed links, "a-b" and
// "b-a". Further cables between the same nodes are named "a-b#2", "a-b#3".
package graph

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// Rate is a rate in bytes per millisecond, a millionth of a GB/s.
type Rate int64

// longest is the longest time of a message, about three days. More would overflow.
const longest = 1 << 58

// Time returns how long a number of bytes takes, rounded up to whole picoseconds, and at most about three days. A rate
// of 0 takes no time.
func (r Rate) Time(bytes int64) event.Time {
	if r == 0 {
		return 0
	}
	const millisecond = uint64(1000 * event.Microsecond)
	high, low := bits.Mul64(uint64(bytes), millisecond)
	if high >= uint64(r) {
		return longest
	}
	whole, rest := bits.Div64(high, low, uint64(r))
	if rest > 0 {
		whole++
	}
	return event.Time(min(whole, longest))
}

// Spec holds the parameters of a link.
type Spec struct {
	Rate    Rate
	Latency event.Time
	Energy  int64 // femtojoules per byte; 0: not given
}

// Link is a directed link.
type Link struct {
	Spec
	Name     string
	Cable    int32 // index in Graph.Cables
	Level    int32 // index in Graph.Levels
	From, To int32 // nodes
}

// Graph is a network. It does not change after it was built.
type Graph struct {
	Ranks  int      // rank r is node r
	Nodes  []string // names
	Links  []Link
	Cables []string // names
	Levels []string // names of groups of links, such as "leaf"
	Text   string   // short description
	out    [][]int32
	in     [][]int32
}

// Limits of a network. Each is far beyond the networks whose messages can be simulated.
const (
	maxRanks = 1 << 20
	maxLinks = 1 << 21
)

// builder creates a Graph.
type builder struct {
	Graph
	nodes  map[string]int32
	cables map[string]int32
	levels map[string]int32
}

func newBuilder(ranks int) *builder {
	b := &builder{nodes: map[string]int32{}, cables: map[string]int32{}, levels: map[string]int32{}}
	b.Ranks = ranks
	for rank := range ranks {
		b.node(strconv.Itoa(rank))
	}
	return b
}

// node returns the node of a name, and adds it if it is new.
func (b *builder) node(name string) int32 { return indexOf(name, b.nodes, &b.Nodes) }

// level returns the level of a name, and adds it if it is new.
func (b *builder) level(name string) int32 { return indexOf(name, b.levels, &b.Levels) }

// indexOf returns the index of a name in a list, and adds the name if it is new.
func indexOf(name string, indexes map[string]int32, names *[]string) int32 {
	id, has := indexes[name]
	if !has {
		id = int32(len(*names))
		indexes[name], *names = id, append(*names, name)
	}
	return id
}

// switches adds n switches of a kind and returns the first one; the others follow it.
func (b *builder) switches(kind string, n int) int32 {
	first := int32(len(b.Nodes))
	for i := range n {
		b.node(kind + strconv.Itoa(i))
	}
	return first
}

// connect adds a cable with the same parameters in both directions.
func (b *builder) connect(level string, from, to int32, s Spec) {
	cable := b.cable("", from, to)
	b.link(cable, level, from, to, s)
	b.link(cable, level, to, from, s)
}

// attach connects n nodes, from child on, with switches, from parent on: each nodes to one switch.
func (b *builder) attach(level string, child int32, n int, parent int32, each int, s Spec) {
	for i := range n {
		b.connect(level, child+int32(i), parent+int32(i/each), s)
	}
}

// cable adds a cable. Without a name it gets the names of its nodes.
func (b *builder) cable(name string, from, to int32) int32 {
	if name == "" {
		name = b.Nodes[from] + "-" + b.Nodes[to]
		for i, base := 2, name; b.has(name); i++ {
			name = base + "#" + strconv.Itoa(i)
		}
	}
	id := int32(len(b.Cables))
	b.cables[name], b.Cables = id, append(b.Cables, name)
	return id
}

func (b *builder) has(cable string) bool { _, has := b.cables[cable]; return has }

// link adds a directed link of a cable. The first one has the name of the cable; the other one is named in its
// own direction.
func (b *builder) link(cable int32, level string, from, to int32, s Spec) {
	name := b.Cables[cable]
	if n := len(b.Links); n > 0 && b.Links[n-1].Cable == cable {
		if plain := b.Nodes[to] + "-" + b.Nodes[from]; len(name) >= len(plain) && name[:len(plain)] == plain {
			name = b.Nodes[from] + "-" + b.Nodes[to] + name[len(plain):]
		} else {
			name += ".back"
		}
		b.cables[name] = cable
	}
	b.Links = append(b.Links, Link{Spec: s, Name: name, Cable: cable, Level: b.level(level), From: from, To: to})
}

// finish returns the graph, after a check that it is not too large.
func (b *builder) finish() (*Graph, error) {
	if len(b.Links) > maxLinks {
		return nil, fmt.Errorf("%d links, want at most %d", len(b.Links), maxLinks)
	}
	g := b.Graph
	g.index()
	return &g, nil
}

// Switch returns the switch at the other end of a rank's first link, or -1 if that is a rank.
func (g *Graph) Switch(rank int) int32 {
	if links := g.out[rank]; len(links) > 0 && int(g.Links[links[0]].To) >= g.Ranks {
		return g.Links[links[0]].To
	}
	return -1
}

// index lists the links of every node.
func (g *Graph) index() {
	g.out, g.in = adjacency(len(g.Nodes), g.Links, func(l *Link) int32 { return l.From }),
		adjacency(len(g.Nodes), g.Links, func(l *Link) int32 { return l.To })
}

func adjacency(nodes int, links []Link, node func(*Link) int32) [][]int32 {
	count := make([]int, nodes)
	for i := range links {
		count[node(&links[i])]++
	}
	room, lists := make([]int32, len(links)), make([][]int32, nodes)
	for i, n := range count {
		lists[i], room = room[:0:n], room[n:]
	}
	for i := range links {
		n := node(&links[i])
		lists[n] = append(lists[n], int32(i))
	}
	return lists
}

// Isolated returns the ranks that rank 0 cannot reach, or that cannot reach it, over links that are not dead.
// If there are none, every rank reaches every other one.
func (g *Graph) Isolated(dead map[int32]bool, ranks int) (list []int) {
	forward := g.reach(g.out, dead, func(l *Link) int32 { return l.To })
	backward := g.reach(g.in, dead, func(l *Link) int32 { return l.From })
	for rank := range ranks {
		if !forward[rank] || !backward[rank] {
			list = append(list, rank)
		}
	}
	return list
}

// reach marks the nodes that are connected with node 0 in one direction.
func (g *Graph) reach(links [][]int32, dead map[int32]bool, other func(*Link) int32) []bool {
	seen := make([]bool, len(g.Nodes))
	seen[0] = true
	for queue := []int32{0}; len(queue) > 0; {
		n := queue[0]
		queue = queue[1:]
		for _, i := range links[n] {
			if to := other(&g.Links[i]); !seen[to] && !dead[i] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen
}
