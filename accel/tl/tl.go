// Package tl is the language for kernels of the simulated accelerator. Its calls are modelled on
// Triton's (program id, load, store, dot, element-wise math) with composite matrix products and
// messages between PEs (processing elements).
//
//	func double(x tl.Ptr, n int) tl.Kernel {
//		return func(p *tl.PE) {
//			row := p.Load(x, n)
//			p.Store(x, p.Add(row, row))
//		}
//	}
//
// A kernel is a Go function that gets a *PE. It computes nothing itself: every call records an
// operation. The kernel runs once for each PE, before the simulation. Hence it cannot branch on
// data, only on where it runs (ID, ProgramID, Topology). The simulator of package accel determines
// how long each operation takes, and then computes the results in f32, rounded to f16 once per
// operation.
//
// # Memory
//
// Load copies elements from HBM into a Tile in the PE's tightly coupled memory (TCM); Store copies
// a tile back. Scratch returns a tile of zeros and View a part of a tile. Scope releases the tiles
// allocated within it.
//
// # Math
//
// Add, Binary, Unary, FMA and Clamp return new tiles; AddTo and CopyTo write into an existing one.
// Dot multiplies two tiles. Composite streams a whole matrix product through the pipeline of DMA,
// fetch, GEMM, epilogue and store while the kernel continues.
//
// # Messages
//
// Send and Recv use the queue to the neighbour in a direction: within the cube (IntraN, ...), in
// the next cube (N, ...) or in the next SIP (GlobalN, ...). SendTo and RecvFrom reach any PE.
// RecvAsync and Composite return a Handle for Wait.
//
// # Errors
//
// The calls return no errors. The first mistake of a kernel (a direction without a neighbour, a
// tile that does not fit) is returned by the launch, with the index of the call.
package tl

import (
	"fmt"
	"runtime/debug"

	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

type (
	// Topology is the simulated machine.
	Topology = topo.Topology
	// PEID identifies a PE by its SIP, its cube in the SIP and its number in the cube.
	PEID = topo.PEID
)

// ElemSize is the size of an element in bytes. All elements are f16.
const ElemSize = program.ElemSize

// Ptr is the address of an f16 element in HBM, valid on every PE of the system.
type Ptr topo.Address

// Plus returns the address of an element the given number of elements after p.
func (p Ptr) Plus(elements int) Ptr { return p + Ptr(elements*ElemSize) }

// Tile is a one-dimensional array of f16 in the TCM of a PE. Loads, receives and math return tiles.
type Tile struct {
	value int // number of the value in its program; 0 is no tile
	n     int
}

// Len returns the number of elements.
func (t Tile) Len() int { return t.n }

// Kernel is a function of the PE that it runs on. It captures its arguments (pointers and sizes).
type Kernel func(p *PE)

// PE is the processing element that a kernel runs on. Its methods record the kernel's operations.
type PE struct {
	env  program.Env
	prog *program.Program
	used int64 // bytes of TCM
	err  error // first mistake
}

// Record runs a kernel for one PE and returns its operations. Package accel calls it for every PE of
// a launch. A panic of the kernel is returned as an error.
func Record(env program.Env, k Kernel) (_ *program.Program, err error) {
	p := &PE{env: env, prog: &program.Program{ID: env.ID}}
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

// ID returns the PE that the kernel runs on.
func (p *PE) ID() PEID { return p.env.ID }

// ProgramID returns the PE's number in its cube (axis 0) or the cube's number in its SIP (axis 1).
func (p *PE) ProgramID(axis int) int {
	if axis == 0 {
		return p.env.ID.PE
	}
	return p.env.ID.Cube
}

// NumPrograms returns on how many PEs of a cube (axis 0) or cubes of a SIP (axis 1) the kernel runs.
func (p *PE) NumPrograms(axis int) int {
	if axis == 0 {
		return p.env.PEs
	}
	return p.env.Cubes
}

// SIP returns the number of the PE's SIP.
func (p *PE) SIP() int { return p.env.ID.SIP }

// Topology returns the machine.
func (p *PE) Topology() *Topology { return p.env.Topo }

// fail records a mistake; only the first one is kept.
func (p *PE) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("call %d: "+format, append([]any{len(p.prog.Ops)}, args...)...)
	}
}

func (p *PE) emit(op program.Op) {
	if p.err == nil {
		p.prog.Ops = append(p.prog.Ops, op)
	}
}

// tile numbers a new value. If it owns its memory, that is taken from the TCM.
func (p *PE) tile(n int, owned bool) Tile {
	if n < 1 {
		p.fail("a tile of %d elements: want at least 1", n)
	}
	if owned {
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

// result records an operation that returns a new tile of n elements in the TCM.
func (p *PE) result(n int, op program.Op) Tile {
	t := p.tile(n, true)
	op.Out = int32(t.value)
	p.emit(op)
	return t
}

// Scope records body and then releases the TCM of the tiles that it allocated. They must not be used
// afterwards.
func (p *PE) Scope(body func()) {
	before := p.used
	body()
	p.used = before
}

// take checks a tile argument and returns its value number.
func (p *PE) take(what string, t Tile) int32 {
	if t.value < 1 || t.value > p.prog.Values {
		p.fail("%s: the tile does not belong to this kernel", what)
	}
	return int32(t.value)
}

// same checks that two operands have the same length.
func (p *PE) same(what string, a, b Tile) {
	if a.n != b.n {
		p.fail("%s of %d and %d elements: want equal lengths", what, a.n, b.n)
	}
}

// Load copies n elements from HBM into a new tile.
func (p *PE) Load(from Ptr, n int) Tile {
	p.memory("load", from, n)
	return p.result(n, program.Op{Kind: program.Load, N: n, Addr: topo.Address(from)})
}

// Store copies a tile to HBM and waits until it has been written.
func (p *PE) Store(to Ptr, t Tile) {
	p.memory("store", to, t.n)
	p.emit(program.Op{Kind: program.Store, A: p.take("store", t), N: t.n, Addr: topo.Address(to)})
}

// memory checks that n elements at an address lie in the HBM of one PE.
func (p *PE) memory(what string, at Ptr, n int) {
	l, err := p.env.Topo.Locate(topo.Address(at))
	switch {
	case err != nil:
		p.fail("%s: %w", what, err)
	case l.Space != topo.HBMSpace:
		p.fail("%s: %v is not HBM", what, l)
	case l.Offset+int64(n)*ElemSize > p.env.Topo.HBMSlice():
		p.fail("%s: %d elements from %v on reach beyond the end of that PE's HBM", what, n, l)
	}
}

// Scratch returns a new tile of n zeros.
func (p *PE) Scratch(n int) Tile { return p.result(n, program.Op{Kind: program.Scratch, N: n}) }

// View returns the n elements of a tile from off on. It shares the memory of the tile.
func (p *PE) View(t Tile, off, n int) Tile {
	if off < 0 || n < 1 || off+n > t.n {
		p.fail("a view of elements %d to %d of a tile of %d", off, off+n, t.n)
	}
	v := p.tile(n, false)
	p.emit(program.Op{Kind: program.View, Out: int32(v.value), A: p.take("view", t), N: n, Off: off})
	return v
}

// Handle identifies an asynchronous operation.
type Handle struct {
	op   int
	tile Tile
}

// Wait waits for an asynchronous operation and returns its tile. The tile of a Composite is empty,
// because its result is in HBM.
func (p *PE) Wait(h Handle) Tile {
	if h.op < 0 || h.op >= len(p.prog.Ops) {
		p.fail("wait: the handle does not belong to this kernel")
	}
	p.emit(program.Op{Kind: program.Wait, Handle: h.op})
	return h.tile
}
