package dist

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Description is what a backend declares when it is registered: what must be
// known of it before any group is joined. Planning, launching and the analysis of
// results ask for it ([Describe]) and compare no names, so a backend is its
// package and the import that registers it. The zero Description is a backend
// of which nothing is known, with a process per rank and real time.
type Description struct {
	Name string
	Help string // one line

	// Capabilities is the most that a group can do; [Group.Capabilities] may be
	// less. nil: nothing is known beforehand.
	Capabilities func() Capabilities
	Shape

	// Preferred tells whether a run that names no backend takes this one for so many
	// ranks, because the machine has all that it is made for. nil: never.
	Preferred func(ranks int) bool

	// Launcher is who must start the ranks' processes; nil: anybody may.
	Launcher *Launcher
	// HostMemory: all data moves through this host's memory and caches, by the
	// steps of the algorithm, so that their speed is the limit of its times.
	HostMemory bool
	// Network: between hosts, data goes over their common network, or over a fabric of
	// theirs if they have one.
	Network bool
	// DeviceMemory: what Alloc gives is the memory of a device, which the host cannot
	// reach: see [Buffer.Mirror].
	DeviceMemory bool
	// NoShrink is why what is left of a failed group cannot go on as a new one; "" where
	// its engines are [Shrinker]s.
	NoShrink string
	// NoOverlap is why a call that is begun needs a goroutine to go on; "" where it does
	// not: see [Op.Begin].
	NoOverlap string
	// MaxBytes is the largest vector that a run takes which names no sizes, where
	// larger ones take too long; 0: as large as elsewhere.
	MaxBytes int64
	// Knobs are the choices of [Config.Knobs].
	Knobs []Knob
	// Model changes when a simulated backend gives other times for the same machine: then
	// stored rows of benches that have no version of their own do not stand for new ones.
	Model string
}

// Shape is how the ranks of a backend come to be, and what its times depend on.
// The zero Shape is a process per rank, measured.
type Shape struct {
	// InProcess: all ranks of a group are goroutines of one process, and so on one host.
	InProcess bool
	// Simulated: its clock is simulated time, so that nothing else that this
	// host does changes what it says.
	Simulated bool
	// Virtual: there is only rank 0, whose calls stand for those of all ranks: their steps
	// are proved and timed, and no data moves, so that there is nothing to check.
	Virtual bool
}

// Launcher is a kind of program that starts ranks which can meet in no other way.
type Launcher struct {
	Kind    string // such as "MPI"
	Command string // the one to take unless the user names another
	Install string // where it comes from
}

// HostBackend is the backend of this host's processors, which is the default and
// stands in the rows of benches that have no group at all.
const HostBackend = "cpu"

// registered is a backend with what it declared.
type registered struct {
	Description
	backend Backend
}

var backends = registry.New("backend", func(r registered) registry.Entry {
	return registry.Entry{Name: r.Name, Help: r.Help}
})

// Register makes a backend known; packages of backends call it when they are
// imported. Two of one name are a bug and panic.
func Register(d Description, b Backend) { backends.Register(registered{d, b}) }

// Backends lists the names of the backends this program was built with: that of
// the host first, the others sorted.
func Backends() []string {
	return slices.SortedFunc(slices.Values(backends.Names()), func(a, b string) int {
		switch HostBackend {
		case a:
			return -1
		case b:
			return 1
		}
		return cmp.Compare(a, b)
	})
}

// BackendsThat lists, in the order of Backends, those for which holds is true.
func BackendsThat(holds func(Description) bool) []string {
	return slices.DeleteFunc(Backends(), func(name string) bool { return !holds(Describe(name)) })
}

// Describe is what a backend has declared, the zero Description with its name
// when this program was not built with it.
func Describe(backend string) Description {
	r, _ := backends.Lookup(backend)
	r.Name = backend
	return r.Description
}

// Can is the most that a group of the backend can do.
func (d Description) Can() Capabilities {
	if d.Capabilities == nil {
		return Capabilities{}
	}
	return d.Capabilities()
}

// As gives a backend as something that only some backends are, such as a [Limiter].
func As[T any](backend string) (T, bool) {
	r, _ := backends.Lookup(backend)
	t, ok := r.backend.(T)
	return t, ok
}

// EngineAs gives a group's engine as something that only some engines are, for programs that
// start work of their own among its ranks.
func EngineAs[T any](g *Group) (T, bool) {
	t, ok := g.engine.(T)
	return t, ok
}

// Ender is a backend that has something to end before the process does.
type Ender interface{ End() error }

// End ends what backends hold for the whole process. A program that has joined
// groups calls it once all are closed, right before it ends; no group can be
// joined afterwards. Where nothing is held it does nothing.
func End() error { return eachAs(Ender.End) }

// eachAs calls a method of every backend that has it.
func eachAs[T any](call func(T) error) error {
	var faults []error
	for _, name := range Backends() {
		if t, ok := As[T](name); ok {
			faults = append(faults, call(t))
		}
	}
	return errors.Join(faults...)
}

// Sweeper is a backend whose processes may leave something behind when they are killed.
type Sweeper interface{ Sweep() error }

// Sweep removes what processes of any backend have left on this host that were killed
// before their [End]. What belongs to living processes stays. Who has started ranks and
// seen their end calls it.
func Sweep() error { return eachAs(Sweeper.Sweep) }

func backendNamed(name string) (Backend, error) {
	r, err := backends.Lookup(name)
	return r.backend, err
}

// Knob is a choice that a backend leaves to who measures it: how it does its work, never
// what comes out. Its values are words; the default stands for the backend's own choice.
type Knob struct {
	Name, Help string
	Default    string
	Values     []string // the words that are known; empty: whatever Check takes
	Check      func(value string) error
	Apart      bool // what is fastest at one value is not at another: a tuning table holds for one
}

// refused is what is wrong with a value.
func (k Knob) refused(value string) error {
	switch {
	case value == k.Default || slices.Contains(k.Values, value):
		return nil
	case k.Check != nil:
		return k.Check(value)
	}
	return suggest.Unknown("value of "+k.Name, value, k.Values)
}

// KnobValues are the values of all knobs of a backend of which some are given; the others
// have their defaults.
func KnobValues(backend string, given map[string]string) map[string]string {
	values := map[string]string{}
	for _, k := range Describe(backend).Knobs {
		values[k.Name] = cmp.Or(given[k.Name], k.Default)
	}
	return values
}

// CheckKnobs is what is wrong with the values of a backend's knobs.
func CheckKnobs(backend string, values map[string]string) error {
	knobs := Describe(backend).Knobs
	for name, value := range values {
		at := slices.IndexFunc(knobs, func(k Knob) bool { return k.Name == name })
		if at < 0 {
			names := lists.Map(knobs, func(k Knob) string { return k.Name })
			return fmt.Errorf("backend %s has no knob %q (it has: %s)", backend, name, strings.Join(names, ", "))
		}
		if err := knobs[at].refused(value); err != nil {
			return fmt.Errorf("%s=%s: %w", name, value, err)
		}
	}
	return nil
}
