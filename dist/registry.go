package dist

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

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
	// DeviceMemory: what Alloc gives is the memory of a device, which the host cannot
	// reach: see [Buffer.Mirror].
	DeviceMemory bool
	// MaxBytes is the largest vector that a run takes which names no sizes, where
	// larger ones take too long; 0: as large as elsewhere.
	MaxBytes int64
}

// Shape is how the ranks of a backend come to be, and what its times depend on.
// The zero Shape is a process per rank, measured.
type Shape struct {
	// InProcess: all ranks of a group are goroutines of one process, and so on one host.
	InProcess bool
	// Simulated: its clock is simulated time, so that nothing else that this
	// host does changes what it says.
	Simulated bool
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

var backends = struct {
	sync.Mutex
	byName map[string]registered
}{byName: map[string]registered{}}

// Register makes a backend known; packages of backends call it when they are
// imported. Two of one name are a bug and panic.
func Register(d Description, b Backend) {
	backends.Lock()
	defer backends.Unlock()
	if _, twice := backends.byName[d.Name]; twice || d.Name == "" {
		panic("dist: duplicate or empty backend name " + d.Name)
	}
	backends.byName[d.Name] = registered{d, b}
}

// Backends lists the names of the backends this program was built with: that of
// the host first, the others sorted.
func Backends() []string {
	backends.Lock()
	defer backends.Unlock()
	return slices.SortedFunc(maps.Keys(backends.byName), func(a, b string) int {
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
	backends.Lock()
	defer backends.Unlock()
	d := backends.byName[backend].Description
	d.Name = backend
	return d
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
	backends.Lock()
	defer backends.Unlock()
	t, ok := backends.byName[backend].backend.(T)
	return t, ok
}

// Ender is a backend that has something to end before the process does.
type Ender interface{ End() error }

// End ends what backends hold for the whole process. A program that has joined
// groups calls it once all are closed, right before it ends; no group can be
// joined afterwards. Where nothing is held it does nothing.
func End() error {
	var faults []error
	for _, name := range Backends() {
		if e, ok := As[Ender](name); ok {
			faults = append(faults, e.End())
		}
	}
	return errors.Join(faults...)
}

func backendNamed(name string) (Backend, error) {
	backends.Lock()
	b := backends.byName[name].backend
	backends.Unlock()
	if b == nil {
		return nil, suggest.Unknown("backend", name, Backends())
	}
	return b, nil
}
