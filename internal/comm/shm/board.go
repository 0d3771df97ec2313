package shm

import (
	"sync/atomic"
	"unsafe"
)

const (
	// LineBytes is the alignment of data that different ranks write, which avoids false sharing. It is two
	// cache lines, because x86 processors prefetch lines in pairs.
	LineBytes = 128

	// TinyBytes is the size of the data that shares a cache line with a flag, so that a single transfer between
	// cores brings both.
	TinyBytes = 56
	// InlineBytes is the size of a slot: the data that a rank publishes with one epoch.
	InlineBytes = 64 << 10
	// StageBytes is the size of each rank's staging buffer, which holds the data of a call for its peers.
	StageBytes = 4 << 20

	// The slots of a channel are large enough that their flags cost little, and few enough to stay in a cache.
	channelSlots     = 4
	channelSlotBytes = 32 << 10
)

// line holds a flag and the data that is published with it.
type line struct {
	flag atomic.Uint64 // signature in the upper half, epoch in the lower
	tiny [TinyBytes]byte
	body [InlineBytes]byte
	_    [LineBytes - 64]byte
}

// epoch returns the half of a flag that a rank can sleep on: a futex has 32 bits.
func (l *line) epoch() *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&l.flag)) // the lower half comes first: all our machines are little-endian
}

// label is the text of a call, for errors. A cell has two labels, because a rank may be one call ahead of a reader.
type label struct {
	length uint32
	text   [2*LineBytes - 4]byte
}

// cell is the memory of one rank. Only this rank writes it, except for sleepers.
type cell struct {
	lines    [2]line
	sleepers atomic.Int32 // number of ranks that sleep on one of the flags
	_        [LineBytes - 4]byte
	state    atomic.Uint32
	_        [LineBytes - 4]byte
	labels   [2]label
	stage    [StageBytes]byte
}

const (
	stateAbsent = iota
	stateJoined
	stateLeft
)

// pair counts the signals from one rank to another. Only the signalling rank writes count, and only the other rank
// writes sleepers.
type pair struct {
	count    atomic.Uint32
	_        [LineBytes - 4]byte
	sleepers atomic.Int32
	_        [LineBytes - 4]byte
}

// ring is a channel from one rank to another. Its counters are numbers of slots since the start, which wrap around;
// filled - emptied slots hold data. The slots and the two counters are in separate cache lines, because different ranks
// write the counters.
type ring struct {
	filled          atomic.Uint32 // by the sender
	_               [LineBytes - 4]byte
	emptied         atomic.Uint32 // by the receiver
	_               [LineBytes - 4]byte
	filledSleepers  atomic.Int32 // ranks that sleep on filled
	emptiedSleepers atomic.Int32 // ranks that sleep on emptied
	_               [LineBytes - 8]byte
	slots           [channelSlots]ringSlot
}

type ringSlot struct {
	head [4]uint64
	_    [LineBytes - 32]byte
	data [channelSlotBytes]byte
}

// header precedes the cells. All ranks write it.
type header struct {
	failure Notice
}

// The two uses of channels. They have separate rings, because the program's messages may be in flight while a
// collective sends its own.
const (
	ForCollectives = iota
	ForProgram
	channelUses
)

// Board is the memory through which the ranks of one group see each other's progress. It lies in a
// [Segment] and contains no pointers, because each process maps the segment at another address.
type Board struct {
	header *header
	cells  []cell
	pairs  []pair // [from*size+to]
	rings  []ring // [(use*size+from)*size+to]
}

// BoardBytes returns the size of the board of a group.
func BoardBytes(size int) int {
	n := int(unsafe.Sizeof(header{})) + size*int(unsafe.Sizeof(cell{})) +
		size*size*int(unsafe.Sizeof(pair{})) + channelUses*size*size*int(unsafe.Sizeof(ring{}))
	return (n + pageSize - 1) &^ (pageSize - 1)
}

// BoardAt returns the board of a group in zeroed memory of the segment.
func BoardAt(s *Segment, off, size int) Board {
	p := s.Pointer(off, BoardBytes(size))
	b := Board{header: (*header)(p)}
	p = unsafe.Add(p, unsafe.Sizeof(header{}))
	b.cells = unsafe.Slice((*cell)(p), size)
	p = unsafe.Add(p, uintptr(size)*unsafe.Sizeof(cell{}))
	b.pairs = unsafe.Slice((*pair)(p), size*size)
	p = unsafe.Add(p, uintptr(size*size)*unsafe.Sizeof(pair{}))
	b.rings = unsafe.Slice((*ring)(p), channelUses*size*size)
	return b
}

// StartAt sets the initial epoch of a board that is not in use yet. Tests start just below 2^32 to check that epochs
// wrap around.
func (b Board) StartAt(epoch uint32) {
	for i := range b.cells {
		b.cells[i].lines[epoch&1].flag.Store(uint64(epoch))
		b.cells[i].lines[1-epoch&1].flag.Store(uint64(epoch - 1))
	}
}
