package replay

import (
	"iter"

	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// direct is the all-reduce that ASTRA-sim calls direct, for networks on which a rank reaches every other one in one
// hop. Each rank owns a block of the vector. It writes every other block to the owner, adds up the copies of its own
// block, and writes the sum to all ranks. Package schedule has no all-reduce that writes to peers, because its backends
// read faster.
//
// A rank writes into buffers that its peers keep for this purpose, and that are free since the previous call. So it
// needs no handshake, as in ASTRA-sim. The proof looks at a single call. For the proof, handshake is set: the ranks
// then first announce that their buffers are free.
type direct struct {
	params    schedule.Params
	handshake bool
}

const directName = "direct"

func (d direct) Name() string            { return directName }
func (d direct) Collective() string      { return schedule.AllReduce }
func (d direct) Ranks() int              { return d.params.Ranks }
func (d direct) Count() int              { return d.params.Count }
func (d direct) Params() schedule.Params { return d.params }

// Len returns the length of a buffer. Scratch holds a copy of the rank's block from every rank.
func (d direct) Len(buf schedule.Buffer, rank int) int {
	if buf != schedule.Scratch {
		return d.params.Len(schedule.AllReduce, buf, rank)
	}
	_, n := d.params.Block(rank)
	return n * d.params.Ranks
}

// Steps yields the steps of a rank. A rank writes to its peers in rotated order, so that no two ranks write to the
// same one at a time.
func (d direct) Steps(rank int) iter.Seq[schedule.Step] {
	ranks := d.params.Ranks
	everyone := schedule.Peers{Stride: 1, N: ranks}
	off, n := d.params.Block(rank)
	own := schedule.Range{Buf: schedule.Output, Off: off, Len: n}
	return func(yield func(schedule.Step) bool) {
		tag := 0
		exchange := func(put func(peer int) (src, dst schedule.Range)) bool {
			for k := 1; k < ranks; k++ {
				peer := (rank + k) % ranks
				src, dst := put(peer)
				if src.Len > 0 && !yield(schedule.Step{Op: schedule.Put, To: schedule.One(peer), Src: src, Dst: dst}) {
					return false
				}
			}
			tag++
			return yield(schedule.Step{Op: schedule.Signal, Tag: tag, To: everyone}) &&
				yield(schedule.Step{Op: schedule.Wait, Tag: tag, From: everyone})
		}
		ok := true
		if d.handshake {
			ok = exchange(func(int) (src, dst schedule.Range) { return src, dst })
		}
		ok = ok && exchange(func(peer int) (src, dst schedule.Range) {
			o, l := d.params.Block(peer)
			return schedule.Range{Buf: schedule.Input, Off: o, Len: l},
				schedule.Range{Buf: schedule.Scratch, Off: rank * l, Len: l}
		})
		for peer := 0; ok && peer < ranks; peer++ {
			if peer != rank && n > 0 {
				ok = yield(schedule.Step{Op: schedule.Reduce, Dst: own,
					Src: schedule.Range{Buf: schedule.Scratch, Off: peer * n, Len: n}})
			}
		}
		if ok {
			exchange(func(int) (src, dst schedule.Range) { return own, own })
		}
	}
}
