package solvescaling

import (
	"bytes"
	"context"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// triadValues is the length of each vector of the triad: three of them are
// larger than a core's caches. Tests take less.
var triadValues = 4 << 20

// triad measures the bandwidth in GB/s of a = b + s*c on all ranks at once, counted
// as stream.c does: three vectors moved, no write-allocate. Sweeps are made before
// and after each solve, because a machine's speed wanders.
type triad struct {
	once   func() (seconds float64, err error) // a sweep of this rank
	bytes  float64                             // that it moves
	sweeps int                                 // in one go
	gbps   []float64                           // of each sweep
}

// newTriad prepares at least a dozen sweeps by processors beside so many solves.
func newTriad(solves int) *triad {
	a, b, c := make([]float64, triadValues), make([]float64, triadValues), make([]float64, triadValues)
	for i := range b {
		b[i], c[i] = 1, 2
	}
	sparse.Axpby(a, 1, b, 3, c)
	return &triad{bytes: float64(24 * triadValues), sweeps: max(4, 12/(solves+1)), once: func() (float64, error) {
		began := time.Now()
		sparse.Axpby(a, 1, b, 3, c)
		return time.Since(began).Seconds(), nil
	}}
}

// sweep measures now.
func (t *triad) sweep(ctx context.Context, s *bench.State) error {
	for range t.sweeps {
		if err := s.Barrier(ctx); err != nil {
			return err
		}
		seconds, err := t.once()
		if err != nil {
			return err
		}
		all, err := s.Gather(ctx, seconds)
		if err != nil {
			return err
		}
		t.gbps = append(t.gbps, t.bytes*float64(s.Size())/slices.Max(all[0])/1e9)
	}
	return nil
}

// best is what the memory can give.
func (t *triad) best() float64 { return slices.Max(t.gbps) }

// typical is the median sweep: what the memory gives to ranks that wait for each
// other after every sweep, as those of a solver do, on a machine that is now and
// then busy elsewhere.
func (t *triad) typical() float64 {
	sorted := slices.Sorted(slices.Values(t.gbps))
	return sorted[len(sorted)/2]
}

// memory is how much this process held before the set-up.
type memory struct{ before float64 }

// newMemory gives back what earlier points left and resets the kernel's peak
// counter.
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
