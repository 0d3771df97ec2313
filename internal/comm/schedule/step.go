package schedule

import (
	"fmt"
	"strings"
)

// Op is what a step does. The package comment has the list with meanings.
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

// Receives reports whether the step receives a message of From into Dst.
func (o Op) Receives() bool { return o >= Recv && o <= SendRecvReduce }

// Direct reports whether the step touches the memory of a peer.
func (o Op) Direct() bool { return o == Get || o == GetReduce || o == Put }

// Accumulates reports whether the step adds to what Dst holds. GetReduce does
// not: it overwrites Dst with a sum.
func (o Op) Accumulates() bool { return o == RecvReduce || o == SendRecvReduce || o == Reduce }

// Buffer names one of a rank's three memories.
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

// Peers is an arithmetic sequence of ranks: one rank, a row, a column, a group
// or all. It is a value, so a step naming a thousand peers needs no memory.
type Peers struct {
	First, Stride, N int
}

// One is the set of a single rank.
func One(rank int) Peers { return Peers{First: rank, Stride: 1, N: 1} }

// At gives the i-th rank of the set.
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

// Step is one thing a rank does. Fields that its Op does not use are zero.
type Step struct {
	Op  Op
	Tag int // the round, the same at both ends of a message or flag

	To   Peers // whom Send, SendRecv*, Put and Signal address
	From Peers // whom Recv*, SendRecv*, Get, GetReduce and Wait address

	Src Range // what is read: the peers' for Get and GetReduce, otherwise the rank's own
	Dst Range // what is written: the peer's for Put, otherwise the rank's own
}

// String writes the step as one line of the story: what goes where.
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
