// Package registry stores the variants of one kind of thing by name: the
// partitioners, the backends, the output formats. A variant is one file with one
// call of Register. Flags, help, validation and conformance tests list the
// variants from the registry, so no other code names them.
//
// Every registry also enters itself in a catalogue, which [Kinds] returns, so that
// `kernbench list --all` can show all kinds and their variants.
package registry

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Entry is the part of a registered value that all kinds have in common.
type Entry struct {
	Name    string
	Help    string   // one line
	Aliases []string // further names that Lookup accepts
}

// Registry is a set of values with distinct names. It is safe for concurrent use.
type Registry[T any] struct {
	noun    string
	entry   func(T) Entry
	ordered bool

	mu     sync.RWMutex // guards the fields below
	values []T          // as All returns them
	byName map[string]T // aliases included
}

// New returns an empty registry that lists its values by name. The noun names one
// value in messages, as in "unknown partitioner"; entry describes a value.
func New[T any](noun string, entry func(T) Entry) *Registry[T] {
	r := &Registry[T]{noun: noun, entry: entry, byName: map[string]T{}}
	catalogue.Lock()
	defer catalogue.Unlock()
	catalogue.kinds = append(catalogue.kinds, Kind{noun, r.entries})
	return r
}

// NewOrdered is New for a registry that lists its values in the order of
// registration, for kinds whose first value is the default.
func NewOrdered[T any](noun string, entry func(T) Entry) *Registry[T] {
	r := New(noun, entry)
	r.ordered = true
	return r
}

// Register adds a value. It is usually called from an init function, and panics if
// the name or an alias is empty or taken, because that is a mistake in the program.
func (r *Registry[T]) Register(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(v)
	for _, name := range append([]string{e.Name}, e.Aliases...) {
		if name == "" {
			panic(fmt.Sprintf("registry: a %s has an empty name or alias", r.noun))
		}
		if _, taken := r.byName[name]; taken {
			panic(fmt.Sprintf("registry: %s %q is already registered", r.noun, name))
		}
		r.byName[name] = v
	}
	r.values = append(r.values, v)
	if !r.ordered {
		slices.SortFunc(r.values, func(a, b T) int { return cmp.Compare(r.entry(a).Name, r.entry(b).Name) })
	}
}

// All returns the values, in the order of the registry.
func (r *Registry[T]) All() []T {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.values)
}

// Names returns the names of the values, in the order of the registry.
func (r *Registry[T]) Names() []string { return r.NamesWhere(func(T) bool { return true }) }

// NamesWhere returns the names of the values for which keep returns true.
func (r *Registry[T]) NamesWhere(keep func(T) bool) []string {
	return lists.Map(lists.Filter(r.All(), keep), func(v T) string { return r.entry(v).Name })
}

// Lookup finds a value by its name or an alias. The error for an unknown name
// suggests the nearest one and lists them all.
func (r *Registry[T]) Lookup(name string) (T, error) {
	v, known := r.Find(name)
	if !known {
		return v, suggest.Unknown(r.noun, name, r.Names())
	}
	return v, nil
}

// Find is Lookup for callers that need no error.
func (r *Registry[T]) Find(name string) (v T, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v, known = r.byName[name]
	return v, known
}

func (r *Registry[T]) entries() []Entry { return lists.Map(r.All(), r.entry) }

// Kind is one registry of the program.
type Kind struct {
	Noun    string // of one value: "partitioner"
	Entries func() []Entry
}

var catalogue struct {
	sync.Mutex
	kinds []Kind
}

// Kinds returns the registries of the program, sorted by noun.
func Kinds() []Kind {
	catalogue.Lock()
	defer catalogue.Unlock()
	return slices.SortedFunc(slices.Values(catalogue.kinds), func(a, b Kind) int { return cmp.Compare(a.Noun, b.Noun) })
}
