package probe

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// smallestSet fits into the first-level cache of every processor.
	smallestSet = 16 << 10
	// usualCache is the size assumed for the last-level cache if it is unknown, in bytes.
	usualCache = 64 << 20
	// memoryShare limits the working sets for one number of cores to 1/memoryShare of the host's
	// memory in total. The same memory serves all numbers of cores, and each core needs room for its
	// largest set. The first cores are used by small numbers of cores too, with larger sets, so all
	// cores together use more than that share: 4.5 times as much with 128 cores.
	memoryShare = 16
)

// coreCounts returns the numbers of cores to probe: the powers of two, and all.
func coreCounts(n int) []int {
	var counts []int
	for k := 1; k < n; k *= 2 {
		counts = append(counts, k)
	}
	return append(counts, n)
}

// workingSets returns the sizes of the working sets per core, in bytes. They start within the
// first-level cache and grow by the profile's factor, until all cores together use four times the
// last-level cache, if the profile and the host's memory allow that. Twice the cache would not be
// enough: a cache that does not always evict the oldest line would still hold a part.
func (p Profile) workingSets(cores int, lastLevel, memory int64) []int64 {
	lastLevel = cmp.Or(lastLevel, usualCache)
	total := min(4*lastLevel, p.Memory)
	if memory > 0 {
		total = min(total, memory/memoryShare)
	}
	largest := max(total/int64(cores)/blockBytes*blockBytes, 4*smallestSet)
	var out []int64
	for s := int64(smallestSet); s <= largest/2; s *= p.Step { // skip sizes close to the largest
		out = append(out, s)
	}
	return append(out, largest)
}

// memoryPerCore returns how many bytes each core needs for all its working sets. sets are the working
// sets by number of cores. A core's largest set belongs to the smallest number of cores that includes it.
func memoryPerCore(cores int, sets map[int][]int64) []int64 {
	needs := make([]int64, cores)
	for i := range needs {
		for n, list := range sets {
			if n > i {
				needs[i] = max(needs[i], list[len(list)-1])
			}
		}
	}
	return needs
}

// usableMemory returns the memory that this process may fill.
func usableMemory(host hostinfo.Host) int64 { return cmp.Or(host.MemoryMax, host.Memory) }

// bandwidth fills in the copy and read tables.
func (b *prober) bandwidth(r *Result, host hostinfo.Host) error {
	memory := make([][]byte, 0, len(b.cores))
	defer func() {
		for _, m := range memory {
			unix.Munmap(m)
		}
	}()
	lists := make(map[int][]int64)
	for _, n := range b.profile.Counts {
		lists[n] = b.profile.workingSets(n, host.CPU.L3, usableMemory(host))
	}
	for _, need := range memoryPerCore(slices.Max(b.profile.Counts), lists) {
		m, err := mapTouched(int(need))
		if err != nil {
			return err
		}
		memory = append(memory, m)
	}
	for _, n := range b.profile.Counts {
		for _, set := range lists[n] {
			gbps := func(call func(m []byte) func() error) (float64, error) {
				us, err := b.minTime(b.cores[:n], func(i int) func() error { return call(memory[i][:set]) })
				return float64(set) * float64(n) / us / 1e3, err
			}
			read, err := gbps(reader)
			if err != nil {
				return fmt.Errorf("probing the read bandwidth: %w", err)
			}
			r.Read = append(r.Read, Cell{n, set, read})
			copied, err := gbps(func(m []byte) func() error { return copier(vec.Copy, m) })
			if err == nil && set > host.CPU.L2 { // where streaming stores may be faster
				var streamed float64
				streamed, err = gbps(func(m []byte) func() error { return copier(vec.CopyNT, m) })
				copied = max(copied, streamed)
			}
			if err != nil {
				return fmt.Errorf("probing the copy bandwidth: %w", err)
			}
			r.Copy = append(r.Copy, Cell{n, set, copied})
		}
	}
	return nil
}

// mapTouched maps memory and writes to every page of it, so that no page fault is timed. It asks for
// huge pages, which the collectives use as well.
func mapTouched(bytes int) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes to probe with: %w", bytes, err)
	}
	unix.Madvise(m, unix.MADV_HUGEPAGE) // without huge pages it is only slower
	for i := 0; i < len(m); i += 4096 {
		m[i] = 1
	}
	return m, nil
}

// copier returns a function that copies the first half of the memory to the second.
func copier(move func(dst, src []byte), m []byte) func() error {
	half := len(m) / 2
	src, dst := m[:half], m[half:2*half]
	return func() error { move(dst, src); return nil }
}

// A read is measured as a reduction of several streams into one block. The block stays in the
// first-level cache, so the stores cost no memory bandwidth.
const (
	readBlock   = 4 << 10
	readSources = 4
	blockBytes  = readBlock * readSources
)

func reader(m []byte) func() error {
	kernel := vec.Lookup(dtype.F32, vec.Sum)
	block := make([]byte, readBlock)
	sources := make([][]byte, readSources)
	stream := len(m) / readSources
	return func() error {
		for at := 0; at+readBlock <= stream; at += readBlock {
			for i := range sources {
				sources[i] = m[i*stream+at : i*stream+at+readBlock]
			}
			kernel.Reduce(block, sources)
		}
		return nil
	}
}

// exchangeMethod is a way to exchange memory: in pieces that stay in the caches of both cores, with
// ordinary or streaming stores.
type exchangeMethod struct {
	piece int // bytes per piece
	store func(dst, src []byte)
}

// exchangeMethods returns the methods to try for a working set. The fastest one gives the limit. Larger
// pieces need fewer flags, as long as at least two pieces can overlap.
func exchangeMethods(set, secondLevel int64) []exchangeMethod {
	const short, long = 64 << 10, 256 << 10
	switch {
	case set < 4*long:
		return []exchangeMethod{{short, vec.Copy}}
	case set <= secondLevel:
		return []exchangeMethod{{long, vec.Copy}}
	}
	return []exchangeMethod{{long, vec.Copy}, {long, vec.CopyNT}}
}

// exchangeSlots is the number of pieces that a core may have in flight. With four, a core does not wait
// for other cores that are equally fast.
const exchangeSlots = 4

// exchange fills in the rates at which 2, 4, ... cores exchange the contents of private memory.
func (b *prober) exchange(r *Result, host hostinfo.Host) error {
	for _, n := range b.profile.Counts {
		if n%2 != 0 {
			continue // a single core, or one core without a partner
		}
		if err := b.exchangeOf(n, r, host); err != nil {
			return fmt.Errorf("probing the exchange between %d cores: %w", n, err)
		}
	}
	return nil
}

// exchangeOf measures the exchange between the first n cores for every working-set size and keeps
// the rate of the fastest method. Each core sends half of its working set and receives the other
// half.
func (b *prober) exchangeOf(n int, r *Result, host hostinfo.Host) error {
	sets := b.profile.workingSets(n, host.CPU.L3, usableMemory(host))
	memory := make([][]byte, n)
	for i := range memory {
		m, err := mapTouched(int(sets[len(sets)-1]))
		if err != nil {
			return err
		}
		defer unix.Munmap(m)
		memory[i] = m
	}
	for _, set := range sets {
		cell := Cell{Cores: n, Bytes: set}
		for _, way := range exchangeMethods(set, host.CPU.L2) {
			half := int(set) / 2 / way.piece * way.piece
			if half == 0 {
				continue
			}
			calls := exchangers(memory, half, way)
			us, err := b.minTime(b.cores[:n], func(i int) func() error { return calls[i] })
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

// exchangers returns a call per core. Each call copies the given number of bytes, piece by piece, into
// shared memory, and takes as many bytes from there. It takes each piece from another core, so that near
// and far pairs alternate as in a collective. Each core gives one piece more than it has taken, so that
// no core waits for stores in flight.
func exchangers(memory [][]byte, bytes int, way exchangeMethod) []func() error {
	type side struct {
		_     pad
		given atomic.Int64 // pieces given so far
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
			// Wait until the slot is free. The core that takes a piece of round last does so before it
			// gives its piece of round last+2, which is its piece number last+3.
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

// counterpart returns the core with which core i exchanges in a round, for an even number of cores. In
// each round every core has one counterpart, and in cores-1 rounds it has every other core once. This is
// the circle method for round-robin tournaments: the numbers of two counterparts add up to the round,
// modulo cores-1. The core that would get itself gets the last core.
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
