package schedule

import (
	"iter"
	"math"
)

// Puller returns the steps of a rank one by one, for callers that interleave the streams of many ranks. It
// fetches several steps at a time, because switching to a stream and back costs more than generating a step.
//
// A Puller keeps its stream open between fetches only after the first shortStream steps. Until then, each fetch
// generates the stream again from the start. Most streams are short if there are very many ranks, and every open
// stream needs a goroutine with its stack.
//
// In a simulation of a million ranks, fetched steps take most of the memory. They are therefore packed, and state that
// few ranks need is in a separate struct.
type Puller struct {
	shared       *pullers
	steps        []packed // the steps of the last fetch
	rank         int32
	next         int32 // index in steps of the next one to return
	fetchedSteps int   // steps fetched so far
	ended        bool  // the last fetch reached the end of the stream
	rare         *rare // nil if not needed so far
}

// rare is the state of a Puller whose stream is long or has steps that cannot be packed.
type rare struct {
	wide []Step                  // fetched steps that do not fit in a packed
	pull func() ([]packed, bool) // the open stream; nil for a short one
	stop func()
}

const (
	fetchSize   = 48 // steps per fetch: enough for recursive doubling with a million ranks
	shortStream = 96 // steps after which a stream is kept open
)

// pullers is the state that the Pullers of a schedule share.
type pullers struct {
	schedule Schedule
	buffer   []packed // receives each fetch; the Puller copies it before the next fetch of any Puller
	free     []packed // the rest of the last piece that alloc made
}

// packed is a Step in 32 instead of 112 bytes. A Step whose values do not fit is stored in rare.wide.
type packed struct {
	op             Op
	src, dst       Buffer
	wide           bool // srcOff is the index in rare.wide; nothing else is set
	tag            int32
	to, from       int32 // -1: none
	srcOff, srcLen uint32
	dstOff, dstLen uint32
}

// packPeer packs an empty set or a single rank. ok is false for larger sets.
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

func (p *Puller) pack(s *Step) packed {
	to, narrowTo := packPeer(s.To)
	from, narrowFrom := packPeer(s.From)
	const limit = math.MaxUint32
	if !narrowTo || !narrowFrom || s.Tag < 0 || s.Tag > math.MaxInt32 || uint(s.Src.Off) > limit ||
		uint(s.Src.Len) > limit ||
		uint(s.Dst.Off) > limit || uint(s.Dst.Len) > limit {
		r := p.ensureRare()
		r.wide = append(r.wide, *s)
		return packed{wide: true, srcOff: uint32(len(r.wide) - 1)}
	}
	return packed{op: s.Op, src: s.Src.Buf, dst: s.Dst.Buf, tag: int32(s.Tag), to: to, from: from,
		srcOff: uint32(s.Src.Off), srcLen: uint32(s.Src.Len), dstOff: uint32(s.Dst.Off), dstLen: uint32(s.Dst.Len)}
}

// ensureRare returns p.rare, which it allocates on first use.
func (p *Puller) ensureRare() *rare {
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
	if k, ok := s.(*keptSchedule); ok {
		return k.pull()
	}
	all := make([]Puller, s.Ranks())
	shared := &pullers{schedule: s, buffer: make([]packed, 0, fetchSize)}
	for rank := range all {
		all[rank] = Puller{rank: int32(rank), shared: shared}
	}
	return all
}

// Keep returns a schedule whose Pullers keep the steps of short streams. A second PullAll, after StopAll for the first,
// reuses these steps. A schedule that is first proved and then simulated is thus generated only once.
func Keep(s Schedule) Schedule { return &keptSchedule{Schedule: s} }

type keptSchedule struct {
	Schedule
	pullers []Puller // nil before the first PullAll
}

// pull returns the Pullers, at the beginning of their streams.
func (k *keptSchedule) pull() []Puller {
	if k.pullers == nil {
		k.pullers = PullAll(k.Schedule)
	}
	for i := range k.pullers {
		if p := &k.pullers[i]; p.ended && p.fetchedSteps == len(p.steps) { // one fetch returned the whole stream
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

// fetch replaces steps by the next ones. A fetch of fewer than fetchSize steps is the last one.
func (p *Puller) fetch() {
	if p.fetchedSteps >= shortStream && p.ensureRare().pull == nil {
		p.rare.pull, p.rare.stop = iter.Pull(p.batches(p.fetchedSteps))
	}
	var batch []packed
	if p.rare != nil && p.rare.pull != nil {
		batch, _ = p.rare.pull()
	} else {
		for batch = range p.batches(p.fetchedSteps) {
			break
		}
	}
	// The steps were collected in the shared buffer, so each Puller allocates only as many as it has.
	if cap(p.steps) < len(batch) {
		p.steps = p.shared.alloc(len(batch))
	}
	p.steps, p.next = p.steps[:copy(p.steps[:cap(p.steps)], batch)], 0
	p.fetchedSteps += len(batch)
	p.ended = len(batch) < fetchSize
}

// alloc returns memory for n packed steps. It cuts it from larger allocations, because a million small ones would slow
// down the garbage collector.
func (s *pullers) alloc(n int) []packed {
	const piece = 1 << 12 // steps per allocation: 128 KiB
	if len(s.free) < n {
		s.free = make([]packed, min(piece, fetchSize*s.schedule.Ranks()))
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
			if steps = append(steps, p.pack(&step)); len(steps) == fetchSize {
				if !yield(steps) {
					return
				}
				steps = p.begin()
			}
		}
		yield(steps)
	}
}

// begin discards the steps of the previous fetch and returns the empty buffer for the next one.
func (p *Puller) begin() []packed {
	if p.rare != nil {
		p.rare.wide = p.rare.wide[:0]
	}
	return p.shared.buffer
}
