package selftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/verify"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/gemmtest"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// kernels compares what this processor computes with plain references.
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

// products runs the conformance suite of the providers of matrix products on a backend.
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

// reductions combines whole numbers, which no order of operations can round, at
// lengths around those of the vector registers and off their alignment.
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
