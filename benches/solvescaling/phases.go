package solvescaling

import (
	"context"
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/profile"
)

// reportWork records the work of each phase of an iteration, and of each level of a hierarchy, over all ranks.
func reportWork(ctx context.Context, s *bench.State, p profile.Profile, operator any) error {
	iterations := float64(max(1, p.Iterations))
	var mine []float64
	for _, w := range p.Work {
		mine = append(mine, w.Count/iterations, w.Bytes/iterations, w.Flops/iterations)
	}
	levels := 0
	applications := p.Work[krylov.Precond].Count / iterations
	if l, known := operator.(profile.Leveled); known {
		levels = operator.(profile.Hierarchy).Levels()
		for level := range levels {
			bytes, flops := l.Work(level)
			mine = append(mine, applications*bytes, applications*flops)
		}
	}
	all, err := s.Gather(ctx, mine...)
	if err != nil || p.Work == [krylov.NumPhases]krylov.Work{} {
		return err
	}
	var words []string
	for phase := range krylov.NumPhases {
		of := all[3*phase : 3*phase+3]
		words = append(words, fmt.Sprintf("%s:%.4g:%.6g:%.6g", phase, of[0][0], lists.Sum(of[1]), lists.Sum(of[2])))
	}
	s.Detail(workDetail, strings.Join(words, " "))
	words = nil
	for level := range levels {
		of := all[3*int(krylov.NumPhases)+2*level:]
		words = append(words, fmt.Sprintf("%.6g:%.6g", lists.Sum(of[0]), lists.Sum(of[1])))
	}
	if levels > 0 {
		s.Detail(levelWorkDetail, strings.Join(words, " "))
	}
	return nil
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
	work := map[string]krylov.Work{}
	for _, word := range strings.Fields(r.Details[workDetail]) {
		name, numbers, _ := strings.Cut(word, ":")
		var w krylov.Work
		if _, err := fmt.Sscanf(numbers, "%g:%g:%g", &w.Count, &w.Bytes, &w.Flops); err == nil {
			work[name] = w
		}
	}
	total := perIteration(r)
	if len(work) == 0 || !(total > 0) {
		return nil
	}
	out := [][]string{{"phase", "count", "µs", "share", "bytes", "operations", "GB/s", "GFLOP/s"}}
	rest := total
	for phase := range krylov.NumPhases {
		us, w := r.Metrics[meanOf(phase)], work[phase.String()]
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
	var traced []float64
	for _, word := range strings.Fields(r.Details[levelsDetail]) {
		var rows, entries, us float64
		if _, err := fmt.Sscanf(word, "%g:%g:%g", &rows, &entries, &us); err == nil {
			traced = append(traced, us)
		}
	}
	work := strings.Fields(r.Details[levelWorkDetail])
	total := lists.Sum(traced)
	if len(work) != len(traced) || !(total > 0) {
		return nil
	}
	for l, word := range work {
		var w krylov.Work
		if _, err := fmt.Sscanf(word, "%g:%g", &w.Bytes, &w.Flops); err == nil {
			out = append(out, workLine(fmt.Sprintf("  level %d", l), w, us*traced[l]/total, iteration))
		}
	}
	return out
}

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
