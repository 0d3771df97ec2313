// Package tl is the language in which kernels of the simulated PEs are written: a
// small set of calls modelled on Triton's (program id, load, store, dot, element-wise
// math, composite) with sends and receives between PEs.
//
//	func doubled(x tl.Ptr, n int) tl.Kernel {
//		return func(p *tl.PE) {
//			row := p.Load(x, n)
//			p.Store(x, p.Add(row, row))
//		}
//	}
//
// A kernel is a Go function that gets a *PE. It does not compute: every call records
// an operation, so a kernel runs once for each PE, before the simulation, and gives a
// Program. Hence it cannot branch on data, only on where it runs (ID, ProgramID,
// Topology). What the operations cost is up to the simulator of package accel; what
// they compute is computed afterwards by an Executor, in f32 and rounded to f16 once
// per operation.
//
// # Memory
//
// Load copies elements from HBM into a Tile in the PE's own memory (TCM), Store copies
// a tile back. Scratch is a tile of zeros, View a part of a tile, and Scope gives the
// memory of the tiles made within it back.
//
// # Math
//
// Add, Binary, Unary, FMA and Clamp make tiles of tiles; AddTo and CopyTo write into
// one. Dot multiplies two tiles; Composite streams a whole product through the
// pipeline of DMA, fetch, GEMM, epilogue and store while the kernel continues.
//
// # Messages
//
// Send and Recv use the queue to the neighbour in a direction: within the cube
// (IntraN, ...), in the next cube (N, ...) or in the next SIP (GlobalN, ...). SendTo
// and RecvFrom reach any PE. RecvAsync and Composite return a Handle for Wait.
//
// Mistakes (a direction without a neighbour, a tile that does not fit) are kept and
// returned by Record, with the number of the call.
package tl

import (
	"fmt"
	"runtime/debug"

	"github.com/kernbench/kernbench/internal/accel/topo"
)

// ElemSize is the size of an element: everything is f16.
const ElemSize = 2

// Ptr is an address in memory.
type Ptr struct{ Addr Address }

// Plus is the address so many elements further on.
func (p Ptr) Plus(elements int) Ptr { return Ptr{p.Addr + topo.Address(elements*ElemSize)} }

// Tile is elements in a PE's own memory: what loads, receives and math give.
type Tile struct {
	value int // number of the value in its program, from 1; 0 is no tile
	n     int
}

// Len is the number of elements.
func (t Tile) Len() int { return t.n }

// Env is what a program knows about where it runs.
type Env struct {
	Topo      *Topology
	ID        PEID
	PEs       int // programs per cube
	Cubes     int // programs per SIP along axis 1
	SlotBytes int // of a receive slot
}

// PE is the kernel's view of where it runs, and what it records.
type PE struct {
	env  Env
	prog *Program
	used int64 // bytes of TCM
	err  error
}

// Program is what a kernel does on one PE.
type Program struct {
	ID     PEID
	Host   bool // not a PE's: the host of ID's SIP loads and stores, through the PCIe endpoint
	Ops    []Op
	Values int   // numbers of values go from 1 to Values
	TCM    int64 // the most bytes of it that are taken at a time
}

// Kernel is a function of the PE it runs on. Pointers and sizes are captured.
type Kernel func(p *PE)

// Record runs a kernel for one PE. A panic in it is an error like any other mistake.
func Record(env Env, k Kernel) (_ *Program, err error) {
	p := &PE{env: env, prog: &Program{ID: env.ID}}
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("kernel on %v: call %d: panic: %v\n%s", env.ID, len(p.prog.Ops), x, debug.Stack())
		}
	}()
	k(p)
	if p.err != nil {
		return nil, fmt.Errorf("kernel on %v: %w", env.ID, p.err)
	}
	return p.prog, nil
}

// ID is the PE the kernel runs on.
func (p *PE) ID() PEID { return p.env.ID }

// ProgramID is the PE's number in its cube (axis 0) or the cube's in its SIP
// (axis 1).
func (p *PE) ProgramID(axis int) int {
	if axis == 0 {
		return p.env.ID.PE
	}
	return p.env.ID.Cube
}

// NumPrograms is how many PEs of a cube (axis 0) or cubes of a SIP (axis 1) the
// kernel runs on.
func (p *PE) NumPrograms(axis int) int {
	if axis == 0 {
		return p.env.PEs
	}
	return p.env.Cubes
}

// SIP is the number of the package the PE is in.
func (p *PE) SIP() int { return p.env.ID.SIP }

// Topology is the machine.
func (p *PE) Topology() *Topology { return p.env.Topo }

func (p *PE) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("call %d: "+format, append([]any{len(p.prog.Ops)}, args...)...)
	}
}

func (p *PE) emit(op Op) {
	if p.err == nil {
		p.prog.Ops = append(p.prog.Ops, op)
	}
}

// tile makes a new value; what has memory of its own takes it from the TCM.
func (p *PE) tile(n int, own bool) Tile {
	if n < 1 {
		p.fail("a tile of %d elements: want at least 1", n)
	}
	if own {
		p.used += int64(n) * ElemSize
		p.prog.TCM = max(p.prog.TCM, p.used)
		if most := p.env.Topo.PE.TCMBytes; p.used > most {
			p.fail("a tile of %d bytes is too large: %d of the TCM's %d bytes are taken", n*ElemSize, p.used-int64(n)*ElemSize,
				most)
		}
	}
	p.prog.Values++
	return Tile{p.prog.Values, n}
}

// Scope records what body does and then gives its tiles' memory back: none of them
// may be used afterwards.
func (p *PE) Scope(body func()) {
	before := p.used
	body()
	p.used = before
}

// take checks a tile that is an argument.
func (p *PE) take(what string, t Tile) int32 {
	if t.value < 1 || t.value > p.prog.Values {
		p.fail("%s: the tile is not one of this kernel's", what)
	}
	return int32(t.value)
}

// same checks that operands are of one length.
func (p *PE) same(what string, a, b Tile) {
	if a.n != b.n {
		p.fail("%s of %d and %d elements: want equal lengths", what, a.n, b.n)
	}
}

// Load copies n elements from memory into the PE.
func (p *PE) Load(from Ptr, n int) Tile {
	t := p.tile(n, true)
	p.memory("load", from, n)
	p.emit(Op{Kind: Load, Out: int32(t.value), N: n, Addr: from.Addr})
	return t
}

// Store copies a tile to memory and waits until it is there.
func (p *PE) Store(to Ptr, t Tile) {
	p.memory("store", to, t.n)
	p.emit(Op{Kind: Store, A: p.take("store", t), N: t.n, Addr: to.Addr})
}

// memory checks that a range is HBM of one PE.
func (p *PE) memory(what string, at Ptr, n int) {
	l, err := p.env.Topo.Locate(at.Addr)
	switch {
	case err != nil:
		p.fail("%s: %w", what, err)
	case l.Space != topo.HBMSpace:
		p.fail("%s: %v is not HBM", what, l)
	case l.Offset+int64(n)*ElemSize > p.env.Topo.HBMSlice():
		p.fail("%s: %d elements from %v on reach beyond the end of that PE's HBM", what, n, l)
	}
}

// Scratch is memory of the PE's own, filled with zeros.
func (p *PE) Scratch(n int) Tile {
	t := p.tile(n, true)
	p.emit(Op{Kind: Scratch, Out: int32(t.value), N: n})
	return t
}

// View is n elements of a tile from off on, in the same memory.
func (p *PE) View(t Tile, off, n int) Tile {
	if off < 0 || n < 1 || off+n > t.n {
		p.fail("a view of elements %d to %d of a tile of %d", off, off+n, t.n)
	}
	v := p.tile(n, false)
	p.emit(Op{Kind: View, Out: int32(v.value), A: p.take("view", t), N: n, Off: off})
	return v
}

// Wait waits for something started earlier and gives its tile; that of a
// composite, which stores its result, is empty.
func (p *PE) Wait(h Handle) Tile {
	if h.op < 0 || h.op >= len(p.prog.Ops) {
		p.fail("wait: the handle is not one of this kernel's")
	}
	p.emit(Op{Kind: Wait, Handle: h.op})
	return h.tile
}

// Handle names something that was started.
type Handle struct {
	op   int
	tile Tile
}
