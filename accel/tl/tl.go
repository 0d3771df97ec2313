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
// A kernel is a Go function that gets a *PE. It computes nothing itself: every call only records an operation. The
// kernel runs once for each PE, before the simulation. It can therefore branch on where it runs (ID, ProgramID,
// Topology), but not on data. The simulator of package accel determines how long each operation takes and then computes
// the results. It computes in f32 and rounds once per operation, to the type of the result.
//
// # Memory
//
// Load copies elements from HBM into a Tile in the PE's tightly coupled memory (TCM); Store copies
// a tile back. Scratch returns a tile of zeros, Full one of equal elements, and View a part of a tile.
// Scope releases the tiles allocated within it.
//
// Elements are F16, BF16 or F32. Pointers and tiles have an element type; Cast converts a tile to another one. A tile
// has rows and columns. Load returns a single row, and Tile.Reshape divides it into several.
//
// # Math
//
// Add, Binary, Unary, FMA and Clamp return new tiles; AddTo and CopyTo write into an existing one.
// Operands are broadcast as in NumPy: a tile of one row is combined with each row of the other tile, and
// a tile of one column with each column. If the types differ, the result is F32. Sum, Max, Min and Softmax work
// on each row. Dot multiplies two tiles. Composite streams a whole matrix product through the
// pipeline of DMA, fetch, GEMM, epilogue and store while the kernel continues.
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
	"slices"

	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// ElemSize is the size of an f16 element in bytes.
const ElemSize = program.ElemSize

type (
	// DType is the type of elements.
	DType = program.DType
	// Ptr is the address of an element in HBM, valid on every PE of the system, and the type of the elements there.
	Ptr = program.Ptr
)

// The types of elements. Both 16-bit types take the same time everywhere; f32 takes twice as long in
// transfers, in the MATH engine and in the GEMM engine.
const (
	F16  = program.F16
	BF16 = program.BF16
	F32  = program.F32
)

// Tile is a matrix in the TCM of a PE, stored by rows. Loads, receives and math return tiles.
type Tile struct {
	pe    *PE // nil is no tile
	value int // number of the value in its program
	form  program.Form
}

// Len returns the number of elements.
func (t Tile) Len() int { return t.form.Len() }

// Shape returns the number of rows and columns.
func (t Tile) Shape() (rows, cols int) { return t.form.Rows, t.form.Cols }

// Type returns the type of the elements.
func (t Tile) Type() DType { return t.form.Type }

// Reshape returns the same elements in another number of rows and columns. It takes no time and shares the memory
// of t.
func (t Tile) Reshape(rows, cols int) Tile {
	if rows < 1 || cols < 1 || rows*cols != t.Len() {
		t.pe.fail("reshape of a tile of %d elements to %d x %d", t.Len(), rows, cols)
	}
	t.form.Rows, t.form.Cols = rows, cols
	return t
}

// Kernel is a function of the PE that it runs on. It captures its arguments (pointers and sizes).
type Kernel func(p *PE)

// PE is the processing element that a kernel runs on. Its methods record the kernel's operations.
type PE struct {
	env     program.Env
	prog    *program.Program
	tcmUsed int64 // bytes of TCM
	err     error // first mistake

	extents []extent // by value number
	pending []async  // all asynchronous operations, including completed ones
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
	p.prog.Ops = slices.Clone(p.prog.Ops) // a launch may hold millions of them
	return p.prog, nil
}

// ID returns the PE that the kernel runs on.
func (p *PE) ID() topo.PEID { return p.env.ID }

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
func (p *PE) Topology() *topo.Topology { return p.env.Topo }

func (p *PE) emit(op program.Op) {
	if p.err == nil {
		op.PC = callerPC()
		if op.Out > 0 && p.extents[op.Out].allocated == 0 {
			p.extents[op.Out].allocated = op.PC
		}
		p.prog.Ops = append(p.prog.Ops, op)
	}
}

// tile returns a new tile with the next value number. If owned is set, it takes memory from the TCM; otherwise the
// caller sets its extent.
func (p *PE) tile(f program.Form, owned bool) Tile {
	n, bytes := f.Len(), int64(f.Bytes())
	if n < 1 {
		p.fail("a tile of %d elements: want at least 1", n)
	}
	if owned {
		p.tcmUsed += bytes
		p.prog.TCM = max(p.prog.TCM, p.tcmUsed)
		if capacity := p.env.Topo.PE.TCMBytes; p.tcmUsed > capacity {
			p.fail("a tile of %d bytes is too large: %d of the TCM's %d bytes are taken", bytes, p.tcmUsed-bytes, capacity)
		}
	}
	p.prog.Values++
	p.extents = append(p.extents, extent{owner: p.prog.Values, n: int(bytes), owned: owned})
	return Tile{p, p.prog.Values, f}
}

// result records an operation that returns a new tile in the TCM.
func (p *PE) result(f program.Form, op program.Op) Tile {
	t := p.tile(f, true)
	op.Out, op.Type = int32(t.value), f.Type
	p.emit(op)
	return t
}

// row returns the form of a tile with one row of n elements.
func row(n int, of []DType) program.Form {
	return program.Form{Rows: 1, Cols: n, Type: typeOr(of, F16)}
}

// typeOr returns the optional type argument of a call, or the default.
func typeOr(of []DType, otherwise DType) DType {
	if len(of) > 0 {
		return of[0]
	}
	return otherwise
}

// Load copies n elements from HBM into a new tile of one row.
func (p *PE) Load(from Ptr, n int) Tile {
	p.checkMemory("load", from, n)
	return p.result(row(n, []DType{from.Type}), program.Op{Kind: program.Load, N: n, Addr: from.Addr})
}

// Store copies a tile to HBM and waits until it has been written. The memory must have the type of the tile.
func (p *PE) Store(to Ptr, t Tile) {
	p.checkMemory("store", to, t.Len())
	if t.form.Type != to.Type {
		p.fail("store: the tile is %v and the memory %v: Cast the tile first", t.form.Type, to.Type)
	}
	p.emit(program.Op{Kind: program.Store, Type: to.Type, A: p.use("store", t), N: t.Len(), Addr: to.Addr})
}

// checkMemory checks that n elements at an address lie in the HBM of one PE.
func (p *PE) checkMemory(what string, at Ptr, n int) {
	l, err := p.env.Topo.Locate(at.Addr)
	switch {
	case at.Addr == 0:
		p.fail("%s: address 0 is invalid: is it the Ptr of a Shard that the PE does not have (On returned false)?", what)
	case err != nil:
		p.fail("%s: %w", what, err)
	case l.Space != topo.HBMSpace:
		p.fail("%s: %v is not HBM", what, l)
	case l.Offset+int64(n*at.Type.Size()) > p.env.Topo.HBMSlice():
		p.fail("%s: %d elements from %v on reach beyond the end of that PE's HBM", what, n, l)
	}
}

// Scratch returns a new tile of n zeros in one row, of type f16 unless another one is given.
func (p *PE) Scratch(n int, of ...DType) Tile { return p.Full(0, n, of...) }

// Full returns a new tile of n equal elements in one row, of type f16 unless another one is given. Constants are part
// of the program and take no time.
func (p *PE) Full(value float32, n int, of ...DType) Tile {
	return p.result(row(n, of), program.Op{Kind: program.Scratch, N: n, Scalars: [2]float32{value}})
}

// View returns n elements of a tile, starting at element off, as one row. It shares the memory of the tile.
func (p *PE) View(t Tile, off, n int) Tile {
	if off < 0 || n < 1 || off+n > t.Len() {
		p.fail("a view of elements %d to %d of a tile of %d", off, off+n, t.Len())
	}
	value := p.use("view", t)
	v := p.tile(row(n, []DType{t.form.Type}), false)
	if t.pe == p {
		e, size := p.extents[t.value], t.form.Type.Size()
		p.extents[v.value] = extent{owner: e.owner, off: e.off + off*size, n: n * size}
	}
	p.emit(program.Op{Kind: program.View, Type: t.form.Type, Out: int32(v.value), A: value, N: n, Off: off})
	return v
}
