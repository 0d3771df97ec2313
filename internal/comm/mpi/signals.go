package mpi

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// needed are the signals that Go's runtime uses for panics, profiling and preemption. Libraries under
// MPI replace some of their handlers to print a backtrace.
var needed = []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT,
	unix.SIGURG, unix.SIGPROF, unix.SIGPIPE}

// action is the kernel's struct sigaction. It is only saved and restored.
type action [4]uint64

// keepSignals returns a function that restores Go's current signal handlers.
func keepSignals() (restore func()) {
	const maskBytes = 8
	before := make([]action, len(needed))
	for i, s := range needed {
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), 0, uintptr(unsafe.Pointer(&before[i])), maskBytes, 0, 0)
	}
	return func() {
		for i, s := range needed {
			unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&before[i])), 0, maskBytes, 0, 0)
		}
	}
}
