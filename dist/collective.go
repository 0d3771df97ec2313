package dist

import (
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// DType is an element type.
type DType = dtype.DType

// Element is the Go type of an element.
type Element = dtype.Element

// Float16 and BFloat16 are the 16-bit floats that Go lacks; their method Float32 gives
// the value.
type (
	Float16  = dtype.Float16
	BFloat16 = dtype.BFloat16
)

// Float16From rounds to nearest, ties to even.
func Float16From(f float32) Float16 { return dtype.Float16From(f) }

// BFloat16From rounds to nearest, ties to even.
func BFloat16From(f float32) BFloat16 { return dtype.BFloat16From(f) }

// DTypes lists the element types.
func DTypes() []DType { return dtype.All() }

// ParseDType reads the name of an element type, such as "bf16", or as C, NumPy, PyTorch or
// NCCL spell it.
func ParseDType(name string) (DType, error) { return dtype.Parse(name) }

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

// Reduces tells whether the operation combines elements.
func (c Collective) Reduces() bool { return c == AllReduce || c == ReduceScatter || c == Reduce }

// Rooted tells whether one rank has a special part.
func (c Collective) Rooted() bool {
	return c == Broadcast || c == Reduce || c == Gather || c == Scatter
}

// blocks tells whether the vector is cut into blocks of the ranks.
func (c Collective) blocks() bool {
	return c == AllGather || c == Gather || c == Scatter || c == ReduceScatter || c == AllToAll
}

// PointToPoint tells whether only two ranks take part.
func (c Collective) PointToPoint() bool { return c == Send || c == Recv }

// Reduction says how elements are combined.
type Reduction = dtype.Reduction

// The reductions. Avg is the sum times the rounded reciprocal of the number of
// ranks, for integers the sum divided and truncated.
const (
	Sum  = dtype.Sum
	Prod = dtype.Prod
	Min  = dtype.Min
	Max  = dtype.Max
	Avg  = dtype.Avg
)

// Reductions lists the reductions.
func Reductions() []Reduction { return dtype.Reductions() }

// ParseReduction reads a reduction's name.
func ParseReduction(name string) (Reduction, error) { return dtype.ParseReduction(name) }

// ParseCollective reads an operation's name.
func ParseCollective(name string) (Collective, error) {
	return suggest.Find("operation", name, Collectives(), func(c Collective) string { return string(c) })
}

// Block is the part of a vector of count elements that belongs to a rank:
// blocks differ by at most one element, the longer ones first.
func Block(count, size, rank int) (off, n int) { return schedule.Split(count, size, rank) }

// Algorithms lists those of an operation that exist as proved steps.
func Algorithms(op Collective) []string {
	return lists.Map(schedule.Algorithms(string(op)), func(info schedule.Info) string { return info.Name })
}
