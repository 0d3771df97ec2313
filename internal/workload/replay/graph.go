package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// graph holds the nodes of all ranks, one rank after the other, and what connects them.
type graph struct {
	nodes []node
	base  []int32 // index of the first node of each rank, and after the last one
	order []int32 // nodes in issue order, rank by rank
	// The nodes that depend on node i are successors[first[i]:first[i+1]].
	first, successors []int32

	groups     []group
	queues     []queue
	operations []operation
}

// node is the state of a node.
type node struct {
	duration   event.Time
	start, end event.Time // start is first the time at which the dependencies ended
	rank       int32
	operation  int32 // of a communication node, else -1
	member     int32 // the node's position in its operation
	queue      int32 // of a collective, else -1
	waits      int32 // dependencies that have not ended
	position   int32 // in issue order, within the rank
	reason     int32 // the node whose end let this one start, for the critical path; -1 at the beginning
	cause      int32 // the member of the operation that this one waited for, for the critical path
	lane       lane
	state      state
	spent      loggp.Spent // of communication, since the start of cause
}

// lane says which resource of a rank a node occupies.
type lane uint8

const (
	noLane lane = iota // the node takes no time
	computeLane
	hostLane
	commLane
	receiveLane // without a limit
	lanes
)

// state is the progress of a node.
type state uint8

const (
	waiting state = iota // for dependencies
	ready                // waiting for a stream, or for its turn in its group
	running
	done
)

// group is a process group.
type group struct {
	name    string
	members []int32 // ranks
}

// queue holds the collectives of a group on one rank, in issue order.
type queue struct {
	group int32
	next  int // index in nodes of the collective that may run
	nodes []int32
}

// operation is a collective, or a message with its sender as member 0.
type operation struct {
	group int32 // -1: a message
	call  Call
	nodes []int32 // one for each member
}

// link fills in the nodes, their order and their successors.
func (w *Workload) link(total int) error {
	w.nodes = make([]node, total)
	w.order = make([]int32, 0, total)
	w.first = make([]int32, total+1)
	w.base = make([]int32, len(w.traces)+1)
	at := int32(0)
	for rank, t := range w.traces {
		w.base[rank] = at
		index := make(map[uint64]int32, len(t.Nodes))
		for i := range t.Nodes {
			index[t.Nodes[i].ID] = at + int32(i)
		}
		if err := w.fill(rank, index); err != nil {
			return err
		}
		at += int32(len(t.Nodes))
		if err := w.sort(rank, at, index); err != nil {
			return err
		}
	}
	w.base[len(w.traces)] = at
	return nil
}

// fill sets the nodes and the successors of a rank.
func (w *Workload) fill(rank int, index map[uint64]int32) error {
	t, base := w.traces[rank], w.base[rank]
	for i := range t.Nodes {
		n, of := &w.nodes[base+int32(i)], &t.Nodes[i]
		*n = node{rank: int32(rank), operation: -1, queue: -1, reason: -1, lane: laneOf(of),
			waits: int32(len(of.CtrlDeps) + len(of.DataDeps))}
		n.duration, _ = w.options.duration(of)
		if n.duration == 0 && (n.lane == computeLane || n.lane == hostLane) {
			if of.Ops > 0 && w.options.Flops == 0 && !of.CPU {
				return t.Fault(of, "it has num_ops %d and no duration: --flops gives the operations per second", of.Ops)
			}
			n.lane = noLane
		}
		for _, deps := range [...][]uint64{of.CtrlDeps, of.DataDeps} {
			for _, id := range deps {
				w.first[index[id]+1]++
			}
		}
	}
	end := base + int32(len(t.Nodes))
	for i := base; i < end; i++ {
		w.first[i+1] += w.first[i]
	}
	w.successors = slices.Grow(w.successors, int(w.first[end])-len(w.successors))[:w.first[end]]
	next := slices.Clone(w.first[base:end])
	for i := range t.Nodes {
		for _, deps := range [...][]uint64{t.Nodes[i].CtrlDeps, t.Nodes[i].DataDeps} {
			for _, id := range deps {
				slot := &next[index[id]-base]
				w.successors[*slot] = base + int32(i)
				*slot++
			}
		}
	}
	return nil
}

// laneOf returns the lane of a node that takes time.
func laneOf(n *chakra.Node) lane {
	switch n.Type {
	case chakra.Send, chakra.Coll:
		return commLane
	case chakra.Recv:
		return receiveLane
	case chakra.Metadata, chakra.Invalid:
		return noLane
	case chakra.Comp, chakra.MemLoad, chakra.MemStore:
		if !n.CPU {
			return computeLane
		}
	}
	return hostLane
}

// sort appends the nodes of a rank, which end before index end, to the issue order. Of the nodes that are free, the one
// with the smallest id comes first. It returns an error if nodes depend on each other in a cycle.
func (w *Workload) sort(rank int, end int32, index map[uint64]int32) error {
	base := w.base[rank]
	var free positions
	offer := func(i int32) { free.push(entry{w.traces[rank].Nodes[i-base].ID, i}) }
	waits := make([]int32, end-base)
	for i := base; i < end; i++ {
		if waits[i-base] = w.nodes[i].waits; w.nodes[i].waits == 0 {
			offer(i)
		}
	}
	for position := int32(0); len(free) > 0; position++ {
		i := free.pop()
		w.nodes[i].position = position
		w.order = append(w.order, i)
		for _, s := range w.successors[w.first[i]:w.first[i+1]] {
			if waits[s-base]--; waits[s-base] == 0 {
				offer(s)
			}
		}
	}
	at := slices.IndexFunc(waits, func(n int32) bool { return n > 0 })
	if at < 0 {
		return nil
	}
	return cycle(w.traces[rank], int32(at), func(n *chakra.Node) int32 {
		deps := slices.Concat(n.CtrlDeps, n.DataDeps)
		stuck := slices.IndexFunc(deps, func(id uint64) bool { return waits[index[id]-base] > 0 })
		return index[deps[stuck]] - base
	})
}

// cycle returns an error that names the nodes of a cycle of dependencies. It goes from each node to one that it waits
// for until a node repeats.
func cycle(t *chakra.Trace, at int32, next func(*chakra.Node) int32) error {
	var path []string
	place := map[int32]int{} // in path
	for from, seen := place[at]; ; from, seen = place[at] {
		n := &t.Nodes[at]
		path = append(path, n.String())
		if seen {
			return fmt.Errorf("%s: nodes depend on each other in a cycle: %s", t.Path(),
				strings.Join(path[from:], ", which needs "))
		}
		place[at], at = len(path)-1, next(n)
	}
}
