package solvescaling

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/partition"
)

// cause is the bottleneck of an iteration: a name, and a sentence with the numbers that show it. It is open if the
// numbers show none.
type cause struct {
	name, sentence string
	open           bool
}

// Thresholds above which something counts as the cause, as fractions of an iteration or of the triad.
const (
	boundByWaiting   = 0.3 // time spent waiting
	boundByImbalance = 0.1 // additional work of the slowest rank
	boundByMemory    = 0.6 // bandwidth, relative to the triad
	// aboveMemory is the bandwidth relative to the triad above which the data must come from caches. Values slightly above
	// 1 are noise.
	aboveMemory = 1.1
	// explained is the fraction of the waiting time that messages alone must take to be its cause. It is also the fraction
	// of the slowest rank's additional work that its larger part must explain.
	explained = 0.5
	// tracedTolerance is the largest difference between a traced and a timed iteration on a GPU, relative to the
	// timed one, at which one describes the other.
	tracedTolerance = 0.2
)

// share is a part of an iteration as a fraction, with the range over the timed solves.
type share struct{ value, low, high float64 }

func (s share) String() string { return withInterval(s.value, s.low, s.high) }

// shares splits an iteration into the work of the mean rank, the additional work of the slowest rank, and waiting: the
// time in which not even the slowest rank works.
type shares struct {
	work, imbalance, waiting share
	single                   bool // from one solve of one launch, so that nothing is known about the range
}

// sharesOf returns the shares of a row, and whether its timed solves counted them.
func sharesOf(r *journal.Row) (s shares, counted bool) {
	of := func(name string) share {
		v := r.Metrics[name]
		if st, spread := r.Stats.Find(name); spread {
			return share{v, st.Min, st.Max}
		}
		return share{v, v, v}
	}
	s = shares{work: of(workShare), imbalance: of(imbalanceShare), waiting: of(waitingShare)}
	s.single = r.Samples < 2 && s.waiting.low == s.waiting.high
	_, counted = r.Metrics[waitingShare]
	return s, counted
}

// found returns the cause of an iteration.
func found(name, format string, args ...any) cause {
	return cause{name: name, sentence: fmt.Sprintf(format, args...)}
}

// unresolved is the cause of an iteration whose numbers do not show one.
func unresolved(format string, args ...any) cause {
	return cause{"not resolved", "the limit of an iteration is not resolved: " + fmt.Sprintf(format, args...), true}
}

// causeOf determines what limits an iteration. It names a loss only if its share, with its range over the solves, is
// large enough and exceeds the other loss.
func causeOf(r *journal.Row) cause {
	s, counted := sharesOf(r)
	gpu, traced, timed := r.Details[gpuDetail] != "", r.Metrics["traced_us"], perIteration(r)
	switch {
	case dataset.Ranks(r) > 1 && gpu && r.Metrics["triad_fraction"] < boundByMemory:
		return unresolved("its kernels work and wait for other ranks in the same launch, so the two cannot be timed "+
			"separately; it moves %s", modelText(r))
	case gpu && (traced > (1+tracedTolerance)*timed || traced < (1-tracedTolerance)*timed):
		return unresolved("its phases were only traced, and the traced iteration took %s, the timed one %s",
			unit.FormatMicros(traced), unit.FormatMicros(timed))
	case r.Disturbed():
		c := unresolved("the row was disturbed (%s)", r.Conditions.Strongest().Sentence())
		c.name = "disturbed"
		return c
	case dataset.Ranks(r) == 1 || gpu:
		return workCause(r)
	case oversubscribed(r):
		c := unresolved("ranks share cores, so that each waits while another one runs")
		c.name = "shared cores"
		return c
	case !counted:
		return unresolved("its solves did not count how long ranks work and wait")
	case s.single:
		return unresolved("one timed solve gives no range of its parts (--%s 3 does)", repeatOption)
	case s.imbalance.value >= boundByImbalance && s.imbalance.value >= s.waiting.value:
		if s.imbalance.low < boundByImbalance || s.imbalance.low <= s.waiting.high {
			return unresolved("the slowest rank works %v of it longer than the mean rank, and ranks wait for %v of it",
				s.imbalance, s.waiting)
		}
		return unevenCause(r, s)
	case s.waiting.value >= boundByWaiting:
		if s.waiting.low < boundByWaiting || s.waiting.low <= s.imbalance.high {
			return unresolved("ranks wait for %v of it, and the slowest rank works %v of it longer than the mean rank",
				s.waiting, s.imbalance)
		}
		return waitingCause(r, s)
	case s.work.low <= max(s.imbalance.high, s.waiting.high):
		return unresolved("ranks work for %v of it and wait for %v, and the slowest rank works %v of it longer than the "+
			"mean rank", s.work, s.waiting, s.imbalance)
	}
	return workCause(r)
}

// modelText states the memory traffic of an iteration.
func modelText(r *journal.Row) string {
	m := r.Metrics
	return fmt.Sprintf("%.1f GB/s by the model, %s times the triad's %.1f GB/s", m["gbps"],
		unit.FormatSig(m["triad_fraction"], 3), m["triad_gbps"])
}

// workCause explains an iteration in which ranks mostly work.
func workCause(r *journal.Row) cause {
	m := r.Metrics
	switch {
	case m["triad_fraction"] > aboveMemory:
		return found("own work", "an iteration works from the caches, not from memory: %.1f GB/s by the model, "+
			"above the triad's %.1f GB/s", m["gbps"], m["triad_gbps"])
	case m["triad_fraction"] >= boundByMemory && m["working_set_bytes"] > 0 && m["working_set_bytes"] <= m["cache_bytes"]:
		return unresolved("it moves %s, but its working set of %s may be in the caches of %s", modelText(r),
			unit.FormatBytesApprox(m["working_set_bytes"]), unit.FormatBytesApprox(m["cache_bytes"]))
	case m["triad_fraction"] >= boundByMemory:
		text := "an iteration is bound by memory bandwidth: " + modelText(r)
		if b := m["bandwidth_scaling"]; b > 0 && b < 0.95 {
			text += fmt.Sprintf(", which is %.2f times the bandwidth of one rank", b*float64(dataset.Ranks(r)))
		}
		return cause{name: "memory bandwidth", sentence: text}
	}
	return cause{name: "own work", sentence: "an iteration is bound by the ranks' own work: it moves " + modelText(r)}
}

// unevenCause explains why one rank works longer than the others: its part is larger, or it is slower.
func unevenCause(r *journal.Row, s shares) cause {
	m := r.Metrics
	rows, entries := m["row_imbalance"], m["nnz_imbalance"]
	slow := factsOf[*slowRank](r, slowRankDetail)
	if largest := max(rows, entries); (largest-1)*s.work.value >= explained*s.imbalance.value &&
		(slow == nil || !slow.coreAlone()) {
		text := fmt.Sprintf("an iteration is bound by imbalance: the slowest rank works %v of it longer than the "+
			"mean rank; the largest part has %.2f times the mean rows and %.2f times the mean entries",
			s.imbalance, rows, entries)
		if entries > 1.1*rows && dataset.Text(r, weightsAxis) != string(partition.ByEntries) {
			text += fmt.Sprintf(" (--%s %s evens these out)", weightsAxis, partition.ByEntries)
		}
		return cause{name: "imbalance", sentence: text}
	}
	text := fmt.Sprintf("an iteration is bound by a slow rank: the slowest works %v of it longer than the mean "+
		"rank, though "+
		"the largest part has only %.2f times the mean rows and %.2f times the mean entries", s.imbalance, rows, entries)
	if slow == nil {
		text += "; whether its core or its rows are the reason was not tested"
	}
	return cause{name: "a slow rank", sentence: text}
}

// waitingCause explains why ranks wait. If messages alone take much less time, another rank is late.
func waitingCause(r *journal.Row, s shares) cause {
	m := r.Metrics
	own, known := m["communication_us"]
	us := unit.FormatMicros(m["time_us"])
	half := explained * m["time_us"] // of the time of an iteration
	switch {
	case !known:
		return found("waiting", "an iteration is bound by waiting, %v of its %s: whether for messages or for "+
			"late ranks was not measured", s.waiting, us)
	case own >= half*s.waiting.high:
		return found("messages", "an iteration is bound by messages and reductions (%.3g reductions per "+
			"iteration): ranks wait for %v of its %s, and the messages by themselves take %s",
			m["reductions_per_iteration"], s.waiting, us, unit.FormatMicros(own))
	case own >= half*s.waiting.low:
		return found("waiting", "an iteration is bound by waiting, %v of its %s: whether for messages, which "+
			"by themselves take %s, or for late ranks is not resolved", s.waiting, us, unit.FormatMicros(own))
	}
	return found("late ranks", "an iteration is bound by late ranks: ranks wait for %v of its %s, though "+
		"the messages by themselves take %s", s.waiting, us, unit.FormatMicros(own))
}
