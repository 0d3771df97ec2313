package gemm_test

import (
	"fmt"
	"testing"

	"github.com/kernbench/kernbench/internal/dtype"
	"github.com/kernbench/kernbench/internal/gemm"
	"github.com/kernbench/kernbench/internal/gemm/proof"
)

// Cubes of the sizes where something changes: overhead, in place, packed.
func BenchmarkMultiply(b *testing.B) {
	for _, d := range []dtype.DType{dtype.F32, dtype.F64, dtype.BF16} {
		for _, n := range []int{8, 16, 32, 64, 128, 512, 2048} {
			b.Run(fmt.Sprintf("type=%v/n=%d", d, n), func(b *testing.B) {
				e, err := gemm.Builtin().Open(1)
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				x, y, c := gemm.New(d, n, n), gemm.New(d, n, n), gemm.New(gemm.Result(d), n, n)
				proof.Reals(x, 1)
				proof.Reals(y, 2)
				for b.Loop() {
					if err := e.Multiply(c, x, y); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(2*float64(n*n*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
