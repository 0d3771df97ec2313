package solvescaling

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/profile"
	"github.com/kernbench/kernbench/solve"
)

// timings holds what the timed solves of a row took.
type timings struct {
	iterations float64
	seconds    []float64   // of each solve, on its slowest rank
	cpu        []float64   // of each solve, over all ranks
	alone      [][]float64 // microseconds of an iteration without communication, by solve and rank
	// parts holds the parts of each solve by rank, as the solve itself counted them. It is empty on GPUs.
	parts [][]profile.Timed
}

// fastest returns the number of the fastest solve.
func (t *timings) fastest() int { return slices.Index(t.seconds, slices.Min(t.seconds)) }

// counted is implemented by systems that count the parts of a solve while they solve.
type counted interface{ LastSolve() profile.Timed }

// aloneTolerance is the largest time of an iteration without communication, relative to one with it, that is not taken
// for a disturbance.
const aloneTolerance = 1.1

// LastSolve returns the parts of the last solve on this rank.
func (c cpuSystem) LastSolve() profile.Timed { return c.Timed }

// timeSolves solves as often as requested, with sweeps of the triad in between, and checks the last
// solution. The time of a solve is the time of its slowest rank.
func timeSolves(ctx context.Context, s *bench.State, sys system, size int, memory *triad) (out solve.Outcome,
	t *timings, err error) {
	t = &timings{}
	s.Phase("triad")
	if err := memory.sweep(ctx, s); err != nil {
		return out, t, err
	}
	for k := range s.Int(repeatOption) {
		s.Phase(fmt.Sprintf("solve %d of %d", k+1, s.Int(repeatOption)))
		next, err := t.solve(ctx, s, sys)
		if err != nil {
			return out, t, err
		}
		if k > 0 && next.Iterations != out.Iterations {
			return out, t, fmt.Errorf("solve %d took %d iterations, the previous one %d: the counts must agree", k+1,
				next.Iterations, out.Iterations)
		}
		out = next
		if err := memory.sweep(ctx, s); err != nil {
			return out, t, err
		}
		if out.Status != krylov.Converged && !out.Stopped {
			break
		}
	}
	s.Phase("check")
	if out.TrueResidual, err = sys.Check(); err != nil {
		return out, t, err
	}
	t.iterations = float64(max(1, out.Iterations))
	reportSolves(s, size, out, t.seconds)
	if !out.Stopped {
		s.Record("solve_cpu_s", slices.Min(t.cpu))
	}
	reportShares(s, t)
	if slowest := lists.Map(t.alone, slices.Max); slices.Min(slowest) > 0 {
		s.RecordSamples("alone_us", slowest)
		// One rank has no communication to compare with. An iteration without communication that takes longer than one
		// with it was disturbed.
		if efficiency := s.Metric("alone_us") / s.Metric("time_us"); s.Size() > 1 && efficiency <= aloneTolerance {
			s.Record("efficiency_communication", efficiency)
		}
	}
	return out, t, nil
}

// solve lets all ranks iterate at the same time, each on its own rows without communication, and then makes one timed
// solve.
func (t *timings) solve(ctx context.Context, s *bench.State, sys system) (out solve.Outcome, err error) {
	alone, err := timeAlone(ctx, s, sys)
	if err != nil {
		return out, err
	}
	t.alone = append(t.alone, alone)
	if err := s.Barrier(ctx); err != nil {
		return out, err
	}
	before := profile.CPUTime()
	if out, err = sys.Solve(0); err != nil {
		return out, err
	}
	mine := []float64{out.Seconds, profile.CPUTime() - before}
	parts, counts := sys.(counted)
	if counts {
		p := parts.LastSolve()
		mine = append(mine, p.Work, p.Precond, p.Pack, p.Wait, p.Reduce)
	}
	all, err := s.Gather(ctx, mine...)
	if err != nil {
		return out, err
	}
	t.seconds, t.cpu = append(t.seconds, slices.Max(all[0])), append(t.cpu, lists.Sum(all[1]))
	if counts {
		ranks := make([]profile.Timed, s.Size())
		for r := range ranks {
			ranks[r] = profile.Timed{Total: all[0][r], Work: all[2][r], Precond: all[3][r], Pack: all[4][r], Wait: all[5][r],
				Reduce: all[6][r]}
		}
		t.parts = append(t.parts, ranks)
	}
	return out, nil
}

// iterateAlone returns the seconds per iteration of this rank without communication. Tests replace it.
var iterateAlone = func(sys system) (float64, error) { return sys.Alone(aloneIterations) }

// timeAlone lets all ranks iterate at the same time, each on its own rows without communication. It returns the
// microseconds per iteration of each rank.
func timeAlone(ctx context.Context, s *bench.State, sys system) ([]float64, error) {
	if err := s.Barrier(ctx); err != nil {
		return nil, err
	}
	seconds, err := iterateAlone(sys)
	if err != nil {
		return nil, err
	}
	all, err := s.Gather(ctx, 1e6*seconds)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// reportShares records how the timed iteration divides into the work of the mean rank, the additional work of the
// slowest rank, and the time in which not even that rank works. The metrics belong to the fastest solve, and their
// statistics to all solves.
func reportShares(s *bench.State, t *timings) {
	samples := map[string][]float64{}
	for k, ranks := range t.parts {
		own := lists.Map(ranks, profile.Timed.Own)
		mean, slowest, total := lists.Sum(own)/float64(len(own)), min(slices.Max(own), t.seconds[k]), t.seconds[k]
		for name, seconds := range map[string]float64{workShare: mean, imbalanceShare: slowest - mean,
			waitingShare: total - slowest} {
			samples[name] = append(samples[name], max(0, seconds)/total)
		}
	}
	for name, all := range samples {
		s.RecordSamples(name, all)
		s.Record(name, all[t.fastest()])
	}
}

// reportWorkingSet records how much memory an iteration touches on the rank that touches most, given the bytes of this
// rank, and the caches that a rank has if all ranks of this machine use them.
func reportWorkingSet(ctx context.Context, s *bench.State, bytes int) error {
	largest, err := maxOverRanks(ctx, s, float64(bytes))
	if err != nil {
		return err
	}
	s.Record("working_set_bytes", largest)
	if cpu := thisHost().CPU; cpu.L2 > 0 {
		s.Record("cache_bytes", float64(cpu.L2)+float64(cpu.L3)/float64(s.Size()))
	}
	return nil
}

// reportPhases records the time of each phase of an iteration, and compares the memory traffic of an iteration that was
// not traced with the triad. If the timed solves counted their parts, the phases add up to the fastest of them: tracing
// then only divides the work of a rank into product, scalar products and updates.
func reportPhases(ctx context.Context, s *bench.State, sys system, operator any, memory *triad, t *timings) error {
	s.Phase("trace")
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	b, err := sys.Trace(tracedIterations)
	if err != nil {
		return err
	}
	iterations := float64(max(1, b.Iterations))
	mine := []float64{b.Bytes / iterations, b.Flops / iterations}
	for _, seconds := range slices.Concat(b.Seconds[:], []float64{b.Blocking}, b.Levels) {
		mine = append(mine, 1e6*seconds/iterations)
	}
	all, err := s.Gather(ctx, mine...)
	if err != nil {
		return err
	}
	phases, blocking, levels := all[2:2+krylov.NumPhases], all[2+krylov.NumPhases], all[3+krylov.NumPhases:]
	s.Record("traced_us", slices.Max(tracedTotals(phases)))
	hiding := lists.Sum(phases[krylov.AllReduce]) // before the timed solve replaces it
	if len(t.parts) > 0 {
		for r, p := range t.parts[t.fastest()] {
			fitPhases(phases, r, p, t.iterations)
		}
	}
	for p, us := range phases {
		if math.IsNaN(us[0]) {
			continue // cannot be timed separately
		}
		s.Record(meanOf(krylov.Phase(p)), lists.Sum(us)/float64(s.Size()))
		s.Record(slowestOf(krylov.Phase(p)), slices.Max(us))
	}
	if b.Blocking > 0 && s.Size() > 1 {
		s.Record("allreduce_blocking_us", lists.Sum(blocking)/float64(s.Size()))
		s.Record("allreduce_traced_us", hiding/float64(s.Size()))
	}
	if h, ok := operator.(profile.Hierarchy); ok {
		reportLevels(s, h, levels)
	}
	if len(b.Finest) > 0 {
		s.Detail(finestDetail, strings.Join(lists.Map(b.Finest, func(st profile.Step) string {
			return fmt.Sprintf("%s:%.4g", st.Name, 1e6*st.Seconds/iterations)
		}), " "))
	}
	if err := reportWork(ctx, s, b, operator); err != nil {
		return err
	}
	reportTraffic(s, lists.Sum(all[0]), all[1], memory)
	return nil
}

// reportTraffic records the memory traffic and the operations of an iteration by the model, against the triad.
func reportTraffic(s *bench.State, bytes float64, flops []float64, memory *triad) {
	us := s.Metric("time_us")
	s.Record("bytes_model", bytes)
	if slices.Min(flops) > 0 {
		s.Record("flops_model", lists.Sum(flops))
	}
	s.Record("gbps", bytes/us/1e3)
	s.Record("triad_gbps", memory.best())
	s.Record("triad_typical_gbps", memory.typical())
	s.Record("triad_fraction", bytes/us/1e3/memory.best())
	s.Limit("triad", bytes/memory.best()/1e3)
}

// tracedTotals returns the time of a traced iteration on each rank.
func tracedTotals(phases [][]float64) []float64 {
	totals := make([]float64, len(phases[0]))
	for _, us := range phases {
		for r := range us {
			if !math.IsNaN(us[r]) {
				totals[r] += us[r]
			}
		}
	}
	return totals
}

// fitPhases replaces the traced phases of a rank by the parts that its timed solve counted, in microseconds per
// iteration. The work is divided in the proportions of the trace.
func fitPhases(phases [][]float64, rank int, timed profile.Timed, iterations float64) {
	us := func(seconds float64) float64 { return 1e6 * seconds / iterations }
	divided := []krylov.Phase{krylov.SpMV, krylov.Dots, krylov.Updates, krylov.Other}
	traced := 0.0
	for _, p := range divided {
		traced += phases[p][rank]
	}
	for _, p := range divided {
		if traced > 0 {
			phases[p][rank] *= us(timed.Work) / traced
		}
	}
	phases[krylov.Precond][rank] = us(timed.Precond)
	phases[krylov.HaloPack][rank] = us(timed.Pack)
	phases[krylov.HaloWait][rank] = us(timed.Wait)
	phases[krylov.AllReduce][rank] = us(timed.Reduce)
}

// reportLevels records rows, entries and microseconds of each level of a hierarchy. The time is for
// one traced iteration, averaged over the ranks.
func reportLevels(s *bench.State, h profile.Hierarchy, us [][]float64) {
	var words []string
	for l := range h.Levels() {
		rows, entries := h.Size(l)
		words = append(words, fmt.Sprintf("%.0f:%.0f:%.4g", rows, entries, lists.Sum(us[l])/float64(s.Size())))
	}
	s.Detail(levelsDetail, strings.Join(words, " "))
	if f, known := h.(interface{ FinestBytes() float64 }); known && f.FinestBytes() > 0 {
		s.Report("finest_level_gbps", f.FinestBytes()/slices.Max(us[0])/1e3, "GB/s", "higher")
	}
}
