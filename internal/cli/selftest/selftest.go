// Package selftest checks an installation of kernbench. It proves the schedules of every registered
// algorithm, runs the conformance suite of every available backend, and tests everything that runs rely
// on: kernels, journal, figures, shared memory, sockets and worker processes. It measures nothing and
// leaves no files or processes behind.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/verify"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gemmtest"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// Status is the outcome of a check.
type Status string

// The outcomes of a check.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped" // does not apply here; the detail says why
)

// Result is one line of the report.
type Result struct {
	Area    string  `json:"area"`
	Name    string  `json:"name"`
	Status  Status  `json:"status"`
	Detail  string  `json:"detail"` // scope of the check, fault, or reason for skipping
	Seconds float64 `json:"seconds"`
}

// Options configures a self-test.
type Options struct {
	Backend  string // if not empty, check only the conformance of this backend
	Launcher string // starts the ranks of that backend; empty means automatic
	Environ  []string
	Report   func(Result) // called with each result
}

// session is one self-test.
type session struct {
	Options
	dir string // temporary folder
}

// Run executes the checks and reports their results. An error means that the self-test itself could
// not run. A cancelled context ends it early.
func Run(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "kernbench-selftest-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	s := session{o, dir}
	if o.Backend != "" {
		s.products(ctx, o.Backend)
		return s.backends(ctx, []string{o.Backend})
	}
	s.host()
	s.kernels(ctx)
	s.schedules(ctx)
	if err := s.workers(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		s.storedTimes()
	}
	return s.backends(ctx, dist.Backends(nil))
}

// skipError is returned by a check that does not apply.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

// skip returns the error of a check that does not apply, with the reason.
func skip(format string, args ...any) error { return &skipError{fmt.Sprintf(format, args...)} }

// check executes one check and reports its result. detail describes what was checked.
func (s session) check(area, name string, check func() (detail string, err error)) {
	began := time.Now()
	detail, err := check()
	r := Result{Area: area, Name: name, Status: Passed, Detail: detail, Seconds: time.Since(began).Seconds()}
	var skipped *skipError
	switch {
	case errors.Is(err, context.Canceled):
		return // interrupted by the user: neither passed nor failed
	case errors.As(err, &skipped):
		r.Status, r.Detail = Skipped, skipped.reason
	case err != nil:
		r.Status, r.Detail = Failed, err.Error()
	}
	s.Report(r)
}

// kernels compares the kernels on this processor with reference implementations.
func (s session) kernels(ctx context.Context) {
	s.check("kernels", "reductions", func() (string, error) {
		err := errors.Join(
			reductions(func(v int64) float64 { return float64(v) }),
			reductions(func(v int64) float32 { return float32(v) }),
			reductions(func(v int64) dist.Float16 { return dtype.Float16From(float32(v)) }),
			reductions(func(v int64) dist.BFloat16 { return dtype.BFloat16From(float32(v)) }),
			reductions(func(v int64) int64 { return v }),
			reductions(func(v int64) int32 { return int32(v) }),
			reductions(func(v int64) uint8 { return uint8(v) }))
		return fmt.Sprintf("%d element types, by %s", len(dtype.All()), vec.Best()), err
	})
	for _, backend := range gemm.Backends() {
		s.products(ctx, backend)
	}
}

// products runs the conformance suite of all matrix-product providers of a backend.
func (s session) products(ctx context.Context, backend string) {
	for _, p := range gemm.On(backend) {
		if ctx.Err() != nil {
			return
		}
		name, threads := "gemm "+p.Name(), 2
		if backend != gemm.Host {
			name, threads = fmt.Sprintf("gemm %s on %s", p.Name(), backend), 1
		}
		s.check("kernels", name, func() (string, error) {
			e, err := p.Open(1)
			if err != nil {
				return "", skip("%v", err)
			}
			e.Close()
			types := lists.Map(p.Types(), func(d dtype.DType) string { return d.String() })
			return strings.Join(types, ", "), errors.Join(gemmtest.Faults(p, threads)...)
		})
	}
}

// reductions checks the reductions of an element type with small integers, whose results are exact
// in any order of operations. The lengths are around multiples of the vector registers, and the
// buffers are misaligned.
func reductions[E dtype.Element](from func(int64) E) error {
	d := dtype.Of[E]()
	for r, op := range map[dtype.Reduction]vec.Op{dtype.Sum: vec.Sum, dtype.Prod: vec.Prod, dtype.Min: vec.Min,
		dtype.Max: vec.Max} {
		for _, sources := range []int{2, 3, 8} {
			in := verify.NewInputs(1, d, r, sources)
			for _, n := range []int{1, 7, 31, 64, 65, 1000, 4097} {
				want, got := make([]E, n), make([]E, n+1)[1:]
				srcs := make([][]byte, sources)
				for k := range srcs {
					one := make([]E, n+k)[k:]
					for i := range one {
						one[i] = from(in.Value(k, i))
					}
					srcs[k] = dist.Of(one).Bytes()
				}
				for i := range want {
					want[i] = from(in.Reduced(i))
				}
				vec.ReduceN(dist.Of(got).Bytes(), srcs, d, op)
				if !slices.Equal(want, got) {
					return fmt.Errorf("the %s of %d arrays of %d %s is wrong", r, sources, n, d)
				}
			}
		}
	}
	return nil
}

// rankCounts are the rank counts for which schedules are proved: all small ones, which cover the
// corner cases, and larger ones that are a power of two, composite and prime.
var rankCounts = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 31, 32}

// schedules proves every registered algorithm with all its options, and the algorithm of the
// simulated accelerator.
func (s session) schedules(ctx context.Context) {
	for _, collective := range schedule.Collectives() {
		for _, info := range schedule.Algorithms(collective) {
			s.check("schedules", collective+" "+info.Name, func() (string, error) { return prove(ctx, info) })
		}
	}
	s.check("schedules", ccl.LRAB, func() (string, error) { return proveLRAB(ctx) })
}

// prove proves an algorithm for all rank counts with 0 elements, fewer elements than ranks, and an
// indivisible number of elements.
func prove(ctx context.Context, info schedule.Info) (string, error) {
	proved := 0
	for _, ranks := range rankCounts {
		for _, count := range []int{0, 1, ranks - 1, 211} {
			for _, p := range schedule.Variants(info, ranks, count) {
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
				one, err := schedule.New(info.Collective, info.Name, p)
				if err == nil {
					err = schedule.Check(one)
				}
				if err != nil {
					return "", fmt.Errorf("%+v: %w", p, err)
				}
				proved++
			}
		}
	}
	return fmt.Sprintf("%d schedules proved, up to %d ranks", proved, rankCounts[len(rankCounts)-1]), nil
}

// proveLRAB proves the hierarchical all-reduce of the simulated accelerator, and that its kernel
// implements the proved schedule.
func proveLRAB(ctx context.Context) (string, error) {
	proved := 0
	for _, kind := range []topo.Kind{topo.Ring, topo.Torus, topo.Mesh} {
		for _, sips := range []topo.Grid{{W: 1, H: 1}, {W: 2, H: 1}, {W: 6, H: 1}, {W: 2, H: 3}, {W: 4, H: 4}} {
			if kind == topo.Ring && sips.H > 1 {
				continue
			}
			for _, cubes := range []topo.Grid{{W: 1, H: 1}, {W: 4, H: 4}, {W: 3, H: 5}} {
				m, err := topo.Default().WithSIPs(kind, sips.W, sips.H)
				if err == nil {
					m, err = m.WithCubes(cubes.W, cubes.H)
				}
				if err != nil {
					return "", err
				}
				for _, root := range []ccl.Root{ccl.Center, ccl.Corner} {
					if ctx.Err() != nil {
						return "", ctx.Err()
					}
					shape := ccl.Shape{N: 6, Cubes: m.Cubes, SIPs: m.SIPs, Root: root}
					if err := shape.Prove(m); err != nil {
						return "", fmt.Errorf("%s of %dx%d SIPs, %dx%d cubes, root %v: %w", kind, sips.W, sips.H, cubes.W, cubes.H, root,
							err)
					}
					proved++
				}
			}
		}
	}
	return fmt.Sprintf("%d shapes proved, with their kernels", proved), nil
}

// Protocol checks whether a program speaks the protocol of docs/protocol.md.
func Protocol(ctx context.Context, path, interpreter string, report func(Result)) {
	s := session{Options: Options{Report: report}}
	for _, d := range python.Demands() {
		if ctx.Err() != nil {
			return
		}
		s.check("protocol", d.Name, func() (string, error) {
			saw, err := d.Check(ctx, path, interpreter)
			if errors.Is(err, python.ErrNotApplicable) {
				err = skip("%v", err)
			}
			return saw, err
		})
	}
}
