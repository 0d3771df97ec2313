package cpu

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// steps executes a schedule. All ranks agree on the call first, telling each
// other where their buffers are; from then on the schedule's own flags and
// messages keep the order.
type steps struct {
	e       *engine
	m       *shm.Member
	label   *shm.Label
	steps   []step
	traffic *traffic

	mem    [3][]byte // input, output and scratch as the steps see them
	off    [3]int    // where in the segment, when peers reach them
	peers  [][3]int  // the same of all ranks
	direct bool
	srcs   [][]byte

	// Private buffers that peers must reach are copied to shared ones and back.
	in, out         []byte
	copyIn, copyOut bool
	finish          finish
}

// step is a schedule's step in bytes.
type step struct {
	op       schedule.Op
	to, from schedule.Peers
	src, dst span
}

type span struct {
	buf      schedule.Buffer
	off, len int
}

func (e *engine) steps(p dist.Plan) (func() error, error) {
	count := p.Count
	params := schedule.Params{Ranks: e.Size(), Count: count, Root: p.Root, InPlace: p.InPlace}
	info := algorithm(p)
	if takes(info, "ChunkElems") {
		params.ChunkElems = p.Chunk
	}
	if !takes(info, "InPlace") {
		params.InPlace = false
	}
	s, err := schedule.New(string(p.Op), p.Algorithm, params)
	if err != nil {
		return nil, err
	}
	o, err := e.execute(p, s, info.Direct)
	if err != nil {
		return nil, err
	}
	return o.run, nil
}

func algorithm(p dist.Plan) schedule.Info {
	for _, info := range schedule.Algorithms(string(p.Op)) {
		if info.Name == p.Algorithm {
			return info
		}
	}
	return schedule.Info{}
}

func takes(info schedule.Info, name string) bool {
	for _, t := range info.Takes {
		if t == name {
			return true
		}
	}
	return false
}

// execute prepares a schedule for a call.
func (e *engine) execute(p dist.Plan, s schedule.Schedule, direct bool) (*steps, error) {
	// Only there do the other ranks' steps depend on it.
	how := ""
	if s.Params().InPlace && p.Op == dist.AllReduce {
		how = " in place"
	}
	o := &steps{e: e, m: e.member, label: label(p, how), direct: direct,
		traffic: newTraffic(p.DType, combine(p.Reduction), ""), in: p.In.Bytes(), out: p.Out.Bytes(),
		peers: make([][3]int, e.Size()), srcs: make([][]byte, 0, e.Size()), finish: newFinish(p, e.Size())}
	if err := o.place(p, s); err != nil {
		return nil, err
	}
	width := p.DType.Size()
	inBytes := func(r schedule.Range) span { return span{r.Buf, r.Off * width, r.Len * width} }
	for st := range s.Steps(e.Rank()) {
		o.steps = append(o.steps, step{op: st.Op, to: st.To, from: st.From, src: inBytes(st.Src), dst: inBytes(st.Dst)})
	}
	return o, nil
}

// place decides in which memory the steps work.
func (o *steps) place(p dist.Plan, s schedule.Schedule) error {
	width := p.DType.Size()
	scratch := s.Len(schedule.Scratch, o.e.Rank()) * width
	o.mem = [3][]byte{o.in, o.out, nil}
	if !o.direct {
		o.mem[schedule.Scratch] = make([]byte, scratch)
		return nil
	}
	var inShared, outShared bool
	o.off[schedule.Input], inShared = o.e.offset(p.In)
	o.off[schedule.Output], outShared = o.e.offset(p.Out)
	o.copyIn, o.copyOut = !inShared && len(o.in) > 0, !outShared && len(o.out) > 0
	if p.InPlace { // one memory, so both or none
		o.copyIn, o.copyOut = o.copyIn || o.copyOut, o.copyIn || o.copyOut
	}
	// One piece of shared memory: scratch, input, output; in place the last two
	// are the longer one, with the other at its block.
	align := func(n int) int { return (n + cacheLine - 1) &^ (cacheLine - 1) }
	base, err := o.e.reserve(align(scratch) + align(len(o.in)) + align(len(o.out)))
	if err != nil {
		return err
	}
	o.off[schedule.Scratch] = base
	if o.copyIn {
		o.off[schedule.Input] = base + align(scratch)
	}
	if o.copyOut {
		o.off[schedule.Output] = base + align(scratch) + align(len(o.in))
	}
	if p.InPlace && o.copyIn {
		longer, shift := base+align(scratch), blockShift(p, o.e.Size(), o.e.Rank())*width
		o.off[schedule.Input], o.off[schedule.Output] = longer, longer
		if len(o.in) < len(o.out) {
			o.off[schedule.Input] += shift
		} else if len(o.out) < len(o.in) {
			o.off[schedule.Output] += shift
		}
	}
	o.mem[schedule.Scratch] = o.e.segment.At(o.off[schedule.Scratch], scratch)
	if len(o.in) > 0 {
		o.mem[schedule.Input] = o.e.segment.At(o.off[schedule.Input], len(o.in))
	}
	if len(o.out) > 0 {
		o.mem[schedule.Output] = o.e.segment.At(o.off[schedule.Output], len(o.out))
	}
	return nil
}

// blockShift is where the rank's own block begins.
func blockShift(p dist.Plan, size, rank int) int {
	off, _ := dist.Block(p.Count, size, rank)
	return off
}

func (o *steps) run() error {
	m := o.m
	if err := m.Begin(o.label, 1); err != nil {
		return outward(err)
	}
	if o.copyIn {
		copy(o.mem[schedule.Input], o.in)
	}
	me, epoch := m.Rank(), m.Next()
	for i, off := range o.off {
		*m.Word(me, epoch, i) = uint64(off)
	}
	m.Signal()
	if err := m.AwaitAll(epoch); err != nil {
		return outward(err)
	}
	if o.direct {
		for r := range o.peers {
			for i := range o.off {
				o.peers[r][i] = int(*m.Word(r, epoch, i))
			}
		}
	}
	for i := range o.steps {
		if err := o.perform(&o.steps[i]); err != nil {
			return outward(err)
		}
	}
	if o.copyOut {
		copy(o.out, o.mem[schedule.Output])
	}
	o.finish.apply(o.out, 0)
	return nil
}

// own is a range of this rank's memory, or a range of a peer's.
func (o *steps) own(s span) []byte { return o.mem[s.buf][s.off : s.off+s.len] }

func (o *steps) of(peer int, s span) []byte {
	return o.e.segment.At(o.peers[peer][s.buf]+s.off, s.len)
}

func (o *steps) perform(s *step) error {
	switch s.op {
	case schedule.Send, schedule.Recv, schedule.RecvReduce, schedule.SendRecv, schedule.SendRecvReduce:
		return o.message(s)
	case schedule.Copy:
		vec.Copy(o.own(s.dst), o.own(s.src))
	case schedule.Reduce:
		o.srcs = append(o.srcs[:0], o.own(s.dst), o.own(s.src))
		o.traffic.kernel.Reduce(o.srcs[0], o.srcs)
	case schedule.Get:
		vec.Copy(o.own(s.dst), o.of(s.from.First, s.src))
	case schedule.Put:
		vec.Copy(o.of(s.to.First, s.dst), o.own(s.src))
	case schedule.GetReduce:
		o.gather(s)
	case schedule.Signal:
		for i := range s.to.N {
			if peer := s.to.At(i); peer != o.m.Rank() {
				o.m.Notify(peer)
			}
		}
	case schedule.Wait:
		for i := range s.from.N {
			if peer := s.from.At(i); peer != o.m.Rank() {
				if err := o.m.Expect(peer); err != nil {
					return err
				}
			}
		}
	default:
		return fmt.Errorf("a step of kind %v is unknown", s.op)
	}
	return nil
}

// gather combines one range of several ranks, in blocks that stay in the cache.
func (o *steps) gather(s *step) {
	for off := 0; off < s.dst.len; off += block {
		n := min(block, s.dst.len-off)
		o.srcs = o.srcs[:0]
		for i := range s.from.N {
			o.srcs = append(o.srcs, o.of(s.from.At(i), span{s.src.buf, s.src.off + off, n}))
		}
		o.traffic.kernel.Reduce(o.own(span{s.dst.buf, s.dst.off + off, n}), o.srcs)
	}
}

func (o *steps) message(s *step) error {
	var to, from *shm.Channel
	var src, dst []byte
	if s.op.Sends() {
		to, src = o.e.sends[s.to.First], o.own(s.src)
	}
	if s.op.Receives() {
		from, dst = o.e.recvs[s.from.First], o.own(s.dst)
	}
	return o.traffic.move(to, src, from, dst, s.op.Accumulates())
}
