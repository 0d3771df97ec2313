package syncgroup

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// board is the memory that the ranks of one host share. It holds no pointers,
// so that the same layout serves goroutines (in the heap) and processes (in a
// mapped file). Words that different ranks write stand on lines of their own.
type board struct {
	head  *header
	cells []cell
}

const (
	// boardMagic names the layout: change it whenever header or cell change.
	boardMagic = 0x6b62_6167_7265_6502

	line = shm.LineBytes

	// slotValues makes a slot 8 KiB: a block of samples usually goes in one round.
	slotValues = 1023

	// maxRanks fits the two 16-bit halves of header.arrived.
	maxRanks = 1<<16 - 1
)

// header is common to all ranks.
type header struct {
	magic, size uint64
	_           [line - 16]byte

	// gate is the word everyone waits on: a generation in steps of gateStep,
	// and the two flags below it.
	gate atomic.Uint32
	_    [line - 4]byte

	// arrived counts the ranks in the present round; its upper half counts
	// those that came for an exchange.
	arrived atomic.Uint32
	_       [line - 4]byte

	// sleepers spares the releasing rank a system call when nobody sleeps.
	sleepers atomic.Int32
	_        [line - 4]byte

	aborted shm.Notice // left before gatePoisoned is set
}

const (
	gateAgain    = 1 << 0 // this release woke sleepers: meet once more, spinning
	gatePoisoned = 1 << 1 // the group has been aborted
	gateStep     = 1 << 2
)

// cell belongs to one rank.
type cell struct {
	rounds atomic.Uint32 // rounds begun: tells who is late
	state  atomic.Uint32
	_      [line - 8]byte
	cpus   [line / 8]uint64 // affinity mask, one bit per CPU
	// Two slots in turn: a rank writes a slot again only after a round that all
	// began when they had finished reading it, so one round per chunk is enough.
	slots [2]slot
}

const (
	stateAbsent = iota
	stateJoined
	stateClosed
)

type slot struct {
	total  int64 // values of the whole exchange, of which this chunk is part
	values [slotValues]int64
}

// boardBytes is the size of the memory for n ranks.
func boardBytes(n int) int {
	return int(unsafe.Sizeof(header{})) + n*int(unsafe.Sizeof(cell{}))
}

// viewBoard lays a board for n ranks over memory of boardBytes(n) bytes.
func viewBoard(memory unsafe.Pointer, n int) board {
	cells := unsafe.Add(memory, unsafe.Sizeof(header{}))
	return board{head: (*header)(memory), cells: unsafe.Slice((*cell)(cells), n)}
}

// allow writes which CPUs the cell's rank may use. Of one beyond the mask nothing is
// known: no spinning.
func (c *cell) allow(cpus []int) {
	for _, cpu := range cpus {
		if word := cpu / 64; word < len(c.cpus) {
			c.cpus[word] |= 1 << (cpu % 64)
		}
	}
}

// coresForAll tells whether the affinity masks together hold a CPU for each rank.
func (b board) coresForAll() bool {
	var union [len(cell{}.cpus)]uint64
	for r := range b.cells {
		for i, word := range b.cells[r].cpus {
			union[i] |= word
		}
	}
	n := 0
	for _, word := range union {
		n += bits.OnesCount64(word)
	}
	return n >= len(b.cells)
}
