package probe

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// exchangeWay is how an exchange is done: in pieces that stay in the caches of both
// cores, with stores that bypass the caches or not.
type exchangeWay struct {
	piece int // bytes exchanged at a time
	store func(dst, src []byte)
}

// exchangeWays are the candidates for a working set; the fastest is the limit. Larger
// pieces need fewer flags, as long as there are two pieces to overlap.
func exchangeWays(set, secondLevel int64) []exchangeWay {
	const short, long = 64 << 10, 256 << 10
	switch {
	case set < 4*long:
		return []exchangeWay{{short, vec.Copy}}
	case set <= secondLevel:
		return []exchangeWay{{long, vec.Copy}}
	}
	return []exchangeWay{{long, vec.Copy}, {long, vec.CopyNT}}
}

// exchangeSlots is how many pieces of a core are in flight: with four it does not
// wait for cores that are as fast.
const exchangeSlots = 4

// exchange fills in how fast cores exchange the contents of private memory: two of
// them, and more at once.
func (b *prober) exchange(r *Result, host hostinfo.Host) error {
	for _, n := range b.profile.Counts {
		if n%2 != 0 {
			continue // a single core, or one without a partner
		}
		if err := b.exchangeOf(n, r, host); err != nil {
			return fmt.Errorf("probing the exchange between %d cores: %w", n, err)
		}
	}
	return nil
}

func (b *prober) exchangeOf(n int, r *Result, host hostinfo.Host) error {
	sets := b.profile.sets(n, host.CPU.L3, usable(host))
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
		cell := Cell{Cores: n, Bytes: set}
		for _, way := range exchangeWays(set, host.CPU.L2) {
			half := int(set) / 2 / way.piece * way.piece
			if half == 0 {
				continue
			}
			calls := exchangers(memory, half, way)
			us, err := b.best(b.cores[:n], func(i int) func() error { return calls[i] })
			if err != nil {
				return fmt.Errorf("%d bytes: %w", half, err)
			}
			cell.GBps = max(cell.GBps, float64(half)/us/1e3)
		}
		if cell.GBps > 0 {
			r.Exchange = append(r.Exchange, cell)
		}
	}
	return nil
}

// exchangers let every core copy bytes, piece by piece, into shared memory, and take
// as many from there, each piece from another core: every pair has its turn, near or
// far, as in a collective. Each core is one piece ahead of what it has taken, so
// that none waits for stores that are still in flight.
func exchangers(memory [][]byte, bytes int, way exchangeWay) []func() error {
	type side struct {
		_     pad
		given atomic.Int64 // pieces
		_     pad
		slots [exchangeSlots][]byte
	}
	sides := make([]side, len(memory))
	calls := make([]func() error, len(memory))
	for i := range sides {
		for slot := range exchangeSlots {
			sides[i].slots[slot] = make([]byte, way.piece)
		}
		from, to := memory[i][:bytes], memory[i][bytes:2*bytes]
		given, taken := 0, 0
		await := func(from *side, pieces int) {
			for from.given.Load() < int64(pieces) {
				vec.Pause()
			}
		}
		give := func(off int) {
			// Whoever took the piece that was in the slot did so before it gave out
			// the next but one.
			if last := given - exchangeSlots; last >= 0 {
				await(&sides[counterpart(len(sides), i, last)], last+3)
			}
			vec.Copy(sides[i].slots[given%exchangeSlots], from[off:off+way.piece])
			given++
			sides[i].given.Store(int64(given))
		}
		take := func(off int) {
			other := &sides[counterpart(len(sides), i, taken)]
			await(other, taken+1)
			way.store(to[off:off+way.piece], other.slots[taken%exchangeSlots])
			taken++
		}
		calls[i] = func() error {
			give(0)
			for off := way.piece; off < bytes; off += way.piece {
				give(off)
				take(off - way.piece)
			}
			take(bytes - way.piece)
			return nil
		}
	}
	return calls
}

// counterpart is the core of an even number with which core i exchanges in a round; in
// each round every core has one, and in one round less than there are cores it meets
// all others. All but the last core meet those with which they add up to the round,
// and the one that would meet itself meets the last.
func counterpart(cores, i, round int) int {
	last := cores - 1
	round %= last
	if i == last {
		return round * (last + 1) / 2 % last // half of the round: last is odd
	}
	if other := (round - i + last) % last; other != i {
		return other
	}
	return last
}
