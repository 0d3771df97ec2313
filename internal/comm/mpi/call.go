package mpi

import (
	"runtime"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// Arg is an argument of a call: a number, or memory.
//
// Memory stays a Go pointer until the call. If it were converted to a number, the compiler would not recognise it as an
// address and might allocate the memory on a stack, which can move.
type Arg struct {
	number uintptr
	memory unsafe.Pointer
}

// Memory passes the address of a slice's first element.
func Memory[E any](s []E) Arg { return Arg{memory: unsafe.Pointer(unsafe.SliceData(s))} }

// field passes the address of a single value.
func field[E any](p *E) Arg { return Arg{memory: unsafe.Pointer(p)} }

// handle passes a communicator, type or operation.
func handle[H ~uintptr](h H) Arg { return Arg{number: uintptr(h)} }

// integer passes a C int; the callee reads the lower 32 bits.
func integer(n int) Arg { return Arg{number: uintptr(uint32(int32(n)))} }

// Call is a prepared call of an MPI function with its arguments, made once and run many times. It
// keeps the arguments' memory alive.
type Call struct {
	l      *Library
	name   string
	f      dynlib.Func
	words  []uintptr
	memory []unsafe.Pointer // memory whose addresses are in words
}

// call prepares a call. The memory of its arguments must be on the heap, where Go does not move it. It
// is, because this function is not inlined and the Call keeps pointers to it.
//
//go:noinline
func (l *Library) call(name string, args ...Arg) *Call {
	c := &Call{l: l, name: name, f: *l.functions[name], words: make([]uintptr, len(args))}
	for i, a := range args {
		c.words[i] = a.number
		if a.memory != nil {
			c.words[i] = uintptr(a.memory)
			c.memory = append(c.memory, a.memory)
		}
	}
	return c
}

// Run makes the call. It allocates nothing unless there is an error.
func (c *Call) Run() error {
	code := c.f.Call(c.words...)
	runtime.KeepAlive(c)
	if int32(code) == 0 {
		return nil
	}
	return c.l.check(c.name, code)
}

// Blocks are the ranks' parts of a vector, with counts and offsets in elements, for the functions with
// variable counts.
type Blocks struct{ Counts, Offsets []int32 }

// NewBlocks collects the part of each rank.
func NewBlocks(ranks int, part func(rank int) (off, n int)) Blocks {
	b := Blocks{make([]int32, ranks), make([]int32, ranks)}
	for r := range ranks {
		off, n := part(r)
		b.Counts[r], b.Offsets[r] = int32(n), int32(off)
	}
	return b
}
