// Package registry keeps the variants of one thing (partitioners, methods,
// problems) by name, so that a variant is one file with one call of Register and
// everything else (flags, help, validation, conformance tests) asks for the list.
//
// It holds values and words the error for an unknown name. It knows nothing of
// what the values are for.
package registry

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Registry is a set of values with distinct names. It is safe for concurrent use.
type Registry[T any] struct {
	what   string
	name   func(T) string
	mu     sync.Mutex
	values []T // by name
}

// New makes an empty registry. What is the noun of error messages, as in
// "unknown partitioner".
func New[T any](what string, name func(T) string) *Registry[T] {
	return &Registry[T]{what: what, name: name}
}

// Register adds a value. It panics when the name is empty or taken: that is a
// mistake in the program.
func (r *Registry[T]) Register(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.name(v)
	at, taken := slices.BinarySearchFunc(r.values, name, func(v T, n string) int { return cmp.Compare(r.name(v), n) })
	if name == "" || taken {
		panic(fmt.Sprintf("registry: %s %q: the name is empty or already registered", r.what, name))
	}
	r.values = slices.Insert(r.values, at, v)
}

// All lists the values in the order of their names.
func (r *Registry[T]) All() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.values)
}

// Names lists the names in order, of the values that keep accepts; nil accepts all.
func (r *Registry[T]) Names(keep func(T) bool) []string {
	var out []string
	for _, v := range r.All() {
		if keep == nil || keep(v) {
			out = append(out, r.name(v))
		}
	}
	return out
}

// Lookup finds a value by name. The error for an unknown one lists the names.
func (r *Registry[T]) Lookup(name string) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return suggest.Find(r.what, name, r.values, r.name)
}
