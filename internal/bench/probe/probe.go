// Package probe measures the limits of this host: how fast 1 to n cores copy and read memory at
// each working-set size, how fast they exchange the contents of private memory, and how long a
// cache line takes from one core to another. The times of collectives are compared with these limits.
//
// Only [Measure] measures. The methods of [Result] are pure, so that limits can be computed from a file
// of any host. A stored result is used only on the same class of host and by the same version of
// kernbench; see [Result.Check].
//
// The probe uses all cores that the control group grants to this process, even if the process itself
// is bound to fewer: a limit belongs to the machine and not to one rank. The package does not judge
// results and knows nothing about collectives.
package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Profile sets how thoroughly to probe.
type Profile struct {
	Name   string
	Time   time.Duration // sampling time per number
	Step   int64         // factor between sizes
	Memory int64         // maximum bytes that all cores touch together
	Hops   int           // maximum number of core pairs
	Counts []int         // numbers of cores; if empty, the powers of two and the number of all cores
}

// Quick takes about two seconds on a few idle cores. Benches use it if no result is stored.
// Thorough resolves every cache, and exceeds last-level caches of up to half a gigabyte.
var (
	Quick    = Profile{Name: "quick", Time: 20 * time.Millisecond, Step: 8, Memory: 256 << 20, Hops: 3}
	Thorough = Profile{Name: "thorough", Time: 200 * time.Millisecond, Step: 2, Memory: 2 << 30, Hops: 15}
)

// ErrCoreCount means that a profile asks for more cores than this process may use.
var ErrCoreCount = errors.New("no such number of cores")

// Measure probes this host. It uses every core that the control group grants to this process, so
// nothing else should run meanwhile.
func Measure(ctx context.Context, p Profile, now time.Time) (Result, error) {
	host := hostinfo.Local()
	cores, err := allowedCores(host.CPU.Quota)
	if err != nil {
		return Result{}, err
	}
	if len(p.Counts) == 0 {
		p.Counts = coreCounts(len(cores))
	}
	p.Counts = slices.Compact(slices.Sorted(slices.Values(p.Counts)))
	for _, n := range p.Counts {
		if n < 1 || n > len(cores) {
			return Result{}, fmt.Errorf("probing %d: %w: this process may use 1 to %d", n, ErrCoreCount, len(cores))
		}
	}
	// A rank that is bound to one core has GOMAXPROCS=1, but the probe needs a spinning thread on every core.
	procs := runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), len(cores)+1))
	defer runtime.GOMAXPROCS(procs)

	r := Result{Schema: Schema, Class: Class(host), Version: Version(host.Build), Host: host.Hostname,
		Time: now.UTC(), Profile: p.Name, Cores: len(cores)}
	before := hostinfo.Snapshot(hostinfo.Root())
	spent, _, _ := proc.TreeTicks(hostinfo.Root(), os.Getpid())
	b := prober{ctx: ctx, profile: p, cores: cores}
	if err := b.bandwidth(&r, host); err != nil {
		return Result{}, err
	}
	if len(cores) > 1 {
		if err := errors.Join(b.latency(&r), b.exchange(&r, host)); err != nil {
			return Result{}, err
		}
	}
	after := hostinfo.Snapshot(hostinfo.Root())
	if own, processes, ok := proc.TreeTicks(hostinfo.Root(), os.Getpid()); ok {
		r.Disturbed = disturbance(before, after, own-min(own, spent), processes)
	}
	return r, r.validate()
}

// prober measures one result.
type prober struct {
	ctx     context.Context
	profile Profile
	cores   []int
}

// config returns the sampling configuration of benches, with less time.
func (b *prober) config() measure.Config {
	cfg := measure.Default()
	cfg.Stop.MinSamples, cfg.Stop.RelNoise = 5, 0
	cfg.Stop.MinTime, cfg.Stop.MaxTime = 0, b.profile.Time
	cfg.Warmup.MaxTime = b.profile.Time / 2
	return cfg
}

// minTime samples one call per core, on all cores at once, and returns the shortest time of the slowest core in
// microseconds: a limit is the best value observed, because disturbances only make it worse. Each call runs in its own
// goroutine, on a thread bound to its core.
func (b *prober) minTime(ids []int, call func(i int) func() error) (us float64, err error) {
	groups := syncgroup.Local(len(ids))
	results := make([]*measure.Result, len(ids))
	errs := make([]error, len(ids))
	var wait sync.WaitGroup
	for i, core := range ids {
		wait.Go(func() {
			runtime.LockOSThread() // never unlocked: the bound thread ends with the goroutine
			if _, errs[i] = cores.BindThread(core); errs[i] != nil {
				groups[i].Abort(errs[i].Error())
				return
			}
			results[i], errs[i] = measure.Run(b.ctx, b.config(), clock.Monotonic(), groups[i], measure.Body{Call: call(i)})
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("on cores %v: %w", ids, err)
	}
	if us = slices.Min(measure.PerIterationMax(results[0].Samples)); !(us > 0) {
		return us, fmt.Errorf("on cores %v: a call took %v µs: the clock is too coarse", ids, us)
	}
	return us, nil
}

// allowedCores returns the cores that the control group grants to this process, limited to its CPU quota.
func allowedCores(quota float64) ([]int, error) {
	granted, err := cores.Granted()
	if err == nil && quota > 0 {
		granted = granted[:max(1, min(len(granted), int(quota)))]
	}
	return granted, err
}

// PeakGFLOPS measures the peak arithmetic rate of the calling thread's core for an operand type. It
// is the best of several runs of about a millisecond, because disturbances can only reduce the
// rate.
func PeakGFLOPS(d dtype.DType) float64 {
	p := gemm.PeakOf(d)
	rounds, best := 1000, 0.0
	for range 12 {
		start := time.Now()
		p.Run(rounds)
		took := time.Since(start)
		best = max(best, p.Flops*float64(rounds)/float64(took.Nanoseconds()))
		if took < time.Millisecond {
			rounds *= 2
		}
	}
	return best
}
