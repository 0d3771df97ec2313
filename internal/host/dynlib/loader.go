//go:build !nodl && linux

package dynlib

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// HasLoader reports whether this binary can open libraries.
const HasLoader = true

// load opens a library with global symbols, because the plug-ins of some libraries look up symbols
// of their host. The goroutine is locked to its thread, because dlerror returns the last error
// of the calling thread.
func load(name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func lookup(handle uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(handle, name)
}

// Call calls the function with integer and pointer arguments and returns its integer or pointer
// result. Pointers to Go memory must be converted to uintptr within the argument list, which
// keeps the memory alive and in place until the call returns. A C int is in the lower 32 bits
// of the result.
//
//go:uintptrescapes
func (f Func) Call(args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(uintptr(f), args...)
	return r
}

// Callback makes a C function that calls a Go function. Arguments are at most as large as a
// pointer. Callbacks are never freed and limited to a few thousand, so make each only once.
func Callback(fn any) Func { return Func(purego.NewCallback(fn)) }
