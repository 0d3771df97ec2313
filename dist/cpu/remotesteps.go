package cpu

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// mixed executes a schedule whose messages and flags go through shared memory
// or over TCP, as the peer's host has it. Only ranks of one host reach into each
// other's memory: the schedules offered see to that.
type mixed struct {
	*steps
	s     *spanning
	words words
	read  func(peer int, w words)
	links []*tcp.Link // of the present step
	in    intake
}

func (s *spanning) steps(p dist.Plan) (func() error, error) {
	params := schedule.Params{Ranks: s.Size(), Count: p.Count, Root: p.Root, InPlace: p.InPlace}
	info := algorithm(p)
	if takes(info, "ChunkElems") {
		params.ChunkElems = p.Chunk
	}
	if !takes(info, "InPlace") {
		params.InPlace = false
	}
	if takes(info, "GroupSize") {
		params.GroupSize = s.group
	}
	sched, err := schedule.New(string(p.Op), p.Algorithm, params)
	if err != nil {
		return nil, err
	}
	inner, err := s.engine.execute(p, sched, info.Direct)
	if err != nil {
		return nil, err
	}
	o := &mixed{steps: inner, s: s, links: make([]*tcp.Link, 0, 2)}
	for i, off := range inner.off {
		o.words[i] = uint64(off)
	}
	o.read = func(peer int, w words) {
		for i, v := range w {
			inner.peers[peer][i] = int(v)
		}
	}
	o.in.kernel = inner.traffic.kernel
	most := 0
	for _, st := range inner.steps {
		if st.op.Receives() && st.op.Accumulates() && !s.local(st.from.First) {
			most = max(most, min(intakePiece, st.dst.len))
		}
	}
	o.in.pieces = [2][]byte{make([]byte, most), make([]byte, most)}
	return o.run, nil
}

func (o *mixed) run() error {
	if o.copyIn {
		copy(o.mem[schedule.Input], o.steps.in)
	}
	if err := o.s.agree(o.label, o.words, o.read); err != nil {
		return err
	}
	for i := range o.steps.steps {
		if err := o.perform(&o.steps.steps[i]); err != nil {
			return err
		}
	}
	if o.copyOut {
		copy(o.out, o.mem[schedule.Output])
	}
	o.finish.apply(o.out, 0)
	return nil
}

func (o *mixed) perform(st *step) error {
	switch {
	case st.op.Sends() && !o.s.local(st.to.First), st.op.Receives() && !o.s.local(st.from.First):
		return o.message(st)
	case st.op == schedule.Signal:
		return o.signal(st)
	case st.op == schedule.Wait:
		return o.wait(st)
	}
	return o.steps.perform(st)
}

// signal raises flags; to another host a flag is a header.
func (o *mixed) signal(st *step) error {
	for i := range st.to.N {
		peer := st.to.At(i)
		switch {
		case peer == o.s.rank:
		case o.s.local(peer):
			o.m.Notify(peer)
		default:
			l := o.s.links[peer]
			l.Out.PostHeader(o.s.header(o.label, 0))
			if err := o.s.settle(o.only(l)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *mixed) wait(st *step) error {
	for i := range st.from.N {
		peer := st.from.At(i)
		switch {
		case peer == o.s.rank:
		case o.s.local(peer):
			if err := o.m.Expect(peer); err != nil {
				return err
			}
		default:
			l := o.s.links[peer]
			l.In.ExpectHeader(o.s.header(o.label, 0))
			if err := o.s.settle(o.only(l)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *mixed) only(l *tcp.Link) []*tcp.Link {
	o.links = append(o.links[:0], l)
	return o.links
}

// message sends and receives at once, each through what leads there.
func (o *mixed) message(st *step) error {
	s, t := o.s, o.traffic
	var out, in shm.Transfer
	var src, dst []byte
	var to, from *tcp.Link
	o.links = o.links[:0]
	w := s.wait(-1)
	take := t.store
	if st.op.Accumulates() {
		take = t.add
	}
	if st.op.Sends() {
		src = o.own(st.src)
		w.peer = st.to.First
		if to = s.links[st.to.First]; to == nil {
			out = s.sends[st.to.First].Begin(t.note(src))
		} else {
			to.Out.PostHeader(s.header(o.label, len(src)))
			to.Out.Post(src)
			o.links = append(o.links, to)
		}
	}
	if st.op.Receives() {
		dst = o.own(st.dst)
		t.dst = dst
		w.peer = st.from.First
		if from = s.links[st.from.First]; from == nil {
			in = s.recvs[st.from.First].Begin(t.note(dst))
		} else {
			from.In.ExpectHeader(s.header(o.label, len(dst)))
			o.in.begin(from, dst, st.op.Accumulates())
			if from != to {
				o.links = append(o.links, from)
			}
		}
	}
	sendsHere, takesHere := st.op.Sends() && to == nil, st.op.Receives() && from == nil
	for {
		moved, busy, err := s.progress(o.links)
		if err != nil {
			return err
		}
		if sendsHere && !out.Complete() {
			moved = out.Send(src) || moved
		}
		if takesHere && !in.Complete() {
			came, err := in.Recv(take)
			if err != nil {
				return err
			}
			moved = moved || came
		}
		if from != nil && o.in.take() {
			moved, busy = true, from
		}
		switch {
		case busy == nil && (!sendsHere || out.Complete()) && (!takesHere || in.Complete()):
			return nil
		case moved:
			w.moved()
		default:
			if err := w.pause(o.links, sendsHere || takesHere); err != nil {
				return err
			}
		}
	}
}

// intake receives a message. What is to be added to the memory comes in pieces
// that stay in a cache, one of which is on its way while the other is added.
type intake struct {
	kernel vec.Kernel
	link   *tcp.Link
	dst    []byte
	add    bool
	posted int
	taken  int
	marks  [2]uint64
	pieces [2][]byte
	srcs   [2][]byte
}

const intakePiece = 128 << 10

func (i *intake) begin(l *tcp.Link, dst []byte, add bool) {
	i.link, i.dst, i.add, i.posted, i.taken = l, dst, add, 0, 0
	if !add {
		l.In.Expect(dst)
		i.posted, i.taken = len(dst), len(dst)
		return
	}
	i.post()
	i.post()
}

// post expects the next piece.
func (i *intake) post() {
	n := min(intakePiece, len(i.dst)-i.posted)
	if n == 0 {
		return
	}
	k := i.posted / intakePiece % 2
	i.link.In.Expect(i.pieces[k][:n])
	i.posted += n
	i.marks[k] = i.link.In.Posted()
}

// take adds the pieces that have come, and tells whether there was any.
func (i *intake) take() (moved bool) {
	for i.taken < len(i.dst) {
		k := i.taken / intakePiece % 2
		if i.link.In.Done() < i.marks[k] {
			return moved
		}
		n := min(intakePiece, len(i.dst)-i.taken)
		i.srcs = [2][]byte{i.dst[i.taken : i.taken+n], i.pieces[k][:n]}
		i.kernel.Reduce(i.srcs[0], i.srcs[:])
		i.taken += n
		i.post()
		moved = true
	}
	return moved
}
