package vec

import (
	"fmt"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Traffic counts the bytes read and written: n sources and a destination.
func BenchmarkReduce(b *testing.B) {
	for _, level := range levels() {
		for _, d := range []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16} {
			for _, n := range []int{2, 4, 8} {
				for _, size := range []int{4 << 10, 256 << 10, 16 << 20} {
					b.Run(fmt.Sprintf("level=%v/type=%v/n=%d/bytes=%d", level, d, n, size), func(b *testing.B) {
						k := lookup(level, d, Sum)
						benchmark(b, n, size, func(dst []byte, srcs [][]byte) { k.Reduce(dst, srcs) })
					})
				}
			}
		}
	}
}

// The cost of a call, which matters for the latency of small collectives.
func BenchmarkReduce2Short(b *testing.B) {
	for _, size := range []int{8, 64, 1000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			benchmark(b, 2, size, func(dst []byte, srcs [][]byte) { Reduce2(dst, srcs[0], srcs[1], dtype.F32, Sum) })
		})
	}
}

func BenchmarkReduceNT(b *testing.B) {
	for _, d := range []dtype.DType{dtype.F32, dtype.F16} {
		for _, n := range []int{2, 8} {
			b.Run(fmt.Sprintf("type=%v/n=%d/bytes=%d", d, n, 16<<20), func(b *testing.B) {
				k := Lookup(d, Sum)
				benchmark(b, n, 16<<20, func(dst []byte, srcs [][]byte) { k.ReduceNT(dst, srcs) })
			})
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	methods := []struct {
		name string
		copy func(dst, src []byte)
	}{
		{"copy", func(dst, src []byte) { copy(dst, src) }},
		{"Copy", Copy},
		{"CopyNT", CopyNT},
	}
	for _, size := range []int{256 << 10, 16 << 20, 128 << 20} {
		for _, m := range methods {
			b.Run(fmt.Sprintf("method=%s/bytes=%d", m.name, size), func(b *testing.B) {
				benchmark(b, 1, size, func(dst []byte, srcs [][]byte) { m.copy(dst, srcs[0]) })
			})
		}
	}
}

// benchmark places the arrays like separate buffers: aligned, and not a power of two apart, so that they do not compete
// for the same cache sets.
func benchmark(b *testing.B, n, size int, run func(dst []byte, srcs [][]byte)) {
	stride := size + 5*cacheLine
	room := aligned((n+1)*stride, 0)
	for i := range room {
		room[i] = byte(i>>10) & 0x3f // ordinary numbers in every type; touches every page
	}
	srcs := make([][]byte, n)
	for i := range srcs {
		srcs[i] = room[(i+1)*stride:][:size]
	}
	b.SetBytes(int64((n + 1) * size))
	for b.Loop() {
		run(room[:size], srcs)
	}
}
