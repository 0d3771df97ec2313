package gemm

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
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

// Host is the backend of providers that multiply on this machine's processors.
const Host = "cpu"

// Resident is an engine that multiplies in a memory of its own, that of a GPU, and times
// it there. Its Multiply brings the operands there and the result back.
type Resident interface {
	Engine
	// Load brings operands there and spoils the result. How c, a and b lie in the host's
	// memory makes no difference.
	Load(c, a, b Matrix) error
	// Sample makes products of what was loaded, one after the other, and returns how many
	// microseconds the device took for all of them.
	Sample(products int) (us float64, err error)
	// Fetch brings the result of the last product back.
	Fetch(c Matrix) error
	// Peak measures the device's arithmetic for operands of a type, in GFLOP/s.
	Peak(d dtype.DType) (float64, error)
	// Details are facts for the record of a result, by name, such as the algorithm.
	Details() map[string]string
	// Observe says what the device's instruments show.
	Observe() (string, error)
}

// MissingError is the error of an engine that cannot be opened because this machine lacks
// something: a GPU, a library.
type MissingError struct{ Reason error }

func (e *MissingError) Error() string { return e.Reason.Error() }

func (e *MissingError) Unwrap() error { return e.Reason }

// registered are the providers of other packages, by backend.
var registered = map[string][]Provider{}

// Register makes providers of a backend other than Host known, when a package is imported.
func Register(backend string, providers ...Provider) {
	registered[backend] = append(registered[backend], providers...)
}

// Backends lists what there are providers for, Host first.
func Backends() []string { return append([]string{Host}, slices.Sorted(maps.Keys(registered))...) }

// On lists the providers of a backend, whether its libraries are there or not.
func On(backend string) []Provider {
	if backend == Host {
		return Providers()
	}
	return slices.Clone(registered[backend])
}

// Providers lists every provider on this machine's processors, whether its library is there or not: the
// built-in one, that one held to each lower level of instructions, and the
// libraries.
func Providers() []Provider {
	return slices.Concat([]Provider{Builtin()}, lists.Map(tile.Levels(), BuiltinAt), []Provider{OpenBLAS()})
}

// Lookup finds a backend's provider by name.
func Lookup(backend, name string) (Provider, error) {
	return suggest.Find(backend+" provider", name, On(backend), Provider.Name)
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
	Flops float64     // floating-point operations in a round
	Run   func(n int) // makes n rounds, at least one
}

// PeakOf gives the fastest arithmetic this machine has for operands of a type,
// with the precision of their Result. To time it is the caller's.
func PeakOf(operand dtype.DType) Peak {
	k := tile.For(tile.Best(), operand)
	return Peak{k.PeakFlops, k.Peak}
}
