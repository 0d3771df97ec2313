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
// only they themselves reach: two of them, and more pairs at once.
func (b *bench) exchange(r *Result, host hostinfo.Host) error {
	for _, n := range coreCounts(len(b.cores))[1:] {
		if n%2 != 0 {
			continue // all cores, and one is left over
		}
		if err := b.exchangeOf(n, r, host); err != nil {
			return fmt.Errorf("probing the exchange between pairs of %d cores: %w", n, err)
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
		pairs := make([]ends, n/2)
		for i := range pairs {
			pairs[i] = exchangers([2][]byte(memory[2*i:]), half)
		}
		us, err := b.best(b.cores[:n], func(i int) func() error { return pairs[i/2].of(i % 2) })
		if err != nil {
			return fmt.Errorf("%d bytes: %w", half, err)
		}
		r.Exchange = append(r.Exchange, Cell{Cores: n, Bytes: set, GBps: float64(half) / us / 1e3})
	}
	return nil
}

// exchangers let both cores copy bytes, piece by piece, into memory that both
// reach, and take the other's from there. Two slots take turns, so nobody
// overwrites what the other still reads: whoever fills a slot again has seen the
// other's flag of the piece between.
func exchangers(memory [2][]byte, bytes int) ends {
	type side struct {
		_     pad
		piece atomic.Uint64
		_     pad
		slots [2][exchangePiece]byte
	}
	sides := new([2]side)
	end := func(i int) func() error {
		own, other := &sides[i], &sides[1-i]
		from, to := memory[i][:bytes], memory[i][bytes:2*bytes]
		piece := uint64(0)
		return func() error {
			for off := 0; off < bytes; off += exchangePiece {
				piece++
				vec.Copy(own.slots[piece&1][:], from[off:off+exchangePiece])
				own.piece.Store(piece)
				for other.piece.Load() < piece {
					vec.Pause()
				}
				vec.Copy(to[off:off+exchangePiece], other.slots[piece&1][:])
			}
			return nil
		}
	}
	return ends{ask: end(0), answer: end(1)}
}
