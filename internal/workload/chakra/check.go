package chakra

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// Limits of a node. Larger values are taken for damage, and could overflow simulated time.
const (
	maxDuration = 24 * 3600 * 1e6 * event.Microsecond
	maxStart    = event.Time(1) << 62
	maxBytes    = 1 << 40 // of a message or collective
	maxMemory   = 1 << 50
	maxOps      = 1 << 60
)

// maxFaults is the number of faults that Check reports.
const maxFaults = 8

// Check verifies a trace of one of a number of ranks: the values of each node, and that ids are unique and exist.
// Package replay verifies that dependencies have no cycle, and that the traces of different ranks match.
func (t *Trace) Check(ranks int) error {
	var faults []error
	index := make(map[uint64]int, len(t.Nodes))
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if first, twice := index[n.ID]; twice {
			faults = append(faults, t.Fault(n, "its id is also the id of %q", t.Nodes[first].Name))
			continue
		}
		index[n.ID] = i
		if err := n.check(t.Rank, ranks); err != nil {
			faults = append(faults, t.Fault(n, "%w", err))
		}
	}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		for _, deps := range [][]uint64{n.CtrlDeps, n.DataDeps} {
			for _, id := range deps {
				if _, ok := index[id]; !ok {
					faults = append(faults, t.Fault(n, "it depends on node %d, which does not exist", id))
				}
			}
		}
	}
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Errorf("%s: %d more faults", t.Path(), more))
	}
	return errors.Join(faults...)
}

// check verifies the values of a node.
func (n *Node) check(rank, ranks int) error {
	switch {
	case n.Duration < 0 || n.Duration > maxDuration:
		return fmt.Errorf("duration_micros is more than a day (%d)", int64(maxDuration/event.Microsecond))
	case n.Start < 0 || n.Start > maxStart:
		return fmt.Errorf("start_time_micros is more than %d", int64(maxStart/event.Microsecond))
	case n.Ops < 0 || n.Ops > maxOps:
		return fmt.Errorf("num_ops is %d: want 0 to 2^60", n.Ops)
	case n.TensorBytes < 0 || n.TensorBytes > maxMemory:
		return fmt.Errorf("tensor_size is %d: want 0 to 2^50 bytes", n.TensorBytes)
	case !n.Type.IsComm():
		return nil
	case n.Type == Coll && (n.Collective < 0 || n.Collective >= collectives):
		return fmt.Errorf("comm_type is %d: want 0 to %d", n.Collective, collectives-1)
	case n.Type == Coll && n.Collective == Barrier:
		return nil
	case n.Bytes < 1 || n.Bytes > maxBytes:
		return fmt.Errorf("comm_size is %d: want 1 to 2^40 bytes", n.Bytes)
	case n.Type == Coll:
		return nil
	}
	peer, own, attr := n.Dst, n.Src, "comm_dst"
	if n.Type == Recv {
		peer, own, attr = n.Src, n.Dst, "comm_src"
	}
	switch {
	case own != rank:
		return fmt.Errorf("it is a %v from rank %d to rank %d, but in the trace of rank %d", n.Type, n.Src, n.Dst, rank)
	case peer < 0 || peer >= ranks:
		return fmt.Errorf("%s is %d: want 0 to %d, because there are %d traces", attr, peer, ranks-1, ranks)
	case peer == rank:
		return fmt.Errorf("%s is the rank itself", attr)
	}
	return nil
}
