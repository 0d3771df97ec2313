package dist

import (
	"github.com/kernbench/kernbench/internal/base/dtype"
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

	// Count is the number of elements of the whole vector. 0: derived from the buffers. Only the ranks other than the
	// root of a gather or scatter need it, and only if their blocks differ in length.
	Count int

	// Counts are the lengths of the blocks of an all-gather, gather, scatter or reduce-scatter, if they are not those
	// of [Block]; the same list on all ranks. In an all-to-all, entry i is what every rank sends to rank i; or, with
	// size*size entries, entry s*size+i is what rank s sends to rank i.
	Counts []int

	// Algorithm is one of [Capabilities].Algorithms; "" or "auto": the tuning table chooses. "steps:ring" executes the
	// proved steps of ring one by one, even if the backend has code of its own. "ring@64K" has pipelined pieces of 64
	// KiB, and "one-stage#16" a kernel of 16 blocks of threads.
	Algorithm string
	Chunk     int // elements per pipelined piece; 0: as the tuning table says, or no pieces
	Epilogue  *Epilogue
	Codec     Codec     // of an all-reduce
	Combiner  *Combiner // replaces Reduction; nil: none
}

// Epilogue changes every element of this rank's output as it is stored:
//
//	out = Scale*out + Bias[i mod len(Bias)] + Residual[i]
//
// It rounds as a fused kernel does: once for f16 and bf16, after each operation for f32 and f64.
// Backends with the feature [WideEpilogue] do not round a 16-bit sum before it is scaled. The element
// type must be a float. Bias and residual are local: they may differ between ranks.
type Epilogue struct {
	Scale    float64  // 0 means 1
	Bias     Buffer   // empty: none; its length divides the length of the output
	Residual Buffer   // empty: none; as long as the output
	Norm     *RMSNorm // of an all-reduce, applied last; nil: none
}

// RMSNorm divides every row of an output by the root of its mean square. It applies to the elements h that the rest of
// the epilogue has stored:
//
//	out = h / sqrt(mean(h*h) + Epsilon) * Weight[i mod len(Weight)]
//
// A row is as long as the weight, and the output is whole rows of f32, f16 or bf16. The computation is in float32 and
// rounds once. The weight is local.
type RMSNorm struct {
	Weight  Buffer
	Epsilon float64
}

// Codec makes an all-reduce move encoded elements, for example 8-bit integers with a scale per group of 32: each rank
// encodes its input, the owner of each part decodes, adds and encodes the sum, and every rank decodes
// all sums. So every element is encoded twice, and all ranks get the same bits.
//
// Its methods must be pure and are called from several goroutines. A codec with a method
// Supports(DType) bool is refused for other types before anything moves.
type Codec interface {
	// Name is compared between ranks.
	Name() string
	// Group is the number of elements that are encoded together, at least 1. Every slice that Encode gets starts at a
	// multiple of it.
	Group() int
	// Size is the largest number of bytes that n elements take encoded.
	Size(d DType, n int) int
	// Encode writes the encoding of the elements in src to dst, which has Size bytes.
	Encode(dst, src []byte, d DType)
	// DecodeReduce decodes the sources and combines them into dst, from first to last. With one source it decodes.
	DecodeReduce(dst []byte, srcs [][]byte, d DType, r Reduction)
}

// Combiner is a reduction that the program defines.
type Combiner struct {
	name    string
	dtype   DType
	combine func(acc, x []byte)
}

// NewCombiner returns a reduction that uses combine, which combines the elements of x into those of acc. Both slices
// have the same length and are any part of the vectors, in any order. So combine must be associative and commutative,
// and it may be called from several goroutines. The name is compared between ranks.
func NewCombiner[E Element](name string, combine func(acc, x []E)) *Combiner {
	return &Combiner{name, dtype.Of[E](), func(acc, x []byte) { combine(dtype.View[E](acc), dtype.View[E](x)) }}
}

// Apply combines the elements of x into those of acc. Backends call it.
func (c *Combiner) Apply(acc, x []byte) { c.combine(acc, x) }

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

// RegisterCodec adds a codec. It panics if the name is taken. A codec may have a method
// Help() string, which returns one line for `kernbench list --all`.
func RegisterCodec(c Codec) { codecs.Register(c) }

// ParseCodec returns the codec with the given name: int8, int6 or int4, which have a float32 scale per 32 elements of
// f32, f16 or bf16, or a registered one.
func ParseCodec(name string) (Codec, error) { return codecs.Lookup(name) }
