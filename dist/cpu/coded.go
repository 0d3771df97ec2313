package cpu

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// coded is the two-stage all-reduce of encoded elements: every rank encodes its
// input into its stage, the owner of each part decodes and adds up, and encodes the sum
// for everyone. Also its own output it decodes, so that all get the same bits.
type coded struct {
	m      *shm.Member
	label  *shm.Label
	codec  dist.Codec
	plan   dist.Plan
	width  int // bytes of an element
	piece  int // elements
	pieces int
	half   int      // bytes of a stage for one piece, of which two are in turn
	srcs   [][]byte // encodings, by rank
	sum    []byte   // decoded
	finish finish
}

// codedPiece is the default number of bytes of a piece before encoding.
const codedPiece = 64 << 10

func (e *engine) coded(p dist.Plan) (func() error, error) {
	size, group := e.Size(), p.Codec.Group()
	if group < 1 {
		return nil, fmt.Errorf("codec %s has groups of %d elements, want at least 1", p.Codec.Name(), group)
	}
	o := &coded{m: e.member, label: label(p, ""), codec: p.Codec, plan: p, width: p.DType.Size(),
		half: shm.StageBytes / 2, srcs: make([][]byte, size), finish: newFinish(p, size)}
	o.piece = p.Chunk
	if o.piece == 0 {
		o.piece = codedPiece / o.width
	}
	o.piece = max(group*size, o.piece-o.piece%(group*size))
	o.pieces = (p.Count + o.piece - 1) / o.piece
	// A stage holds the encodings of all parts and, behind them, of the sum of the own one.
	if need := size*o.partBytes() + o.partBytes(); need > o.half {
		return nil, fmt.Errorf("codec %s needs %d bytes for a piece of %d elements, a stage has %d: use a smaller chunk or group",
			p.Codec.Name(), need, o.piece, o.half)
	}
	o.sum = make([]byte, o.piece/size*o.width)
	return o.run, nil
}

// partBytes is the room for the encoding of one part.
func (o *coded) partBytes() int {
	n := o.codec.Size(o.plan.DType, o.piece/len(o.srcs))
	return (n + cacheLine - 1) &^ (cacheLine - 1)
}

// bounds are the elements of a rank's part of a piece: whole groups, the rest last.
func (o *coded) bounds(c, rank int) (from, to int) {
	each := o.piece / len(o.srcs)
	from = c*o.piece + rank*each
	return min(from, o.plan.Count), min(from+each, o.plan.Count)
}

func (o *coded) at(c, rank, part, elements int) []byte {
	return o.m.Stage(rank)[c%2*o.half+part*o.partBytes():][:o.codec.Size(o.plan.DType, elements)]
}

func (o *coded) run() error {
	m, size, me := o.m, len(o.srcs), o.m.Rank()
	if err := m.Begin(o.label, 2*o.pieces); err != nil {
		return outward(err)
	}
	in, out := o.plan.In.Bytes(), o.plan.Out.Bytes()
	for c := range o.pieces {
		for r := range size {
			if from, to := o.bounds(c, r); from < to {
				o.codec.Encode(o.at(c, me, r, to-from), in[from*o.width:to*o.width], o.plan.DType)
			}
		}
		epoch := m.Next()
		m.Signal()
		if err := m.AwaitAll(epoch); err != nil {
			return outward(err)
		}
		if from, to := o.bounds(c, me); from < to {
			for r := range o.srcs {
				o.srcs[r] = o.at(c, r, me, to-from)
			}
			sum := o.sum[:(to-from)*o.width]
			o.codec.DecodeReduce(sum, o.srcs, o.plan.DType, summed(o.plan.Reduction))
			o.codec.Encode(o.at(c, me, size, to-from), sum, o.plan.DType)
		}
		m.Signal()
		for r := range size {
			if r != me {
				if err := m.Await(r, epoch+1); err != nil {
					return outward(err)
				}
			}
			from, to := o.bounds(c, r)
			if from == to {
				continue
			}
			o.srcs[0] = o.at(c, r, size, to-from)
			part := out[from*o.width : to*o.width]
			o.codec.DecodeReduce(part, o.srcs[:1], o.plan.DType, dist.Sum)
			o.finish.apply(part, from*o.width)
		}
	}
	return nil
}

// summed is the reduction before the finish: an average is a sum at first.
func summed(r dist.Reduction) dist.Reduction {
	if r == dist.Avg {
		return dist.Sum
	}
	return r
}
