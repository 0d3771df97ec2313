package gemm

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A buffer is memory for packed operands. It uses huge pages if the system has them, because packing and tiles access
// many rows at once, each of which would need its own page otherwise.
type buffer struct{ mem []byte }

const hugePage = 2 << 20

// grow makes the buffer at least n bytes long. The previous content is lost.
func (b *buffer) grow(n int) error {
	if n <= len(b.mem) {
		return nil
	}
	b.free()
	n = roundUp(n, hugePage)
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("getting %d bytes to pack operands: %w", n, err)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // only a hint; small pages work too
	b.mem = mem
	return nil
}

func (b *buffer) at(offset int) unsafe.Pointer { return unsafe.Pointer(&b.mem[offset]) }

func (b *buffer) free() {
	if b.mem != nil {
		_ = unix.Munmap(b.mem) // fails only if this is not a mapping
	}
	b.mem = nil
}
