package dist

import (
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// DType is an element type. Element is the constraint of the Go types of elements. Float16 and BFloat16 are the 16-bit
// floats that Go lacks: their method Float32 returns the value, and [Convert] makes them.
type (
	DType    = dtype.DType
	Element  = dtype.Element
	Float16  = dtype.Float16
	BFloat16 = dtype.BFloat16
)

// The element types.
const (
	F64  = dtype.F64
	F32  = dtype.F32
	F16  = dtype.F16
	BF16 = dtype.BF16
	I64  = dtype.I64
	I32  = dtype.I32
	U8   = dtype.U8
)

// Collective names an operation of a group.
type Collective string

// The operations. Send and Recv are between two ranks.
const (
	AllReduce     Collective = schedule.AllReduce
	ReduceScatter Collective = schedule.ReduceScatter
	AllGather     Collective = schedule.AllGather
	Broadcast     Collective = schedule.Broadcast
	Reduce        Collective = schedule.ReduceTo
	Gather        Collective = schedule.Gather
	Scatter       Collective = schedule.Scatter
	AllToAll      Collective = schedule.AllToAll
	Barrier       Collective = schedule.Barrier
	Send          Collective = "send"
	Recv          Collective = "recv"
)

// Collectives lists the operations.
func Collectives() []Collective {
	return []Collective{AllReduce, ReduceScatter, AllGather, Broadcast, Reduce, Gather, Scatter, AllToAll, Barrier,
		Send, Recv}
}

// Reduces reports whether the operation combines elements.
func (c Collective) Reduces() bool { return c == AllReduce || c == ReduceScatter || c == Reduce }

// Rooted reports whether one rank, the root, has a special part.
func (c Collective) Rooted() bool {
	return c == Broadcast || c == Reduce || c == Gather || c == Scatter
}

// blocks reports whether the vector is divided into one block per rank.
func (c Collective) blocks() bool {
	return c == AllGather || c == Gather || c == Scatter || c == ReduceScatter || c == AllToAll
}

// PointToPoint reports whether only two ranks take part.
func (c Collective) PointToPoint() bool { return c == Send || c == Recv }

// Reduction is the function that combines elements.
type Reduction = dtype.Reduction

// The reductions. Avg multiplies the sum by the rounded reciprocal of the number of ranks; for integers it divides the
// sum and truncates.
const (
	Sum  = dtype.Sum
	Prod = dtype.Prod
	Min  = dtype.Min
	Max  = dtype.Max
	Avg  = dtype.Avg
)

// Block returns the part of a vector of count elements that belongs to a rank. Blocks differ by at
// most one element, and the longer ones come first.
func Block(count, size, rank int) (off, n int) { return schedule.Split(count, size, rank) }
