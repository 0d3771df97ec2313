package predict

import (
	"iter"

	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/result/model"
)

// sharedSchedule is an all-reduce for which the library has code of its own where ranks share a memory
// (package dist/cpu): the steps are what that code does, not those of the schedule of its name.
type sharedSchedule struct {
	schedule.Schedule
	scratch int // elements
	steps   func(w *stepWriter)
}

// stepWriter writes those of a rank.
type stepWriter struct {
	schedule.Params
	rank  int
	yield func(schedule.Step) bool
	done  bool
}

func (s sharedSchedule) Len(b schedule.Buffer, rank int) int {
	if b == schedule.Scratch {
		return s.scratch
	}
	return s.Schedule.Len(b, rank)
}

func (s sharedSchedule) Steps(rank int) iter.Seq[schedule.Step] {
	return func(yield func(schedule.Step) bool) {
		s.steps(&stepWriter{Params: s.Params(), rank: rank, yield: yield})
	}
}

// asExecuted is a schedule as the library executes it in the series' memory.
func asExecuted(of schedule.Schedule, s model.Series, elem int) schedule.Schedule {
	piece := of.Params().ChunkElems
	switch {
	case s.Backend != hints.HostBackend || of.Ranks() == 1 || of.Count() == 0:
		return of
	case of.Name() == "one-stage":
		if inline := shm.InlineBytes / elem; piece == 0 || piece > inline {
			piece = inline
		}
		return sharedSchedule{of, 2 * piece, func(w *stepWriter) { w.oneStage(piece) }}
	case of.Name() == "two-stage" && s.Buffers == "private":
		if piece == 0 {
			piece = max(minStagedPart*of.Ranks(), min(maxStagedBytes, (of.Count()*elem+1)/2)) / elem
		}
		piece = max(1, min(piece, of.Count()))
		return sharedSchedule{of, 2 * stagedSlots * piece, func(w *stepWriter) { w.staged(piece) }}
	case of.Name() == "two-stage":
		return sharedSchedule{of, 0, (*stepWriter).direct}
	}
	return of
}

func (w *stepWriter) emit(s schedule.Step) {
	if !w.done && s.Src.Len+s.To.N+s.From.N > 0 && !w.yield(s) {
		w.done = true
	}
}

func (w *stepWriter) everyone() schedule.Peers { return schedule.Peers{Stride: 1, N: w.Ranks} }

func (w *stepWriter) signal() { w.emit(schedule.Step{Op: schedule.Signal, To: w.everyone()}) }

func (w *stepWriter) wait(peers schedule.Peers) {
	w.emit(schedule.Step{Op: schedule.Wait, From: peers})
}

func (w *stepWriter) copy(src, dst schedule.Range) {
	if src.Len > 0 {
		w.emit(schedule.Step{Op: schedule.Copy, Src: src, Dst: dst})
	}
}

// sum adds up a range of all ranks.
func (w *stepWriter) sum(src, dst schedule.Range) {
	if src.Len > 0 {
		w.emit(schedule.Step{Op: schedule.GetReduce, From: w.everyone(), Src: src, Dst: dst})
	}
}

func rangeOf(b schedule.Buffer, off, n int) schedule.Range {
	return schedule.Range{Buf: b, Off: off, Len: n}
}

// direct is two-stage on symmetric memory: each rank adds up its part of all inputs and stores it
// into all outputs.
func (w *stepWriter) direct() {
	w.signal()
	w.wait(w.everyone())
	off, n := schedule.Split(w.Count, w.Ranks, w.rank)
	own := rangeOf(schedule.Output, off, n)
	w.sum(rangeOf(schedule.Input, off, n), own)
	for r := range w.Ranks {
		if r != w.rank && n > 0 {
			w.emit(schedule.Step{Op: schedule.Put, To: schedule.One(r), Src: own, Dst: own})
		}
	}
	w.signal()
	w.wait(w.everyone())
}

// oneStage puts the input beside a flag, a piece at a time in one of two slots, and adds up everything.
func (w *stepWriter) oneStage(piece int) {
	for c := 0; c*piece < w.Count; c++ {
		off := c * piece
		n := min(piece, w.Count-off)
		slot := rangeOf(schedule.Scratch, c%2*piece, n)
		w.copy(rangeOf(schedule.Input, off, n), slot)
		w.signal()
		w.wait(w.everyone())
		w.sum(slot, rangeOf(schedule.Output, off, n))
	}
}

// What pieces two-stage on private memory is cut into, as in dist/cpu: bytes at most, of a part of a rank
// at least, and how many are on their way.
const maxStagedBytes, minStagedPart, stagedSlots = 256 << 10, 2 << 10, 3

// staged is two-stage on private memory: a piece is copied to where others reach it while the one
// before is added up, and the sums are fetched. In dist/cpu a rank adds its own part from its input
// and not from a copy.
func (w *stepWriter) staged(piece int) {
	pieces := (w.Count + piece - 1) / piece
	length := func(c int) int { return min(piece, w.Count-c*piece) }
	at := func(c, r int) (off, n int) { return schedule.Split(length(c), w.Ranks, r) }
	slot := func(c int) int { return c % stagedSlots * piece }
	sums := func(c int) int { return stagedSlots*piece + slot(c) }
	give := func(c int) {
		w.copy(rangeOf(schedule.Input, c*piece, length(c)), rangeOf(schedule.Scratch, slot(c), length(c)))
		w.signal()
	}
	fetch := func(c int) {
		for r := range w.Ranks {
			if r == w.rank {
				continue
			}
			w.wait(schedule.One(r))
			if off, n := at(c, r); n > 0 {
				w.emit(schedule.Step{Op: schedule.Get, From: schedule.One(r), Src: rangeOf(schedule.Scratch, sums(c)+off, n),
					Dst: rangeOf(schedule.Output, c*piece+off, n)})
			}
		}
	}
	give(0)
	for c := range pieces {
		if c >= 2 {
			fetch(c - 2)
		}
		if c+1 < pieces {
			give(c + 1)
		}
		w.wait(w.everyone())
		off, n := at(c, w.rank)
		own := rangeOf(schedule.Scratch, sums(c)+off, n)
		w.sum(rangeOf(schedule.Scratch, slot(c)+off, n), own)
		w.copy(own, rangeOf(schedule.Output, c*piece+off, n))
		w.signal()
	}
	for c := max(0, pieces-2); c < pieces; c++ {
		fetch(c)
	}
}
