package dist

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/comm/hints"
)

// registered is a backend with its description.
type registered struct {
	Description
	backend Backend
}

var backends = registry.New("backend", func(r registered) registry.Entry {
	return registry.Entry{Name: r.Name, Help: r.Help}
})

// Register makes a backend known by its name. Packages of backends call it from init. It panics if the name is taken.
func Register(d Description, b Backend) { backends.Register(registered{d, b}) }

// Backends lists the names of the registered backends that match accepts, or all of them if match is nil. Backend
// cpu is first, because it is the default; the others are sorted.
func Backends(match func(Description) bool) []string {
	names := slices.DeleteFunc(backends.Names(), func(name string) bool {
		return match != nil && !match(Describe(name))
	})
	slices.SortFunc(names, func(a, b string) int {
		switch hints.HostBackend {
		case a:
			return -1
		case b:
			return 1
		}
		return cmp.Compare(a, b)
	})
	return names
}

// Describe returns what a backend has declared, or a Description with only the name if no such backend is registered.
func Describe(backend string) Description {
	r, _ := backends.Find(backend)
	r.Name = backend
	if b, ok := r.backend.(interface{ Capabilities() Capabilities }); ok {
		r.Capabilities = b.Capabilities()
	}
	return r.Description
}

// As returns a backend as a T, an interface that only some backends implement.
func As[T any](backend string) (T, bool) {
	r, _ := backends.Find(backend)
	t, ok := r.backend.(T)
	return t, ok
}

// EngineAs returns the engine of a group as a T, an interface that only some engines implement.
func EngineAs[T any](g *Group) (T, bool) {
	t, ok := g.engine.(T)
	return t, ok
}

// End releases the resources that backends hold for the whole process: it closes every backend that implements
// io.Closer. A program that has joined groups calls End once, after it has closed all of them and before it exits. No
// group can be joined after that.
func End() error {
	var faults []error
	for _, name := range Backends(nil) {
		if c, ok := As[io.Closer](name); ok {
			faults = append(faults, c.Close())
		}
	}
	return errors.Join(faults...)
}
