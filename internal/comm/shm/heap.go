package shm

import (
	"fmt"
	"slices"
	"sync"
)

const pageSize = 4096

// guardGap is the gap between allocations. It takes addresses but no memory, because nobody touches it. A core that
// reads an allocation to its end prefetches from the next page. If another rank wrote to that page, the two cores would
// compete for its first cache lines.
const guardGap = pageSize

// Heap allocates whole pages of a range of the segment. Its tables are private to the rank that owns the range; peers
// only get offsets.
type Heap struct {
	segment *Segment
	mu      sync.Mutex  // guards free and used
	free    []extent    // sorted by offset, never adjacent
	used    map[int]int // length of each allocation, by offset
}

type extent struct{ off, n int }

// NewHeap returns a heap that allocates from the n bytes of the segment that begin at off.
func NewHeap(s *Segment, off, n int) *Heap {
	return &Heap{segment: s, free: []extent{{off, n}}, used: map[int]int{}}
}

// Alloc returns the offset of n zeroed bytes. It takes the first free extent that is large enough.
func (h *Heap) Alloc(n int) (off int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = max(pageSize, (n+pageSize-1)&^(pageSize-1))
	for i, gap := range h.free {
		if gap.n < n {
			continue
		}
		n = min(n+guardGap, gap.n)
		h.used[gap.off] = n
		h.free[i] = extent{gap.off + n, gap.n - n}
		if gap.n == n {
			h.free = slices.Delete(h.free, i, i+1)
		}
		return gap.off, nil
	}
	return 0, fmt.Errorf("no %d bytes left in one piece of this rank's symmetric memory", n)
}

// Free releases the allocation at off and returns its memory to the system.
func (h *Heap) Free(off int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.used[off]
	if !ok {
		return fmt.Errorf("no allocation starts at offset %d of symmetric memory: it was freed before, or is part of one",
			off)
	}
	if err := h.segment.punch(off, n); err != nil {
		return fmt.Errorf("freeing %d bytes of symmetric memory: %w", n, err)
	}
	delete(h.used, off)
	i, _ := slices.BinarySearchFunc(h.free, off, func(e extent, off int) int { return e.off - off })
	h.free = slices.Insert(h.free, i, extent{off, n})
	if i+1 < len(h.free) && off+n == h.free[i+1].off {
		h.free[i].n += h.free[i+1].n
		h.free = slices.Delete(h.free, i+1, i+2)
	}
	if i > 0 && h.free[i-1].off+h.free[i-1].n == off {
		h.free[i-1].n += h.free[i].n
		h.free = slices.Delete(h.free, i, i+1)
	}
	return nil
}
