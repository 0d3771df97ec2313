package cpu

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// coded is the two-stage all-reduce of encoded elements. Every rank encodes its input. The owner of each part decodes
// the part of all ranks, adds in rank order and encodes the sum. All ranks decode the sum. The owner does so too,
// instead of keeping the exact sum, so that all ranks get the same bits.
type coded struct {
	codec  dist.Codec
	plan   dist.Plan
	carry  carrier
	rank   int
	width  int // bytes per element
	piece  int // elements per piece
	pieces int
	srcs   [][]byte // the encodings to add, by rank
	sum    []byte   // the decoded sum of this rank's part
	finish finish
}

// carrier moves the encodings of a piece to the ranks that decode them: through shared memory, or as
// messages.
type carrier interface {
	// begin starts a call of the given number of pieces.
	begin(pieces int) error
	// at returns the memory of a rank's encoding of a part of piece c. If part is the number of ranks, it returns the
	// memory of the encoded sum of that rank's own part. Of other ranks, only the encoding of this rank's part and, after
	// await, the sum are available.
	at(c, rank, part int) []byte
	// scatter makes this rank's encodings available to the owners of the parts, and gets the encodings of this rank's own
	// part.
	scatter(c int) error
	// share makes the sum of this rank's part available to all.
	share(c int) error
	// await gets the sum of a rank's part.
	await(c, rank int) error
	// end returns when no other rank reads this rank's memory any more, so that the next call may overwrite the memory
	// before its first wait.
	end() error
}

// codedPiece is the default size of a piece in bytes, before encoding. Between hosts there is only one
// piece.
const codedPiece = 64 << 10

func (e *engine) coded(p dist.Plan) (func() error, error) {
	size, group := e.Size(), p.Codec.Group()
	if group < 1 {
		return nil, fmt.Errorf("codec %s has groups of %d elements, want at least 1", p.Codec.Name(), group)
	}
	o := &coded{codec: p.Codec, plan: p, rank: e.Rank(), width: p.DType.Size(),
		srcs: make([][]byte, size), finish: newFinish(p, size)}
	o.piece = p.Chunk
	if o.piece == 0 {
		o.piece = codedPiece / o.width
	}
	o.piece = max(group*size, o.piece-o.piece%(group*size))
	if e.hosts != nil {
		o.piece = (p.Count + group*size - 1) / (group * size) * group * size
	}
	o.pieces = (p.Count + o.piece - 1) / o.piece
	o.sum = make([]byte, o.piece/size*o.width)
	if e.hosts != nil {
		o.carry = newCodedLinks(e, o)
		return o.run, nil
	}
	stages := newCodedStages(e, o)
	// A stage holds the encodings of all parts, followed by the encoding of the sum of its own part.
	if need := (size + 1) * stages.part; need > stages.half {
		return nil, fmt.Errorf("codec %s needs %d bytes for a piece of %d elements, a stage has %d: use a smaller "+
			"chunk or group",
			p.Codec.Name(), need, o.piece, stages.half)
	}
	o.carry = stages
	return o.run, nil
}

// maxEncoded returns the maximum size of the encoding of n elements, in bytes.
func (o *coded) maxEncoded(elements int) int { return o.codec.Size(o.plan.DType, elements) }

// bounds returns the elements of a rank's part of a piece. Parts are multiples of the codec's group;
// the last part has the remainder.
func (o *coded) bounds(c, rank int) (from, to int) {
	each := o.piece / len(o.srcs)
	from = c*o.piece + rank*each
	return min(from, o.plan.Count), min(from+each, o.plan.Count)
}

func (o *coded) run() error {
	if err := o.carry.begin(o.pieces); err != nil {
		return err
	}
	for c := range o.pieces {
		o.encode(c)
		if err := o.carry.scatter(c); err != nil {
			return err
		}
		o.reduce(c)
		if err := o.carry.share(c); err != nil {
			return err
		}
		for r := range o.srcs {
			if err := o.carry.await(c, r); err != nil {
				return err
			}
			o.decode(c, r)
		}
	}
	return o.carry.end()
}

// encode encodes this rank's parts of piece c.
func (o *coded) encode(c int) {
	in := o.plan.In.Bytes()
	for r := range o.srcs {
		if from, to := o.bounds(c, r); from < to {
			code := o.carry.at(c, o.rank, r)[:o.maxEncoded(to-from)]
			o.codec.Encode(code, in[from*o.width:to*o.width], o.plan.DType)
		}
	}
}

// reduce computes the sum of this rank's part of piece c.
func (o *coded) reduce(c int) {
	from, to := o.bounds(c, o.rank)
	if from == to {
		return
	}
	room := o.maxEncoded(to - from)
	for r := range o.srcs {
		o.srcs[r] = o.carry.at(c, r, o.rank)[:room]
	}
	sum := o.sum[:(to-from)*o.width]
	o.codec.DecodeReduce(sum, o.srcs, o.plan.DType, summed(o.plan.Reduction))
	o.codec.Encode(o.carry.at(c, o.rank, len(o.srcs))[:room], sum, o.plan.DType)
}

// decode writes a rank's sum of piece c to the output.
func (o *coded) decode(c, rank int) {
	from, to := o.bounds(c, rank)
	if from == to {
		return
	}
	o.srcs[0] = o.carry.at(c, rank, len(o.srcs))[:o.maxEncoded(to-from)]
	part := o.plan.Out.Bytes()[from*o.width : to*o.width]
	o.codec.DecodeReduce(part, o.srcs[:1], o.plan.DType, dist.Sum)
	o.finish.Apply(part, from*o.width)
}

// summed returns the reduction before the finish: an average is computed as a sum first.
func summed(r dist.Reduction) dist.Reduction {
	if r == dist.Avg {
		return dist.Sum
	}
	return r
}

// codedStages carries encodings in the ranks' stages, which all ranks of the host can read. A piece
// takes two epochs, and the end of the call one more. Pieces alternate between the two halves of the
// stages, so that a rank can encode a piece while slower ranks still read the previous one.
type codedStages struct {
	m     *shm.Member
	label *shm.Label
	half  int // bytes of a stage that one piece uses
	part  int // bytes reserved for one encoding
	epoch uint32
}

func newCodedStages(e *engine, o *coded) *codedStages {
	part := (o.maxEncoded(o.piece/e.Size()) + cacheLine - 1) &^ (cacheLine - 1)
	return &codedStages{m: e.member, label: label(o.plan, ""), half: shm.StageBytes / 2, part: part}
}

func (s *codedStages) begin(pieces int) error { return s.m.Begin(s.label, 2*pieces+1) }

func (s *codedStages) at(c, rank, part int) []byte {
	return s.m.Stage(rank)[c%2*s.half+part*s.part:][:s.part]
}

func (s *codedStages) scatter(int) error {
	s.epoch = s.m.Next()
	s.m.Signal()
	return s.m.AwaitAll(s.epoch)
}

func (s *codedStages) share(int) error {
	s.m.Signal()
	return nil
}

func (s *codedStages) await(_, rank int) error {
	if rank == s.m.Rank() {
		return nil
	}
	return s.m.Await(rank, s.epoch+1)
}

func (s *codedStages) end() error {
	s.m.Signal()
	return s.m.AwaitAll(s.epoch + 2)
}

// codedLinks carries encodings as messages between all pairs of ranks, within a host and between hosts.
type codedLinks struct {
	e     *engine
	o     *coded
	label *shm.Label
	mover *mover
	mine  [][]byte // encodings of this rank's input, by part
	given [][]byte // encodings of this rank's part, by the rank that sent them
	sums  [][]byte // encoded sums, by rank
}

func newCodedLinks(e *engine, o *coded) *codedLinks {
	l := label(o.plan, "")
	s := &codedLinks{e: e, o: o, label: l, mover: e.newMover(l, dist.U8, vec.Sum, "")}
	for r := range e.Size() {
		s.mine = append(s.mine, make([]byte, s.room(r)))
		s.given = append(s.given, make([]byte, s.room(e.Rank())))
		s.sums = append(s.sums, make([]byte, s.room(r)))
	}
	s.given[e.Rank()] = s.mine[e.Rank()]
	return s
}

// room returns the size of the encoding of a rank's part. There is one piece.
func (s *codedLinks) room(rank int) int {
	from, to := s.o.bounds(0, rank)
	return s.o.maxEncoded(to - from)
}

func (s *codedLinks) begin(int) error { return s.e.agree(s.label, words{}, nil) }

func (s *codedLinks) at(_, rank, part int) []byte {
	switch {
	case part == len(s.sums):
		return s.sums[rank]
	case rank == s.e.Rank():
		return s.mine[part]
	}
	return s.given[rank]
}

func (s *codedLinks) scatter(int) error {
	return s.each(func(to, from int) ([]byte, []byte) { return s.mine[to], s.given[from] })
}

func (s *codedLinks) share(int) error {
	return s.each(func(_, from int) ([]byte, []byte) { return s.sums[s.e.Rank()], s.sums[from] })
}

func (s *codedLinks) await(int, int) error { return nil } // share has received it

func (s *codedLinks) end() error { return nil }

// each exchanges a message with every other rank. Both ends skip empty messages.
func (s *codedLinks) each(messages func(to, from int) (src, dst []byte)) error {
	size, me := s.e.Size(), s.e.Rank()
	for k := 1; k < size; k++ {
		to, from := (me+k)%size, (me-k+size)%size
		src, dst := messages(to, from)
		out, in := s.e.links[to], s.e.links[from]
		if len(src) == 0 {
			out = nil
		}
		if len(dst) == 0 {
			in = nil
		}
		if err := s.mover.move(out, src, in, dst, false); err != nil {
			return err
		}
	}
	return nil
}
