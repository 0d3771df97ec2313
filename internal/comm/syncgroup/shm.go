package syncgroup

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cores"
)

// NewShm creates the shared memory of a group of size processes on this host, as a file without a name. Pass it to each
// process (for example through exec.Cmd.ExtraFiles), which calls [JoinShm]; the creator may then close it.
func NewShm(size int) (*os.File, error) {
	if size < 1 || size > maxRanks {
		return nil, fmt.Errorf("making shared memory: %d ranks: must be 1 to %d", size, maxRanks)
	}
	f, err := shm.NewFile(boardBytes(size))
	if err != nil {
		return nil, err
	}
	start := binary.NativeEndian.AppendUint64(nil, boardMagic) // checked by JoinShm
	start = binary.NativeEndian.AppendUint64(start, uint64(size))
	if _, err := f.WriteAt(start, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("making shared memory for %d ranks: %w", size, err)
	}
	return f, nil
}

// JoinShm joins the group as the given rank. It does not wait for the others, and f may be closed afterwards. Barriers
// spin only if the ranks together may use at least as many CPUs as there are ranks, as recorded when they joined.
func JoinShm(f *os.File, rank, size int) (Group, error) {
	if size < 1 || size > maxRanks || rank < 0 || rank >= size {
		return nil, fmt.Errorf("joining shared memory as rank %d of %d: rank must be 0 to %d and size 1 to %d",
			rank, size, size-1, maxRanks)
	}
	segment, err := shm.Map(f)
	if err != nil {
		return nil, err
	}
	b, err := openBoard(segment, size)
	if err == nil {
		err = segment.Claim(rank)
	}
	if err == nil && b.cells[rank].state.Load() != stateAbsent {
		err = fmt.Errorf("the rank has joined before: make new shared memory for a new launch")
	}
	if err != nil {
		segment.Close()
		return nil, fmt.Errorf("joining shared memory as rank %d of %d: %w", rank, size, err)
	}
	b.cells[rank].allow(cores.Allowed())
	b.cells[rank].state.Store(stateJoined)
	return &member{board: b, parker: processParker{segment}, rank: rank, release: segment.Close}, nil
}

// openBoard checks that the memory was created for size ranks by this version.
func openBoard(s *shm.Segment, size int) (board, error) {
	want := boardBytes(size)
	if s.Len() != want {
		return board{}, fmt.Errorf("file has %d bytes, %d ranks need %d: it was made for another number of ranks",
			s.Len(), size, want)
	}
	b := viewBoard(s.Pointer(0, want), size)
	if b.head.magic != boardMagic || b.head.size != uint64(size) {
		return board{}, fmt.Errorf("file starts with %#x for %d ranks, want %#x for %d",
			b.head.magic, b.head.size, uint64(boardMagic), size)
	}
	return b, nil
}

// processParker sleeps in the kernel, which also knows which ranks are alive.
type processParker struct{ segment *shm.Segment }

// park cannot watch ctx; its sleep is limited by maxSleep instead.
func (processParker) park(_ context.Context, word *atomic.Uint32, seen uint32) {
	shm.Park(word, seen, maxSleep)
}

func (processParker) unpark(word *atomic.Uint32) { shm.Unpark(word) }

func (p processParker) alive(rank int) bool { return p.segment.Claimed(rank) }
