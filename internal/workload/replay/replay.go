// Package replay computes how long the execution traces of all ranks take together. It starts every node when its
// dependencies have ended and a stream is free, and lets a Machine time computations, messages and collectives,
// which share the machine's links. It reads no files and no clock, and the same input gives the same times.
//
// # Order
//
// The issue order of a rank is the order in which a program could have issued its nodes: a node comes after its
// dependencies, and among several the one with the smallest id is first. It does not depend on times. Of the nodes
// that could start, a stream takes the first in issue order.
//
// # Streams
//
// A rank runs as many computations at a time as it has streams, and in addition one computation of the host
// (is_cpu_op). The collectives of one process group run one after the other in issue order, as on an NCCL communicator.
// Different groups run side by side, unless the number of communication streams is limited. Receives occupy no stream.
//
// # Matching
//
// The k-th collective of a process group on one rank belongs to the k-th one on each of the others, in issue order.
// The k-th send from rank a to rank b with a tag belongs to the k-th such receive. If counts, kinds, sizes or roots
// differ, New returns an error that names the nodes.
package replay

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// Options are the parameters of a replay.
type Options struct {
	Streams     int // computations of a rank at a time; 0 means 1
	CommStreams int // communication operations of a rank at a time; 0 means no limit

	// Flops is the rate of a rank in operations per second. If it is not 0, nodes with num_ops take
	// num_ops/Flops instead of their duration, or tensor_size/MemoryBandwidth if that is longer.
	Flops float64
	// MemoryBandwidth is in bytes per second. It also times memory nodes without a duration.
	MemoryBandwidth float64

	// Groups gives the members of process groups by name, in place of the traces.
	Groups map[string][]int
}

// Machine runs the operations of a replay in simulated time. Package loggp describes the methods. Members of a
// collective are given in the order of the process group.
type Machine interface {
	Collective(key int64, c Call, members []int32) (loggp.ID, error)
	Message(key int64, from, to int, bytes int64) loggp.ID
	Compute(key int64, rank int, duration event.Time) loggp.ID
	Start(id loggp.ID, member int, at event.Time)
	Run(ended func(loggp.End)) error
}

// Call is a collective of a process group.
type Call struct {
	Collective string // its name in package schedule
	Bytes      int64  // of the whole vector, as in package schedule
	Root       int    // member
}

// duration returns how long a node computes or accesses memory, and false if the trace does not say it.
func (o *Options) duration(n *chakra.Node) (event.Time, bool) {
	seconds, known := 0.0, false
	if o.Flops > 0 && n.Ops > 0 && !n.CPU && n.Type == chakra.Comp {
		seconds, known = float64(n.Ops)/o.Flops, true
	}
	memory := n.Type == chakra.MemLoad || n.Type == chakra.MemStore
	if o.MemoryBandwidth > 0 && n.TensorBytes > 0 && (known || memory && n.Duration == 0) {
		seconds, known = max(seconds, float64(n.TensorBytes)/o.MemoryBandwidth), true
	}
	if known {
		return event.Time(math.Ceil(min(seconds*1e12, float64(longest)))), true
	}
	return n.Duration, n.Duration > 0
}

// longest is the longest step that can be replayed, about 53 days. Longer ones could overflow.
const longest = event.Time(1) << 62

// Workload is a set of traces that match each other, ready to be replayed.
type Workload struct {
	traces  []*chakra.Trace
	options Options
	graph
	notes []string
	used  bool // it was replayed
}

// New matches the traces of all ranks. The traces must have been checked.
func New(traces []*chakra.Trace, options Options) (*Workload, error) {
	w := &Workload{traces: traces, options: options}
	total := 0
	for _, t := range traces {
		total += len(t.Nodes)
	}
	if total > math.MaxInt32/2 {
		return nil, fmt.Errorf("the traces have %d nodes: at most %d can be replayed", total, math.MaxInt32/2)
	}
	if total == 0 {
		return nil, fmt.Errorf("%s has no nodes", traces[0].Path())
	}
	if err := w.link(total); err != nil {
		return nil, err
	}
	if err := w.match(); err != nil {
		return nil, err
	}
	w.note()
	return w, nil
}

// Ranks returns the number of ranks.
func (w *Workload) Ranks() int { return len(w.traces) }

// Work returns the operations of all compute nodes and the bytes of their tensors, as far as the traces have them.
func (w *Workload) Work() (ops, bytes float64) {
	for _, t := range w.traces {
		for i := range t.Nodes {
			if n := &t.Nodes[i]; n.Type == chakra.Comp || n.Type == chakra.MemLoad || n.Type == chakra.MemStore {
				ops, bytes = ops+float64(n.Ops), bytes+float64(n.TensorBytes)
			}
		}
	}
	return ops, bytes
}

// Nodes returns the number of nodes of all ranks.
func (w *Workload) Nodes() int { return len(w.nodes) }

// Notes lists what has no effect on the times: types of nodes, attributes and missing durations, each with the number
// of occurrences.
func (w *Workload) Notes() []string { return w.notes }

// Calls returns the collectives with the number of their members and how often each occurs.
func (w *Workload) Calls() map[SizedCall]int {
	all := map[SizedCall]int{}
	for i := range w.operations {
		if o := &w.operations[i]; o.group >= 0 {
			all[SizedCall{Call: o.call, Ranks: len(o.nodes)}]++
		}
	}
	return all
}

// SizedCall is a collective of a number of ranks.
type SizedCall struct {
	Call
	Ranks int
	// Island is the number of consecutive members that share a switch, if their switches divide the members evenly; else
	// it is 0.
	Island int
}

// Messages returns the number of send and receive pairs.
func (w *Workload) Messages() (n int) {
	for i := range w.operations {
		if w.operations[i].group < 0 {
			n++
		}
	}
	return n
}

// origin returns the rank of a node and the node in the trace.
func (w *Workload) origin(i int32) (rank int, n *chakra.Node) {
	rank = int(w.nodes[i].rank)
	return rank, &w.traces[rank].Nodes[i-w.base[rank]]
}

// describe names a node for messages.
func (w *Workload) describe(i int32) string {
	rank, n := w.origin(i)
	return fmt.Sprintf("%s: %v", w.traces[rank].Path(), n)
}
