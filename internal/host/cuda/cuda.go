// Package cuda calls the NVIDIA driver (libcuda) without cgo and without a
// toolkit: devices and their attributes, memory and its sharing between
// processes, kernels from PTX, streams, events and graphs.
//
// It is a thin, typed layer. A call that fails returns an [Error] with the
// driver's function and message. A context is current on an operating-system
// thread, and goroutines move between threads. [Context.Do] therefore runs a
// function on a thread where the context is current, and everything that needs a
// context must be called inside it.
//
// The kernels themselves are in other packages.
package cuda

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// LibraryVariable names the environment variable with another file to open instead of libcuda.
const LibraryVariable = "KERNBENCH_CUDA_LIB"

var library = dynlib.Register(dynlib.Spec{Name: "NVIDIA driver", Sonames: []string{"libcuda.so.1"},
	Env:  LibraryVariable,
	Hint: "it comes with the GPU driver, version 525 or later"})

// Driver is the open driver. There is one per process.
type Driver struct {
	lib *dynlib.Library
	// Version is the version of the driver's interface: 13000 means 13.0.
	Version int

	functions map[string]dynlib.Func // by their names in C
	noBlocks  error                  // why blockFunctions are missing, if they are
}

// requiredFunctions are the functions that every supported driver has.
const requiredFunctions = `
	cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString
	cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceTotalMem_v2 cuDeviceGetAttribute
	cuDeviceGetPCIBusId cuDeviceCanAccessPeer
	cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuCtxSetCurrent cuCtxEnablePeerAccess
	cuModuleLoadData cuModuleGetFunction cuOccupancyMaxActiveBlocksPerMultiprocessor cuFuncSetAttribute
	cuMemAlloc_v2 cuMemFree_v2 cuMemGetInfo_v2 cuMemHostAlloc cuMemFreeHost cuMemHostGetDevicePointer_v2
	cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoDAsync_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemsetD8_v2
	cuIpcGetMemHandle cuIpcOpenMemHandle_v2 cuIpcCloseMemHandle
	cuLaunchKernel cuLaunchCooperativeKernel cuLaunchKernelEx
	cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize cuStreamQuery cuStreamWaitEvent
	cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventQuery cuEventElapsedTime
	cuStreamBeginCapture_v2 cuStreamEndCapture
	cuGraphInstantiateWithFlags cuGraphLaunch cuGraphExecDestroy cuGraphDestroy
	cuTensorMapEncodeTiled`

// blockFunctions are the functions for [Block]s. Drivers before 12.1 lack some of them.
const blockFunctions = `
	cuMemCreate cuMemRelease cuMemExportToShareableHandle cuMemImportFromShareableHandle
	cuMemAddressReserve cuMemAddressFree cuMemMap cuMemUnmap cuMemSetAccess
	cuMulticastCreate cuMulticastAddDevice cuMulticastBindMem cuMulticastUnbind cuMulticastGetGranularity`

// Open opens the driver, once per process. The error says why there is no driver or no GPU.
var Open = sync.OnceValues(open)

func open() (*Driver, error) {
	lib, err := dynlib.Open(library)
	if err != nil {
		return nil, err
	}
	d := &Driver{lib: lib, functions: map[string]dynlib.Func{}}
	if err := d.bind(requiredFunctions); err != nil {
		return nil, fmt.Errorf("the driver is too old: %w", err)
	}
	d.noBlocks = d.bind(blockFunctions)
	if err := d.call("cuInit", 0); err != nil {
		return nil, err
	}
	version := new(int32)
	if err := d.call("cuDriverGetVersion", uintptr(unsafe.Pointer(version))); err != nil {
		return nil, err
	}
	d.Version = int(*version)
	lib.SetVersion(fmt.Sprintf("%d.%d", d.Version/1000, d.Version%1000/10))
	return d, nil
}

// bind looks up functions by name, all or none of them.
func (d *Driver) bind(names string) error {
	table := map[string]*dynlib.Func{}
	for _, name := range strings.Fields(names) {
		table[name] = new(dynlib.Func)
	}
	if err := d.lib.Bind(table); err != nil {
		return err
	}
	for name, f := range table {
		d.functions[name] = *f
	}
	return nil
}

// call calls a function of the driver and turns its result into an error. Pointers to Go memory
// must be converted in the argument list, which keeps the memory alive until the call returns.
//
//go:uintptrescapes
func (d *Driver) call(name string, args ...uintptr) error {
	return d.check(name, d.result(name, args...))
}

// result calls a function and returns its result code.
//
//go:uintptrescapes
func (d *Driver) result(name string, args ...uintptr) uintptr {
	f, ok := d.functions[name]
	if !ok {
		panic("cuda: " + name + " is not bound")
	}
	return f.Call(args...)
}

// String returns the driver's name, version and file.
func (d *Driver) String() string { return d.lib.String() }

// Error is a failed call of the driver.
type Error struct {
	Call string // the driver's function, without a version suffix
	Code int
	Name string // CUDA_ERROR_...
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%s)", e.Call, e.Text, e.Name) }

// Error codes of the driver.
const (
	codeNotReady       = 600
	firstStickyCode    = 700
	codeAlreadyEnabled = 704
	codeLaunchFailed   = 719
	CodeOutOfMemory    = 2
	CodeNoDevice       = 100
)

// Sticky reports whether the error has corrupted the context, so that every later call of this
// process will fail.
func Sticky(err error) bool {
	code := Code(err)
	return code >= firstStickyCode && code <= codeLaunchFailed && code != codeAlreadyEnabled
}

// Code returns the driver's code of an error, or 0 if the driver did not cause it.
func Code(err error) int {
	if e, is := errors.AsType[*Error](err); is {
		return e.Code
	}
	return 0
}

// check turns the result code of a function into an error.
func (d *Driver) check(name string, result uintptr) error {
	code := int(int32(result))
	if code == 0 {
		return nil
	}
	return &Error{Call: strings.TrimSuffix(name, "_v2"), Code: code, Name: d.describe("cuGetErrorName", code, "error"),
		Text: d.describe("cuGetErrorString", code, "unknown error")}
}

// describe asks the driver for the name or the description of an error code.
func (d *Driver) describe(function string, code int, fallback string) string {
	at := new(uintptr)
	if d.result(function, uintptr(code), uintptr(unsafe.Pointer(at))) != 0 || *at == 0 {
		return fmt.Sprintf("%s %d", fallback, code)
	}
	return dynlib.String(*at)
}

// Folders lists where NVIDIA's other libraries may be installed: the toolkit's folders, and the
// folders of NVIDIA's Python packages. pip is the name of such a package, such as nccl.
func Folders(pip string) []string {
	list := []string{"$CUDA_HOME/lib64", "$CUDA_PATH/lib64"}
	for _, site := range []string{"$VIRTUAL_ENV/lib/python3*/site-packages", "$CONDA_PREFIX/lib/python3*/site-packages",
		"$PATH/../lib/python3*/site-packages", "$PATH/../lib/python3*/dist-packages",
		"$HOME/.local/lib/python3*/site-packages"} {
		list = append(list, fmt.Sprintf("%s/nvidia/%s/lib", site, pip), site+"/nvidia/cu[0-9]*/lib")
	}
	return append(list, "$CONDA_PREFIX/lib", "/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/opt/cuda/lib64")
}

// Count returns how many GPUs this process may use, without opening the driver. 0 means unknown.
func Count(lookup func(string) (string, bool)) int {
	if visible, set := lookup("CUDA_VISIBLE_DEVICES"); set && visible != "" {
		return len(strings.Split(visible, ","))
	}
	files, _ := filepath.Glob("/dev/nvidia[0-9]*")
	return len(files)
}
