package probe

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/hostinfo"
	"github.com/kernbench/kernbench/internal/vec"
)

// exchangePiece is what crosses at a time: it stays in the caches of both cores.
const exchangePiece = 64 << 10

// exchange fills in how fast cores give each other the contents of memory that
// only they themselves reach: two, and more of them all at once.
func (b *bench) exchange(r *Result, host hostinfo.Host) error {
	for _, n := range coreCounts(len(b.cores))[1:] {
		if err := b.exchangeOf(n, r, host); err != nil {
			return fmt.Errorf("probing the exchange between %d cores: %w", n, err)
		}
	}
	return nil
}

func (b *bench) exchangeOf(n int, r *Result, host hostinfo.Host) error {
	sets := b.profile.sets(n, host.CPU.L3, host.Memory)
	memory := make([][]byte, n)
	for i := range memory {
		m, err := touched(int(sets[len(sets)-1]))
		if err != nil {
			return err
		}
		defer unix.Munmap(m)
		memory[i] = m
	}
	for _, set := range sets {
		half := int(set) / 2 / exchangePiece * exchangePiece
		if half == 0 {
			continue
		}
		us, err := b.best(b.cores[:n], exchangers(memory, half))
		if err != nil {
			return fmt.Errorf("%d bytes: %w", half, err)
		}
		r.Exchange = append(r.Exchange, Cell{Cores: n, Bytes: set, GBps: float64(half) / us / 1e3})
	}
	return nil
}

// exchangers let every core copy bytes, piece by piece, into memory that all reach,
// and take as many from there, of each of the others in turn. A core has two slots,
// and fills one again when whoever took the piece in it has given its next.
func exchangers(memory [][]byte, bytes int) (call func(i int) func() error) {
	type side struct {
		_     pad
		piece atomic.Uint64 // the last one given
		_     pad
		slots [2][exchangePiece]byte
	}
	sides := make([]side, len(memory))
	n := uint64(len(memory))
	await := func(who, piece uint64) {
		for sides[who%n].piece.Load() < piece {
			vec.Pause()
		}
	}
	apart := func(piece uint64) uint64 { return 1 + piece%(n-1) } // from a core to the one it takes a piece of
	return func(i int) func() error {
		own, me, piece := &sides[i], uint64(i), uint64(0)
		from, to := memory[i][:bytes], memory[i][bytes:2*bytes]
		return func() error {
			for off := 0; off < bytes; off += exchangePiece {
				piece++
				if piece > 2 {
					await(me+n-apart(piece-2), piece-1)
				}
				vec.Copy(own.slots[piece&1][:], from[off:off+exchangePiece])
				own.piece.Store(piece)
				other := me + apart(piece)
				await(other, piece)
				vec.Copy(to[off:off+exchangePiece], sides[other%n].slots[piece&1][:])
			}
			return nil
		}
	}
}
