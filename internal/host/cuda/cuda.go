// Package cuda calls the NVIDIA driver (libcuda) without cgo and without a
// toolkit: devices and what they can do, memory and its sharing between
// processes, kernels from PTX, streams, events and graphs.
//
// It is a thin, typed layer. Every call that fails is an [Error] that names the
// driver's function and what the driver said. A context is current on an
// operating-system thread, and goroutines move between threads: [Context.Do]
// runs a function on a thread where the context is current, and everything that
// needs one is called inside it.
//
// What kernels there are and what they compute is other packages' matter.
package cuda

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// LibraryVariable names another file to open instead of the driver's own.
const LibraryVariable = "KERNBENCH_CUDA_LIB"

var library = dynlib.Declare(dynlib.Spec{Name: "NVIDIA driver", Sonames: []string{"libcuda.so.1"}, Env: LibraryVariable,
	Hint: "it comes with the GPU driver, version 525 or later"})

// Driver is the open driver. There is one in a process.
type Driver struct {
	lib *dynlib.Library
	// Version is that of the driver's interface: 13000 is 13.0.
	Version int

	f        functions
	blocks   blockFunctions
	noBlocks error // why there are none
}

// functions are the driver's, by their names in C without the prefix.
type functions struct {
	init, driverGetVersion                             dynlib.Func
	getErrorName, getErrorString                       dynlib.Func
	deviceGetCount, deviceGet, deviceGetName           dynlib.Func
	deviceTotalMem, deviceGetAttribute                 dynlib.Func
	deviceGetPCIBusID, deviceCanAccessPeer             dynlib.Func
	primaryCtxRetain, primaryCtxRelease, ctxSetCurrent dynlib.Func
	moduleLoadData, moduleGetFunction                  dynlib.Func
	occupancy, funcSetAttribute                        dynlib.Func
	memAlloc, memFree, memGetInfo                      dynlib.Func
	memHostAlloc, memFreeHost, memHostGetDevicePointer dynlib.Func
	copyToDevice, copyToHost, copyWithin, setBytes     dynlib.Func
	ipcGetMemHandle, ipcOpenMemHandle, ipcCloseMem     dynlib.Func
	launchKernel, launchCooperative, launchKernelEx    dynlib.Func
	streamCreate, streamDestroy, streamSynchronize     dynlib.Func
	streamCreateWithPriority                           dynlib.Func
	streamQuery, streamWaitEvent                       dynlib.Func
	eventCreate, eventDestroy, eventRecord             dynlib.Func
	eventQuery, eventElapsed                           dynlib.Func
	streamBeginCapture, streamEndCapture               dynlib.Func
	graphInstantiate, graphLaunch                      dynlib.Func
	graphExecDestroy, graphDestroy                     dynlib.Func
	tensorMapEncode                                    dynlib.Func
}

func (f *functions) table() map[string]*dynlib.Func {
	return map[string]*dynlib.Func{
		"cuInit": &f.init, "cuDriverGetVersion": &f.driverGetVersion,
		"cuGetErrorName": &f.getErrorName, "cuGetErrorString": &f.getErrorString,
		"cuDeviceGetCount": &f.deviceGetCount, "cuDeviceGet": &f.deviceGet, "cuDeviceGetName": &f.deviceGetName,
		"cuDeviceTotalMem_v2": &f.deviceTotalMem, "cuDeviceGetAttribute": &f.deviceGetAttribute,
		"cuDeviceGetPCIBusId": &f.deviceGetPCIBusID, "cuDeviceCanAccessPeer": &f.deviceCanAccessPeer,
		"cuDevicePrimaryCtxRetain": &f.primaryCtxRetain, "cuDevicePrimaryCtxRelease_v2": &f.primaryCtxRelease,
		"cuCtxSetCurrent":  &f.ctxSetCurrent,
		"cuModuleLoadData": &f.moduleLoadData, "cuModuleGetFunction": &f.moduleGetFunction,
		"cuOccupancyMaxActiveBlocksPerMultiprocessor": &f.occupancy, "cuFuncSetAttribute": &f.funcSetAttribute,
		"cuMemAlloc_v2": &f.memAlloc, "cuMemFree_v2": &f.memFree, "cuMemGetInfo_v2": &f.memGetInfo,
		"cuMemHostAlloc": &f.memHostAlloc, "cuMemFreeHost": &f.memFreeHost,
		"cuMemHostGetDevicePointer_v2": &f.memHostGetDevicePointer,
		"cuMemcpyHtoD_v2":              &f.copyToDevice, "cuMemcpyDtoH_v2": &f.copyToHost,
		"cuMemcpyDtoDAsync_v2": &f.copyWithin, "cuMemsetD8_v2": &f.setBytes,
		"cuIpcGetMemHandle": &f.ipcGetMemHandle, "cuIpcOpenMemHandle_v2": &f.ipcOpenMemHandle,
		"cuIpcCloseMemHandle": &f.ipcCloseMem,
		"cuLaunchKernel":      &f.launchKernel, "cuLaunchCooperativeKernel": &f.launchCooperative,
		"cuLaunchKernelEx":           &f.launchKernelEx,
		"cuStreamCreateWithPriority": &f.streamCreateWithPriority,
		"cuStreamCreate":             &f.streamCreate, "cuStreamDestroy_v2": &f.streamDestroy,
		"cuStreamSynchronize": &f.streamSynchronize,
		"cuStreamQuery":       &f.streamQuery, "cuStreamWaitEvent": &f.streamWaitEvent,
		"cuEventCreate": &f.eventCreate, "cuEventDestroy_v2": &f.eventDestroy, "cuEventRecord": &f.eventRecord,
		"cuEventQuery": &f.eventQuery, "cuEventElapsedTime": &f.eventElapsed,
		"cuStreamBeginCapture_v2": &f.streamBeginCapture, "cuStreamEndCapture": &f.streamEndCapture,
		"cuGraphInstantiateWithFlags": &f.graphInstantiate, "cuGraphLaunch": &f.graphLaunch,
		"cuGraphExecDestroy": &f.graphExecDestroy, "cuGraphDestroy": &f.graphDestroy,
		"cuTensorMapEncodeTiled": &f.tensorMapEncode,
	}
}

// Open opens the driver, once for the process. It is an error, with the reason,
// where there is none or no GPU.
var Open = sync.OnceValues(open)

func open() (*Driver, error) {
	lib, err := dynlib.Open(library)
	if err != nil {
		return nil, err
	}
	d := &Driver{lib: lib}
	if err := lib.Bind(d.f.table()); err != nil {
		return nil, fmt.Errorf("the driver is too old: %w", err)
	}
	d.noBlocks = lib.Bind(d.blocks.table())
	if err := d.check("cuInit", d.f.init.Call(0)); err != nil {
		return nil, err
	}
	version := new(int32)
	if err := d.check("cuDriverGetVersion", d.f.driverGetVersion.Call(uintptr(unsafe.Pointer(version)))); err != nil {
		return nil, err
	}
	d.Version = int(*version)
	lib.SetVersion(fmt.Sprintf("%d.%d", d.Version/1000, d.Version%1000/10))
	return d, nil
}

// String is the driver's name, version and file.
func (d *Driver) String() string { return d.lib.String() }

// Error is what the driver said of a call.
type Error struct {
	Call string // the driver's function
	Code int
	Name string // CUDA_ERROR_...
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%s)", e.Call, e.Text, e.Name) }

// The codes that callers tell apart.
const (
	codeNotReady       = 600
	firstStickyCode    = 700
	codeAlreadyEnabled = 704
	codeLaunchFailed   = 719
	CodeOutOfMemory    = 2
	CodeNoDevice       = 100
)

// Sticky tells whether the error has broken the context: every later call of the
// process will fail, whatever it does.
func Sticky(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code >= firstStickyCode && e.Code <= codeLaunchFailed && e.Code != codeAlreadyEnabled)
}

// Code is the driver's code of an error, 0 where it is none of the driver's.
func Code(err error) int {
	if e, is := errors.AsType[*Error](err); is {
		return e.Code
	}
	return 0
}

func (d *Driver) check(call string, result uintptr) error {
	code := int(int32(result))
	if code == 0 {
		return nil
	}
	return &Error{Call: call, Code: code, Name: d.text(d.f.getErrorName, code, "error"),
		Text: d.text(d.f.getErrorString, code, "unknown error")}
}

// text asks the driver for a name or description of a code.
func (d *Driver) text(f dynlib.Func, code int, otherwise string) string {
	at := new(uintptr)
	if f.Call(uintptr(code), uintptr(unsafe.Pointer(at))) != 0 || *at == 0 {
		return fmt.Sprintf("%s %d", otherwise, code)
	}
	return dynlib.String(*at)
}
