//go:build nodl || !linux

package dynlib

// HasLoader tells whether this binary can open libraries.
const HasLoader = false

func load(string) (uintptr, error) { return 0, ErrNoLoader }

func lookup(uintptr, string) (uintptr, error) { return 0, ErrNoLoader }

// Call has nothing to call: no Func can have been bound.
func (f Func) Call(...uintptr) uintptr { panic("dynlib: " + ErrNoLoader.Error()) }

// Callback cannot be called by anything.
func Callback(any) Func { panic("dynlib: " + ErrNoLoader.Error()) }
