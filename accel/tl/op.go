package tl

import "github.com/kernbench/kernbench/internal/accel/topo"

// OpKind is what an operation does.
type OpKind uint8

// The operations. Scratch and View only name memory and cost nothing.
const (
	Load OpKind = iota
	Store
	Math
	Dot
	Composite
	Send
	Recv
	RecvAsync
	Wait
	Scratch
	View
)

func (k OpKind) String() string {
	return [...]string{"load", "store", "math", "dot", "composite", "send", "recv", "recv_async", "wait", "scratch",
		"view"}[k]
}

// Free reports whether the operation costs nothing.
func (k OpKind) Free() bool { return k == Scratch || k == View }

// Op is one recorded call. Out, A, B and C are numbers of values; fields that
// the kind does not use are zero.
type Op struct {
	Kind    OpKind
	Fn      Fn
	Out     int32
	A, B, C int32
	N       int // elements: of the result, or sent
	Off     int // of a view
	Addr    Address
	Port    Port
	Any     bool  // a receive from whichever neighbour sends first
	Handle  int   // of Wait: the operation waited for
	Gemm    *Gemm // of Composite and Dot
	Scalars [2]float32
}

// Bytes is the size of what the operation moves.
func (o *Op) Bytes() int { return o.N * ElemSize }

// Dir is a direction to send to or receive from.
type Dir int

// The directions: between the PEs of a cube, to the PE of the same number in the
// next cube, and to the same one in the next SIP.
const (
	IntraN Dir = iota
	IntraS
	IntraE
	IntraW
	N
	S
	E
	W
	GlobalN
	GlobalS
	GlobalE
	GlobalW
	Dirs
)

func (d Dir) String() string {
	side := d.side().String()
	switch d / 4 {
	case 0:
		return "intra_" + side
	case 1:
		return side
	}
	return "global_" + side
}

func (d Dir) side() topo.Side { return topo.Side(d % 4) }

// Opposite is the direction in which the neighbour finds this PE: what is sent
// east comes from the west.
func (d Dir) Opposite() Dir { return d/4*4 + Dir(d.side().Opposite()) }

// Neighbor is the PE in a direction.
func Neighbor(t *Topology, p PEID, d Dir) (PEID, bool) {
	switch d / 4 {
	case 0:
		return t.Peer(p, d.side())
	case 1:
		return t.NextCube(p, d.side())
	}
	return t.NextSIP(p, d.side())
}

// Port names one queue: its two PEs, and at which input of the receiver it ends.
// Inputs below Dirs are directions; the others belong to a sender, so that two PEs
// that are not neighbours can have a queue too.
type Port struct{ From, To, Input int32 }

// Direct is the input of a sender that is not a neighbour.
func Direct(sender int) int32 { return int32(Dirs) + int32(sender) }
