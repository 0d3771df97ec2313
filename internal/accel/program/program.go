// Package program defines the recorded form of a kernel: one Program per PE, a list of operations
// on numbered values. Package tl records programs, package sim computes when each operation takes
// effect, and an Executor computes the data afterwards in that order.
//
// A value is the contents of one tile. Values are numbered from 1 in each program; 0 means none.
package program

import (
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/kernbench/kernbench/internal/accel/topo"
)

// ElemSize is the size of an f16 element in bytes.
const ElemSize = 2

// Ptr is the address of an element in the HBM of a PE, valid on every PE of the system, and the type of the elements
// there.
type Ptr struct {
	Addr topo.Address
	Type DType
}

// Plus returns the address of an element the given number of elements after p.
func (p Ptr) Plus(elements int) Ptr {
	return Ptr{p.Addr + topo.Address(elements*p.Type.Size()), p.Type}
}

// Program is the recorded kernel of one PE.
type Program struct {
	ID     topo.PEID
	Host   bool // the host of ID's SIP runs it instead of a PE: loads and stores over the switch
	Ops    []Op
	Values int   // number of values
	TCM    int64 // peak bytes of TCM occupied by tiles
}

// Env is the context in which a kernel is recorded.
type Env struct {
	Topo      *topo.Topology
	ID        topo.PEID
	PEs       int // number of PEs per cube that run the kernel
	Cubes     int // number of cubes per SIP that run it
	SlotBytes int // size of a receive slot
}

// OpKind is the kind of an operation.
type OpKind uint8

// The kinds of operations. Scratch and View only name memory and take no time.
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

// Free reports whether operations of this kind take no time.
func (k OpKind) Free() bool { return k == Scratch || k == View }

// Op is one recorded call. Out, A, B and C are value numbers. Fields that the kind does not use are zero.
type Op struct {
	Kind    OpKind
	Fn      Fn
	Type    DType // of the elements of the result, or of the message
	Any     bool  // Recv: take a message from any neighbour
	Out     int32
	A, B, C int32
	Port    Port
	N       int // elements of the result, or of the message
	Off     int // View: first element
	Addr    topo.Address
	Handle  int    // Wait: index of the operation to wait for
	Gemm    *Gemm  // Composite and Dot
	Forms   *Forms // Math: nil if the operands and the result are N elements of Type each
	Scalars [2]float32
	PC      uintptr // the kernel's call; 0 if unknown
}

// Where returns the position of an operation for messages: the kernel's file and line, such as
// "softmax/main.go:17", or its index if the program was not recorded from a kernel.
func (p *Program) Where(op int) string {
	if pc := p.Ops[op].PC; pc != 0 {
		return Line(pc)
	}
	return fmt.Sprintf("call %d", op)
}

// Line returns the file, with its folder, and the line of a call.
func Line(pc uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	folder, file := filepath.Split(frame.File)
	return fmt.Sprintf("%s:%d", filepath.Join(filepath.Base(folder), file), frame.Line)
}

// Bytes returns the number of bytes that the operation moves.
func (o *Op) Bytes() int { return o.N * o.Type.Size() }

// Dir is a direction in which a PE has a neighbour.
type Dir int

// The directions: to another PE of the cube (Intra), to the same PE of the next cube, and to the
// same PE of the next SIP (Global). Each group has the order of topo.Side.
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
	Dirs // the number of directions
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

// Opposite returns the direction in which the neighbour sees this PE: a message sent east arrives
// from the west.
func (d Dir) Opposite() Dir { return d/4*4 + Dir(d.side().Opposite()) }

// Neighbor returns the neighbour of p in direction d, and whether there is one.
func Neighbor(t *topo.Topology, p topo.PEID, d Dir) (topo.PEID, bool) {
	switch d / 4 {
	case 0:
		return t.Peer(p, d.side())
	case 1:
		return t.NextCube(p, d.side())
	}
	return t.NextSIP(p, d.side())
}

// Port identifies a receive queue by its sender, its receiver and the receiver's input. Inputs
// below Dirs are directions. Each sender that is not a neighbour has an input of its own, see Direct.
type Port struct{ From, To, Input int32 }

// Direct returns the input for messages from a sender that is not a neighbour.
func Direct(sender int) int32 { return int32(Dirs) + int32(sender) }
