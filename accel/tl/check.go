package tl

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/internal/accel/program"
)

// The checks of this file find mistakes while a kernel is recorded: tiles that are used after their scope, waits
// that are missing or doubled, and tiles that change while a composite reads them. Races between PEs depend on
// the whole launch; package sanitize finds them after the simulation.

// extent is the TCM that a tile occupies: a range of the tile that owns it.
type extent struct {
	owner     int     // value number of the owning tile
	off, n    int     // in bytes
	owned     bool    // it has TCM of its own, which its Scope releases
	allocated uintptr // the call that created the owner
	released  uintptr // the Scope that released the owner; 0 while it is valid
}

// async is a RecvAsync or a Composite.
type async struct {
	op     int      // index of the operation in its program
	pc     uintptr  // the call that started it
	waited uintptr  // the call of Wait; 0 if there was none
	reads  []extent // tiles that a composite reads until it has been waited for
}

// insideTL caches which calls are made by this package, by program counter.
var insideTL sync.Map

// callerPC returns the program counter of the kernel's current call: the innermost frame that is not in this package.
func callerPC() uintptr {
	const skip = 3      // runtime.Callers, this function, and its caller in this package
	var near [4]uintptr // enough for nearly all calls; unwinding more frames costs more
	if pc := firstOutside(near[:runtime.Callers(skip, near[:])]); pc != 0 {
		return pc
	}
	var far [16]uintptr
	return firstOutside(far[:runtime.Callers(skip, far[:])])
}

// firstOutside returns the first program counter that is not in this package, or 0.
func firstOutside(pcs []uintptr) uintptr {
	for _, pc := range pcs {
		inside, known := insideTL.Load(pc)
		if !known {
			frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
			inside = strings.HasPrefix(frame.Function, "github.com/kernbench/kernbench/accel/tl.") &&
				!strings.HasSuffix(frame.File, "_test.go") || strings.HasPrefix(frame.Function, "runtime.")
			insideTL.Store(pc, inside)
		}
		if !inside.(bool) {
			return pc
		}
	}
	return 0
}

// fail records a mistake; only the first one is kept.
func (p *PE) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s: %w", program.Line(callerPC()), fmt.Errorf(format, args...))
	}
}

// use checks that a tile argument is valid, and returns its value number.
func (p *PE) use(what string, t Tile) int32 {
	switch {
	case t.pe != p:
		p.fail("%s: the tile does not belong to this kernel", what)
	case p.owner(t).released != 0:
		p.fail("%s: the tile allocated at %s was released by the Scope at %s", what,
			program.Line(p.owner(t).allocated), program.Line(p.owner(t).released))
	}
	return int32(t.value)
}

// owner returns the extent of the tile that owns the memory of t.
func (p *PE) owner(t Tile) *extent { return &p.extents[p.extents[t.value].owner] }

// useForWrite is like use, for a tile that is written in place. A composite that is still running must not read it.
func (p *PE) useForWrite(what string, t Tile) int32 {
	v := p.use(what, t)
	if t.pe == p {
		if c := p.reader(p.extents[t.value]); c != nil {
			p.fail("%s: the tile is read by the composite at %s, which was not waited for", what, program.Line(c.pc))
		}
	}
	return v
}

// reader returns a composite that still reads part of e, or nil.
func (p *PE) reader(e extent) *async {
	for i := range p.pending {
		c := &p.pending[i]
		if c.waited == 0 && slices.ContainsFunc(c.reads, func(r extent) bool {
			return r.owner == e.owner && r.off < e.off+e.n && e.off < r.off+r.n
		}) {
			return c
		}
	}
	return nil
}

// startAsync records that the last operation of the program is asynchronous and reads the given tiles.
func (p *PE) startAsync(t Tile, reads ...Tile) Handle {
	a := async{op: len(p.prog.Ops) - 1, pc: callerPC()}
	for _, r := range reads {
		if r.pe == p {
			a.reads = append(a.reads, p.extents[r.value])
		}
	}
	p.pending = append(p.pending, a)
	return Handle{pe: p, number: len(p.pending) - 1, tile: t}
}

// Scope records body and then releases the TCM of the tiles that it allocated. They must not be used
// afterwards.
func (p *PE) Scope(body func()) {
	before, first := p.tcmUsed, len(p.extents)
	body()
	p.tcmUsed = before
	pc := callerPC()
	for v := first; v < len(p.extents); v++ {
		if e := &p.extents[v]; e.owner == v && e.owned {
			if c := p.reader(*e); c != nil {
				p.fail("the Scope releases a tile that the composite at %s reads: wait for it first", program.Line(c.pc))
			}
			e.released = pc
		}
	}
}

// Handle identifies an asynchronous operation.
type Handle struct {
	pe     *PE
	number int
	tile   Tile
}

// Wait waits for an asynchronous operation and returns its tile. The tile of a Composite is empty,
// because its result is in HBM.
func (p *PE) Wait(h Handle) Tile {
	if h.pe != p {
		p.fail("wait: the handle does not belong to this kernel")
		return Tile{}
	}
	a := &p.pending[h.number]
	if a.waited != 0 && p.err == nil {
		p.fail("wait: the %v at %s was already waited for at %s", p.prog.Ops[a.op].Kind, program.Line(a.pc),
			program.Line(a.waited))
	}
	a.waited = callerPC()
	p.emit(program.Op{Kind: program.Wait, Handle: a.op})
	return h.tile
}

// checkWaits fails if an asynchronous operation was never waited for.
func (p *PE) checkWaits() {
	for _, a := range p.pending {
		if a.waited == 0 && p.err == nil {
			p.err = fmt.Errorf("%s: the %v is never waited for", program.Line(a.pc), p.prog.Ops[a.op].Kind)
		}
	}
}
