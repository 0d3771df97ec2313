package vec

import "github.com/kernbench/kernbench/internal/dtype"

// SumFourF16 adds the first four f16 of every source, for which setting up a kernel
// takes longer than adding.
func SumFourF16(dst []byte, srcs [][]byte) {
	checkFour(dst, srcs)
	if best == Portable {
		sumFourPortable(dtype.F16, dst, srcs)
		return
	}
	sumFourF16(dst, srcs)
}

// SumFourBF16 does so for bf16.
func SumFourBF16(dst []byte, srcs [][]byte) {
	checkFour(dst, srcs)
	if best == Portable {
		sumFourPortable(dtype.BF16, dst, srcs)
		return
	}
	sumFourBF16(dst, srcs)
}

const fourBytes = 4 * 2

func checkFour(dst []byte, srcs [][]byte) {
	_, _ = srcs[0], dst[fourBytes-1]
	for _, src := range srcs {
		_ = src[fourBytes-1]
	}
}

func sumFourPortable(d dtype.DType, dst []byte, srcs [][]byte) {
	portable[d][Sum](unescaped(dst), unescaped(srcs), 1, 0, fourBytes, false)
}
