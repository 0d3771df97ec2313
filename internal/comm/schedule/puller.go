package schedule

import (
	"iter"
	"math"
	"slices"
)

// Puller returns the steps of a rank one by one, for callers that interleave the streams of many ranks. It
// fetches several steps at a time, because switching to a stream and back costs more than generating a step.
// Up to the first short steps the stream is not kept open between fetches but generated again: with very
// many ranks most streams are short, and an open stream needs a goroutine stack.
//
// With a million ranks the fetched steps are most of the memory of a simulation, so they are packed.
type Puller struct {
	stream iter.Seq[Step]
	shared *pullers
	taken  int                     // steps fetched so far
	steps  []packed                // fetched
	next   int                     // the first of them that has not been returned
	wide   []Step                  // the ones that do not fit a packed
	ended  bool                    // steps are the last ones
	more   func() ([]packed, bool) // set for a long stream, which is kept open
	stop   func()
}

const (
	fetched = 24 // steps per fetch
	short   = 72 // steps after which a stream is kept open
)

// pullers is the state that the Pullers of a schedule share.
type pullers struct{ buffer []packed }

// packed is a Step in 32 instead of 112 bytes. Steps that do not fit are in Puller.wide.
type packed struct {
	op             Op
	src, dst       Buffer
	wide           bool // srcOff is the index in Puller.wide; nothing else is set
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
		p.wide = append(p.wide, *s)
		return packed{wide: true, srcOff: uint32(len(p.wide) - 1)}
	}
	return packed{op: s.Op, src: s.Src.Buf, dst: s.Dst.Buf, tag: int32(s.Tag), to: to, from: from,
		srcOff: uint32(s.Src.Off), srcLen: uint32(s.Src.Len), dstOff: uint32(s.Dst.Off), dstLen: uint32(s.Dst.Len)}
}

// unpack stores a packed step in into.
func (p *Puller) unpack(s *packed, into *Step) {
	if s.wide {
		*into = p.wide[s.srcOff]
		return
	}
	into.Op, into.Tag, into.To, into.From = s.op, int(s.tag), unpackPeer(s.to), unpackPeer(s.from)
	into.Src, into.Dst = Range{s.src, int(s.srcOff), int(s.srcLen)}, Range{s.dst, int(s.dstOff), int(s.dstLen)}
}

// PullAll returns a Puller for the steps of every rank. The caller must call StopAll. The Pullers must be
// used by one goroutine.
func PullAll(s Schedule) []Puller {
	all := make([]Puller, s.Ranks())
	shared := &pullers{}
	for rank := range all {
		all[rank] = Puller{stream: s.Steps(rank), shared: shared}
	}
	return all
}

// StopAll releases the streams.
func StopAll(all []Puller) {
	for i := range all {
		if all[i].stop != nil {
			all[i].stop()
		}
	}
}

// Next stores the next step in into. It returns false after the last one.
func (p *Puller) Next(into *Step) bool {
	if p.next == len(p.steps) {
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

// fetch fills steps. The last fetch returns fewer than the others, or none.
func (p *Puller) fetch() {
	if p.taken >= short && p.more == nil {
		p.more, p.stop = iter.Pull(p.batches(p.taken))
	}
	var batch []packed
	if p.more != nil {
		batch, _ = p.more()
	} else {
		for batch = range p.batches(p.taken) {
			break
		}
	}
	// All Pullers collect their steps in one buffer, so that their own has only the length that is needed.
	p.steps, p.next = append(p.steps[:0], batch...), 0
	if len(batch) < fetched {
		p.steps = slices.Clip(p.steps)
	}
	p.taken += len(batch)
	p.ended = len(batch) < fetched
}

// batches yields the stream without its first skip steps, several steps at a time.
func (p *Puller) batches(skip int) iter.Seq[[]packed] {
	return func(yield func([]packed) bool) {
		p.wide = p.wide[:0]
		steps := p.shared.buffer[:0]
		for step := range p.stream {
			if skip--; skip >= 0 {
				continue
			}
			if steps = append(steps, p.pack(&step)); len(steps) == fetched {
				p.shared.buffer = steps
				if !yield(steps) {
					return
				}
				p.wide, steps = p.wide[:0], p.shared.buffer[:0]
			}
		}
		yield(steps)
	}
}
