package gemm

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// Large products of whole tiles agree with the kernels of another level: with A in place, packed for each part and
// packed in advance, in several parts along k, and with C in the caches and past them.
func TestAcross(t *testing.T) {
	for _, d := range []dtype.DType{dtype.BF16, dtype.I8} {
		if !tile.For(tile.Best(), d).Strips {
			continue // this processor has no tile registers
		}
		plain := engineAt(t, tile.AVX512, 1)
		for _, test := range []struct {
			shape  [3]int
			shared bool
		}{{shape: [3]int{512, 512, 512}}, {shape: [3]int{544, 512, 1100}}, {[3]int{512, 1120, 2200}, true}} {
			m, n, k := test.shape[0], test.shape[1], test.shape[2]
			a, b := whole(New(d, m, k), 1), whole(New(d, k, n), 2)
			want := New(Result(d), m, n)
			must.Do(t, plain.Multiply(want, a, b))
			for threads := 1; threads <= 2; threads++ {
				e := engineAt(t, tile.Best(), threads)
				for _, stream := range []bool{false, true} {
					if e.streamBytes = 1 << 30; stream {
						e.streamBytes = 0
					}
					room := make([]byte, m*n*4+64)
					room = room[-uintptr(unsafe.Pointer(&room[0]))%64:] // streaming needs aligned rows
					c := Matrix{Type: Result(d), Rows: m, Cols: n, RowStep: n, ColStep: 1, Data: room}
					must.Do(t, e.Multiply(c, a, b))
					if e.stream != stream || threads == 1 && e.sharedA != test.shared || e.members[0].tile.Sums == 0 {
						t.Errorf("%v, %v, %d threads: streamed %v, packed in advance %v", d, test.shape, threads, e.stream, e.sharedA)
					}
					if c.Data = c.Data[:len(want.Data)]; !equal(c, want) {
						t.Errorf("%v, %v, %d threads, streamed %v: the product differs", d, test.shape, threads, stream)
					}
				}
			}
		}
	}
}

// equal reports whether the elements of two dense matrices have equal values. Zeros may differ in their sign.
func equal(x, y Matrix) bool {
	if x.Type == dtype.F32 {
		return slices.Equal(dtype.View[float32](x.Data), dtype.View[float32](y.Data))
	}
	return string(x.Data) == string(y.Data)
}
