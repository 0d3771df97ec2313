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

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// Profile is how thoroughly to probe.
type Profile struct {
	Name   string
	Time   time.Duration // sampled per number
	Step   int64         // factor between sizes
	Memory int64         // bytes that all cores touch together, at most
	Hops   int           // pairs of cores at most
	Counts []int         // numbers of cores; none: the powers of two, and all
}

// Quick takes about two seconds on a few idle cores; benches use it where no result
// is stored. Thorough resolves every cache, and exceeds last-level caches of up to
// half a gigabyte.
var (
	Quick    = Profile{Name: "quick", Time: 20 * time.Millisecond, Step: 8, Memory: 256 << 20, Hops: 3}
	Thorough = Profile{Name: "thorough", Time: 200 * time.Millisecond, Step: 2, Memory: 2 << 30, Hops: 15}
)

// ErrCounts marks a profile with more cores than this process may use.
var ErrCounts = errors.New("no such number of cores")

// Measure probes this host. It uses every core that the control group grants to
// this process, so nothing else should run meanwhile.
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
			return Result{}, fmt.Errorf("probing %d: %w: this process may use 1 to %d", n, ErrCounts, len(cores))
		}
	}
	// A rank bound to one core has one running goroutine: not enough for as many
	// spinning threads as there are cores.
	procs := runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), len(cores)+1))
	defer runtime.GOMAXPROCS(procs)

	r := Result{Schema: Schema, Class: Class(host), Version: Version(host.Build), Host: host.Hostname,
		Time: now.UTC(), Profile: p.Name, Cores: len(cores)}
	before, _ := hostinfo.Snapshot(hostinfo.Root()) // without /proc nothing is known of others
	spent, _, _ := hostinfo.TreeTicks(hostinfo.Root(), os.Getpid())
	b := prober{ctx: ctx, profile: p, cores: cores}
	if err := b.bandwidth(&r, host); err != nil {
		return Result{}, err
	}
	if len(cores) > 1 {
		if err := errors.Join(b.latency(&r), b.exchange(&r, host)); err != nil {
			return Result{}, err
		}
	}
	after, _ := hostinfo.Snapshot(hostinfo.Root())
	if own, processes, ok := hostinfo.TreeTicks(hostinfo.Root(), os.Getpid()); ok {
		r.Disturbed = disturbance(before, after, own-min(own, spent), processes)
	}
	return r, r.valid()
}

// prober measures one result.
type prober struct {
	ctx     context.Context
	profile Profile
	cores   []int
}

// config samples as benches do, for a shorter time.
func (b *prober) config() measure.Config {
	cfg := measure.Default()
	cfg.Stop.MinSamples, cfg.Stop.RelNoise = 5, 0
	cfg.Stop.MinTime, cfg.Stop.MaxTime = 0, b.profile.Time
	cfg.Warmup.MaxTime = b.profile.Time / 2
	return cfg
}

// time samples one call per core, all cores at once, and summarizes the slowest
// core's times in microseconds. Each call is made by a goroutine of its own on a
// thread bound to its core.
func (b *prober) time(cores []int, call func(i int) func() error) (stats.Summary, error) {
	groups := syncgroup.Local(len(cores))
	results := make([]*measure.Result, len(cores))
	errs := make([]error, len(cores))
	var wait sync.WaitGroup
	for i, core := range cores {
		wait.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread, bound to a core, ends with the goroutine
			if errs[i] = bindThread(core); errs[i] != nil {
				groups[i].Abort(errs[i].Error())
				return
			}
			results[i], errs[i] = measure.Run(b.ctx, b.config(), measure.Monotonic(), groups[i], measure.Body{Call: call(i)})
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return stats.Summary{}, fmt.Errorf("on cores %v: %w", cores, err)
	}
	s := measure.Analyze(results[0].Samples).Summary
	if !(s.Min > 0) {
		return s, fmt.Errorf("on cores %v: a call took %v us: the clock is too coarse", cores, s.Min)
	}
	return s, nil
}

// best is the shortest of the sampled times: a limit is the best that was seen, and
// whatever else the machine does only makes it look worse.
func (b *prober) best(cores []int, call func(i int) func() error) (us float64, err error) {
	s, err := b.time(cores, call)
	return s.Min, err
}
