package gemm_test

import (
	"fmt"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
)

// Cubes of the sizes where the method changes: overhead, in place, packed.
func BenchmarkMultiply(b *testing.B) {
	for _, d := range []dtype.DType{dtype.F32, dtype.F64, dtype.BF16} {
		for _, n := range []int{8, 16, 32, 64, 128, 512, 2048} {
			b.Run(fmt.Sprintf("type=%v/n=%d", d, n), func(b *testing.B) {
				e := must.Get(gemm.Builtin().Open(1))(b)
				defer e.Close()
				x, y, c := gemm.New(d, n, n), gemm.New(d, n, n), gemm.New(gemm.Result(d), n, n)
				must.Do(b, proof.Reals(x, y, 1))
				for b.Loop() {
					must.Do(b, e.Multiply(c, x, y))
				}
				b.ReportMetric(2*float64(n*n*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// A product in pieces compared with the whole product, which shows the cost of the pieces.
func BenchmarkOverlap(b *testing.B) {
	const m, n = 2048, 4096
	for _, k := range []int{256, 2048} {
		x, y, c := gemm.New(dtype.F32, m, k), gemm.New(dtype.F32, k, n), gemm.New(dtype.F32, m, n)
		must.Do(b, proof.Reals(x, y, 1))
		for _, split := range []string{"m", "n"} {
			for _, parts := range []int{0, 1, 4, 16} {
				b.Run(fmt.Sprintf("k=%d/split=%s/pieces=%d", k, split, parts), func(b *testing.B) {
					e, err := gemm.Builtin().Open(2)
					if err != nil {
						b.Fatal(err)
					}
					defer e.Close()
					var pieces []gemm.Piece
					for p := range parts {
						from, to := p*m/parts, (p+1)*m/parts
						if split == "n" {
							from, to = p*n/parts, (p+1)*n/parts
							pieces = append(pieces, gemm.Piece{C: c.ColRange(from, to), A: x, B: y.ColRange(from, to)})
						} else {
							pieces = append(pieces, gemm.Piece{C: c.RowRange(from, to), A: x.RowRange(from, to), B: y})
						}
					}
					for b.Loop() {
						if parts == 0 { // the whole product
							err = e.Multiply(c, x, y)
						} else {
							err = e.(gemm.Overlapper).Overlap(pieces, 0, nil)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
