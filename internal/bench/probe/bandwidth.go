package probe

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// smallestSet fits the first cache of every processor.
	smallestSet = 16 << 10
	// usualCache stands in for a last-level cache of unknown size.
	usualCache = 64 << 20
	// memoryShare is the part of memory that the sets of one number of cores take.
	// The first cores keep larger ones for when fewer take part: of 128 cores that is
	// four and a half times as much in all.
	memoryShare = 16
)

// coreCounts are the numbers of cores to probe: the powers of two, and all.
func coreCounts(n int) []int {
	var counts []int
	for k := 1; k < n; k *= 2 {
		counts = append(counts, k)
	}
	return append(counts, n)
}

// sets are the working sets per core for so many cores: from the first cache
// by the profile's factor, the last so large that together they exceed the
// last-level cache four times, as far as the profile and the host's memory allow. Of
// twice as much, a cache that does not always evict the oldest still holds a part.
func (p Profile) sets(cores int, lastLevel, memory int64) []int64 {
	lastLevel = cmp.Or(lastLevel, usualCache)
	total := min(4*lastLevel, p.Memory)
	if memory > 0 {
		total = min(total, memory/memoryShare)
	}
	largest := max(total/int64(cores)/blockBytes*blockBytes, 4*smallestSet)
	var out []int64
	for s := int64(smallestSet); s <= largest/2; s *= p.Step { // none close to the largest
		out = append(out, s)
	}
	return append(out, largest)
}

// room is how much memory each core needs for the sets of all numbers of cores: the
// i-th is first used by the least number above i, with the largest set.
func room(cores int, sets map[int][]int64) []int64 {
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

// usable is the memory that this process may fill.
func usable(host hostinfo.Host) int64 { return cmp.Or(host.MemoryMax, host.Memory) }

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
		lists[n] = b.profile.sets(n, host.CPU.L3, usable(host))
	}
	for _, need := range room(slices.Max(b.profile.Counts), lists) {
		m, err := touched(int(need))
		if err != nil {
			return err
		}
		memory = append(memory, m)
	}
	for _, n := range b.profile.Counts {
		for _, set := range lists[n] {
			moved := float64(set) * float64(n) / 1e3 // GB/s from microseconds
			read, err := b.best(b.cores[:n], func(i int) func() error { return reader(memory[i][:set]) })
			if err != nil {
				return fmt.Errorf("probing the read bandwidth: %w", err)
			}
			r.Read = append(r.Read, Cell{n, set, moved / read})
			copied, err := b.best(b.cores[:n], func(i int) func() error { return copier(vec.Copy, memory[i][:set]) })
			if err != nil {
				return fmt.Errorf("probing the copy bandwidth: %w", err)
			}
			if set > host.CPU.L2 { // where streaming stores may pay
				streamed, err := b.best(b.cores[:n], func(i int) func() error { return copier(vec.CopyNT, memory[i][:set]) })
				if err != nil {
					return fmt.Errorf("probing the copy bandwidth: %w", err)
				}
				copied = min(copied, streamed)
			}
			r.Copy = append(r.Copy, Cell{n, set, moved / copied})
		}
	}
	return nil
}

// touched maps memory and writes to every page of it, in huge pages where the
// kernel provides them, as the collectives' own memory is.
func touched(bytes int) ([]byte, error) {
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

// copier copies the first half of the memory to the second.
func copier(move func(dst, src []byte), m []byte) func() error {
	half := len(m) / 2
	src, dst := m[:half], m[half:2*half]
	return func() error { move(dst, src); return nil }
}

// A read is a reduction of several streams into one block that stays in the
// first cache, so that a fraction of what is loaded is stored, and only there.
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
