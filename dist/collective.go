package dist

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/dtype"
	"github.com/kernbench/kernbench/internal/schedule"
	"github.com/kernbench/kernbench/internal/suggest"
)

// DType is an element type.
type DType = dtype.DType

// Float16 and BFloat16 are the 16-bit floats that Go lacks.
type (
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
	return []Collective{AllReduce, ReduceScatter, AllGather, Broadcast, Reduce, Gather, Scatter, AllToAll, Barrier, Send, Recv}
}

// Reduces tells whether the operation combines elements.
func (c Collective) Reduces() bool { return c == AllReduce || c == ReduceScatter || c == Reduce }

// Rooted tells whether one rank has a special part.
func (c Collective) Rooted() bool {
	return c == Broadcast || c == Reduce || c == Gather || c == Scatter
}

// PointToPoint tells whether only two ranks take part.
func (c Collective) PointToPoint() bool { return c == Send || c == Recv }

// Reduction says how elements are combined.
type Reduction uint8

// The reductions. Avg is the sum times the rounded reciprocal of the number of
// ranks, for integers the sum divided and truncated.
const (
	Sum Reduction = iota
	Prod
	Min
	Max
	Avg
)

var reductionNames = [...]string{"sum", "prod", "min", "max", "avg"}

// Reductions lists the reductions.
func Reductions() []Reduction { return []Reduction{Sum, Prod, Min, Max, Avg} }

// String is the reduction's name in lower case.
func (r Reduction) String() string {
	if int(r) >= len(reductionNames) {
		return fmt.Sprintf("Reduction(%d)", uint8(r))
	}
	return reductionNames[r]
}

// ParseReduction reads a reduction's name.
func ParseReduction(name string) (Reduction, error) {
	for i, n := range reductionNames {
		if n == name {
			return Reduction(i), nil
		}
	}
	return 0, suggest.Unknown("reduction", name, reductionNames[:])
}

// ParseCollective reads an operation's name.
func ParseCollective(name string) (Collective, error) {
	names := make([]string, 0, len(Collectives()))
	for _, c := range Collectives() {
		if string(c) == name {
			return c, nil
		}
		names = append(names, string(c))
	}
	return "", suggest.Unknown("operation", name, names)
}

// Block is the part of a vector of count elements that belongs to a rank:
// blocks differ by at most one element, the longer ones first.
func Block(count, size, rank int) (off, n int) { return schedule.Split(count, size, rank) }
