package mpi

import (
	"runtime"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// Arg is an argument of a call: a number, or memory.
//
// Memory stays a Go pointer until the call has it. An address in a number would
// be none to the compiler, which then may leave the memory on a stack, and
// stacks move.
type Arg struct {
	number uintptr
	memory unsafe.Pointer
}

// Memory is the first element of a slice.
func Memory[E any](s []E) Arg { return Arg{memory: unsafe.Pointer(unsafe.SliceData(s))} }

// field is memory for one value.
func field[E any](p *E) Arg { return Arg{memory: unsafe.Pointer(p)} }

// handle passes a communicator and the like.
func handle[H ~uintptr](h H) Arg { return Arg{number: uintptr(h)} }

// integer passes a C int: the callee looks at its lower 32 bits.
func integer(n int) Arg { return Arg{number: uintptr(uint32(int32(n)))} }

// Call is a call to MPI with its arguments, made once and run many times. It
// keeps their memory reachable.
type Call struct {
	l      *Library
	name   string
	f      dynlib.Func
	words  []uintptr
	memory []unsafe.Pointer // what words has the addresses of
}

// call prepares a call. What the arguments point to is on the heap, where Go
// moves nothing: the Call is, because this function is not inlined, and it has
// them.
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

// Blocks are the ranks' parts of a vector: how many elements and from where on,
// as the functions take them for which the parts need not be equal.
type Blocks struct{ Counts, Offsets []int32 }

// NewBlocks asks for each rank's part.
func NewBlocks(ranks int, part func(rank int) (off, n int)) Blocks {
	b := Blocks{make([]int32, ranks), make([]int32, ranks)}
	for r := range ranks {
		off, n := part(r)
		b.Counts[r], b.Offsets[r] = int32(n), int32(off)
	}
	return b
}
