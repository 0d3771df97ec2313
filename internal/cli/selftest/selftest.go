// Package selftest checks an installation of kernbench. It runs the conformance suite of every available backend, over
// shared memory and over sockets, and tests kernels, worker processes and stored times. It measures nothing and leaves
// no files or processes behind.
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
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
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
	s.kernels(ctx)
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
