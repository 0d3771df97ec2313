package solvescaling

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/profile"
)

// pack writes a word for each item of a list: its names and numbers, joined by colons.
func pack[T any](list []T, values func(T) []any) string {
	return strings.Join(lists.Map(list, func(item T) string {
		return strings.Join(lists.Map(values(item), func(v any) string {
			if number, is := v.(float64); is {
				return strconv.FormatFloat(number, 'g', 6, 64)
			}
			return fmt.Sprint(v)
		}), ":")
	}), " ")
}

// unpack returns the numbers of each word that pack wrote. Words with fewer numbers are left out.
func unpack(text string, numbers int) (out [][]float64) {
	for _, word := range strings.Fields(text) {
		var found []float64
		for _, part := range strings.Split(word, ":") {
			if v, err := strconv.ParseFloat(part, 64); err == nil {
				found = append(found, v)
			}
		}
		if len(found) >= numbers {
			out = append(out, found)
		}
	}
	return out
}

// levelWork returns the bytes and the operations of an application on each level of a hierarchy that knows them.
func levelWork(operator any) []krylov.Work {
	l, known := operator.(profile.Leveled)
	if !known {
		return nil
	}
	return lists.Map(lists.Range[int](operator.(profile.Hierarchy).Levels()), func(level int) (w krylov.Work) {
		w.Bytes, w.Flops = l.Work(level)
		return w
	})
}

// reportWork records the work of each phase of an iteration, and of each level of a hierarchy, over all ranks.
func reportWork(s *bench.State, ranks []traced) {
	first := ranks[0]
	if first.Work == [krylov.NumPhases]krylov.Work{} {
		return // on a GPU
	}
	s.Detail(workDetail, pack(lists.Range[int](int(krylov.NumPhases)), func(phase int) []any {
		return []any{krylov.Phase(phase), first.Work[phase].Count / first.iterations(),
			sumOf(ranks, func(r traced) float64 { return r.Work[phase].Bytes / r.iterations() }),
			sumOf(ranks, func(r traced) float64 { return r.Work[phase].Flops / r.iterations() })}
	}))
	if len(first.LevelWork) == 0 {
		return
	}
	applications := first.Work[krylov.Precond].Count / first.iterations()
	s.Detail(levelWorkDetail, pack(lists.Range[int](len(first.LevelWork)), func(level int) []any {
		return []any{applications * sumOf(ranks, func(r traced) float64 { return r.LevelWork[level].Bytes }),
			applications * sumOf(ranks, func(r traced) float64 { return r.LevelWork[level].Flops })}
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
	work := lists.Map(unpack(r.Details[workDetail], 3), func(v []float64) krylov.Work {
		return krylov.Work{Count: v[0], Bytes: v[1], Flops: v[2]}
	})
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
	levels, work := unpack(r.Details[levelsDetail], 3), unpack(r.Details[levelWorkDetail], 2)
	total := sumOf(levels, levelTime)
	if len(work) != len(levels) || !(total > 0) {
		return nil
	}
	for l, w := range work {
		out = append(out, workLine(fmt.Sprintf("  level %d", l), krylov.Work{Bytes: w[0], Flops: w[1]},
			us*levelTime(levels[l])/total, iteration))
	}
	return out
}

// levelTime returns the microseconds of a level: rows, entries and microseconds.
func levelTime(level []float64) float64 { return level[2] }

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
