package dist

// Epilogue is done to every element of the rank's own output as it is stored:
//
//	out = Scale*out + Bias[i mod len(Bias)] + Residual[i]
//
// with the rounding of a fused kernel: once for f16 and bf16, after each
// operation for f32 and f64. It needs a floating-point type. Bias and residual
// are local: ranks may give different ones.
type Epilogue struct {
	Scale    float64 // 0 means 1
	Bias     Buffer  // empty: none; its length divides the output's
	Residual Buffer  // empty: none; as long as the output
}

// Codec makes an all-reduce move encoded elements, for example 8-bit integers with a
// scale per group of 32: each rank encodes its input, the owner of each part decodes,
// adds up and encodes the sum, and every rank decodes all sums. Every element
// so passes Encode twice, and all ranks get the same bits.
//
// Its methods must be pure and are called from several goroutines.
type Codec interface {
	// Name is compared between ranks.
	Name() string
	// Group is how many elements are encoded together: every slice given to
	// Encode starts at a multiple of it. At least 1.
	Group() int
	// Size is the most bytes that n elements take encoded.
	Size(d DType, n int) int
	// Encode writes the encoding of the elements in src to dst, of Size bytes.
	Encode(dst, src []byte, d DType)
	// DecodeReduce sets dst to the combination of what the sources encode, from
	// first to last. With one source it decodes.
	DecodeReduce(dst []byte, srcs [][]byte, d DType, r Reduction)
}
