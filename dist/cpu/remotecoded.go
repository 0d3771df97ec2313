package cpu

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// remoteCoded is the all-reduce of encoded elements between hosts: every rank
// sends every other the encoding of its part, the owner decodes, adds up in rank
// order and encodes the sum, and sends that to everyone. All of it goes as
// messages between pairs of ranks, whatever is between them.
type remoteCoded struct {
	*mixed
	codec   dist.Codec
	plan    dist.Plan
	width   int
	each    int      // elements of a part, the last ones may have fewer
	give    []byte   // encodings of this rank's input, by part
	got     [][]byte // encodings of its part, by rank
	sum     []byte
	encoded []byte   // the sum's
	sums    [][]byte // of all parts, by rank
	one     [1][]byte
}

func (s *spanning) coded(p dist.Plan) (func() error, error) {
	size, group := s.Size(), p.Codec.Group()
	if group < 1 {
		return nil, fmt.Errorf("codec %s has groups of %d elements, want at least 1", p.Codec.Name(), group)
	}
	o := &remoteCoded{codec: p.Codec, plan: p, width: p.DType.Size()}
	o.each = ((p.Count+size-1)/size + group - 1) / group * group
	o.mixed = &mixed{s: s, steps: &steps{e: s.engine, m: s.member, label: label(p, ""), traffic: newTraffic(dist.U8, combine(p.Reduction), ""), finish: newFinish(p, size)}}
	o.give = make([]byte, size*o.room(o.each))
	own := o.room(o.length(s.rank))
	for r := range size {
		o.got = append(o.got, make([]byte, own))
		o.sums = append(o.sums, make([]byte, o.room(o.length(r))))
	}
	o.sum, o.encoded = make([]byte, o.length(s.rank)*o.width), o.sums[s.rank]
	return o.run, nil
}

func (o *remoteCoded) room(elements int) int { return o.codec.Size(o.plan.DType, elements) }

func (o *remoteCoded) bounds(rank int) (from, to int) {
	return min(rank*o.each, o.plan.Count), min((rank+1)*o.each, o.plan.Count)
}

func (o *remoteCoded) length(rank int) int {
	from, to := o.bounds(rank)
	return to - from
}

func (o *remoteCoded) run() error {
	s, size, d := o.s, o.s.Size(), o.plan.DType
	in, out := o.plan.In.Bytes(), o.plan.Out.Bytes()
	if err := s.agree(o.label, words{}, nil); err != nil {
		return err
	}
	for k := range size {
		to, from := (s.rank+k)%size, (s.rank-k+size)%size
		a, b := o.bounds(to)
		code := o.give[to*o.room(o.each):][:o.room(b-a)]
		if a < b {
			o.codec.Encode(code, in[a*o.width:b*o.width], d)
		}
		if k == 0 {
			copy(o.got[s.rank], code)
		} else if err := o.swap(to, code, from, o.got[from]); err != nil {
			return err
		}
	}
	if len(o.sum) > 0 {
		o.codec.DecodeReduce(o.sum, o.got, d, summed(o.plan.Reduction))
		o.codec.Encode(o.encoded, o.sum, d)
	}
	for k := 1; k < size; k++ {
		to, from := (s.rank+k)%size, (s.rank-k+size)%size
		if err := o.swap(to, o.encoded, from, o.sums[from]); err != nil {
			return err
		}
	}
	for r := range size {
		if a, b := o.bounds(r); a < b { // also its own, so that all get the same bits
			o.one[0] = o.sums[r]
			o.codec.DecodeReduce(out[a*o.width:b*o.width], o.one[:], d, dist.Sum)
		}
	}
	o.finish.apply(out, 0)
	return nil
}

// swap sends one message and receives another; empty ones are not sent, at
// both ends alike.
func (o *remoteCoded) swap(to int, src []byte, from int, dst []byte) error {
	st := step{op: schedule.SendRecv, to: schedule.One(to), from: schedule.One(from),
		src: span{schedule.Input, 0, len(src)}, dst: span{schedule.Output, 0, len(dst)}}
	switch {
	case len(src) == 0 && len(dst) == 0:
		return nil
	case len(src) == 0:
		st.op = schedule.Recv
	case len(dst) == 0:
		st.op = schedule.Send
	}
	o.mem = [3][]byte{src, dst, nil}
	return o.perform(&st)
}
