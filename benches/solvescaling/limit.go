package solvescaling

import (
	"bytes"
	"context"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/sparse"
)

// triadValues is the length of each vector of the triad: three of them are
// larger than a core's caches. Tests take less.
var triadValues = 4 << 20

// triad is the bandwidth in GB/s of a = b + s*c on all ranks at once, counted as
// stream.c does: three vectors moved, no write-allocate. The best sweep is what
// the memory can give; the median one is what it gives to ranks that wait for each
// other after every sweep, as those of a solver do, on a machine that is now and
// then busy elsewhere.
func triad(ctx context.Context, s *decl.State) (best, typical float64, err error) {
	const rounds = 11
	a, b, c := make([]float64, triadValues), make([]float64, triadValues), make([]float64, triadValues)
	for i := range b {
		b[i], c[i] = 1, 2
	}
	sparse.Axpby(a, 1, b, 3, c)
	moved := float64(24 * triadValues * s.Size())
	var gbps []float64
	for range rounds {
		if err := s.Barrier(ctx); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		sparse.Axpby(a, 1, b, 3, c)
		all, err := gather(ctx, s, time.Since(began).Seconds())
		if err != nil {
			return 0, 0, err
		}
		gbps = append(gbps, moved/slices.Max(all[0])/1e9)
	}
	slices.Sort(gbps)
	return gbps[rounds-1], gbps[rounds/2], nil
}

// memory is how much this process held before the set-up.
type memory struct{ before float64 }

// newMemory gives back what earlier points left and lets the kernel count the
// peak anew.
func newMemory() *memory {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return &memory{}
	}
	return &memory{status("VmRSS:")}
}

// grown is by how many bytes the peak exceeds what was held before; 0 where
// that cannot be known.
func (m *memory) grown() float64 {
	if m.before == 0 {
		return 0
	}
	return max(0, status("VmHWM:")-m.before)
}

// status is a size in bytes from this process' status, 0 if it is not there.
func status(field string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(text, []byte("\n"+field))
	words := bytes.Fields(rest)
	if !found || len(words) == 0 {
		return 0
	}
	kib, err := strconv.ParseFloat(string(words[0]), 64)
	if err != nil {
		return 0
	}
	return 1024 * kib
}
