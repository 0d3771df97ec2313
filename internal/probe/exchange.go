package probe

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/hostinfo"
	"github.com/kernbench/kernbench/internal/vec"
)

// exchangeWay is a way of crossing: in pieces that stay in the caches of both cores,
// with stores past the caches or not.
type exchangeWay struct {
	piece int // bytes that cross at a time
	store func(dst, src []byte)
}

// exchangeWays are those for a working set of which the better one is the limit. The
// fewer flags the better, as long as there are two pieces to overlap.
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

// exchangeSlots is how many pieces a side holds for the other: see exchangers.
const exchangeSlots = 4

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
		cell := Cell{Cores: n, Bytes: set}
		for _, way := range exchangeWays(set, host.CPU.L2) {
			half := int(set) / 2 / way.piece * way.piece
			if half == 0 {
				continue
			}
			pairs := make([]ends, n/2)
			for i := range pairs {
				pairs[i] = exchangers([2][]byte(memory[2*i:]), half, way)
			}
			us, err := b.best(b.cores[:n], func(i int) func() error { return pairs[i/2].of(i % 2) })
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

// exchangers let both cores copy bytes, piece by piece, into memory that both
// reach, and take the other's from there. Each gives out one piece more than it has
// taken, so that nobody waits for stores that are still on their way. With four slots
// nobody overwrites what the other still reads: whoever gives out piece k+1 has taken
// k-1, which the other gave out after it had taken k-3, the last in that slot.
func exchangers(memory [2][]byte, bytes int, way exchangeWay) ends {
	type side struct {
		_     pad
		given atomic.Uint64 // pieces
		_     pad
		slots [exchangeSlots][]byte
	}
	sides := new([2]side)
	for i := range sides {
		for slot := range sides[i].slots {
			sides[i].slots[slot] = make([]byte, way.piece)
		}
	}
	end := func(i int) func() error {
		own, other := &sides[i], &sides[1-i]
		from, to := memory[i][:bytes], memory[i][bytes:2*bytes]
		given, taken := uint64(0), uint64(0)
		give := func(off int) {
			vec.Copy(own.slots[given%exchangeSlots], from[off:off+way.piece])
			given++
			own.given.Store(given)
		}
		take := func(off int) {
			for other.given.Load() == taken {
				vec.Pause()
			}
			way.store(to[off:off+way.piece], other.slots[taken%exchangeSlots])
			taken++
		}
		return func() error {
			give(0)
			for off := way.piece; off < bytes; off += way.piece {
				give(off)
				take(off - way.piece)
			}
			take(bytes - way.piece)
			return nil
		}
	}
	return ends{ask: end(0), answer: end(1)}
}
