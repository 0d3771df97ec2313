//go:build !nodl && linux

package dynlib

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// HasLoader tells whether this binary can open libraries.
const HasLoader = true

// load opens a library for the whole process: the plug-ins of some libraries
// look for their host's symbols there.
// The reason of a failure is kept by the thread that failed, so that is the one to ask.
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

// Call calls the function with integer and pointer arguments and returns its
// integer or pointer result. Pointers to Go memory must be converted in the
// argument list itself; that keeps the memory alive until the call returns. A C
// int is the result's lower 32 bits.
//
//go:uintptrescapes
func (f Func) Call(args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(uintptr(f), args...)
	return r
}

// Callback gives C a Go function to call, with arguments of at most a pointer's
// size. It is never freed, and there are a few thousand in all: make it once.
func Callback(fn any) Func { return Func(purego.NewCallback(fn)) }
