package cpu

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// steps executes a schedule. All ranks first agree on the call and exchange the offsets of their buffers. After that,
// the flags and messages of the schedule synchronize the ranks. Messages go over links. Ranks access each other's
// memory directly only within a host; schedules with direct access are not offered between hosts.
type steps struct {
	e     *engine
	label *shm.Label
	steps []step
	mover *mover

	mem    [3][]byte // input, output and scratch on which the steps work
	off    words     // offsets of mem in the segment, if peers access them
	peers  []words   // by rank: off of the ranks of this host
	read   func(peer int, w words)
	direct bool
	srcs   [][]byte

	// Private buffers that peers must access are copied to shared memory before the steps, and the output is copied
	// back after them.
	in, out         []byte
	copyIn, copyOut bool
	finish          finish
}

// step is a step of a schedule, in bytes.
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
	params := p.Params(e.Size())
	info, _ := schedule.Lookup(string(p.Op), p.Algorithm)
	if slices.Contains(info.Takes, "ChunkElems") {
		params.ChunkElems = p.Chunk
	}
	if !slices.Contains(info.Takes, "InPlace") {
		params.InPlace = false
	}
	if slices.Contains(info.Takes, "GroupSize") && e.hosts != nil {
		params.GroupSize = e.hosts.group
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

// execute prepares a schedule for a call.
func (e *engine) execute(p dist.Plan, s schedule.Schedule, direct bool) (*steps, error) {
	// In an all-reduce, the steps of the other ranks depend on whether this rank works in place, so all ranks must
	// agree on it.
	how := ""
	if s.Params().InPlace && p.Op == dist.AllReduce {
		how = " in place"
	}
	l := label(p, how)
	o := &steps{e: e, label: l, direct: direct, mover: e.newMover(l, p.DType, vec.Combining(p.Reduction), ""),
		in: p.In.Bytes(), out: p.Out.Bytes(),
		peers: make([]words, e.Size()), srcs: make([][]byte, 0, e.Size()), finish: newFinish(p, e.Size())}
	if err := o.layOut(p, s); err != nil {
		return nil, err
	}
	if direct {
		o.read = func(peer int, w words) { o.peers[peer] = w }
	}
	width, added := p.DType.Size(), 0
	inBytes := func(r schedule.Range) span { return span{r.Buf, r.Off * width, r.Len * width} }
	for st := range s.Steps(e.Rank()) {
		o.steps = append(o.steps, step{op: st.Op, to: st.To, from: st.From, src: inBytes(st.Src), dst: inBytes(st.Dst)})
		if st.Op.Receives() && st.Op.Accumulates() && e.links[st.From.First].tcp != nil {
			added = max(added, st.Dst.Len*width)
		}
	}
	o.mover.in.reserve(added)
	return o, nil
}

// layOut chooses the memory on which the steps work.
func (o *steps) layOut(p dist.Plan, s schedule.Schedule) error {
	width := p.DType.Size()
	scratch := s.Len(schedule.Scratch, o.e.Rank()) * width
	o.mem = [3][]byte{o.in, o.out, nil}
	if !o.direct {
		o.mem[schedule.Scratch] = make([]byte, scratch)
		return nil
	}
	in, inShared := o.e.offset(p.In)
	out, outShared := o.e.offset(p.Out)
	o.copyIn, o.copyOut = !inShared && len(o.in) > 0, !outShared && len(o.out) > 0
	if p.InPlace { // in and out are the same memory, so either both are shared or neither is
		o.copyIn, o.copyOut = o.copyIn || o.copyOut, o.copyIn || o.copyOut
	}
	// Allocate scratch, input and output together. In place, input and output overlap: the longer one
	// is allocated, and the shorter one is a block of it.
	align := func(n int) int { return (n + cacheLine - 1) &^ (cacheLine - 1) }
	base, err := o.e.reserve(align(scratch) + align(len(o.in)) + align(len(o.out)))
	if err != nil {
		return err
	}
	if o.copyIn {
		in = base + align(scratch)
	}
	if o.copyOut {
		out = base + align(scratch) + align(len(o.in))
	}
	if p.InPlace && o.copyIn {
		shift := func(b schedule.Buffer) int { return s.Params().Shift(string(p.Op), b, o.e.Rank()) * width }
		in = base + align(scratch)
		in, out = in+shift(schedule.Input), in+shift(schedule.Output)
	}
	o.off[schedule.Input], o.off[schedule.Output], o.off[schedule.Scratch] = uint64(in), uint64(out), uint64(base)
	o.mem[schedule.Scratch] = o.e.segment.At(base, scratch)
	if len(o.in) > 0 {
		o.mem[schedule.Input] = o.e.segment.At(in, len(o.in))
	}
	if len(o.out) > 0 {
		o.mem[schedule.Output] = o.e.segment.At(out, len(o.out))
	}
	return nil
}

func (o *steps) run() error {
	if o.copyIn {
		copy(o.mem[schedule.Input], o.in)
	}
	if err := o.e.agree(o.label, o.off, o.read); err != nil {
		return err
	}
	for i := range o.steps {
		if err := o.perform(&o.steps[i]); err != nil {
			return err
		}
	}
	if o.copyOut {
		copy(o.out, o.mem[schedule.Output])
	}
	o.finish.Apply(o.out, 0)
	return nil
}

// ownRange returns a range of this rank's memory, peerRange a range of a peer's memory.
func (o *steps) ownRange(s span) []byte { return o.mem[s.buf][s.off : s.off+s.len] }

func (o *steps) peerRange(peer int, s span) []byte {
	return o.e.segment.At(int(o.peers[peer][s.buf])+s.off, s.len)
}

func (o *steps) perform(s *step) error {
	switch s.op {
	case schedule.Send, schedule.Recv, schedule.RecvReduce, schedule.SendRecv, schedule.SendRecvReduce:
		return o.message(s)
	case schedule.Copy:
		vec.Copy(o.ownRange(s.dst), o.ownRange(s.src))
	case schedule.Reduce:
		o.srcs = append(o.srcs[:0], o.ownRange(s.dst), o.ownRange(s.src))
		o.mover.kernel.Reduce(o.srcs[0], o.srcs)
	case schedule.Get:
		vec.Copy(o.ownRange(s.dst), o.peerRange(s.from.First, s.src))
	case schedule.Put:
		vec.Copy(o.peerRange(s.to.First, s.dst), o.ownRange(s.src))
	case schedule.GetReduce:
		o.gather(s)
	case schedule.Signal:
		for i := range s.to.N {
			if err := o.signal(s.to.At(i)); err != nil {
				return err
			}
		}
	case schedule.Wait:
		for i := range s.from.N {
			if err := o.wait(s.from.At(i)); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("a step of kind %v is unknown", s.op)
	}
	return nil
}

// gather combines a range of several ranks' memory, in blocks that stay in the cache.
func (o *steps) gather(s *step) {
	for off := 0; off < s.dst.len; off += block {
		n := min(block, s.dst.len-off)
		o.srcs = o.srcs[:0]
		for i := range s.from.N {
			o.srcs = append(o.srcs, o.peerRange(s.from.At(i), span{s.src.buf, s.src.off + off, n}))
		}
		o.mover.kernel.Reduce(o.ownRange(span{s.dst.buf, s.dst.off + off, n}), o.srcs)
	}
}

// signal raises a flag; over TCP it sends an empty message.
func (o *steps) signal(peer int) error {
	switch l := o.e.links[peer]; {
	case peer == o.e.Rank():
		return nil
	case l.tcp != nil:
		return o.mover.move(l, nil, nil, nil, false)
	}
	o.e.member.Notify(peer)
	return nil
}

func (o *steps) wait(peer int) error {
	switch l := o.e.links[peer]; {
	case peer == o.e.Rank():
		return nil
	case l.tcp != nil:
		return o.mover.move(nil, nil, l, nil, false)
	}
	return o.e.member.Expect(peer)
}

func (o *steps) message(s *step) error {
	var to, from *link
	var src, dst []byte
	if s.op.Sends() {
		to, src = o.e.links[s.to.First], o.ownRange(s.src)
	}
	if s.op.Receives() {
		from, dst = o.e.links[s.from.First], o.ownRange(s.dst)
	}
	return o.mover.move(to, src, from, dst, s.op.Accumulates())
}
