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
// tile that does not fit, a tile used after its Scope, a Wait that is missing or doubled) is returned
// by the launch, with the file and line of the call. After the simulation, the launch also reports
// accesses to HBM that race with each other, with both positions and their simulated times.
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
	pe    *PE // nil is no tile
	value int // number of the value in its program
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

	extents []extent // by value number
	pending []async  // asynchronous operations, also the ones that were waited for
}

// Record runs a kernel for one PE and returns its operations. Package accel calls it for every PE of
// a launch. A panic of the kernel is returned as an error.
func Record(env program.Env, k Kernel) (_ *program.Program, err error) {
	p := &PE{env: env, prog: &program.Program{ID: env.ID}, extents: make([]extent, 1)}
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("kernel on %v: %s: panic: %v\n%s", env.ID, program.Line(callerPC()), x, debug.Stack())
		}
	}()
	k(p)
	if p.checkWaits(); p.err != nil {
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

func (p *PE) emit(op program.Op) {
	if p.err == nil {
		op.PC = callerPC()
		if op.Out > 0 && p.extents[op.Out].allocated == 0 {
			p.extents[op.Out].allocated = op.PC
		}
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
	p.extents = append(p.extents, extent{owner: p.prog.Values, n: n, owned: owned})
	return Tile{p, p.prog.Values, n}
}

// result records an operation that returns a new tile of n elements in the TCM.
func (p *PE) result(n int, op program.Op) Tile {
	t := p.tile(n, true)
	op.Out = int32(t.value)
	p.emit(op)
	return t
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
	case at == 0:
		p.fail("%s: address 0 is invalid: is it the Ptr of a Shard that the PE does not have (On returned false)?", what)
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
	of := p.take("view", t)
	v := p.tile(n, false)
	if t.pe == p {
		e := p.extents[t.value]
		p.extents[v.value] = extent{owner: e.owner, off: e.off + off, n: n}
	}
	p.emit(program.Op{Kind: program.View, Out: int32(v.value), A: of, N: n, Off: off})
	return v
}
