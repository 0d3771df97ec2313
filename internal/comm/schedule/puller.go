package schedule

import (
	"iter"
	"math"
)

// Puller returns the steps of a rank one by one, for callers that interleave the streams of many ranks. It
// fetches several steps at a time, because switching to a stream and back costs more than generating a step.
// Up to the first short steps the stream is not kept open between fetches but generated again: with very
// many ranks most streams are short, and an open stream needs a goroutine stack.
//
// With a million ranks the fetched steps are most of the memory of a simulation, so they are packed, and what most
// ranks do not need is in a separate struct.
type Puller struct {
	shared *pullers
	steps  []packed // fetched
	rank   int32
	next   int32 // the first of steps that has not been returned
	taken  int   // steps fetched so far
	ended  bool  // steps are the last ones
	rare   *rare // nil if not needed so far
}

// rare is the state of a Puller whose stream is long or has steps that cannot be packed.
type rare struct {
	wide []Step                  // the ones that do not fit a packed
	more func() ([]packed, bool) // set for a long stream, which is kept open
	stop func()
}

const (
	fetched = 48 // steps per fetch: enough for recursive doubling with a million ranks
	short   = 96 // steps after which a stream is kept open
)

// pullers is the state that the Pullers of a schedule share.
type pullers struct {
	schedule Schedule
	buffer   []packed // has room for a fetch; its contents are copied before the next one
	free     []packed // see room
}

// packed is a Step in 32 instead of 112 bytes. Steps that do not fit are in rare.wide.
type packed struct {
	op             Op
	src, dst       Buffer
	wide           bool // srcOff is the index in rare.wide; nothing else is set
	tag            int32
	to, from       int32 // -1: none
	srcOff, srcLen uint32
	dstOff, dstLen uint32
}

// packPeer packs a set of no or one rank.
func packPeer(p Peers) (first int32, ok bool) {
	switch {
	case p == Peers{}:
		return -1, true
	case p.N == 1 && p.Stride == 1 && p.First >= 0 && p.First <= math.MaxInt32:
		return int32(p.First), true
	}
	return 0, false
}

func unpackPeer(first int32) Peers {
	if first < 0 {
		return Peers{}
	}
	return One(int(first))
}

// pack packs a step.
func (p *Puller) pack(s *Step) packed {
	to, narrowTo := packPeer(s.To)
	from, narrowFrom := packPeer(s.From)
	const most = math.MaxUint32
	if !narrowTo || !narrowFrom || s.Tag < 0 || s.Tag > math.MaxInt32 || uint(s.Src.Off) > most ||
		uint(s.Src.Len) > most ||
		uint(s.Dst.Off) > most || uint(s.Dst.Len) > most {
		r := p.unusual()
		r.wide = append(r.wide, *s)
		return packed{wide: true, srcOff: uint32(len(r.wide) - 1)}
	}
	return packed{op: s.Op, src: s.Src.Buf, dst: s.Dst.Buf, tag: int32(s.Tag), to: to, from: from,
		srcOff: uint32(s.Src.Off), srcLen: uint32(s.Src.Len), dstOff: uint32(s.Dst.Off), dstLen: uint32(s.Dst.Len)}
}

// unusual returns the state that few Pullers need.
func (p *Puller) unusual() *rare {
	if p.rare == nil {
		p.rare = &rare{}
	}
	return p.rare
}

// unpack stores a packed step in into.
func (p *Puller) unpack(s *packed, into *Step) {
	if s.wide {
		*into = p.rare.wide[s.srcOff]
		return
	}
	into.Op, into.Tag, into.To, into.From = s.op, int(s.tag), unpackPeer(s.to), unpackPeer(s.from)
	into.Src, into.Dst = Range{s.src, int(s.srcOff), int(s.srcLen)}, Range{s.dst, int(s.dstOff), int(s.dstLen)}
}

// PullAll returns a Puller for the steps of every rank. The caller must call StopAll. The Pullers must be
// used by one goroutine.
func PullAll(s Schedule) []Puller {
	if k, ok := s.(*kept); ok {
		return k.pull()
	}
	all := make([]Puller, s.Ranks())
	shared := &pullers{schedule: s, buffer: make([]packed, 0, fetched)}
	for rank := range all {
		all[rank] = Puller{rank: int32(rank), shared: shared}
	}
	return all
}

// Keep returns a schedule whose Pullers keep the steps of short streams. A second PullAll, after StopAll for the first,
// returns them again. So a schedule that is proved and then simulated is generated once.
func Keep(s Schedule) Schedule { return &kept{Schedule: s} }

type kept struct {
	Schedule
	pullers []Puller // nil before the first PullAll
}

// pull returns the Pullers, at the beginning of their streams.
func (k *kept) pull() []Puller {
	if k.pullers == nil {
		k.pullers = PullAll(k.Schedule)
	}
	for i := range k.pullers {
		if p := &k.pullers[i]; p.ended && p.taken == len(p.steps) { // one fetch returned the whole stream
			p.next = 0
		} else {
			*p = Puller{rank: p.rank, shared: p.shared}
		}
	}
	return k.pullers
}

// StopAll releases the streams.
func StopAll(all []Puller) {
	for i := range all {
		if r := all[i].rare; r != nil && r.stop != nil {
			r.stop()
		}
	}
}

// Next stores the next step in into. It returns false after the last one.
func (p *Puller) Next(into *Step) bool {
	if int(p.next) == len(p.steps) {
		if p.ended {
			return false
		}
		if p.fetch(); p.ended && len(p.steps) == 0 {
			return false
		}
	}
	p.unpack(&p.steps[p.next], into)
	p.next++
	return true
}

// Current stores the step that Next returned last in into.
func (p *Puller) Current(into *Step) { p.unpack(&p.steps[p.next-1], into) }

// fetch fills steps. The last fetch returns fewer than the others, or none.
func (p *Puller) fetch() {
	if p.taken >= short && p.unusual().more == nil {
		p.rare.more, p.rare.stop = iter.Pull(p.batches(p.taken))
	}
	var batch []packed
	if p.rare != nil && p.rare.more != nil {
		batch, _ = p.rare.more()
	} else {
		for batch = range p.batches(p.taken) {
			break
		}
	}
	// All Pullers collect their steps in one buffer, so that their own has only the length that is needed.
	if cap(p.steps) < len(batch) {
		p.steps = p.shared.room(len(batch))
	}
	p.steps, p.next = p.steps[:copy(p.steps[:cap(p.steps)], batch)], 0
	p.taken += len(batch)
	p.ended = len(batch) < fetched
}

// room returns memory for n packed steps. It is cut from larger pieces, because a million small ones would keep the
// garbage collector busy.
func (s *pullers) room(n int) []packed {
	const piece = 1 << 12
	if len(s.free) < n {
		s.free = make([]packed, min(piece, fetched*s.schedule.Ranks()))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// batches yields the stream without its first skip steps, several steps at a time.
func (p *Puller) batches(skip int) iter.Seq[[]packed] {
	return func(yield func([]packed) bool) {
		steps := p.begin()
		for step := range p.shared.schedule.Steps(int(p.rank)) {
			if skip--; skip >= 0 {
				continue
			}
			if steps = append(steps, p.pack(&step)); len(steps) == fetched {
				if !yield(steps) {
					return
				}
				steps = p.begin()
			}
		}
		yield(steps)
	}
}

// begin returns the empty buffer for the next steps.
func (p *Puller) begin() []packed {
	if p.rare != nil {
		p.rare.wide = p.rare.wide[:0]
	}
	return p.shared.buffer
}
