// Package hints defines the properties of a backend that do not affect its results. kernbench uses them to plan,
// launch, tune and analyse runs.
package hints

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// HostBackend is the name of the backend that runs on this host's processors. It is the default backend. Rows of
// benches without a group name it as their backend.
const HostBackend = "cpu"

// Hints are part of a backend's description. The zero Hints fit a backend without special needs.
type Hints struct {
	// Preferred reports whether a run that names no backend uses this one for the given number of ranks, because the
	// machine has everything that it needs, such as a GPU per rank. nil: never.
	Preferred func(ranks int) bool
	// Launcher is the only kind of launcher that can start the ranks. nil: any launcher can.
	Launcher *Launcher
	// HostMemory: all data moves through the memory and caches of this host, in the steps of the algorithm. The
	// measured speed of memory and caches therefore gives a lower limit for the time of a call.
	HostMemory bool
	// Network: between hosts, data goes over the network, or over a faster fabric such as InfiniBand if they have one.
	Network bool
	// MaxBytes is the largest vector of a run that names no sizes, for backends on which larger ones take too long;
	// 0: no limit.
	MaxBytes int64
	// MaxRanks is the largest number of ranks in a group; 0: no limit.
	MaxRanks int
	// CheckMemory returns an error if the memory of this machine's devices is too small for a group whose ranks have
	// buffers of the given number of bytes each. It returns nil if the memory suffices or is not known. nil: any size
	// fits.
	CheckMemory func(ranks int, bytes int64) error
	// Knobs are the choices that a group of the backend accepts.
	Knobs []Knob
	// Model is the version of a simulation. Change it whenever the simulation gives other times for the same machine, so
	// that stored rows are not reused. Rows of benches with a version of their own are an exception.
	Model string
}

// Launcher is a kind of program that starts ranks, for backends whose ranks find each other only through it.
type Launcher struct {
	Kind    string // such as "MPI"
	Command string // the program to use unless the user names another
	Install string // the package that has it
}

// Knob is an option of a backend that does not affect its results. With the default value, the backend chooses by
// itself.
type Knob struct {
	Name, Help string
	Default    string
	Values     []string                 // the known values; empty: Check decides
	Check      func(value string) error // returns an error for an invalid value that is not in Values; nil: all are
	// Retune: the fastest algorithm depends on the value, so a tuning table is valid only for one value.
	Retune bool
}

func (k Knob) check(value string) error {
	switch {
	case value == k.Default || slices.Contains(k.Values, value):
		return nil
	case k.Check != nil:
		return k.Check(value)
	}
	return suggest.Unknown("value of "+k.Name, value, k.Values)
}

// KnobValues returns the values of all knobs: the given ones, and the defaults of the others.
func (h Hints) KnobValues(given map[string]string) map[string]string {
	values := map[string]string{}
	for _, k := range h.Knobs {
		values[k.Name] = cmp.Or(given[k.Name], k.Default)
	}
	return values
}

// CheckKnobs reports an error if values has a knob or a value that the backend of that name does not have.
func (h Hints) CheckKnobs(backend string, values map[string]string) error {
	for name, value := range values {
		at := slices.IndexFunc(h.Knobs, func(k Knob) bool { return k.Name == name })
		if at < 0 {
			names := lists.Map(h.Knobs, func(k Knob) string { return k.Name })
			return fmt.Errorf("backend %s has no knob %q (it has: %s)", backend, name, strings.Join(names, ", "))
		}
		if err := h.Knobs[at].check(value); err != nil {
			return fmt.Errorf("%s=%s: %w", name, value, err)
		}
	}
	return nil
}
