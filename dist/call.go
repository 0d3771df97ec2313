package dist

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// Call describes one operation of a group.
type Call struct {
	Op  Collective
	In  Buffer // what this rank gives; empty where it gives nothing
	Out Buffer // what it gets; In and Out may be one memory

	Reduction Reduction // of all-reduce, reduce-scatter and reduce
	Root      int       // of broadcast, reduce, gather and scatter
	Peer      int       // of send and recv

	// Count is the number of elements of the whole vector. 0: what the buffers
	// say. Only ranks other than the root of a gather or scatter, which hold one
	// block, need it, and only when the count does not divide.
	Count int

	// Counts are the elements of each rank's block in an all-gather, gather, scatter or
	// reduce-scatter, where they are not those of [Block]; the same on all ranks. In an
	// all-to-all they are what each rank gives to rank 0, 1 and so on, or, size*size of
	// them, what rank 0 gives to each, then what rank 1 does, and so on.
	Counts []int

	Algorithm string // "" or "auto": the tuning table chooses
	Chunk     int    // elements per pipelined piece; 0: the table's, or whole
	Epilogue  *Epilogue
	Codec     Codec     // all-reduce only
	Combiner  *Combiner // instead of Reduction; nil: none

	ctx context.Context // of WithContext
}

// Option changes a call made through one of the Group's methods.
type Option func(*Call)

// Algorithm chooses the algorithm by name. With "steps:" before it, the proved
// steps are executed one by one even where the backend has code of its own. A size
// after it is that of the pipelined pieces: "ring@64K" (see [Pieces]); a number is that of
// the blocks of a GPU's kernel: "one-stage#16" (see [Blocks]).
func Algorithm(name string) Option { return func(c *Call) { c.Algorithm = name } }

// Chunk sets the elements per pipelined piece.
func Chunk(elements int) Option { return func(c *Call) { c.Chunk = elements } }

// WholeCount sets Call.Count.
func WholeCount(count int) Option { return func(c *Call) { c.Count = count } }

// Counts sets Call.Counts.
func Counts(counts ...int) Option { return func(c *Call) { c.Counts = counts } }

// WithEpilogue sets what is done to the output as it is stored.
func WithEpilogue(e Epilogue) Option { return func(c *Call) { c.Epilogue = &e } }

// WithCodec sets the encoding of transfers.
func WithCodec(codec Codec) Option { return func(c *Call) { c.Codec = codec } }

// WithCombiner combines by a function of the program instead of the call's reduction.
func WithCombiner(c *Combiner) Option { return func(call *Call) { call.Combiner = c } }

// WithContext ends the call when the context ends, and fails the group with it, as
// [Group.Watch] does: a rank that has left a collective has left it for all. A call that
// is prepared has none of its own and heeds what the group watches.
func WithContext(ctx context.Context) Option { return func(c *Call) { c.ctx = ctx } }

// StepsPrefix before an algorithm's name asks for its steps as proved.
const StepsPrefix = "steps:"

// piecesMark is between an algorithm's name and the size of its pieces.
const piecesMark = "@"

// Pieces takes an algorithm's name apart that may say how large its pipelined pieces
// are: "ring@64K" is "ring" in pieces of 65536 bytes; "ring" has 0, as the backend
// likes it.
func Pieces(algorithm string) (name string, bytes int, err error) {
	return suffix(algorithm, piecesMark, unit.ParseBytes, "size of pieces", "64K")
}

// suffix takes apart a name with a number behind a mark, 0 without.
func suffix(algorithm, mark string, parse func(string) (int64, error), what, example string) (name string, n int,
	err error) {
	name, text, has := strings.Cut(algorithm, mark)
	if !has {
		return algorithm, 0, nil
	}
	number, err := parse(text)
	if err != nil || number < 1 || number > math.MaxInt32 {
		return name, 0, fmt.Errorf("algorithm %q: %q is no %s, such as %s%s%s", algorithm, text, what, name, mark, example)
	}
	return name, int(number), nil
}

// InPieces is the inverse of [Pieces].
func InPieces(name string, bytes int) string {
	if bytes == 0 {
		return name
	}
	return name + piecesMark + unit.FormatBytes(int64(bytes))
}

// blocksMark is between an algorithm's name and the number of its blocks.
const blocksMark = "#"

// Blocks takes an algorithm's name apart that may say how many blocks of threads each rank
// has: "one-stage#16" is "one-stage" by 16 blocks; "one-stage" has 0, as the backend likes it.
func Blocks(algorithm string) (name string, blocks int, err error) {
	whole := func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }
	return suffix(algorithm, blocksMark, whole, "number of blocks", "16")
}

// InBlocks is the inverse of [Blocks].
func InBlocks(name string, blocks int) string {
	if blocks == 0 {
		return name
	}
	return name + blocksMark + strconv.Itoa(blocks)
}

// Epilogue is done to every element of the rank's own output as it is stored:
//
//	out = Scale*out + Bias[i mod len(Bias)] + Residual[i]
//
// with the rounding of a fused kernel: once for f16 and bf16, after each
// operation for f32 and f64. Whether a 16-bit sum is also rounded before it is scaled
// is the backend's: see Capabilities.WideEpilogue. It needs a floating-point type. Bias and residual
// are local: ranks may give different ones.
type Epilogue struct {
	Scale    float64  // 0 means 1
	Bias     Buffer   // empty: none; its length divides the output's
	Residual Buffer   // empty: none; as long as the output
	Norm     *RMSNorm // of an all-reduce, done last; nil: none
}

// RMSNorm divides every row of an output, as the rest of the epilogue leaves it in its
// type, by the root of its mean square:
//
//	out = h / sqrt(mean(h*h) + Epsilon) * Weight[i mod len(Weight)]
//
// A row is as long as the weight, and the output is whole rows of f32, f16 or bf16. All of it
// is done in float32 and rounded once. The weight is local.
type RMSNorm struct {
	Weight  Buffer
	Epsilon float64
}

// Codec makes an all-reduce move encoded elements, for example 8-bit integers with a
// scale per group of 32: each rank encodes its input, the owner of each part decodes,
// adds up and encodes the sum, and every rank decodes all sums. Every element
// so passes Encode twice, and all ranks get the same bits.
//
// Its methods must be pure and are called from several goroutines. One that also has a
// method Supports(DType) bool is refused for other types before anything moves.
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

// Combiner is a reduction of the program's own.
type Combiner struct {
	name    string
	dtype   DType
	combine func(acc, x []byte)
}

// NewCombiner makes a reduction of a function that combines the elements of x into those
// of acc, which are as many: any parts of the vectors, in any order, so it must be
// associative and commutative, and it may be called from several goroutines. Its name is
// compared between ranks.
func NewCombiner[E Element](name string, combine func(acc, x []E)) *Combiner {
	return &Combiner{name, dtype.Of[E](), func(acc, x []byte) { combine(dtype.View[E](acc), dtype.View[E](x)) }}
}

// Name is that which ranks compare.
func (c *Combiner) Name() string { return c.name }

// Apply is for backends: it combines the elements of x into those of acc.
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

// Codecs lists the codecs that are known, in the order of their names: int8, int6 and int4,
// which have a float32 scale per 32 elements of f32, f16 or bf16, and what was registered.
func Codecs() []Codec { return codecs.All() }

// ParseCodec finds the codec of a name.
func ParseCodec(name string) (Codec, error) { return codecs.Lookup(name) }
