// Package chakra reads and writes Chakra execution traces (MLCommons, schema/protobuf/et_def.proto) and holds
// them in memory. A trace is the graph of one rank's operations: compute, memory accesses, sends, receives and
// collectives, with their dependencies. Package replay computes how long the traces of all ranks take.
//
// The trace of rank R is the file PREFIX.R.et: a GlobalMetadata message and then Node messages, each preceded by
// its length as a varint. The attributes that a replay uses are fields of Node. All others are kept in Node.Extra,
// are written again, and are counted by Trace.Unused.
package chakra

import (
	"fmt"
	"strconv"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Trace is the trace of one rank.
type Trace struct {
	File    string // for messages; "" if the trace was not read from a file
	Rank    int
	Version string // of the schema; "" is written as the newest
	Attrs   []Attr // of the metadata
	Nodes   []Node // in any order
	// unknown counts the fields that the schema does not have, by description.
	unknown map[string]int
}

// Node is an operation of a rank.
type Node struct {
	ID       uint64 // unique in the trace
	Name     string
	Type     NodeType
	CPU      bool     // is_cpu_op: it runs on the host and not on the accelerator
	CtrlDeps []uint64 // ids of the nodes that must end before this one starts
	DataDeps []uint64

	Start    event.Time // in the run that was recorded; a replay does not use it
	Duration event.Time // 0 means unknown

	Ops         int64 // num_ops: floating-point operations of a compute node
	TensorBytes int64 // tensor_size: bytes of memory that a compute or memory node moves

	// Fields of communication nodes.
	Collective Collective
	Bytes      int64  // comm_size: of a message, or of the input of one rank (of the root in a broadcast or scatter)
	Src, Dst   int    // comm_src and comm_dst: ranks of a send or receive
	Tag        int64  // comm_tag
	Priority   int64  // comm_priority
	Root       int    // comm_root: position in the group of the root of a broadcast, reduce, gather or scatter
	Group      string // pg_name: process group of a collective; "" means all ranks

	Inputs, Outputs *IO    // may be nil
	Extra           []Attr // attributes that a replay does not use
}

// IO describes the inputs or outputs of a node as text of the tool that wrote it.
type IO struct{ Values, Shapes, Types string }

// NodeType is the type of a node. The values are the schema's.
type NodeType int32

// The node types.
const (
	Invalid NodeType = iota
	Metadata
	MemLoad
	MemStore
	Comp
	Send
	Recv
	Coll
	Storage
	Batch
	Checkpoint
)

var typeNames = [...]string{"INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV",
	"COMM_COLL", "STORAGE", "BATCH", "CHECKPOINT"}

func (t NodeType) String() string {
	if t >= 0 && int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "type " + strconv.Itoa(int(t))
}

// IsComm reports whether nodes of the type communicate.
func (t NodeType) IsComm() bool { return t == Send || t == Recv || t == Coll }

// Collective is the kind of a collective. The values are the schema's.
type Collective int32

// The collectives.
const (
	AllReduce Collective = iota
	Reduce
	AllGather
	Gather
	Scatter
	Broadcast
	AllToAll
	ReduceScatter
	ReduceScatterBlock
	Barrier
	collectives // their number
)

var collectiveNames = [collectives]string{schedule.AllReduce, schedule.ReduceTo, schedule.AllGather,
	schedule.Gather, schedule.Scatter, schedule.Broadcast, schedule.AllToAll, schedule.ReduceScatter,
	schedule.ReduceScatter, schedule.Barrier}

// String returns the name of the collective in package schedule.
func (c Collective) String() string {
	if c >= 0 && c < collectives {
		return collectiveNames[c]
	}
	return "comm_type " + strconv.Itoa(int(c))
}

// Rooted reports whether one rank of the group has a special part in the collective.
func (c Collective) Rooted() bool {
	return c == Reduce || c == Gather || c == Scatter || c == Broadcast
}

// Kind returns the kind of a communication node for tables: the collective, "send" or "recv".
func (n *Node) Kind() string {
	switch n.Type {
	case Send:
		return "send"
	case Recv:
		return "recv"
	}
	return n.Collective.String()
}

// String returns the id and the name of a node for messages.
func (n *Node) String() string { return fmt.Sprintf("node %d %q", n.ID, n.Name) }

// Path returns the name of the trace for messages.
func (t *Trace) Path() string {
	if t.File != "" {
		return t.File
	}
	return fmt.Sprintf("trace of rank %d", t.Rank)
}

// Fault returns an error about a node.
func (t *Trace) Fault(n *Node, format string, args ...any) error {
	return fmt.Errorf("%s: %v: %w", t.Path(), n, fmt.Errorf(format, args...))
}

// Unused counts what a replay does not use: attributes by name, and fields that the schema does not have.
func (t *Trace) Unused() map[string]int {
	counts := map[string]int{}
	for what, n := range t.unknown {
		counts[what] += n
	}
	for i := range t.Attrs {
		counts["attribute "+t.Attrs[i].Name+" of the metadata"]++
	}
	for i := range t.Nodes {
		for j := range t.Nodes[i].Extra {
			counts["attribute "+t.Nodes[i].Extra[j].Name]++
		}
	}
	return counts
}
