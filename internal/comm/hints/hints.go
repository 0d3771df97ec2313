// Package hints has the properties of a backend that do not change its results, but how kernbench
// plans, launches, tunes and analyses its runs.
package hints

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// HostBackend is the name of the backend of this host's processors. It is the default backend, and the backend in rows
// of benches that have no group at all.
const HostBackend = "cpu"

// Hints are part of a backend's description. The zero Hints fit a backend without special needs.
type Hints struct {
	// Preferred reports whether a run that names no backend uses this one for the given number of ranks, because the
	// machine has everything that it needs, such as a GPU per rank. nil: never.
	Preferred func(ranks int) bool
	// Launcher must start the processes of the ranks; nil: any launcher may.
	Launcher *Launcher
	// HostMemory: all data moves through the memory and caches of this host, by the steps of the algorithm. So the
	// measured speed of memory and caches gives a lower limit of the time of a call.
	HostMemory bool
	// Network: between hosts, data goes over their common network, or over their fabric if they have one.
	Network bool
	// NoShrink is the reason why the survivors of a failed group cannot continue as a new group.
	NoShrink string
	// MaxBytes is the largest vector of a run that names no sizes, for backends on which larger ones take too long;
	// 0: no limit.
	MaxBytes int64
	// MaxRanks is the largest number of ranks in a group; 0: no limit.
	MaxRanks int
	// CheckMemory returns an error if the devices of this machine are too small for a group in which every rank has
	// buffers of so many bytes, and nil if they are large enough or cannot be asked. nil: any size fits.
	CheckMemory func(ranks int, bytes int64) error
	// Knobs are the choices that a group of the backend accepts.
	Knobs []Knob
	// Model is the version of a simulation. Change it whenever the same machine gives other times, so that stored rows
	// are not reused (except for rows of benches that have their own version).
	Model string
}

// Launcher is a kind of program that starts ranks, for backends whose ranks cannot meet in any other way.
type Launcher struct {
	Kind    string // such as "MPI"
	Command string // the program to use unless the user names another
	Install string // the package that has it
}

// Knob is a choice of how a backend does its work; results do not depend on it. The default value stands for the
// backend's own choice.
type Knob struct {
	Name, Help string
	Default    string
	Values     []string                 // the known values; empty: Check decides
	Check      func(value string) error // refuses values that are not listed; nil: refuses all
	// Retune: the fastest algorithm depends on the value, so a tuning table is valid for one value only.
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
