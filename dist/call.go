package dist

import (
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// Call describes one operation of a group.
type Call struct {
	Op  Collective
	In  Buffer // the input of this rank; empty if it has none
	Out Buffer // its output; In and Out may be the same memory

	Reduction Reduction // of all-reduce, reduce-scatter and reduce
	Root      int       // of broadcast, reduce, gather and scatter
	Peer      int       // of send and recv

	// Count is the number of elements of the whole vector. 0: it is derived from the buffers. Only ranks other than the
	// root of a gather or scatter have to set it, and only if blocks differ in length.
	Count int

	// Counts are the lengths of the blocks of an all-gather, gather, scatter or reduce-scatter. nil: the lengths of
	// [Block]. All ranks give the same list. In an all-to-all, entry i is the number of elements that every rank sends
	// to rank i. With size*size entries, entry s*size+i is the number that rank s sends to rank i.
	Counts []int

	// Algorithm is one of [Capabilities].Algorithms. With "" or "auto", the tuning table chooses. "steps:ring" executes
	// the proved steps of ring one by one, even if the backend has code of its own for ring. "ring@64K" is ring in
	// pipelined pieces of 64 KiB, and "one-stage#16" is one-stage with 16 thread blocks on a GPU.
	Algorithm string
	Chunk     int // elements per pipelined piece; 0: the choice of the tuning table, or a single piece
	Epilogue  *Epilogue
	Codec     Codec // of an all-reduce
}

// Epilogue changes every element of this rank's output as it is stored:
//
//	out = Scale*out + Bias[i mod len(Bias)] + Residual[i]
//
// It rounds as a fused kernel does: once for f16 and bf16, after each operation for f32 and f64.
// Backends with the feature [WideEpilogue] do not round a 16-bit sum before they scale it. The element type must be a
// floating-point type. Bias and residual are local, so they may differ between ranks.
type Epilogue struct {
	Scale    float64  // 0 means 1
	Bias     Buffer   // empty: none; its length divides the length of the output
	Residual Buffer   // empty: none; as long as the output
	Norm     *RMSNorm // of an all-reduce, applied last; nil: none
}

// RMSNorm divides every row of an output by its root mean square. h are the elements after the rest of the epilogue:
//
//	out = h / sqrt(mean(h*h) + Epsilon) * Weight[i mod len(Weight)]
//
// A row is as long as the weight, and the output must consist of whole rows of f32, f16 or bf16. The computation uses
// float32 and rounds once. The weight is local, so it may differ between ranks.
type RMSNorm struct {
	Weight  Buffer
	Epsilon float64
}

// Codec makes an all-reduce move encoded elements, for example 8-bit integers with a scale per group of 32. Each rank
// encodes its input. The owner of each part decodes all ranks' parts, adds them and encodes the sum. Every rank decodes
// all sums. Each element is thus encoded twice, and all ranks get the same bits.
//
// The methods must be pure, because several goroutines call them. If a codec has a method Supports(DType) bool, a call
// with any other type fails before any data moves.
type Codec interface {
	// Name is compared between ranks.
	Name() string
	// Group is the number of elements that are encoded together, at least 1. Every slice that Encode gets starts at a
	// multiple of it.
	Group() int
	// Size returns the maximum size of n encoded elements in bytes.
	Size(d DType, n int) int
	// Encode writes the encoding of the elements in src to dst, which has Size bytes.
	Encode(dst, src []byte, d DType)
	// DecodeReduce decodes the sources and stores their combination in dst, in the order of the list. A single source
	// is only decoded.
	DecodeReduce(dst []byte, srcs [][]byte, d DType, r Reduction)
}

var codecs = registry.New("codec", func(c Codec) registry.Entry {
	e := registry.Entry{Name: c.Name()}
	if described, ok := c.(interface{ Help() string }); ok {
		e.Help = described.Help()
	}
	return e
})

func init() {
	for _, c := range quant.Codecs() {
		codecs.Register(c)
	}
}

// RegisterCodec adds a codec. It panics if the name is taken. If a codec has a method Help() string, `kernbench list
// --all` shows its result, which should be one line.
func RegisterCodec(c Codec) { codecs.Register(c) }

// ParseCodec returns the codec with the given name: int8, int6 or int4, which have a float32 scale per 32 elements of
// f32, f16 or bf16, or a registered one.
func ParseCodec(name string) (Codec, error) { return codecs.Lookup(name) }
