package solvescaling

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/solve"
)

// cause is what the time of an iteration goes to: one thing, and a sentence with the
// numbers that show it.
type cause struct{ name, sentence string }

// The shares of an iteration from which something is what binds it.
const (
	bindingShare   = 0.3 // of waiting
	imbalanceShare = 0.1 // of waiting for the slowest rank's arithmetic
	bandwidthShare = 0.6 // of the triad
	// aboveMemory is the part of the triad from which the memory cannot be where the
	// data comes from; a little above is the noise of both.
	aboveMemory = 1.1
	// explained is the part of the waiting that messages must take by themselves to be
	// its reason, and the part of the slowest rank's longer work that its larger part must be.
	explained = 0.5
	// preconditionShare is of the preconditioner, whose messages are not told from its work.
	preconditionShare = 0.5
)

// shares are what a traced iteration's time goes to, as fractions: the work of the mean rank, what the slowest one
// works longer, and waiting.
type shares struct{ work, imbalance, waiting float64 }

// sharesOf splits an iteration: what the slowest rank works more than the mean, and
// the time in which not even that one works.
func sharesOf(r *journal.Row) (shares, bool) {
	us, measured := r.Metrics["traced_us"]
	if !measured {
		us = r.Metrics["time_us"] // of older rows, whose phases add up to it
	}
	mean, most := 0.0, 0.0
	for _, p := range []solve.Phase{solve.SpMV, solve.Dots, solve.Updates, solve.Precond, solve.Other} {
		mean += r.Metrics[meanOf(p)]
		most += r.Metrics[slowestOf(p)]
	}
	if !(us > 0) || mean == 0 {
		return shares{}, false
	}
	most = min(most, us)
	return shares{mean / us, max(0, most-mean) / us, max(0, us-most) / us}, true
}

// causeOf finds what binds an iteration.
func causeOf(r *journal.Row) cause {
	s, ok := sharesOf(r)
	m := r.Metrics
	switch {
	case !ok:
		return cause{"an unknown reason", "what binds an iteration is not known: its phases were not timed"}
	case s.imbalance >= imbalanceShare && s.imbalance >= s.waiting:
		return unevenCause(r, s)
	case s.waiting >= bindingShare && rowset.Ranks(r) > 1:
		return waitingCause(r, s)
	case m["triad_fraction"] > aboveMemory:
		return cause{"the ranks' own work", fmt.Sprintf("an iteration works from the caches, not from memory: %.1f GB/s by the model, above the triad's %.1f GB/s", m["gbps"], m["triad_gbps"])}
	case m["triad_fraction"] >= bandwidthShare:
		text := fmt.Sprintf("an iteration is bound by memory bandwidth: %.1f GB/s by the model, %.0f %% of the triad's %.1f GB/s", m["gbps"], 100*m["triad_fraction"], m["triad_gbps"])
		if b := m["bandwidth_scaling"]; b > 0 && b < 0.95 {
			text += fmt.Sprintf(", which is %.2f times that of one rank", b*float64(rowset.Ranks(r)))
		}
		return cause{"memory bandwidth", text}
	case rowset.Ranks(r) > 1 && preconditioning(r) >= preconditionShare && m["alone_us"] == 0:
		return cause{"the preconditioner", fmt.Sprintf("an iteration is bound by its preconditioner, %.0f %% of it; how much of that is its messages is not measured", 100*preconditioning(r))}
	}
	return cause{"the ranks' own work", fmt.Sprintf("an iteration is bound by the ranks' own work: it takes %.1f GB/s by the model, %.0f %% of the triad's %.1f GB/s", m["gbps"], 100*m["triad_fraction"], m["triad_gbps"])}
}

// preconditioning is the part of a traced iteration that the preconditioner takes, with what it exchanges.
func preconditioning(r *journal.Row) float64 {
	if us := r.Metrics["traced_us"]; us > 0 {
		return r.Metrics[meanOf(solve.Precond)] / us
	}
	return 0
}

// unevenCause tells why a rank works longer than the others: its part is larger, or, where that does not explain it, it
// is slower.
func unevenCause(r *journal.Row, s shares) cause {
	m := r.Metrics
	rows, entries := m["row_imbalance"], m["nnz_imbalance"]
	if largest := max(rows, entries); (largest-1)*s.work >= explained*s.imbalance {
		text := fmt.Sprintf("an iteration is bound by imbalance: the slowest rank works %.0f %% of it longer than the mean rank; the largest part has %.2f times the mean rows and %.2f times the mean entries",
			100*s.imbalance, rows, entries)
		if entries > 1.1*rows && rowset.Text(r, weightsAxis) != string(solve.ByEntries) {
			text += fmt.Sprintf(" (--%s %s evens these out)", weightsAxis, solve.ByEntries)
		}
		return cause{"imbalance", text}
	}
	return cause{"a slow rank", fmt.Sprintf("an iteration is bound by a slow rank: the slowest works %.0f %% of it longer than the mean rank, though the largest part has only %.2f times the mean rows and %.2f times the mean entries: another program, or a slower core",
		100*s.imbalance, rows, entries)}
}

// waitingCause tells why ranks wait: messages take their time, or another rank is late,
// which shows in messages that take far less by themselves.
func waitingCause(r *journal.Row, s shares) cause {
	m := r.Metrics
	own, known := m["communication_us"]
	waiting := s.waiting * m["time_us"]
	switch {
	case !known:
		return cause{"waiting", fmt.Sprintf("an iteration is bound by waiting, %.0f %% of it: whether for messages or for late ranks was not measured", 100*s.waiting)}
	case own >= explained*waiting:
		return cause{"messages", fmt.Sprintf("an iteration is bound by messages and reductions (%.3g reductions per iteration): ranks wait for %.0f %% of it, and the messages by themselves take %s of its %s",
			m["reductions_per_iteration"], 100*s.waiting, unit.FormatMicros(own), unit.FormatMicros(m["time_us"]))}
	}
	return cause{"late ranks", fmt.Sprintf("an iteration is bound by late ranks: ranks wait for %.0f %% of it, though the messages by themselves take %s of its %s",
		100*s.waiting, unit.FormatMicros(own), unit.FormatMicros(m["time_us"]))}
}

// hidden says how much of the reductions of an iteration a method hides behind other work; nothing of a method that
// does not, or on one rank.
func hidden(r *journal.Row) string {
	blocking, left := r.Metrics["allreduce_blocking_us"], r.Metrics[meanOf(solve.AllReduce)]
	if !(blocking > 0) {
		return ""
	}
	if left >= blocking {
		return fmt.Sprintf("None of the reductions was hidden: they take %s of a traced iteration behind the product, and %s where ranks wait for them at once.",
			unit.FormatMicros(left), unit.FormatMicros(blocking))
	}
	return fmt.Sprintf("Of the reductions, which take %s of a traced iteration where ranks wait for them at once, %.0f %% are hidden behind the product: %s are left.",
		unit.FormatMicros(blocking), 100*(1-left/blocking), unit.FormatMicros(left))
}
