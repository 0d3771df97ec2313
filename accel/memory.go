package accel

import (
	"fmt"
	"slices"
	"sort"

	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// memory is the contents of the HBM.
type memory struct {
	topo    *Topology
	regions map[PEID][]region // allocated ranges by PE, in order of their offsets
	empty   int               // number of ranges that were not written since Empty
}

// region is an allocated range of a PE's HBM.
type region struct {
	offset int64 // in the HBM of the PE
	bytes  []byte
	empty  []gap // bytes without contents, in order
}

// gap is a range of bytes of a region that were not written since Empty.
type gap struct{ from, to int64 }

// alignment is a multiple of the channel interleaving, so that every allocation starts on the first HBM
// channel and transfers of equal size take equal time.
const alignment = 4096

// redZone is the minimum distance between two allocations, in bytes. An access that is off by one row then fails
// instead of reaching the next allocation.
const redZone = 4096

// alloc allocates bytes after the last allocation of a PE, with a gap of at least redZone bytes. Memory is never freed.
func (m *memory) alloc(id PEID, bytes int64) (topo.Address, []byte, error) {
	list := m.regions[id]
	var offset int64
	if len(list) > 0 {
		last := list[len(list)-1]
		end := last.offset + int64(len(last.bytes))
		offset = (end + redZone + alignment - 1) / alignment * alignment
	}
	if end := offset + bytes; end > m.topo.HBMSlice() {
		return 0, nil, fmt.Errorf("the HBM of %v is full: %d bytes are needed, it has %d", id, end, m.topo.HBMSlice())
	}
	addr, err := m.topo.Address(topo.Location{PEID: id, Space: topo.HBMSpace, Offset: offset})
	if err != nil {
		return 0, nil, err
	}
	r := region{offset: offset, bytes: make([]byte, bytes)}
	m.regions[id] = append(list, r)
	return addr, r.bytes, nil
}

// region returns the region that contains n bytes at an address, and the position of the first one in it.
func (m *memory) region(at topo.Address, n int64) (*region, int64, error) {
	l, err := m.topo.Locate(at)
	if err != nil {
		return nil, 0, err
	}
	list := m.regions[l.PEID]
	i := sort.Search(len(list), func(i int) bool { return list[i].offset > l.Offset }) - 1
	if i < 0 {
		return nil, 0, fmt.Errorf("%d bytes at %v were not allocated", n, l)
	}
	first, size := l.Offset-list[i].offset, int64(len(list[i].bytes))
	switch start := (topo.Location{PEID: l.PEID, Space: l.Space, Offset: list[i].offset}); {
	case first+n <= size:
		return &list[i], first, nil
	case first < size:
		return nil, 0, fmt.Errorf("%d bytes at %v reach beyond the %d bytes that were allocated at %v", n, l, size, start)
	default:
		return nil, 0, fmt.Errorf("%d bytes at %v were not allocated: the %d bytes at %v end before", n, l, size, start)
	}
}

// Range implements program.Memory.
func (m *memory) Range(at topo.Address, n int) ([]byte, error) {
	r, first, err := m.region(at, int64(n))
	if err != nil {
		return nil, err
	}
	return r.bytes[first : first+int64(n)], nil
}

// Allocated implements sanitize.Memory.
func (m *memory) Allocated(at topo.Address, n int64) error {
	_, _, err := m.region(at, n)
	return err
}

// Initialized implements sanitize.Memory.
func (m *memory) Initialized(at topo.Address, n int64) bool {
	r, first, err := m.region(at, n)
	return err == nil && !slices.ContainsFunc(r.empty, func(g gap) bool { return g.from < first+n && first < g.to })
}

// allocation is a sanitize.Memory in which all allocated memory counts as initialized.
type allocation struct{ *memory }

func (allocation) Initialized(topo.Address, int64) bool { return true }

// markUninitialized marks the last allocation of a PE as not initialized.
func (m *memory) markUninitialized(id PEID) {
	list := m.regions[id]
	last := &list[len(list)-1]
	last.empty = []gap{{0, int64(len(last.bytes))}}
	m.empty++
}

// markInitialized marks n bytes at an address as initialized.
func (m *memory) markInitialized(at topo.Address, n int64) {
	r, first, err := m.region(at, n)
	if err != nil || len(r.empty) == 0 {
		return
	}
	var left []gap
	for _, g := range r.empty {
		for _, part := range []gap{{g.from, min(g.to, first)}, {max(g.from, first+n), g.to}} {
			if part.from < part.to {
				left = append(left, part)
			}
		}
	}
	m.empty += len(left) - len(r.empty)
	r.empty = left
}

// markWritten marks all memory that the programs write as initialized.
func (m *memory) markWritten(programs []*program.Program) {
	for _, p := range programs {
		for i := range p.Ops {
			switch op := &p.Ops[i]; op.Kind {
			case program.Store:
				m.markInitialized(op.Addr, int64(op.Bytes()))
			case program.Composite:
				m.markInitialized(op.Gemm.Out, int64(op.Bytes()))
			}
		}
	}
}
