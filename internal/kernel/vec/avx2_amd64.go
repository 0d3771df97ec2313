package vec

import "github.com/kernbench/kernbench/internal/base/dtype"

// kernelsAVX2 holds the assembly kernels for AVX2. Portable code does the rest. The functions declared below are called
// only through the table, so Go assumes that their arguments escape, whatever a declaration says. go vet checks the
// declarations against the assembly.
var kernelsAVX2 = table{
	dtype.F64:  {Sum: sumF64AVX2, Prod: prodF64AVX2, Min: minF64AVX2, Max: maxF64AVX2, scaledSum: scaledSumF64AVX2},
	dtype.F32:  {Sum: sumF32AVX2, Prod: prodF32AVX2, Min: minF32AVX2, Max: maxF32AVX2, scaledSum: scaledSumF32AVX2},
	dtype.F16:  {Sum: sumF16AVX2, Prod: prodF16AVX2, Min: minF16AVX2, Max: maxF16AVX2, scaledSum: scaledSumF16AVX2},
	dtype.BF16: {Sum: sumBF16AVX2, Prod: prodBF16AVX2, Min: minBF16AVX2, Max: maxBF16AVX2, scaledSum: scaledSumBF16AVX2},
	dtype.I64:  {Sum: sumI64AVX2},
	dtype.I32:  {Sum: sumI32AVX2, Prod: prodI32AVX2, Min: minI32AVX2, Max: maxI32AVX2},
	dtype.U8:   {Sum: sumU8AVX2, Min: minU8AVX2, Max: maxU8AVX2},
}

func sumF64AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodF64AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minF64AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxF64AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func scaledSumF64AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumF32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodF32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minF32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxF32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func scaledSumF32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func scaledSumF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumBF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodBF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minBF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxBF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func scaledSumBF16AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumI64AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumI32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodI32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minI32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxI32AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumU8AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minU8AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxU8AVX2(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)

func sumFourF16(dst []byte, srcs [][]byte)
func sumFourBF16(dst []byte, srcs [][]byte)
