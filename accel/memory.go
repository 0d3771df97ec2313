package accel

import (
	"fmt"
	"slices"
	"sort"

	"github.com/kernbench/kernbench/accel/tl"
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
	offset int64 // in the HBM of the PE, in bytes
	cells  []Float16
	empty  []gap // elements without contents, in order
}

// gap is a range of elements of a region that were not written since Empty.
type gap struct{ from, to int }

// alignment is a multiple of the channel interleaving, so that every allocation starts on the first HBM
// channel and transfers of equal size take equal time.
const alignment = 4096

// alloc allocates n elements behind the last allocation of a PE. Nothing is ever freed.
func (m *memory) alloc(id PEID, n int) (tl.Ptr, []Float16, error) {
	list := m.regions[id]
	var offset int64
	if len(list) > 0 {
		last := list[len(list)-1]
		end := last.offset + int64(len(last.cells))*tl.ElemSize
		offset = (end + alignment - 1) / alignment * alignment
	}
	if end := offset + int64(n)*tl.ElemSize; end > m.topo.HBMSlice() {
		return 0, nil, fmt.Errorf("the HBM of %v is full: %d bytes are needed, it has %d", id, end, m.topo.HBMSlice())
	}
	addr, err := m.topo.Address(topo.Location{PEID: id, Space: topo.HBMSpace, Offset: offset})
	if err != nil {
		return 0, nil, err
	}
	r := region{offset: offset, cells: make([]Float16, n)}
	m.regions[id] = append(list, r)
	return tl.Ptr(addr), r.cells, nil
}

// region returns the region that contains n elements at an address, and the index of the first one.
func (m *memory) region(at topo.Address, n int) (*region, int, error) {
	l, err := m.topo.Locate(at)
	if err != nil {
		return nil, 0, err
	}
	list := m.regions[l.PEID]
	i := sort.Search(len(list), func(i int) bool { return list[i].offset > l.Offset }) - 1
	if i >= 0 {
		if first := int(l.Offset-list[i].offset) / tl.ElemSize; first+n <= len(list[i].cells) {
			return &list[i], first, nil
		}
	}
	return nil, 0, fmt.Errorf("%d elements at %v were not allocated", n, l)
}

// Range implements program.Memory.
func (m *memory) Range(at topo.Address, n int) ([]Float16, error) {
	r, first, err := m.region(at, n)
	if err != nil {
		return nil, err
	}
	return r.cells[first : first+n], nil
}

// Allocated implements sanitize.Memory.
func (m *memory) Allocated(at topo.Address, n int64) error {
	_, _, err := m.region(at, int(n/tl.ElemSize))
	return err
}

// Initialized implements sanitize.Memory.
func (m *memory) Initialized(at topo.Address, n int64) bool {
	r, first, err := m.region(at, int(n/tl.ElemSize))
	return err == nil && !slices.ContainsFunc(r.empty, func(g gap) bool {
		return g.from < first+int(n/tl.ElemSize) && first < g.to
	})
}

// allocation checks what is allocated and takes all of it as initialized.
type allocation struct{ *memory }

func (allocation) Initialized(topo.Address, int64) bool { return true }

// forget marks the last allocation of a PE, of n elements, as not initialized.
func (m *memory) forget(id PEID, n int) {
	list := m.regions[id]
	list[len(list)-1].empty = []gap{{0, n}}
	m.empty++
}

// fill marks n bytes at an address as initialized.
func (m *memory) fill(at topo.Address, n int64) {
	r, first, err := m.region(at, int(n/tl.ElemSize))
	if err != nil || len(r.empty) == 0 {
		return
	}
	last := first + int(n/tl.ElemSize)
	var left []gap
	for _, g := range r.empty {
		for _, part := range []gap{{g.from, min(g.to, first)}, {max(g.from, last), g.to}} {
			if part.from < part.to {
				left = append(left, part)
			}
		}
	}
	m.empty += len(left) - len(r.empty)
	r.empty = left
}

// written marks as initialized what programs write.
func (m *memory) written(programs []*program.Program) {
	for _, p := range programs {
		for i := range p.Ops {
			switch op := &p.Ops[i]; op.Kind {
			case program.Store:
				m.fill(op.Addr, int64(op.Bytes()))
			case program.Composite:
				m.fill(op.Gemm.Out, int64(op.Gemm.M*op.Gemm.N)*tl.ElemSize)
			}
		}
	}
}
