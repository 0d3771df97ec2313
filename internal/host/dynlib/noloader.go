//go:build nodl || !linux

package dynlib

// HasLoader reports whether this binary can open libraries.
const HasLoader = false

func load(string) (uintptr, error) { return 0, ErrNoLoader }

func lookup(uintptr, string) (uintptr, error) { return 0, ErrNoLoader }

// Call panics: without a loader there are no functions.
func (f Func) Call(...uintptr) uintptr { panic("dynlib: " + ErrNoLoader.Error()) }

// Callback panics: without a loader there is no C code to call it.
func Callback(any) Func { panic("dynlib: " + ErrNoLoader.Error()) }
