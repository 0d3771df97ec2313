package dist

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Backend makes groups whose data moves in one certain way.
type Backend interface {
	// Join meets the other ranks and returns once all have come.
	Join(ctx context.Context, c Config) (Engine, error)
}

// Engine is a backend's end of one group. Its methods are called one at a time,
// except that what Prepare returns for sends and receives runs beside the rest.
type Engine interface {
	Rank() int
	Size() int
	Capabilities() Capabilities
	// Alloc is a collective call.
	Alloc(d DType, count int) (Buffer, error)
	// Free gives back what Alloc gave. Other buffers are an error.
	Free(b Buffer) error
	// Prepare does beforehand whatever the call needs at every run. The function
	// it returns allocates nothing.
	Prepare(p Plan) (run func() error, err error)
	// Refuse fails the group: this rank cannot make the call that the others
	// may be waiting for.
	Refuse(reason error)
	// Split is a collective call; a negative color joins no group and gives nil.
	Split(color, key int) (Engine, error)
	Clock() Clock
	Close() error
}

// Clock is the time to measure the group's work with: integer picoseconds from
// an arbitrary start. A deterministic clock gives the same duration every time.
type Clock interface {
	Now() int64
	Deterministic() bool
	Name() string
}

// Capabilities says what a backend can do. What is not listed is an error.
type Capabilities struct {
	Ops        []Collective
	DTypes     []DType
	Reductions []Reduction
	Algorithms map[Collective][]string // without "auto"; none for an operation that offers no choice
	Symmetric  bool                    // Alloc gives memory that all ranks reach
	Epilogue   bool
	Codec      bool
	// RanksRound tells that ranks add up in orders of their own, so that sums which
	// are not exact may differ between them in the last bit.
	RanksRound bool
	Library    string // with its version, where a library does the work
}

// fitting leaves out the algorithms that a group of a size cannot do.
func (c Capabilities) fitting(size int) Capabilities {
	list := maps.Clone(c.Algorithms)
	for op, names := range list {
		list[op] = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return unfit(op, name, size) != nil })
	}
	c.Algorithms = list
	return c
}

// unfit is why an algorithm is not for a number of ranks. What is no schedule is
// the backend's to refuse.
func unfit(op Collective, algorithm string, size int) error {
	if !slices.Contains(Algorithms(op), algorithm) {
		return nil
	}
	return schedule.Fits(string(op), algorithm, size)
}

var backends = struct {
	sync.Mutex
	byName map[string]Backend
}{byName: map[string]Backend{}}

// Register makes a backend known by name; packages of backends call it when they
// are imported. Two of one name are a bug and panic.
func Register(name string, b Backend) {
	backends.Lock()
	defer backends.Unlock()
	if backends.byName[name] != nil {
		panic("dist: two backends named " + name)
	}
	backends.byName[name] = b
}

// Backends lists the names of the backends this program was built with.
func Backends() []string {
	backends.Lock()
	defer backends.Unlock()
	return slices.Sorted(maps.Keys(backends.byName))
}

// Ender is a backend that has something to end before the process does.
type Ender interface{ End() error }

// End ends what backends hold for the whole process. A program that has joined
// groups calls it once all are closed, right before it ends; no group can be
// joined afterwards. Where nothing is held it does nothing.
func End() error {
	backends.Lock()
	defer backends.Unlock()
	var faults []error
	for _, b := range backends.byName {
		if e, ok := b.(Ender); ok {
			faults = append(faults, e.End())
		}
	}
	return errors.Join(faults...)
}

func backendNamed(name string) (Backend, error) {
	backends.Lock()
	b := backends.byName[name]
	backends.Unlock()
	if b == nil {
		return nil, suggest.Unknown("backend", name, Backends())
	}
	return b, nil
}
