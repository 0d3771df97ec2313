package mpi

import "github.com/kernbench/kernbench/internal/host/dynlib"

// Call is a call to MPI with its arguments, made once and run many times. It
// refers to the memory of its arguments by address: whoever makes it keeps that
// memory alive and in place.
type Call struct {
	l    *Library
	name string
	f    dynlib.Func
	args []uintptr
}

// Run makes the call. It allocates nothing unless there is an error.
func (c *Call) Run() error {
	code := c.f.Call(c.args...)
	if int32(code) == 0 {
		return nil
	}
	return c.l.check(c.name, code)
}

func (l *Library) call(name string, f dynlib.Func, args ...uintptr) *Call {
	return &Call{l: l, name: name, f: f, args: args}
}

// Blocks are the ranks' parts of a vector: how many elements and from where on,
// as the functions take them for which the parts need not be equal.
type Blocks struct{ Counts, Offsets []int32 }

// NewBlocks asks for each rank's part. Like NewSlot it makes them on the heap.
//
//go:noinline
func NewBlocks(ranks int, part func(rank int) (off, n int)) Blocks {
	b := Blocks{make([]int32, ranks), make([]int32, ranks)}
	for r := range ranks {
		off, n := part(r)
		b.Counts[r], b.Offsets[r] = int32(n), int32(off)
	}
	return b
}

// address is where MPI finds the first of them.
func address(s []int32) uintptr { return pointer(&s[0]) }
