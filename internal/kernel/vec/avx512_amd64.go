package vec

import "github.com/kernbench/kernbench/internal/base/dtype"

// kernelsAVX512 holds the assembly kernels for AVX-512. Portable code does the rest. The functions declared below are
// called only through the table, so Go assumes that their arguments escape, whatever a declaration says. go vet checks
// the declarations against the assembly.
var kernelsAVX512 = table{
	dtype.F64: {Sum: sumF64AVX512, Prod: prodF64AVX512, Min: minF64AVX512, Max: maxF64AVX512,
		scaledSum: scaledSumF64AVX512},
	dtype.F32: {Sum: sumF32AVX512, Prod: prodF32AVX512, Min: minF32AVX512, Max: maxF32AVX512,
		scaledSum: scaledSumF32AVX512},
	dtype.F16: {Sum: sumF16AVX512, Prod: prodF16AVX512, Min: minF16AVX512, Max: maxF16AVX512,
		scaledSum: scaledSumF16AVX512},
	dtype.BF16: {Sum: sumBF16AVX512, Prod: prodBF16AVX512, Min: minBF16AVX512, Max: maxBF16AVX512,
		scaledSum: scaledSumBF16AVX512},
	dtype.I64: {Sum: sumI64AVX512, Prod: prodI64AVX512, Min: minI64AVX512, Max: maxI64AVX512},
	dtype.I32: {Sum: sumI32AVX512, Prod: prodI32AVX512, Min: minI32AVX512, Max: maxI32AVX512},
	dtype.U8:  {Sum: sumU8AVX512, Min: minU8AVX512, Max: maxU8AVX512},
}

// kernelsAVX512FP16 adds two f16 values in f16. The result equals a sum in f32 that is then rounded, because f32 has 24
// significant bits, which is at least 2p+2 for the p = 11 bits of f16 (Figueroa, When is double rounding innocuous?,
// 1995). This holds for two sources only, since longer sums stay in f32 until the end.
var kernelsAVX512FP16 = func() table {
	t := kernelsAVX512
	t[dtype.F16][sumOfTwo] = sumOfTwoF16AVX512
	return t
}()

func sumF64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodF64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minF64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxF64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func scaledSumF64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumF32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodF32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minF32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxF32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func scaledSumF32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumOfTwoF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func scaledSumF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumBF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodBF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minBF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxBF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func scaledSumBF16AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumI64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodI64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minI64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxI64AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumI32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func prodI32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minI32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxI32AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func sumU8AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func minU8AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
func maxU8AVX512(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)
