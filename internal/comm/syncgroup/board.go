package syncgroup

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// board is the memory that the ranks of one host share. It holds no pointers, so the same layout
// serves goroutines (on the heap) and processes (in a mapped file). Words that different ranks write
// are on separate cache lines, against false sharing.
type board struct {
	head  *header
	cells []cell
}

const (
	// boardMagic identifies the layout: change it whenever header or cell change.
	boardMagic = 0x6b62_6167_7265_6502

	line = shm.LineBytes

	// slotValues makes a slot 8 KiB, so that a block of samples usually takes one round.
	slotValues = 1023

	// maxRanks is limited by the two 16-bit halves of header.arrived.
	maxRanks = 1<<16 - 1
)

// header is shared by all ranks.
type header struct {
	magic, size uint64
	_           [line - 16]byte

	// gate is the word that all ranks wait on: a generation in steps of gateStep, and the two flags
	// below it.
	gate atomic.Uint32
	_    [line - 4]byte

	// arrived counts the ranks in the current round; its upper half counts those in an exchange.
	arrived atomic.Uint32
	_       [line - 4]byte

	// sleepers is the number of sleeping ranks. If it is 0, the releasing rank saves a system call.
	sleepers atomic.Int32
	_        [line - 4]byte

	aborted shm.Notice // posted before gatePoisoned is set, so a rank that sees the flag finds the notice
}

const (
	gateAgain    = 1 << 0 // this release woke sleepers: do one more round, spinning
	gatePoisoned = 1 << 1 // the group has been aborted
	gateStep     = 1 << 2
)

// cell belongs to one rank.
type cell struct {
	rounds atomic.Uint32 // rounds begun; shows which rank is late
	state  atomic.Uint32
	_      [line - 8]byte
	cpus   [line / 8]uint64 // affinity mask, one bit per CPU
	// Two slots, used alternately. A rank overwrites a slot only after a round in which every rank
	// arrived after it had finished reading that slot. So one round per chunk is enough.
	slots [2]slot
}

const (
	stateAbsent = iota
	stateJoined
	stateClosed
)

type slot struct {
	total  int64 // number of values in the whole exchange; this chunk is a part of them
	values [slotValues]int64
}

// boardBytes returns the size of the memory for n ranks.
func boardBytes(n int) int {
	return int(unsafe.Sizeof(header{})) + n*int(unsafe.Sizeof(cell{}))
}

// viewBoard returns a board for n ranks in memory of boardBytes(n) bytes.
func viewBoard(memory unsafe.Pointer, n int) board {
	cells := unsafe.Add(memory, unsafe.Sizeof(header{}))
	return board{head: (*header)(memory), cells: unsafe.Slice((*cell)(cells), n)}
}

// allow records the CPUs that the rank of the cell may use. If one of them is beyond the mask, the
// mask stays empty: its CPUs are not known, and ranks do not spin.
func (c *cell) allow(cpus []int) {
	for _, cpu := range cpus {
		if word := cpu / 64; word < len(c.cpus) {
			c.cpus[word] |= 1 << (cpu % 64)
		}
	}
}

// coresForAll reports whether the affinity masks together contain a CPU for each rank.
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
