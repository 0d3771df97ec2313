package syncgroup

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/comm/shm"
)

// board is the memory that the ranks of one host share. It contains no pointers, so goroutines (on the heap) and
// processes (in a mapped file) use the same layout. Words that different ranks write are on separate cache lines, which
// avoids false sharing.
type board struct {
	head  *header
	cells []cell
}

const (
	// boardMagic identifies the layout. Change it whenever header or cell changes.
	boardMagic = 0x6b62_6167_7265_6503

	line = shm.LineBytes

	// slotBytes makes a slot 8 KiB, so that a block of samples usually takes one round.
	slotBytes = 8<<10 - 8

	// maxRanks is limited by the two 16-bit halves of header.arrived.
	maxRanks = 1<<16 - 1
)

// header is shared by all ranks.
type header struct {
	magic, size uint64
	_           [line - 16]byte

	// gate is the word on which all ranks wait. It contains the generation, which increases in steps of gateStep, and in
	// the lower bits the two flags gateAgain and gatePoisoned.
	gate atomic.Uint32
	_    [line - 4]byte

	// arrived is the number of ranks that have arrived in the current round. Its upper half is the number of those
	// that called Exchange.
	arrived atomic.Uint32
	_       [line - 4]byte

	// sleepers is the number of sleeping ranks. If it is 0, the releasing rank makes no system call.
	sleepers atomic.Int32
	_        [line - 4]byte

	aborted shm.Notice // posted before gatePoisoned is set, so a rank that sees the flag finds the notice
}

const (
	gateAgain    = 1 << 0 // this release woke sleepers, so all ranks make one more round, which they reach awake
	gatePoisoned = 1 << 1 // the group has been aborted
	gateStep     = 1 << 2
)

// cell belongs to one rank.
type cell struct {
	rounds atomic.Uint32 // rounds begun; shows which rank is late
	state  atomic.Uint32
	_      [line - 8]byte
	cpus   [line / 8]uint64 // affinity mask, one bit per CPU
	// The two slots are used alternately. Before a rank overwrites a slot, there was a round for which every rank arrived
	// after it had read that slot. One round per chunk is therefore enough.
	slots [2]slot
}

const (
	stateAbsent = iota
	stateJoined
	stateClosed
)

type slot struct {
	total int64 // bytes of this rank in the whole exchange; data holds one chunk of them
	data  [slotBytes]byte
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

// allow records the CPUs that the rank of the cell may use. If one of them does not fit in the mask, the mask stays
// empty, and ranks do not spin, because it is not known whether each has a core.
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
