package gemm

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// Provider is an implementation of the multiplication.
type Provider interface {
	// Name is the word a user chooses it by.
	Name() string
	// Types are the operand types it has; Result tells the type of C.
	Types() []dtype.DType
	// Open prepares an engine of this many threads.
	Open(threads int) (Engine, error)
}

// Engine multiplies with a fixed number of threads. One goroutine uses it at a
// time.
type Engine interface {
	// Multiply sets c to a x b. It allocates nothing after the first call of a
	// size.
	Multiply(c, a, b Matrix) error
	// String says what does the work, for the record of a result.
	String() string
	// Warnings say what makes this engine slower than the machine.
	Warnings() []string
	// Close ends the threads and frees the buffers.
	Close()
}

// Providers lists every provider, whether its library is there or not: the
// built-in one, that one held to each lower level of instructions, and the
// libraries.
func Providers() []Provider {
	all := []Provider{Builtin()}
	for _, l := range tile.Levels() {
		all = append(all, BuiltinAt(l))
	}
	return append(all, OpenBLAS())
}

// Lookup finds a provider by name.
func Lookup(name string) (Provider, error) {
	var known []string
	for _, p := range Providers() {
		if p.Name() == name {
			return p, nil
		}
		known = append(known, p.Name())
	}
	return nil, suggest.Unknown("provider", name, known)
}

// MaxThreads bounds a mistaken number; no machine has more.
const MaxThreads = 1024

func checkThreads(n int) error {
	if n < 1 || n > MaxThreads {
		return fmt.Errorf("%d threads: want 1 to %d", n, MaxThreads)
	}
	return nil
}

// Peak is the arithmetic of a kernel without its memory: what a core could do
// if operands cost nothing.
type Peak struct {
	Level tile.Level
	Flops float64     // floating-point operations in a round
	Run   func(n int) // makes n rounds, at least one
}

// PeakOf gives the fastest arithmetic this machine has for operands of a type,
// with the precision of their Result. To time it is the caller's.
func PeakOf(operand dtype.DType) Peak {
	k := tile.For(tile.Best(), operand)
	return Peak{k.Level, k.PeakFlops, k.Peak}
}
