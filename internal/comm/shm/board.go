package shm

import (
	"sync/atomic"
	"unsafe"
)

const (
	// LineBytes is the grain of what different ranks write: two cache lines, because processors fetch them in pairs.
	LineBytes = 128

	// TinyBytes fit beside a flag in its own cache line: one transfer between
	// cores brings both.
	TinyBytes = 56
	// InlineBytes is what a slot holds.
	InlineBytes = 64 << 10
	// StageBytes is the memory of a rank for pieces on their way to the others.
	StageBytes = 4 << 20

	// noteBytes is the memory of a rank for what it publishes, and maxFirsts how often
	// ranks can find out who was first: see Member.First.
	noteBytes = 1 << 20
	maxFirsts = 64

	// A channel's slots are large enough that their flags cost little, and few
	// enough to stay in a cache.
	channelSlots     = 4
	channelSlotBytes = 32 << 10
)

// line holds a flag, and what is published with it.
type line struct {
	flag atomic.Uint64 // signature in the upper half, epoch in the lower
	tiny [TinyBytes]byte
	body [InlineBytes]byte
	_    [LineBytes - 64]byte
}

// epoch is the half of a flag that one can sleep on.
func (l *line) epoch() *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&l.flag)) // the lower half comes first: all our machines are little-endian
}

// label is what a rank says it is calling, for errors. Two, for a rank may be
// one call ahead of one that reads.
type label struct {
	length uint32
	text   [2*LineBytes - 4]byte
}

// cell is written by its rank alone, except sleepers.
type cell struct {
	lines    [2]line
	sleepers atomic.Int32 // how many ranks sleep on one of the flags
	_        [LineBytes - 4]byte
	state    atomic.Uint32
	_        [LineBytes - 4]byte
	labels   [2]label
	// notes is what the rank has published, one after the other: what others read is
	// never written again. The last one counts.
	published atomic.Uint64 // a place in notes, see note
	_         [LineBytes - 8]byte
	notes     [noteBytes]byte
	stage     [StageBytes]byte
}

const (
	stateAbsent = iota
	stateJoined
	stateLeft
)

// pair is a count of signals from one rank to another.
type pair struct {
	count    atomic.Uint32
	_        [LineBytes - 4]byte
	sleepers atomic.Int32
	_        [LineBytes - 4]byte
}

// ring is a channel from one rank to another. The slots are separate lines from
// the two counts, which are written by different ranks.
type ring struct {
	sent          atomic.Uint32 // slots filled
	_             [LineBytes - 4]byte
	taken         atomic.Uint32 // slots emptied
	_             [LineBytes - 4]byte
	sentSleepers  atomic.Int32
	takenSleepers atomic.Int32
	_             [LineBytes - 8]byte
	slots         [channelSlots]ringSlot
}

type ringSlot struct {
	head [4]uint64
	_    [LineBytes - 32]byte
	data [channelSlotBytes]byte
}

// header is common to all ranks.
type header struct {
	failure Notice
	firsts  [maxFirsts]atomic.Uint64 // places in the notes of the rank that was first
}

// The two uses of channels: messages of the program may be on their way while a
// collective sends its own.
const (
	ForCollectives = iota
	ForProgram
	channelUses
)

// Board is the memory by which the ranks of one group tell each other how far
// they are.
type Board struct {
	header *header
	cells  []cell
	pairs  []pair // [from*size+to]
	rings  []ring // [(use*size+from)*size+to]
}

// BoardBytes is the size of the board of a group.
func BoardBytes(size int) int {
	n := int(unsafe.Sizeof(header{})) + size*int(unsafe.Sizeof(cell{})) +
		size*size*int(unsafe.Sizeof(pair{})) + channelUses*size*size*int(unsafe.Sizeof(ring{}))
	return (n + pageSize - 1) &^ (pageSize - 1)
}

// BoardAt lays the board of a group over zeroed memory.
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

// StartAt lets the count of epochs begin elsewhere than at 0, on a board that
// nobody uses yet.
func (b Board) StartAt(epoch uint32) {
	for i := range b.cells {
		b.cells[i].lines[epoch&1].flag.Store(uint64(epoch))
		b.cells[i].lines[1-epoch&1].flag.Store(uint64(epoch - 1))
	}
}
