package predict

import (
	"iter"

	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/result/model"
)

// sharedSchedule is an all-reduce for which package dist/cpu has special code if the ranks share a
// memory. Its steps are what that code does, and not the schedule of the same name.
type sharedSchedule struct {
	schedule.Schedule
	scratch int // length of the scratch buffer in elements
	steps   func(w *stepWriter)
}

// stepWriter emits the steps of one rank.
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

// asExecuted returns the schedule that the library really executes in the memory of the series: a
// sharedSchedule if dist/cpu has special code for it, else the given one.
func asExecuted(of schedule.Schedule, s model.Series, elem int) schedule.Schedule {
	chunk := of.Params().ChunkElems
	switch {
	case s.Backend != hints.HostBackend || of.Ranks() == 1 || of.Count() == 0:
		return of
	case of.Name() == "one-stage":
		if inline := shm.InlineBytes / elem; chunk == 0 || chunk > inline {
			chunk = inline
		}
		return sharedSchedule{of, 2 * chunk, func(w *stepWriter) { w.oneStage(chunk) }}
	case of.Name() == "two-stage" && s.Buffers == "private":
		if chunk == 0 {
			chunk = max(minStagedPart*of.Ranks(), min(maxStagedBytes, (of.Count()*elem+1)/2)) / elem
		}
		chunk = max(1, min(chunk, of.Count()))
		return sharedSchedule{of, 2 * stagedSlots * chunk, func(w *stepWriter) { w.staged(chunk) }}
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

// sum adds the same range of all ranks.
func (w *stepWriter) sum(src, dst schedule.Range) {
	if src.Len > 0 {
		w.emit(schedule.Step{Op: schedule.GetReduce, From: w.everyone(), Src: src, Dst: dst})
	}
}

func rangeOf(b schedule.Buffer, off, n int) schedule.Range {
	return schedule.Range{Buf: b, Off: off, Len: n}
}

// direct is two-stage on symmetric memory: each rank adds its part of all inputs and stores the sum
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

// oneStage copies the input next to a flag, chunk by chunk into one of two slots, and adds the chunks
// of all ranks.
func (w *stepWriter) oneStage(chunk int) {
	for c := 0; c*chunk < w.Count; c++ {
		off := c * chunk
		n := min(chunk, w.Count-off)
		slot := rangeOf(schedule.Scratch, c%2*chunk, n)
		w.copy(rangeOf(schedule.Input, off, n), slot)
		w.signal()
		w.wait(w.everyone())
		w.sum(slot, rangeOf(schedule.Output, off, n))
	}
}

// Chunks of two-stage on private memory, as in dist/cpu: their largest size in bytes, the least bytes
// of a rank's part of one, and how many are in flight.
const maxStagedBytes, minStagedPart, stagedSlots = 256 << 10, 2 << 10, 3

// staged is two-stage on private memory. While one chunk is added, the next is copied to where the
// peers reach it; the sums are fetched two chunks later. Unlike here, a rank in dist/cpu adds its own
// part from its input and not from the copy.
func (w *stepWriter) staged(chunk int) {
	chunks := (w.Count + chunk - 1) / chunk
	length := func(c int) int { return min(chunk, w.Count-c*chunk) }
	part := func(c, r int) (off, n int) { return schedule.Split(length(c), w.Ranks, r) }
	slot := func(c int) int { return c % stagedSlots * chunk }
	sums := func(c int) int { return stagedSlots*chunk + slot(c) }
	publish := func(c int) {
		w.copy(rangeOf(schedule.Input, c*chunk, length(c)), rangeOf(schedule.Scratch, slot(c), length(c)))
		w.signal()
	}
	fetch := func(c int) {
		for r := range w.Ranks {
			if r == w.rank {
				continue
			}
			w.wait(schedule.One(r))
			if off, n := part(c, r); n > 0 {
				w.emit(schedule.Step{Op: schedule.Get, From: schedule.One(r), Src: rangeOf(schedule.Scratch, sums(c)+off, n),
					Dst: rangeOf(schedule.Output, c*chunk+off, n)})
			}
		}
	}
	publish(0)
	for c := range chunks {
		if c >= 2 {
			fetch(c - 2)
		}
		if c+1 < chunks {
			publish(c + 1)
		}
		w.wait(w.everyone())
		off, n := part(c, w.rank)
		own := rangeOf(schedule.Scratch, sums(c)+off, n)
		w.sum(rangeOf(schedule.Scratch, slot(c)+off, n), own)
		w.copy(own, rangeOf(schedule.Output, c*chunk+off, n))
		w.signal()
	}
	for c := max(0, chunks-2); c < chunks; c++ {
		fetch(c)
	}
}
