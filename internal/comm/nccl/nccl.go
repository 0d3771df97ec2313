// Package nccl calls NCCL's C interface without cgo: it opens the library, creates communicators and
// starts operations on a stream of package cuda. RCCL has the same functions for AMD's GPUs, but has
// not been tried.
//
// Communicators are non-blocking: the caller polls [Comm.State] for the progress of a request, so that it can react to
// other events and end the request with [Comm.Abort]. This package does not check its arguments and has no process
// groups; see dist/nccl.
package nccl

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// LibraryVariable names the environment variable that contains the file to open instead of NCCL.
const LibraryVariable = "KERNBENCH_NCCL_LIB"

var spec = dynlib.Register(dynlib.Spec{Name: "NCCL", Sonames: []string{"libnccl.so.2"}, Env: LibraryVariable,
	Folders: cuda.Folders("nccl"),
	Hint:    "version 2.14 or later; PyTorch brings it, and so does pip's nvidia-nccl-cu13", Version: version})

// oldest is the first version with non-blocking communicators.
const oldest = 21400

// Library is the open library. There is one per process.
type Library struct {
	lib *dynlib.Library
	f   functions
}

type functions struct {
	getUniqueID, getErrorString, getLastError           dynlib.Func
	commInit, commAbort, commDestroy, commGetAsyncError dynlib.Func
	allReduce, broadcast, reduce                        dynlib.Func
	allGather, reduceScatter, send, recv                dynlib.Func
	groupStart, groupEnd                                dynlib.Func
}

func (f *functions) table() map[string]*dynlib.Func {
	return map[string]*dynlib.Func{
		"ncclGetUniqueId": &f.getUniqueID, "ncclGetErrorString": &f.getErrorString, "ncclGetLastError": &f.getLastError,
		"ncclCommInitRankConfig": &f.commInit, "ncclCommAbort": &f.commAbort, "ncclCommDestroy": &f.commDestroy,
		"ncclCommGetAsyncError": &f.commGetAsyncError,
		"ncclAllReduce":         &f.allReduce, "ncclBroadcast": &f.broadcast, "ncclReduce": &f.reduce,
		"ncclAllGather": &f.allGather, "ncclReduceScatter": &f.reduceScatter, "ncclSend": &f.send, "ncclRecv": &f.recv,
		"ncclGroupStart": &f.groupStart, "ncclGroupEnd": &f.groupEnd,
	}
}

// Open opens the library, once per process.
var Open = sync.OnceValues(open)

func open() (*Library, error) {
	lib, err := dynlib.Open(spec)
	if err != nil {
		return nil, err
	}
	text, err := version(lib)
	if err != nil {
		return nil, err
	}
	lib.SetVersion(text)
	l := &Library{lib: lib}
	if err := lib.Bind(l.f.table()); err != nil {
		return nil, fmt.Errorf("%v is too old, want 2.14 or later: %w", lib, err)
	}
	return l, nil
}

// version returns the library's version: 22809 means 2.28.9; before 2.9, 2804 meant 2.8.4.
func version(lib *dynlib.Library) (string, error) {
	var get dynlib.Func
	if err := lib.Bind(map[string]*dynlib.Func{"ncclGetVersion": &get}); err != nil {
		return "", err
	}
	lib.SetFile(dynlib.FileOf(get))
	v := new(int32)
	if code := int32(get.Call(uintptr(unsafe.Pointer(v)))); code != 0 {
		return "", fmt.Errorf("%v: ncclGetVersion gave %d", lib, code)
	}
	thousands := int32(10_000)
	if *v < thousands {
		thousands = 1000
	}
	return fmt.Sprintf("%d.%d.%d", *v/thousands, *v%thousands/100, *v%100), nil
}

// String returns the library's name, version and file.
func (l *Library) String() string { return l.lib.String() }

// Error is a failed call of the library.
type Error struct {
	Call string
	Code int
	Text string // the library's text for the code
	Last string // the library's last error message, "" if there is none
}

func (e *Error) Error() string {
	if e.Last == "" {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Text, e.Code, e.Last)
}

// ErrInProgress is the state of a communicator that has not finished a request yet.
var ErrInProgress = errors.New("in progress")

const codeInProgress = 7

// check turns the result of a call into an error. comm is the communicator's handle, or 0 if there is
// none yet.
func (l *Library) check(call string, comm, result uintptr) error {
	code := int(int32(result))
	switch code {
	case 0:
		return nil
	case codeInProgress:
		return ErrInProgress
	}
	return &Error{call, code, dynlib.String(l.f.getErrorString.Call(uintptr(code))),
		dynlib.String(l.f.getLastError.Call(comm))}
}

// ID identifies a new communicator to the ranks that will create it.
type ID [128]byte

// NewID creates an ID, which must be passed to all ranks.
func (l *Library) NewID() (ID, error) {
	id := new(ID)
	err := l.check("ncclGetUniqueId", 0, l.f.getUniqueID.Call(uintptr(unsafe.Pointer(id))))
	return *id, err
}
