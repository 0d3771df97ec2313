package mpi

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/dist"
)

// heap is memory outside Go's. It is never given back to the kernel but used
// again, because libraries remember the addresses that they have made known to
// a network card.
type heap struct {
	mu   sync.Mutex
	used map[unsafe.Pointer][]byte
	idle map[int][][]byte // by length
}

// pageAligned is the kind of memory that Alloc gives.
type pageAligned struct{}

const pageBytes = 4096

func (h *heap) alloc(d dist.DType, count int) (dist.Buffer, error) {
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, pageAligned{}), nil
	}
	n := (count*d.Size() + pageBytes - 1) &^ (pageBytes - 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used == nil {
		h.used, h.idle = map[unsafe.Pointer][]byte{}, map[int][][]byte{}
	}
	var b []byte
	if old := h.idle[n]; len(old) > 0 {
		b, h.idle[n] = old[len(old)-1], old[:len(old)-1]
		clear(b)
	} else {
		var err error
		if b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return dist.Buffer{}, fmt.Errorf("mapping %d bytes: %w", n, err)
		}
	}
	at := unsafe.Pointer(unsafe.SliceData(b))
	h.used[at] = b
	return dist.NewBuffer(d, count, at, pageAligned{}), nil
}

func (h *heap) free(b dist.Buffer) error {
	if b.Count() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := unsafe.Pointer(unsafe.SliceData(b.Bytes()))
	memory, ours := h.used[at]
	if !ours {
		return fmt.Errorf("freeing %v: not memory that Alloc gave", b)
	}
	delete(h.used, at)
	h.idle[len(memory)] = append(h.idle[len(memory)], memory)
	return nil
}
