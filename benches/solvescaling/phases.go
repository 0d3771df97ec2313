package solvescaling

import (
	"encoding/json"
	"fmt"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/system"
)

// recordFacts stores facts of a row as JSON. Facts with a number that JSON lacks are left out.
func recordFacts(s *bench.State, detail string, facts any) {
	if text, err := json.Marshal(facts); err == nil {
		s.Detail(detail, string(text))
	}
}

// factsOf returns facts that recordFacts stored.
func factsOf[T any](r *journal.Row, detail string) (facts T) {
	_ = json.Unmarshal([]byte(r.Details[detail]), &facts) // rows that have none
	return facts
}

// level is a level of a hierarchy over all ranks: its size, and its part of an iteration.
type level struct{ Rows, Entries, US, Bytes, Flops float64 }

// levelWork returns the bytes and the operations of an application on each level of a hierarchy that knows them.
func levelWork(operator any) []krylov.Work {
	l, known := operator.(system.Leveled)
	if !known {
		return nil
	}
	return lists.Map(lists.Range[int](operator.(system.Hierarchy).Levels()), func(level int) (w krylov.Work) {
		w.Bytes, w.Flops = l.Work(level)
		return w
	})
}

// reportWork records the work of each phase of an iteration over all ranks.
func reportWork(s *bench.State, ranks []traced) {
	if ranks[0].Work == [krylov.NumPhases]krylov.Work{} {
		return // on a GPU
	}
	recordFacts(s, workDetail, lists.Map(lists.Range[int](int(krylov.NumPhases)), func(phase int) krylov.Work {
		return krylov.Work{Count: ranks[0].count(krylov.Phase(phase)),
			Bytes: sumOf(ranks, func(r traced) float64 { return r.Work[phase].Bytes / r.iterations() }),
			Flops: sumOf(ranks, func(r traced) float64 { return r.Work[phase].Flops / r.iterations() })}
	}))
}

// phaseNames describes the phases in the table of the work of an iteration.
var phaseNames = [krylov.NumPhases]string{
	krylov.SpMV: "product", krylov.HaloPack: "send halo", krylov.HaloWait: "wait for halo", krylov.Dots: "scalar products",
	krylov.AllReduce: "all-reduce", krylov.Updates: "vector updates", krylov.Precond: "preconditioner",
	krylov.Other: "other",
}

// workTable shows the phases of an iteration of a row, one per line. The times are means over the ranks. They add up to
// the timed iteration together with the last line: the time from the end of a mean rank to the end of the slowest.
func workTable(r *journal.Row) [][]string {
	work := factsOf[[]krylov.Work](r, workDetail)
	total := perIteration(r)
	if len(work) != int(krylov.NumPhases) || !(total > 0) {
		return nil
	}
	out := [][]string{{"phase", "count", "µs", "share", "bytes", "operations", "GB/s", "GFLOP/s"}}
	rest := total
	for phase := range krylov.NumPhases {
		us, w := r.Metrics[meanOf(phase)], work[phase]
		rest -= us
		if us == 0 && w.Bytes == 0 && w.Flops == 0 {
			continue
		}
		line := workLine(phaseNames[phase], w, us, total)
		switch phase {
		case krylov.HaloPack, krylov.HaloWait, krylov.AllReduce:
			line[6], line[7] = "", "" // the time is mostly latency and waiting
		}
		out = append(out, line)
		if phase == krylov.Precond {
			out = append(out, levelLines(r, us, total)...)
		}
	}
	if dataset.Ranks(r) > 1 {
		out = append(out, workLine("wait for the slowest rank", krylov.Work{}, max(0, rest), total))
	}
	return append(out, []string{"whole iteration", "", unit.FormatSig(total, 3), "100 %", "", "", "", ""})
}

// levelLines divides the time of the preconditioner among its levels, as in a traced cycle.
func levelLines(r *journal.Row, us, iteration float64) (out [][]string) {
	levels := factsOf[[]level](r, levelsDetail)
	total := sumOf(levels, levelTime)
	for i, l := range levels {
		out = append(out, workLine(fmt.Sprintf("  level %d", i), krylov.Work{Bytes: l.Bytes, Flops: l.Flops},
			us*l.US/total, iteration))
	}
	return out
}

func levelTime(l level) float64 { return l.US }

// workLine formats a line of the table.
func workLine(name string, w krylov.Work, us, total float64) []string {
	per := func(work float64) string {
		if work == 0 || !(us > 0) {
			return ""
		}
		return unit.FormatSig(work/us/1e3, 3)
	}
	if w.Count == 0 && w.Bytes == 0 && w.Flops == 0 {
		return []string{name, "", unit.FormatSig(us, 3), percentOf(us, total), "", "", "", ""}
	}
	times := ""
	if w.Count > 0 {
		times = unit.FormatSig(w.Count, 3)
	}
	text := func(v float64, format func(float64) string) string {
		if v == 0 {
			return ""
		}
		return format(v)
	}
	return []string{name, times, unit.FormatSig(us, 3), percentOf(us, total), text(w.Bytes, unit.FormatBytesApprox),
		text(w.Flops, count), per(w.Bytes), per(w.Flops)}
}

func percentOf(part, total float64) string { return fmt.Sprintf("%.0f %%", 100*part/total) }

// workNote explains the table.
const workNote = "Counts, bytes and operations belong to one iteration on all ranks together, and are counted, not " +
	"measured. Times are means over the ranks. Vectors count with the updates, because a fused pass reads them once. " +
	"Levels divide the time of the preconditioner as in a traced cycle. The times of halo and all-reduce include the " +
	"messages of the preconditioner, and their counts and bytes do not."
