package graph

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// Routes finds the links of messages' paths. It is used by one goroutine.
//
// A table has, for a destination, the next link of every node. Tables are computed when they are first used.
// Ranks that are connected to one switch only share the table of that switch, and have no entry in others: so
// a fat tree of 16,384 ranks needs tables of 2,000 switches for 800 destinations.
type Routes struct {
	g      *Graph
	dead   map[int32]bool
	home   []int32   // for each rank, the switch that is its only neighbour, or itself
	core   []int32   // index of a node in tables; -1: a rank that has no entry
	cores  int       // number of entries of a table
	tables [][]int32 // by node; nil: not yet computed. Entries are links, or -2 - the index of a choice; -1: no path
	chosen [][]int32 // sets of equally good links
	known  map[string]int32
}

// maxEntries limits the tables to 1 GiB.
const maxEntries = 1 << 28

// NewRoutes returns the paths between ranks 0 to ranks-1 over links that are not dead.
func NewRoutes(g *Graph, dead map[int32]bool, ranks int) (*Routes, error) {
	r := &Routes{g: g, dead: dead, home: make([]int32, g.Ranks), core: make([]int32, len(g.Nodes)),
		tables: make([][]int32, len(g.Nodes)), known: map[string]int32{}}
	targets := map[int32]bool{}
	for node := range g.Nodes {
		r.core[node] = -1
		if node < g.Ranks {
			if r.home[node] = r.stub(int32(node)); node < ranks {
				targets[r.home[node]] = true
			}
			if r.home[node] != int32(node) {
				continue
			}
		}
		r.core[node] = int32(r.cores)
		r.cores++
	}
	if len(targets)*r.cores > maxEntries {
		return nil, fmt.Errorf("the network is too large: routing tables for %d destinations with %d nodes each take more "+
			"than 1 GiB", len(targets), r.cores)
	}
	return r, nil
}

// stub returns the only neighbour of a rank, if it is a switch, or the rank itself.
func (r *Routes) stub(rank int32) int32 {
	home := int32(-1)
	for _, i := range r.g.out[rank] {
		if to := r.g.Links[i].To; home >= 0 && to != home {
			return rank
		} else {
			home = to
		}
	}
	for _, i := range r.g.in[rank] {
		if r.g.Links[i].From != home {
			return rank
		}
	}
	if home < int32(r.g.Ranks) {
		return rank
	}
	return home
}

// Next returns the link that a message from rank source to another rank target takes from a node, or -1 if there
// is no path.
func (r *Routes) Next(node, source, target int32) int32 {
	home := r.home[target]
	switch {
	case node == home && node != target:
		return r.pick(r.between(node, target), node, source, target)
	case r.core[node] < 0:
		return r.pick(r.between(node, r.home[node]), node, source, target)
	}
	if r.tables[home] == nil {
		r.compute(home)
	}
	switch next := r.tables[home][r.core[node]]; {
	case next >= -1:
		return next
	default:
		return r.pick(r.chosen[-2-next], node, source, target)
	}
}

// between returns the links from one node to another that are not dead. One of the nodes is a rank with no other
// neighbour.
func (r *Routes) between(from, to int32) []int32 {
	list := r.g.out[from]
	if to < int32(r.g.Ranks) {
		list = r.g.in[to]
	}
	if len(r.dead) == 0 {
		return list
	}
	var alive []int32
	for _, i := range list {
		if !r.dead[i] {
			alive = append(alive, i)
		}
	}
	return alive
}

// pick chooses one of several equally good links.
func (r *Routes) pick(links []int32, node, source, target int32) int32 {
	switch len(links) {
	case 0:
		return -1
	case 1:
		return links[0]
	}
	// The finalizer of splitmix64.
	h := uint64(source)<<40 ^ uint64(target)<<20 ^ uint64(node)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	return links[h%uint64(len(links))]
}

// The costs of paths: a link costs 1, and passing through a rank more than any number of links.
const (
	throughRank = 1 << 32
	noPath      = math.MaxInt64
)

// costs returns the cost of the best path from every node to a target, noPath if there is none. continued is the
// cost of a path over a link to a node.
func (r *Routes) costs(target int32) (cost []int64, continued func(node int32) int64) {
	cost = make([]int64, len(r.g.Nodes))
	through := int64(throughRank)
	if r.g.Ranks == len(r.g.Nodes) {
		through = 0 // there are no switches, so the number of links decides alone
	}
	continued = func(node int32) int64 {
		if node < int32(r.g.Ranks) && node != target {
			return cost[node] + through + 1
		}
		return cost[node] + 1
	}
	if !r.breadthFirst(target, cost, continued, through == 0) {
		r.dijkstra(target, cost, continued)
	}
	return cost, continued
}

func (r *Routes) clear(cost []int64, target int32) {
	for i := range cost {
		cost[i] = noPath
	}
	cost[target] = 0
}

// breadthFirst computes costs in linear time, without paths through ranks unless forward is set. It returns false if a
// node was not reached.
func (r *Routes) breadthFirst(target int32, cost []int64, continued func(int32) int64, forward bool) bool {
	r.clear(cost, target)
	reached := make([]int32, 0, r.cores)
	reached = append(reached, target)
	for next := 0; next < len(reached); next++ {
		node := reached[next]
		if node < int32(r.g.Ranks) && node != target && !forward {
			continue
		}
		for _, i := range r.g.in[node] {
			if from := r.g.Links[i].From; r.core[from] >= 0 && cost[from] == noPath && !r.dead[i] {
				cost[from] = continued(node)
				reached = append(reached, from)
			}
		}
	}
	return len(reached) == r.cores
}

// dijkstra computes costs with paths through ranks.
func (r *Routes) dijkstra(target int32, cost []int64, continued func(int32) int64) {
	r.clear(cost, target)
	var queue event.Queue // the time of an event is a cost
	queue.Push(event.Event{A: target})
	for {
		e, more := queue.Pop()
		if !more {
			return
		}
		if int64(e.Time) > cost[e.A] {
			continue
		}
		for _, i := range r.g.in[e.A] {
			from := r.g.Links[i].From
			if c := continued(e.A); r.core[from] >= 0 && !r.dead[i] && c < cost[from] {
				cost[from] = c
				queue.Push(event.Event{Time: event.Time(c), Seq: uint64(from), A: from})
			}
		}
	}
}

// compute fills the table of a destination.
func (r *Routes) compute(target int32) {
	cost, continued := r.costs(target)
	table := make([]int32, r.cores)
	var best []int32
	for node := range r.g.Nodes {
		if r.core[node] < 0 {
			continue
		}
		best = best[:0]
		for _, i := range r.g.out[node] {
			to := r.g.Links[i].To
			if r.core[to] >= 0 && !r.dead[i] && cost[to] < noPath && continued(to) == cost[node] {
				best = append(best, i)
			}
		}
		table[r.core[node]] = r.entry(best)
	}
	r.tables[target] = table
}

// entry returns the entry of a table for equally good links. Equal sets share their memory.
func (r *Routes) entry(links []int32) int32 {
	switch len(links) {
	case 0:
		return -1
	case 1:
		return links[0]
	}
	key := make([]byte, 0, 4*len(links))
	for _, i := range links {
		key = binary.LittleEndian.AppendUint32(key, uint32(i))
	}
	id, has := r.known[string(key)]
	if !has {
		id = int32(len(r.chosen))
		r.known[string(key)] = id
		r.chosen = append(r.chosen, append([]int32(nil), links...))
	}
	return -2 - id
}

// Path returns the links from one rank to another one, or nil if there is no path.
func (r *Routes) Path(source, target int32) (path []int32) {
	for node := source; node != target; {
		next := r.Next(node, source, target)
		if next < 0 {
			return nil
		}
		path = append(path, next)
		node = r.g.Links[next].To
	}
	return path
}
