package cuda

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/multicast"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// allocation is symmetric memory: every rank of a group has allocated equally many bytes, and can access
// those of all ranks.
type allocation struct {
	e         *engine
	id        int // the same on every rank
	bytes     int
	addr      [gpu.MaxRanks]cuda.Pointer // by rank, in this process's address space
	imported  [gpu.MaxRanks]bool         // by rank: addr was imported and must be closed
	multicast *multicast.Memory          // the memory behind addr; nil if it has no multicast address
	freed     bool                       // this rank has freed it, and others may still use it
}

var _ dist.DeviceMemory = (*allocation)(nil)

func (a *allocation) Read(dst []byte, off int) error {
	return a.e.device.Do(func() error { return a.e.device.Read(dst, a.addr[a.e.rank]+cuda.Pointer(off)) })
}

func (a *allocation) Write(off int, src []byte) error {
	return a.e.device.Do(func() error { return a.e.device.Write(a.addr[a.e.rank]+cuda.Pointer(off), src) })
}

// span is a position in an allocation of this group or of an ancestor: a group that it was split from.
type span struct {
	*allocation
	off   int   // bytes
	level int   // number of splits from the ancestor to this group
	ranks []int // rank in the ancestor by rank in this group; nil: the same
}

// pointer returns the address of the span in the memory of a rank of this group.
func (s span) pointer(rank int) cuda.Pointer {
	if s.ranks != nil {
		rank = s.ranks[rank]
	}
	return s.addr[rank] + cuda.Pointer(s.off)
}

// multicastPointer returns the address that reaches all ranks of this group, or 0 if there is none. An
// ancestor's multicast address would reach ranks outside this group too.
func (s span) multicastPointer() cuda.Pointer {
	if s.allocation == nil || s.multicast == nil || s.level > 0 {
		return 0
	}
	return s.multicast.Multicast + cuda.Pointer(s.off)
}

// Ranks exchange spans as 64-bit words: 4 bits for the level, 20 for the allocation's id and 40 for the
// offset.
const (
	offsetBits, numberBits     = 40, 20
	maxAllocations, maxLineage = 1 << numberBits, 1 << (64 - offsetBits - numberBits)
)

func (s span) encode() uint64 {
	if s.allocation == nil {
		return 0 // an empty buffer, which no rank accesses
	}
	return uint64(s.level)<<(offsetBits+numberBits) | uint64(s.id)<<offsetBits | uint64(s.off)
}

func (e *engine) decodeSpan(word uint64) span {
	level := int(word >> (offsetBits + numberBits))
	from := e.lineage[level]
	a := from.engine.lookupAllocation(int(word >> offsetBits % maxAllocations))
	return span{a, int(word % (1 << offsetBits)), level, from.ranks}
}

// findSpan returns the span of a buffer, and whether it is memory of this group or an ancestor.
func (e *engine) findSpan(b dist.Buffer) (span, bool) {
	a, ours := b.Memory().(*allocation)
	if !ours || a.freed {
		return span{}, false
	}
	for level, from := range e.lineage {
		if a.e == from.engine {
			return span{a, b.Offset(), level, from.ranks}, true
		}
	}
	return span{}, false
}

// wasFreed reports whether the memory was freed after the call was prepared.
func (s span) wasFreed() bool { return s.allocation != nil && s.freed }

// lookupAllocation returns the allocation with an id. Messages call it concurrently with collectives.
func (e *engine) lookupAllocation(id int) *allocation {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allocations[id]
}

// Reach returns the addresses of b's memory on every rank, for kernels that the caller launches in the
// context. ok is false if b does not come from Alloc of this backend.
func (backend) Reach(b dist.Buffer) (context *cuda.Context, at []cuda.Pointer, ok bool) {
	a, ok := b.Memory().(*allocation)
	if !ok {
		return nil, nil, false
	}
	return a.e.device.Context, a.addr[:a.e.size], true
}

// granule is the driver's mapping unit. Allocations are rounded up to it, because smaller ones may share
// a granule, and then a handle refers to the start of the granule instead of the allocation.
const granule = 2 << 20

func roundToGranule(bytes int) int { return (max(bytes, 1) + granule - 1) / granule * granule }

// recordBytes is the fixed part of the record that ranks exchange about an allocation: whether the rank
// has the memory, its handle and its address. The ids of the allocations that the rank has freed follow.
const recordBytes = 8 + cuda.HandleBytes + 8

// allocate returns zeroed memory. It is collective, and what names it for the other ranks. It first
// releases the allocations that all ranks have freed; earlier, some rank might still have accessed them.
// If one rank has no memory left, or cannot map the memory of another, all ranks get an error.
func (e *engine) allocate(what string, bytes int) (*allocation, error) {
	return e.allocateShared(what, bytes, nil)
}

// allocateMulticast is like allocate, but the memory also has a multicast address if the group supports
// multicast and the GPUs have such memory left.
func (e *engine) allocateMulticast(what string, bytes int) (*allocation, error) {
	if e.multicastMissing != "" {
		return e.allocate(what, bytes)
	}
	m, lacks := multicast.New(e.device.Context, e.Checker, roundToGranule(bytes))
	if lacks != nil && e.Checker.Failed() {
		return nil, lacks
	}
	a, err := e.allocateShared(what, bytes, m)
	if err == nil && e.stage[1] == nil && lacks != nil { // not even for the stages, the group's first multicast memory
		e.multicastMissing = lacks.Error()
	}
	return a, err
}

// checkMulticast returns the reason why the group cannot have multicast memory, or "" if it can. All
// ranks return a reason if one has one.
func (e *engine) checkMulticast() (why string, err error) {
	switch fault := e.device.Device().NoMulticast(); {
	case fault != nil:
		why = fault.Error()
	case e.size == 1:
		why = "a single rank has nobody to share multicast memory with"
	case !e.exclusiveGPUs:
		why = "ranks share a GPU, and multicast memory is between GPUs"
	default:
		if _, err := e.device.kernel(gpu.Multimem, "multimem_f32_any", false); err != nil {
			why = err.Error()
		}
	}
	all, err := e.Checker.AllGather("init", []byte(why))
	for rank, theirs := range all {
		if why == "" && len(theirs) > 0 {
			why = fmt.Sprintf("rank %d: %s", rank, theirs)
		}
	}
	return why, err
}

// allocateShared makes an allocation of multicast memory, or of new memory if multi is nil.
func (e *engine) allocateShared(what string, bytes int, multi *multicast.Memory) (*allocation, error) {
	bytes = roundToGranule(bytes)
	a := &allocation{e: e, bytes: bytes, id: e.nextAllocation, multicast: multi}
	e.nextAllocation++
	if a.id >= maxAllocations {
		return nil, fmt.Errorf("%s: a group has at most %d allocations", what, maxAllocations)
	}
	record, failed := e.allocateLocal(a)
	records, err := e.Checker.AllGather(what, record)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	for rank, record := range records {
		if failed == nil && binary.LittleEndian.Uint64(record) != 1 {
			failed = fmt.Errorf("rank %d has no memory left", rank)
		}
	}
	unused := e.freedByAll(records)
	for _, old := range unused {
		failed = cmp.Or(failed, e.device.Do(old.closeImports))
	}
	if failed == nil {
		failed = e.device.Do(func() error { return a.importPeers(records) })
	}
	failed = e.Share(what, failed, "cannot map the memory of the other ranks")
	if failed != nil && e.Checker.Failed() {
		return nil, failed // other ranks may still have the unused memory mapped
	}
	for _, old := range unused { // after the exchange, no rank has them mapped
		e.mu.Lock()
		delete(e.allocations, old.id)
		e.mu.Unlock()
		failed = cmp.Or(failed, old.free())
	}
	if failed != nil {
		if a.addr[e.rank] != 0 {
			failed = errors.Join(failed, a.free())
		}
		return nil, fmt.Errorf("allocating %d bytes on GPU %d: %w", bytes, e.device.ordinal, failed)
	}
	e.mu.Lock()
	e.allocations[a.id] = a
	e.mu.Unlock()
	return a, nil
}

// freedByAll returns the allocations that every rank has freed, according to the records.
func (e *engine) freedByAll(records [][]byte) (list []*allocation) {
	freed := map[uint64]int{} // by id: how many ranks have freed it
	for _, record := range records {
		for rest := record[recordBytes:]; len(rest) >= 8; rest = rest[8:] {
			freed[binary.LittleEndian.Uint64(rest)]++
		}
	}
	for id, ranks := range freed {
		if a := e.allocations[int(id)]; ranks == e.size && a != nil {
			list = append(list, a)
		}
	}
	return list
}

// allocateLocal allocates this rank's memory of a, unless it is multicast memory that exists already, and
// returns the record about it.
func (e *engine) allocateLocal(a *allocation) (record []byte, err error) {
	record = make([]byte, recordBytes)
	err = e.device.Do(func() (err error) {
		if a.multicast != nil {
			copy(a.addr[:], a.multicast.Addresses)
			return e.device.Fill(a.addr[e.rank], 0, a.bytes)
		}
		if a.addr[e.rank], err = e.device.Alloc(a.bytes); err != nil {
			return err
		}
		if err = e.device.Fill(a.addr[e.rank], 0, a.bytes); err != nil {
			return err
		}
		handle, err := e.device.Export(a.addr[e.rank])
		copy(record[8:], handle[:])
		return err
	})
	if err == nil {
		binary.LittleEndian.PutUint64(record, 1)
		binary.LittleEndian.PutUint64(record[8+cuda.HandleBytes:], uint64(a.addr[e.rank]))
	}
	for id, a := range e.allocations {
		if a.freed {
			record = binary.LittleEndian.AppendUint64(record, uint64(id))
		}
	}
	return record, err
}

// importPeers maps the memory of the other ranks. Multicast memory is already mapped. For ranks in this
// process, the address is used as it is, because the driver rejects handles from the same process.
func (a *allocation) importPeers(records [][]byte) error {
	for rank, record := range records {
		switch {
		case rank == a.e.rank || a.multicast != nil:
		case a.e.Checker.Meeting.PIDs[rank] == os.Getpid():
			a.addr[rank] = cuda.Pointer(binary.LittleEndian.Uint64(record[8+cuda.HandleBytes:]))
		default:
			p, err := a.e.device.Import(cuda.Handle(record[8 : 8+cuda.HandleBytes]))
			if err != nil {
				return fmt.Errorf("memory of rank %d: %w", rank, err)
			}
			a.addr[rank], a.imported[rank] = p, true
		}
	}
	return nil
}

// closeImports unmaps the memory of the other ranks.
func (a *allocation) closeImports() error {
	var faults []error
	for rank, mapped := range a.imported {
		if mapped {
			faults = append(faults, a.e.device.CloseImport(a.addr[rank]))
			a.imported[rank] = false
		}
	}
	return errors.Join(faults...)
}

func (a *allocation) free() error {
	return a.e.device.Do(func() error { return errors.Join(a.closeImports(), a.release()) })
}

// release frees this rank's memory.
func (a *allocation) release() error {
	if a.multicast != nil {
		return a.multicast.Close()
	}
	return a.e.device.Free(a.addr[a.e.rank])
}
