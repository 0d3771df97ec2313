package shm

import (
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The operations of futex(2). Without FUTEX_PRIVATE_FLAG they work across processes.
const (
	futexWait = 0
	futexWake = 1
)

// Park sleeps while *word == seen, at most for limit. The kernel compares and sleeps atomically, so a
// wake-up between the caller's check and the sleep is not lost. It may return early.
func Park(word *atomic.Uint32, seen uint32, limit time.Duration) {
	ts := unix.NsecToTimespec(int64(limit))
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(seen),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// Unpark wakes all threads, of any process, that sleep on word.
func Unpark(word *atomic.Uint32) {
	syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32, 0, 0, 0)
}

// Yield lets other goroutines and other processes use the core.
func Yield() {
	runtime.Gosched()
	yield()
}

// yield lets other processes use the core.
func yield() { syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
