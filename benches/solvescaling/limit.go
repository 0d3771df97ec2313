package solvescaling

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// triadValues is the length of each vector of the triad. Three of them are larger than the caches of a core. Tests
// reduce it.
var triadValues = 4 << 20

// triad measures the bandwidth in GB/s of a = b + s*c on all ranks at once, counted as in stream.c: three vectors,
// without write-allocate. Sweeps are made before and after each solve, because the speed of a machine varies.
type triad struct {
	once   func() (seconds float64, err error) // makes one sweep on this rank
	bytes  float64                             // bytes that a sweep moves
	sweeps int                                 // number of sweeps per call
	gbps   []float64                           // of each sweep
}

// newTriad prepares sweeps on CPUs: at least a dozen in all, given the number of solves.
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

// sweep measures the bandwidth now.
func (t *triad) sweep(ctx context.Context, s *bench.State) error {
	for range t.sweeps {
		if err := s.Barrier(ctx); err != nil {
			return err
		}
		seconds, err := t.once()
		if err != nil {
			return err
		}
		slowest, err := maxOverRanks(ctx, s, seconds)
		if err != nil {
			return err
		}
		t.gbps = append(t.gbps, t.bytes*float64(s.Size())/slowest/1e9)
	}
	return nil
}

// best returns the highest bandwidth of any sweep.
func (t *triad) best() float64 { return slices.Max(t.gbps) }

// typical returns the bandwidth of the median sweep. Ranks of a solver wait for each other after every pass over
// memory, as they do after every sweep. On a machine that is sometimes disturbed they get this bandwidth, not the
// best one.
func (t *triad) typical() float64 { return stats.Median(t.gbps) }

// memory is the memory that this process held before the set-up, in bytes.
type memory struct{ before float64 }

// newMemory frees the memory of earlier points and resets the peak counter of the operating system.
func newMemory() *memory {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return &memory{}
	}
	return &memory{status("VmRSS:")}
}

// grown returns the growth of the peak since newMemory in bytes, or 0 if it cannot be measured.
func (m *memory) grown() float64 {
	if m.before == 0 {
		return 0
	}
	return max(0, status("VmHWM:")-m.before)
}

// status returns a size in bytes from /proc/self/status, or 0 if it is missing.
func status(field string) (kib float64) {
	text, _ := os.ReadFile("/proc/self/status")
	if _, rest, found := strings.Cut(string(text), "\n"+field); found {
		_, _ = fmt.Sscan(rest, &kib)
	}
	return 1024 * kib
}
