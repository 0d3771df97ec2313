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

// allocation is memory that all ranks of a group have made alike: each its own, and
// each reaches all.
type allocation struct {
	e      *engine
	number int // the same on every rank
	bytes  int
	at     [gpu.MaxRanks]cuda.Pointer // by rank, as this process reaches them
	mapped [gpu.MaxRanks]bool         // must be closed
	multi  *multicast.Memory          // which all of it is, and has an address that reaches all ranks'; nil: it has none
	freed  bool                       // by this rank
}

var _ dist.DeviceMemory = (*allocation)(nil)

// Name is what dist calls this kind of memory.

func (a *allocation) Read(dst []byte, off int) error {
	return a.e.device.Do(func() error { return a.e.device.Read(dst, a.at[a.e.rank]+cuda.Pointer(off)) })
}

func (a *allocation) Write(off int, src []byte) error {
	return a.e.device.Do(func() error { return a.e.device.Write(a.at[a.e.rank]+cuda.Pointer(off), src) })
}

// span is a part of an allocation of this group, or of one that it was split from.
type span struct {
	*allocation
	off   int
	level int   // splits from that group to this one
	ranks []int // the ranks there of those here; nil: the same
}

func (s span) pointer(rank int) cuda.Pointer {
	if s.ranks != nil {
		rank = s.ranks[rank]
	}
	return s.at[rank] + cuda.Pointer(s.off)
}

// forAll is the address for the memory of all ranks, 0 where it has none: this group's.
func (s span) forAll() cuda.Pointer {
	if s.allocation == nil || s.multi == nil || s.level > 0 {
		return 0
	}
	return s.multi.All + cuda.Pointer(s.off)
}

// A span as ranks tell it each other: 4 bits for the level, 20 for the allocation's number
// and 40 for the offset.
const (
	offsetBits, numberBits     = 40, 20
	maxAllocations, maxLineage = 1 << numberBits, 1 << (64 - offsetBits - numberBits)
)

func (s span) word() uint64 {
	if s.allocation == nil {
		return 0 // nobody asks for it
	}
	return uint64(s.level)<<(offsetBits+numberBits) | uint64(s.number)<<offsetBits | uint64(s.off)
}

func (e *engine) span(word uint64) span {
	level := int(word >> (offsetBits + numberBits))
	from := e.lineage[level]
	return span{from.engine.allocation(int(word >> offsetBits % maxAllocations)), int(word % (1 << offsetBits)), level,
		from.ranks}
}

// spanOf finds a buffer's memory in this group and in those it was split from.
func (e *engine) spanOf(b dist.Buffer) (span, bool) {
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

// gone tells whether the memory was freed since the call was prepared.
func (s span) gone() bool { return s.allocation != nil && s.freed }

// allocation finds one by its number. Messages ask for it beside everything else.
func (e *engine) allocation(number int) *allocation {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allocations[number]
}

// Reach is where memory that Alloc of a group gave lies on every rank, for kernels of the program itself that
// run in the context; ok is false of other memory.
func (backend) Reach(b dist.Buffer) (context *cuda.Context, at []cuda.Pointer, ok bool) {
	a, ok := b.Memory().(*allocation)
	if !ok {
		return nil, nil, false
	}
	return a.e.device.Context, a.at[:a.e.size], true
}

// granule is what the driver maps in one piece. Smaller allocations share one, and
// then a handle leads to the start of the granule instead of the allocation.
const granule = 2 << 20

// card is what a rank tells the others of an allocation: whether it has the memory, its
// handle and address, and then the numbers of allocations that it has freed.
const cardBytes = 8 + cuda.HandleBytes + 8

// allocate is a collective call; the memory is zeroed. What all ranks have freed since
// the last one is given back first: before that, some may still reach it. It is all or
// none: a rank that cannot have the memory, or not map that of the others, fails the
// call for all.
func (e *engine) allocate(what string, bytes int) (*allocation, error) {
	return e.allocateAs(what, bytes, nil)
}

// allocateForAll is allocate for memory that calls by multicast may work on, where the
// group has such memory, and can have more of it.
func (e *engine) allocateForAll(what string, bytes int) (*allocation, error) {
	if e.lacksMulticast != "" {
		return e.allocate(what, bytes)
	}
	m, lacks := multicast.Make(e.device.Context, e.agreement, (max(bytes, 1)+granule-1)/granule*granule)
	if lacks != nil && e.agreement.Failed() {
		return nil, lacks
	}
	a, err := e.allocateAs(what, bytes, m)
	if err == nil && e.lacksMulticast == "" && e.stage[1] == nil && lacks != nil { // not even for the first
		e.lacksMulticast = lacks.Error()
	}
	return a, err
}

// settleMulticast finds out why the group can have no memory that one address reaches on
// all ranks; "" where it can. All ranks find the same.
func (e *engine) settleMulticast() (why string, err error) {
	switch fault := e.device.Device().NoMulticast(); {
	case fault != nil:
		why = fault.Error()
	case e.size == 1:
		why = "a single rank has nobody to share multicast memory with"
	case !e.alone:
		why = "ranks share a GPU, and multicast memory is between GPUs"
	default:
		if err := e.device.Do(func() error {
			_,
				err := e.device.kernel(gpu.Multimem, "multimem_f32_any", false)
			return err
		}); err != nil {
			why = err.Error()
		}
	}
	all, err := e.agreement.AllGather("init", []byte(why))
	for rank, theirs := range all {
		if why == "" && len(theirs) > 0 {
			why = fmt.Sprintf("rank %d: %s", rank, theirs)
		}
	}
	return why, err
}

// allocateAs gives memory that is there already, or new one where it is nil.
func (e *engine) allocateAs(what string, bytes int, multi *multicast.Memory) (*allocation, error) {
	bytes = (max(bytes, 1) + granule - 1) / granule * granule
	a := &allocation{e: e, bytes: bytes, number: e.allocated, multi: multi}
	e.allocated++
	if a.number >= maxAllocations {
		return nil, fmt.Errorf("%s: a group has at most %d allocations", what, maxAllocations)
	}
	card, failed := e.newMemory(a)
	cards, err := e.agreement.AllGather(what, card)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	for rank, card := range cards {
		if failed == nil && binary.LittleEndian.Uint64(card) != 1 {
			failed = fmt.Errorf("rank %d has no memory left", rank)
		}
	}
	unused := e.unused(cards)
	for _, old := range unused {
		failed = cmp.Or(failed, e.device.Do(old.unmap))
	}
	if failed == nil {
		failed = e.device.Do(func() error { return a.reach(cards) })
	}
	verdict := []byte{1}
	if failed != nil {
		verdict[0] = 0
	}
	verdicts, err := e.agreement.AllGather(what, verdict)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	for _, old := range unused { // nobody reaches them any more
		e.mu.Lock()
		delete(e.allocations, old.number)
		e.mu.Unlock()
		failed = cmp.Or(failed, old.free())
	}
	for rank, v := range verdicts {
		if failed == nil && v[0] == 0 {
			failed = fmt.Errorf("rank %d cannot reach the memory of the others", rank)
		}
	}
	if failed != nil {
		if a.at[e.rank] != 0 {
			failed = errors.Join(failed, a.free())
		}
		return nil, fmt.Errorf("allocating %d bytes on GPU %d: %w", bytes, e.device.ordinal, failed)
	}
	e.mu.Lock()
	e.allocations[a.number] = a
	e.mu.Unlock()
	return a, nil
}

// unused are the allocations that every rank has freed.
func (e *engine) unused(cards [][]byte) (list []*allocation) {
	freed := map[uint64]int{}
	for _, card := range cards {
		for rest := card[cardBytes:]; len(rest) >= 8; rest = rest[8:] {
			freed[binary.LittleEndian.Uint64(rest)]++
		}
	}
	for number, ranks := range freed {
		if a := e.allocations[int(number)]; ranks == e.size && a != nil {
			list = append(list, a)
		}
	}
	return list
}

// newMemory gives memory of this rank, unless it is there, and the card about it.
func (e *engine) newMemory(a *allocation) (card []byte, err error) {
	card = make([]byte, cardBytes)
	err = e.device.Do(func() (err error) {
		if a.multi != nil {
			copy(a.at[:], a.multi.At)
			return e.device.Fill(a.at[e.rank], 0, a.bytes)
		}
		if a.at[e.rank], err = e.device.Alloc(a.bytes); err != nil {
			return err
		}
		if err = e.device.Fill(a.at[e.rank], 0, a.bytes); err != nil {
			return err
		}
		handle, err := e.device.Export(a.at[e.rank])
		copy(card[8:], handle[:])
		return err
	})
	if err == nil {
		binary.LittleEndian.PutUint64(card, 1)
		binary.LittleEndian.PutUint64(card[8+cuda.HandleBytes:], uint64(a.at[e.rank]))
	}
	for number, a := range e.allocations {
		if a.freed {
			card = binary.LittleEndian.AppendUint64(card, uint64(number))
		}
	}
	return card, err
}

// reach maps the memory of the other ranks, unless it is. Those of this process have the
// same addresses, and a handle would be refused.
func (a *allocation) reach(cards [][]byte) error {
	for rank, card := range cards {
		switch {
		case rank == a.e.rank || a.multi != nil:
		case a.e.agreement.Meeting.PIDs[rank] == os.Getpid():
			a.at[rank] = cuda.Pointer(binary.LittleEndian.Uint64(card[8+cuda.HandleBytes:]))
		default:
			p, err := a.e.device.Import(cuda.Handle(card[8 : 8+cuda.HandleBytes]))
			if err != nil {
				return fmt.Errorf("memory of rank %d: %w", rank, err)
			}
			a.at[rank], a.mapped[rank] = p, true
		}
	}
	return nil
}

// unmap gives up the memory of the others.
func (a *allocation) unmap() error {
	var faults []error
	for rank, mapped := range a.mapped {
		if mapped {
			faults = append(faults, a.e.device.CloseImport(a.at[rank]))
			a.mapped[rank] = false
		}
	}
	return errors.Join(faults...)
}

func (a *allocation) free() error {
	return a.e.device.Do(func() error { return errors.Join(a.unmap(), a.release()) })
}

// release gives this rank's memory back.
func (a *allocation) release() error {
	if a.multi != nil {
		return a.multi.Close()
	}
	return a.e.device.Free(a.at[a.e.rank])
}
