package schedule

import (
	"fmt"
	"strings"
)

// Op is the operation of a step. The package comment explains each of them.
type Op uint8

// The step operations.
const (
	Send Op = iota
	Recv
	RecvReduce
	SendRecv
	SendRecvReduce
	Copy
	Reduce
	Get
	GetReduce
	Put
	Signal
	Wait
)

var opNames = [...]string{"send", "recv", "recv-reduce", "sendrecv", "sendrecv-reduce",
	"copy", "reduce", "get", "get-reduce", "put", "signal", "wait"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", o)
}

// Sends reports whether the step sends Src in a message to To.
func (o Op) Sends() bool { return o == Send || o == SendRecv || o == SendRecvReduce }

// Receives reports whether the step receives a message from From into Dst.
func (o Op) Receives() bool { return o >= Recv && o <= SendRecvReduce }

// Direct reports whether the step accesses the memory of a peer.
func (o Op) Direct() bool { return o == Get || o == GetReduce || o == Put }

// Accumulates reports whether the step adds to Dst. GetReduce does not: it overwrites Dst with a sum.
func (o Op) Accumulates() bool { return o == RecvReduce || o == SendRecvReduce || o == Reduce }

// Buffer is one of a rank's three buffers.
type Buffer uint8

// The buffers of a rank.
const (
	Input Buffer = iota
	Output
	Scratch
)

var bufferNames = [...]string{"input", "output", "scratch"}

func (b Buffer) String() string {
	if int(b) < len(bufferNames) {
		return bufferNames[b]
	}
	return fmt.Sprintf("buffer(%d)", b)
}

// Range is the elements [Off, Off+Len) of a buffer.
type Range struct {
	Buf      Buffer
	Off, Len int
}

func (r Range) String() string { return fmt.Sprintf("%s[%d,%d)", r.Buf, r.Off, r.Off+r.Len) }

// Peers is a set of ranks in arithmetic progression: one rank, a row, a column, a group or all. A step with a
// thousand peers needs no extra memory.
type Peers struct {
	First, Stride, N int
}

// One returns the set of a single rank.
func One(rank int) Peers { return Peers{First: rank, Stride: 1, N: 1} }

// At returns the i-th rank of the set.
func (p Peers) At(i int) int { return p.First + i*p.Stride }

func (p Peers) String() string {
	switch {
	case p.N == 1:
		return fmt.Sprintf("rank %d", p.First)
	case p.N > 1 && p.Stride == 1:
		return fmt.Sprintf("ranks %d..%d", p.First, p.At(p.N-1))
	}
	list := make([]string, max(p.N, 0))
	for i := range list {
		list[i] = fmt.Sprint(p.At(i))
	}
	return "ranks " + strings.Join(list, ",")
}

// Step is one operation of a rank. Fields that its Op does not use are zero.
type Step struct {
	Op  Op
	Tag int // the round, the same at both ends of a message or flag

	To   Peers // destination of Send, SendRecv*, Put and Signal
	From Peers // source of Recv*, SendRecv*, Get, GetReduce and Wait

	Src Range // range that is read: in the peers' memory for Get and GetReduce, otherwise in the rank's own
	Dst Range // range that is written: in the peer's memory for Put, otherwise in the rank's own
}

// String describes the step in one line.
func (s Step) String() string {
	switch s.Op {
	case Send:
		return fmt.Sprintf("%s %v to %v (round %d)", s.Op, s.Src, s.To, s.Tag)
	case Recv, RecvReduce:
		return fmt.Sprintf("%s %v from %v (round %d)", s.Op, s.Dst, s.From, s.Tag)
	case SendRecv, SendRecvReduce:
		return fmt.Sprintf("%s %v to %v, %v from %v (round %d)", s.Op, s.Src, s.To, s.Dst, s.From, s.Tag)
	case Copy, Reduce:
		return fmt.Sprintf("%s %v to %v", s.Op, s.Src, s.Dst)
	case Get, GetReduce:
		return fmt.Sprintf("%s %v of %v to %v", s.Op, s.Src, s.From, s.Dst)
	case Put:
		return fmt.Sprintf("%s %v to %v of %v", s.Op, s.Src, s.Dst, s.To)
	case Signal:
		return fmt.Sprintf("%s %v (round %d)", s.Op, s.To, s.Tag)
	case Wait:
		return fmt.Sprintf("%s for %v (round %d)", s.Op, s.From, s.Tag)
	}
	return s.Op.String()
}
