package solvescaling

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// solved is one timed solve on one rank.
type solved struct {
	Seconds, CPU float64
	AloneUS      float64      // an iteration on its own rows without communication, just before
	Parts        system.Timed // as the solve itself counted them; zero on GPUs
}

// solves holds the timed solves of a row, by solve and rank.
type solves [][]solved

// slowest returns a number of each solve, on the rank where it is largest.
func (t solves) slowest(of func(solved) float64) []float64 {
	return lists.Map(t, func(ranks []solved) float64 { return maxOf(ranks, of) })
}

// seconds returns the time of each solve, on its slowest rank.
func (t solves) seconds() []float64 { return t.slowest(func(r solved) float64 { return r.Seconds }) }

// alone returns the time of an iteration without communication before each solve, by solve and rank.
func (t solves) alone() [][]float64 {
	return lists.Map(t, func(ranks []solved) []float64 {
		return lists.Map(ranks, func(r solved) float64 { return r.AloneUS })
	})
}

// fastest returns the number of the fastest solve.
func (t solves) fastest() int { return slices.Index(t.seconds(), slices.Min(t.seconds())) }

// counted reports whether the solves counted their parts.
func (t solves) counted() bool { return t[0][0].Parts.Total > 0 }

// aloneTolerance is the largest time of an iteration without communication, relative to one with it, that is not taken
// for a disturbance.
const aloneTolerance = 1.1

// timeSolves solves as often as requested, with sweeps of the triad in between, and checks the last
// solution. The time of a solve is the time of its slowest rank.
func timeSolves(ctx context.Context, s *bench.State, sub subject) (out solve.Outcome, t solves, err error) {
	s.Phase("triad")
	if err := sub.triad.sweep(ctx, s); err != nil {
		return out, t, err
	}
	for k := range s.Int(repeatOption) {
		s.Phase(fmt.Sprintf("solve %d of %d", k+1, s.Int(repeatOption)))
		next, ranks, err := timeSolve(ctx, s, sub)
		if err != nil {
			return out, t, err
		}
		if k > 0 && next.Iterations != out.Iterations {
			return out, t, fmt.Errorf("solve %d took %d iterations, the previous one %d: the counts must agree", k+1,
				next.Iterations, out.Iterations)
		}
		out, t = next, append(t, ranks)
		if err := sub.triad.sweep(ctx, s); err != nil {
			return out, t, err
		}
		if out.Status != krylov.Converged && !out.Stopped {
			break
		}
	}
	s.Phase("check")
	if err = sub.Check(&out); err != nil {
		return out, t, err
	}
	reportSolves(s, sub.size, out, t.seconds())
	if !out.Stopped {
		cpu := lists.Map(t, func(ranks []solved) float64 { return sumOf(ranks, func(r solved) float64 { return r.CPU }) })
		s.Record("solve_cpu_s", slices.Min(cpu))
	}
	reportShares(s, t)
	if alone := t.slowest(func(r solved) float64 { return r.AloneUS }); slices.Min(alone) > 0 {
		s.RecordSamples("alone_us", alone)
		// One rank has no communication to compare with. An iteration without communication that takes longer than one
		// with it was disturbed.
		if efficiency := s.Metric("alone_us") / s.Metric("time_us"); s.Size() > 1 && efficiency <= aloneTolerance {
			s.Record("efficiency_communication", efficiency)
		}
	}
	return out, t, nil
}

// timeSolve lets all ranks iterate at the same time, each on its own rows without communication, and then makes one
// timed solve.
func timeSolve(ctx context.Context, s *bench.State, sub subject) (out solve.Outcome, ranks []solved, err error) {
	if err := s.Barrier(ctx); err != nil {
		return out, nil, err
	}
	alone, err := iterateAlone(sub)
	if err != nil {
		return out, nil, err
	}
	if err := s.Barrier(ctx); err != nil {
		return out, nil, err
	}
	before := system.CPUTime()
	if out, err = sub.Solve(0); err != nil {
		return out, nil, err
	}
	ranks, err = bench.Gather(ctx, s, solved{out.Seconds, system.CPUTime() - before, 1e6 * alone, sub.LastSolve()})
	return out, ranks, err
}

// iterateAlone returns the seconds per iteration of this rank without communication. Tests replace it.
var iterateAlone = func(sys solver) (float64, error) { return sys.Alone(aloneIterations) }

// reportShares records how the timed iteration divides into the work of the mean rank, the additional work of the
// slowest rank, and the time in which not even that rank works. The metrics belong to the fastest solve, and their
// statistics to all solves.
func reportShares(s *bench.State, t solves) {
	if !t.counted() {
		return
	}
	samples := map[string][]float64{}
	for k, total := range t.seconds() {
		own := func(r solved) float64 { return r.Parts.Own() }
		mean, slowest := meanOver(t[k], own), min(maxOf(t[k], own), total)
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

// traced is the profile of some iterations on one rank, with the work of each level of its preconditioner.
type traced struct {
	system.Profile
	LevelWork []krylov.Work
}

// us returns the microseconds of an iteration that are a part of the traced seconds.
func (r traced) us(seconds float64) float64 { return 1e6 * seconds / r.iterations() }

// count returns how often a phase ran in an iteration.
func (r traced) count(phase krylov.Phase) float64 { return r.Work[phase].Count / r.iterations() }

func (r traced) iterations() float64 { return float64(max(1, r.Iterations)) }

// reportPhases records the time of each phase of an iteration, and compares the memory traffic of an iteration that was
// not traced with the triad. If the timed solves counted their parts, the phases add up to the fastest of them: tracing
// then only divides the work of a rank into product, scalar products and updates.
func reportPhases(ctx context.Context, s *bench.State, sub subject, t solves) error {
	s.Phase("trace")
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	p, err := sub.Trace(tracedIterations)
	if err != nil {
		return err
	}
	ranks, err := bench.Gather(ctx, s, traced{p, levelWork(sub.operator)})
	if err != nil {
		return err
	}
	var phases [krylov.NumPhases][]float64 // by phase and rank
	for phase := range phases {
		phases[phase] = lists.Map(ranks, func(r traced) float64 { return r.us(r.Seconds[phase]) })
	}
	s.Record("traced_us", slices.Max(tracedTotals(phases)))
	if p.Blocking > 0 && s.Size() > 1 {
		s.Record("allreduce_blocking_us", meanOver(ranks, func(r traced) float64 { return r.us(r.Blocking) }))
		s.Record("allreduce_traced_us", lists.Sum(phases[krylov.AllReduce])/float64(s.Size()))
	}
	if t.counted() {
		for rank, fastest := range t[t.fastest()] {
			fitPhases(&phases, rank, fastest.Parts, float64(max(1, s.Metric("iterations"))))
		}
	}
	for phase, us := range phases {
		if math.IsNaN(us[0]) {
			continue // cannot be timed separately
		}
		s.Record(meanOf(krylov.Phase(phase)), lists.Sum(us)/float64(s.Size()))
		s.Record(slowestOf(krylov.Phase(phase)), slices.Max(us))
	}
	if h, ok := sub.operator.(system.Hierarchy); ok {
		reportLevels(s, h, ranks)
	}
	if len(p.Finest) > 0 {
		recordFacts(s, finestDetail, lists.Map(p.Finest, func(st system.Step) step {
			return step{st.Name, ranks[0].us(st.Seconds)}
		}))
	}
	reportWork(s, ranks)
	reportTraffic(s, ranks, sub.triad)
	return nil
}

// reportTraffic records the memory traffic and the operations of an iteration by the model, against the triad.
func reportTraffic(s *bench.State, ranks []traced, memory *triad) {
	us, bytes := s.Metric("time_us"), sumOf(ranks, func(r traced) float64 { return r.Bytes / r.iterations() })
	s.Record("bytes_model", bytes)
	if flops := lists.Map(ranks, func(r traced) float64 { return r.Flops / r.iterations() }); slices.Min(flops) > 0 {
		s.Record("flops_model", lists.Sum(flops))
	}
	s.Record("gbps", bytes/us/1e3)
	s.Record("triad_gbps", memory.best())
	s.Record("triad_typical_gbps", memory.typical())
	s.Record("triad_fraction", bytes/us/1e3/memory.best())
	s.Limit("triad", bytes/memory.best()/1e3)
}

// tracedTotals returns the time of a traced iteration on each rank.
func tracedTotals(phases [krylov.NumPhases][]float64) []float64 {
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
func fitPhases(phases *[krylov.NumPhases][]float64, rank int, timed system.Timed, iterations float64) {
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

// step is a kernel on the finest level of a cycle on GPUs.
type step struct {
	Name string
	US   float64
}

// reportLevels records each level of a hierarchy. Its time is for one traced iteration, averaged over the ranks.
func reportLevels(s *bench.State, h system.Hierarchy, ranks []traced) {
	us := func(level int) func(r traced) float64 { return func(r traced) float64 { return r.us(r.Levels[level]) } }
	applications := ranks[0].count(krylov.Precond)
	recordFacts(s, levelsDetail, lists.Map(lists.Range[int](h.Levels()), func(i int) level {
		l := level{US: meanOver(ranks, us(i))}
		l.Rows, l.Entries = h.Size(i)
		if len(ranks[0].LevelWork) > 0 {
			l.Bytes = applications * sumOf(ranks, func(r traced) float64 { return r.LevelWork[i].Bytes })
			l.Flops = applications * sumOf(ranks, func(r traced) float64 { return r.LevelWork[i].Flops })
		}
		return l
	}))
	if f, known := h.(interface{ FinestBytes() float64 }); known && f.FinestBytes() > 0 {
		s.Report("finest_level_gbps", f.FinestBytes()/maxOf(ranks, us(0))/1e3, "GB/s", "higher")
	}
}
