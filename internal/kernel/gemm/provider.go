package gemm

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// Provider is an implementation of matrix multiplication.
type Provider interface {
	// Name returns the name by which users choose the provider.
	Name() string
	// Help describes the provider in one line.
	Help() string
	// Types returns the supported operand types. Result returns the type of C.
	Types() []dtype.DType
	// Open prepares an engine with this number of threads.
	Open(threads int) (Engine, error)
}

// Engine multiplies with a fixed number of threads. Only one goroutine may use it at a time.
type Engine interface {
	// Multiply sets c to a x b. It allocates nothing after the first call of a size.
	Multiply(c, a, b Matrix) error
	// String describes what does the work, for the record of a result.
	String() string
	// Warnings lists reasons why this engine is slower than the machine allows.
	Warnings() []string
	// Close ends the threads and frees the buffers.
	Close()
}

// Host is the backend of providers that multiply on the CPUs of this machine.
const Host = "cpu"

// Resident is an engine that multiplies in the memory of a device, such as a GPU, and times the products there. Its
// Multiply copies the operands to the device and the result back.
type Resident interface {
	Engine
	// Load copies the operands to the device and spoils the result. The layout of c, a and b on the host makes no
	// difference.
	Load(c, a, b Matrix) error
	// Sample computes consecutive products of the loaded operands, and returns the microseconds that the device took for
	// all of them.
	Sample(products int) (us float64, err error)
	// Fetch copies the result of the last product back.
	Fetch(c Matrix) error
	// Peak measures the arithmetic of the device for operands of a type, in GFLOP/s.
	Peak(d dtype.DType) (float64, error)
	// ReadSpeed measures how fast the device reads its memory, in GB/s.
	ReadSpeed() (float64, error)
	// Details returns facts for the record of a result, by name, such as the algorithm.
	Details() map[string]string
	// Observe returns the current readings of the device, such as clocks and temperature.
	Observe() (string, error)
}

// Keeper is an engine that can keep B packed between products, as frameworks do with the weights of a layer.
type Keeper interface {
	Engine
	// Keep promises that the elements of b do not change until the next call of Keep. Products with the same view of b
	// then pack it only once. Products with another B are computed as usual.
	Keep(b Matrix) error
}

// MissingError is the error for an engine that cannot be opened because this machine lacks something, such as a GPU or
// a library.
type MissingError struct{ Reason error }

func (e *MissingError) Error() string { return e.Reason.Error() }

func (e *MissingError) Unwrap() error { return e.Reason }

// registered is a provider of a backend.
type registered struct {
	Provider
	backend string
}

// providers holds the providers of all backends. The providers of Host are registered first.
var providers = registry.NewOrdered("GEMM provider", func(r registered) registry.Entry {
	return registry.Entry{Name: r.backend + "/" + r.Name(), Help: r.Help()}
})

// The providers for the CPUs of this machine: the built-in one, the same at each level and with a packed B, and the
// libraries.
func init() {
	Register(Host, Builtin())
	Register(Host, lists.Map(tile.Levels(), BuiltinAt)...)
	Register(Host, BuiltinPacked()...)
	Register(Host, OpenBLAS(), OneDNN(), OneDNNPacked())
}

// Register adds providers of a backend. Packages call it in init functions.
func Register(backend string, list ...Provider) {
	for _, p := range list {
		providers.Register(registered{p, backend})
	}
}

// Backends lists the backends with providers, Host first.
func Backends() []string {
	return lists.Distinct(lists.Map(providers.All(), func(r registered) string { return r.backend }))
}

// On lists the providers of a backend, whether or not their libraries are installed.
func On(backend string) []Provider {
	list := lists.Filter(providers.All(), func(r registered) bool { return r.backend == backend })
	return lists.Map(list, func(r registered) Provider { return r.Provider })
}

// Lookup returns a backend's provider by name.
func Lookup(backend, name string) (Provider, error) {
	return suggest.Find(backend+" provider", name, On(backend), Provider.Name)
}

// MaxThreads limits the number of threads, to catch mistakes.
const MaxThreads = 1024

func checkThreads(n int) error {
	if n < 1 || n > MaxThreads {
		return fmt.Errorf("%d threads: want 1 to %d", n, MaxThreads)
	}
	return nil
}

// Peak is the arithmetic of a kernel without memory access: what a core could do if operands cost nothing.
type Peak struct {
	Flops float64     // floating-point operations in a round
	Run   func(n int) // makes n rounds, at least one
}

// PeakOf returns the fastest arithmetic of this machine for operands of a type, with the precision of their Result. The
// caller times it.
func PeakOf(operand dtype.DType) Peak {
	k := tile.For(tile.Best(), operand)
	return Peak{k.PeakFlops, k.Peak}
}
