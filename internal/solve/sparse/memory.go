package sparse

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// NewVector returns n zeros, on huge pages if the system has them.
func NewVector[T any](n int) []T { return onHugePages(make([]T, n)) }

const hugePage = 2 << 20

// onHugePages asks the system for huge pages behind memory that nobody has touched yet, and returns it. A solve reads
// several arrays at once, a few rows of each at a time. With small pages it waits for an address translation whenever
// one of them reaches a new page, and the processor prefetches only within a page.
func onHugePages[T any](v []T) []T {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(*new(T))))
	begin := int(-uintptr(unsafe.Pointer(unsafe.SliceData(bytes))) % hugePage)
	if length := (len(bytes) - begin) / hugePage * hugePage; length > 0 {
		_ = unix.Madvise(bytes[begin:begin+length], unix.MADV_HUGEPAGE) // only a hint; small pages work too
	}
	return v
}
