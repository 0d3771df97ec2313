package solvescaling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

const (
	// warmup is the least iterations of the first, untimed solve: enough to touch
	// every page and connection. One between restarts touches all their vectors.
	warmup = 20
	// uncoupled is the iterations that each rank makes on its own rows alone.
	uncoupled = 40
	// traced is the iterations over which phases are timed.
	traced = 100
	// historyPoints is how many residuals of a solve a row keeps.
	historyPoints = 200
)

// system is a linear system that is ready to be solved, by processors or on a device.
type system interface {
	Solve(limit int) (solve.Outcome, error)
	Check() (float64, error)
	Alone(limit int) (float64, error)
	Trace(limit int) (solve.Profile, error)
}

func body(ctx context.Context, s *bench.State) error {
	s.Phase("set-up")
	spec, name, err := specOf(s)
	if err != nil {
		return err
	}
	if s.Str(peerAxis) != noPeer {
		return runPeer(ctx, s, spec, name)
	}
	if device.Serves(s.Backend()) {
		return deviceBody(ctx, s, spec, name)
	}
	memory := newMemory()
	g, err := join(ctx, s)
	if err != nil {
		return err
	}
	defer g.Close()
	sys, err := solve.New(g, spec)
	if _, is := errors.AsType[*solve.Refusal](err); is {
		return bench.Skip("%v", err)
	}
	if err != nil {
		return err
	}
	if err := reportSetting(s, spec, name); err != nil {
		return err
	}
	reportNullSpace(s, sys)
	s.Phase("warm-up")
	if _, err := sys.Solve(max(warmup, spec.Restart)); err != nil {
		return err
	}
	grown := memory.grown() // before there is anything else than the solver
	triad := newTriad(s.Int(repeatOption))
	out, err := timeSolves(ctx, s, sys, sys.Size, triad)
	if err != nil {
		return err
	}
	products := float64(out.Products) / float64(max(1, out.Iterations))
	if err := reportSystem(ctx, s, partOf(sys), sys.Size, products, grown); err != nil {
		return err
	}
	if err := reportCommunication(ctx, s, sys, out); err != nil {
		return err
	}
	if out.Gate(spec.RTol) == nil {
		if err := reportPhases(ctx, s, sys, sys.Operator(), triad); err != nil {
			return err
		}
		if err := reportProducts(ctx, s, sys); err != nil {
			return err
		}
	}
	s.Phase("gate")
	return out.Gate(spec.RTol)
}

// reportSetting notes what is solved, by what and on what.
func reportSetting(s *bench.State, spec solve.Spec, name string) error {
	s.Detail("problem", name)
	if err := reportLibrary(s, spec); err != nil {
		return err
	}
	s.Detail("seed", fmt.Sprint(s.Seed()))
	host := hostinfo.Local()
	s.Detail(cpuDetail, host.CPU.Model)
	s.Detail(versionDetail, host.Build.String())
	s.Detail(threadsDetail, fmt.Sprint(runtime.GOMAXPROCS(0)))
	if gen, ok := spec.Source.(solve.Generated); ok {
		if grid, ok := gen.Problem.(sparse.Gridded); ok {
			s.Detail("grid", grid.Grid().String())
		}
	}
	return nil
}

// reportNullSpace says what was done about a singular matrix.
func reportNullSpace(s *bench.State, sys *solve.System) {
	switch {
	case sys.Traits.Singular:
		s.Detail(nullSpaceDetail, "constants")
		s.Warn("the matrix is singular, its rows add up to zero: constants were projected out of the right-hand side "+
			"(%.3g %% of its norm), of residuals and of the solution, and the residual is that of what is left", 100*sys.Removed)
	case sys.Unprojected:
		s.Warn("the matrix is singular, its rows add up to zero; as it is not symmetric, nothing was projected out: there " +
			"may be no solution")
	}
}

// reportLibrary notes the C library that the partitioner used on rank 0.
func reportLibrary(s *bench.State, spec solve.Spec) error {
	p, err := partition.Partitioners.Lookup(spec.Partitioner)
	if err != nil || p.Library == nil || s.Rank() != 0 {
		return err
	}
	name, err := p.Library()
	if err != nil {
		return err
	}
	s.Detail("library", name)
	return nil
}

// timeSolves solves as often as asked, with sweeps of the triad in between, checks
// the last solution, and records the times, of which every rank knows the slowest
// rank's.
func timeSolves(ctx context.Context, s *bench.State, sys system, size int, memory *triad) (out solve.Outcome,
	err error) {
	s.Phase("triad")
	if err := memory.sweep(ctx, s); err != nil {
		return out, err
	}
	var seconds, alone, processor []float64
	for k := range s.Int(repeatOption) {
		s.Phase(fmt.Sprintf("solve %d of %d", k+1, s.Int(repeatOption)))
		slowest, err := timeAlone(ctx, s, sys)
		if err != nil {
			return out, err
		}
		alone = append(alone, slowest)
		if err := s.Barrier(ctx); err != nil {
			return out, err
		}
		spent := solve.ProcessorTime()
		again, err := sys.Solve(0)
		if err != nil {
			return out, err
		}
		spent = solve.ProcessorTime() - spent
		if k > 0 && again.Iterations != out.Iterations {
			return out, fmt.Errorf("solve %d took %d iterations, the previous one %d: the counts must agree", k+1,
				again.Iterations, out.Iterations)
		}
		out = again
		all, err := s.Gather(ctx, out.Seconds, spent)
		if err != nil {
			return out, err
		}
		seconds, processor = append(seconds, slices.Max(all[0])), append(processor, lists.Sum(all[1]))
		if err := memory.sweep(ctx, s); err != nil {
			return out, err
		}
		if out.Status != krylov.Converged && !out.Stopped {
			break
		}
	}
	s.Phase("check")
	if out.TrueResidual, err = sys.Check(); err != nil {
		return out, err
	}
	reportSolves(s, size, out, seconds)
	if !out.Stopped {
		s.Record("solve_cpu_s", slices.Min(processor))
	}
	if slices.Min(alone) > 0 {
		s.RecordSamples("alone_us", alone)
		s.Record("efficiency_communication", s.Metric("alone_us")/s.Metric("time_us"))
	}
	return out, nil
}

// timeAlone lets all ranks iterate at once, each on its own rows alone, and gives the
// slowest one's microseconds per iteration.
func timeAlone(ctx context.Context, s *bench.State, sys system) (float64, error) {
	if err := s.Barrier(ctx); err != nil {
		return 0, err
	}
	seconds, err := sys.Alone(uncoupled)
	if err != nil {
		return 0, err
	}
	all, err := s.Gather(ctx, seconds)
	if err != nil {
		return 0, err
	}
	return 1e6 * slices.Max(all[0]), nil
}

// reportSolves records what the solves themselves tell.
func reportSolves(s *bench.State, size int, out solve.Outcome, seconds []float64) {
	iterations := float64(max(1, out.Iterations))
	s.RecordSamples("time_us", lists.Map(seconds, func(t float64) float64 { return t / iterations * 1e6 }))
	s.Record("iterations", float64(out.Iterations))
	s.Record("rel_residual", out.TrueResidual)
	s.Record("rel_residual_recursive", out.Residual)
	s.Record("dof_global", float64(size))
	s.Record("dof_per_rank", float64(size)/float64(s.Size()))
	s.Record("reductions_per_iteration", float64(out.Reductions)/iterations)
	s.Detail("history", history(out.History))
	if !out.Stopped {
		s.RecordSamples("solve_time_s", seconds)
		s.Record("throughput_dof_s", float64(size)/slices.Min(seconds))
	} else {
		s.Warn(stoppedWarning+"%d iterations, as asked, with a relative residual of %.3g: its time is of these "+
			"iterations, not of a solution", out.Iterations, out.TrueResidual)
	}
}

// history is the relative residual after some of the iterations, as text.
func history(all []float64) string {
	step := max(1, (len(all)+historyPoints-1)/historyPoints)
	var words []string
	for i, r := range all {
		if i%step == 0 || i == len(all)-1 {
			words = append(words, fmt.Sprintf("%d:%.3g", i, r))
		}
	}
	return strings.Join(words, " ")
}

// part is one rank's part of a system, as rows tell of it.
type part struct {
	local            partition.Local
	times            solve.SetupTimes
	messages, matrix int // messages of a product, and bytes of the matrix
	operator         any // a solve.Hierarchy, or something else
}

func partOf(sys *solve.System) part {
	return part{partition.LocalOf(sys.Plan), sys.Times, sys.Messages(), sys.Matrix.Bytes(), sys.Operator()}
}

// reportSystem records the partition's quality, what is sent in an iteration of
// so many products, and what set-up took.
func reportSystem(ctx context.Context, s *bench.State, p part, size int, products, grown float64) error {
	l, t := p.local, p.times
	held := grown / float64(max(1, l.Rows))
	all, err := s.Gather(ctx, float64(l.Rows), float64(l.Entries), float64(l.CutEntries), float64(l.Halo),
		float64(l.Neighbours),
		t.Total, t.Partition, t.Generation, float64(p.messages), float64(p.matrix), held, t.Precondition, t.PreconditionCPU)
	if err != nil {
		return err
	}
	locals := make([]partition.Local, s.Size())
	haloPerDOF := 0.0
	for r := range locals {
		locals[r] = partition.Local{Rows: int(all[0][r]), Entries: int(all[1][r]), CutEntries: int(all[2][r]),
			Halo: int(all[3][r]), Neighbours: int(all[4][r])}
		if locals[r].Rows > 0 {
			haloPerDOF = max(haloPerDOF, 8*float64(locals[r].Halo)/float64(locals[r].Rows))
		}
	}
	q := partition.Combine(locals)
	s.Record("row_imbalance", q.RowImbalance)
	s.Record("nnz_imbalance", q.EntryImbalance)
	s.Record("edge_cut", float64(q.EdgeCut))
	s.Record("comm_volume", float64(q.Volume))
	s.Record("halo_max", float64(q.MaxHalo))
	s.Record("halo_mean", float64(q.Volume)/float64(s.Size()))
	s.Record("neighbours_max", float64(q.MaxNeighbours))
	s.Record("neighbours_mean", q.MeanNeighbours)
	s.Record("setup_s", slices.Max(all[5]))
	s.Record("partition_s", slices.Max(all[6]))
	s.Record("generation_s", slices.Max(all[7]))
	s.Record("precond_setup_s", slices.Max(all[11]))
	s.Record("precond_setup_cpu_s", lists.Sum(all[12]))
	if h, ok := p.operator.(solve.Hierarchy); ok {
		operator, grid := h.Complexities()
		s.Record("levels", float64(h.Levels()))
		s.Record("operator_complexity", operator)
		s.Record("grid_complexity", grid)
	}
	s.Record("messages", products*lists.Sum(all[8]))
	s.Record("bytes", products*8*float64(q.Volume))
	s.Record("halo_bytes_per_dof", haloPerDOF)
	s.Record("matrix_bytes_per_dof", lists.Sum(all[9])/float64(size))
	if most := slices.Max(all[10]); most > 0 {
		s.Record("memory_bytes_per_dof", most)
	}
	return nil
}

// rounds is how often the messages of an iteration are made by themselves.
const rounds = 50

// reportCommunication records what the messages and reductions of an iteration take by
// themselves, all ranks doing nothing else: the best round, which no late rank held up.
func reportCommunication(ctx context.Context, s *bench.State, sys *solve.System, out solve.Outcome) error {
	s.Phase("messages")
	iterations := max(1, out.Iterations)
	products, reductions := (out.Products+iterations/2)/iterations, (out.Reductions+iterations/2)/iterations
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	best := math.Inf(1)
	for range rounds {
		seconds, err := sys.Communicate(products, reductions)
		if err != nil {
			return err
		}
		best = min(best, seconds)
	}
	all, err := s.Gather(ctx, best)
	if err != nil {
		return err
	}
	s.Record("communication_us", 1e6*slices.Max(all[0]))
	return nil
}

// reportPhases times the phases of some iterations, which that makes a little longer, and
// holds an undisturbed one against what the memory gives.
func reportPhases(ctx context.Context, s *bench.State, sys system, operator any, memory *triad) error {
	s.Phase("trace")
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	b, err := sys.Trace(traced)
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
	took := 0.0 // an iteration of the slowest rank while it was traced
	for r := range s.Size() {
		total := 0.0
		for p := range solve.NumPhases {
			if us := all[2+p][r]; !math.IsNaN(us) {
				total += us
			}
		}
		took = max(took, total)
	}
	us := s.Metric("time_us")
	s.Record("traced_us", took)
	for p := range solve.NumPhases {
		if math.IsNaN(all[2+p][0]) {
			continue // not told from others
		}
		s.Record(meanOf(p), lists.Sum(all[2+p])/float64(s.Size()))
		s.Record(slowestOf(p), slices.Max(all[2+p]))
	}
	if blocking := all[2+solve.NumPhases]; b.Blocking > 0 && s.Size() > 1 {
		s.Record("allreduce_blocking_us", lists.Sum(blocking)/float64(s.Size()))
	}
	if h, ok := operator.(solve.Hierarchy); ok {
		reportLevels(s, h, all[3+solve.NumPhases:])
	}
	bytes := lists.Sum(all[0])
	s.Record("bytes_model", bytes)
	if flops := lists.Sum(all[1]); slices.Min(all[1]) > 0 {
		s.Record("flops_model", flops)
	}
	s.Record("gbps", bytes/us/1e3)
	s.Record("triad_gbps", memory.best())
	s.Record("triad_typical_gbps", memory.typical())
	s.Record("triad_fraction", bytes/us/1e3/memory.best())
	s.Limit("triad", bytes/memory.best()/1e3)
	return nil
}

// reportLevels notes the size of each level and its part of a traced iteration, mean over the ranks.
func reportLevels(s *bench.State, h solve.Hierarchy, us [][]float64) {
	var words []string
	for l := range h.Levels() {
		rows, entries := h.Size(l)
		words = append(words, fmt.Sprintf("%.0f:%.0f:%.4g", rows, entries, lists.Sum(us[l])/float64(s.Size())))
	}
	s.Detail(levelsDetail, strings.Join(words, " "))
}

// reportProducts holds a product of the matrix as it is stored against one with every value and column in full: what
// compression does, and what a matrix that cannot be compressed would take.
func reportProducts(ctx context.Context, s *bench.State, sys *solve.System) error {
	s.Phase("products")
	plain, err := sys.Matrix.Unpack().Matrix(sys.Matrix.Columns(), sparse.Plain)
	if err != nil {
		return err
	}
	x, y := make([]float64, max(1, plain.Columns())), make([]float64, plain.Rows())
	for i := range x {
		x[i] = sparse.Noise(s.Seed(), i)
	}
	var best [2]float64
	for k := range productRounds {
		for i, m := range []*solve.Matrix{sys.Matrix, plain} {
			if err := s.Barrier(ctx); err != nil {
				return err
			}
			began := time.Now()
			m.Multiply(y, x, 0, m.Rows())
			if t := time.Since(began).Seconds(); k == 0 || t < best[i] {
				best[i] = t
			}
		}
	}
	if err := s.Barrier(ctx); err != nil { // all cores are busy while their arithmetic is measured
		return err
	}
	vectors := 8 * (plain.Rows() + plain.Columns())
	all, err := s.Gather(ctx, best[0], best[1], probe.PeakGFLOPS(dist.F64), 2*float64(plain.Entries()),
		float64(sys.Matrix.Bytes()+vectors), float64(plain.Bytes()+vectors))
	if err != nil {
		return err
	}
	s.Record("product_us", 1e6*slices.Max(all[0]))
	s.Record("product_plain_us", 1e6*slices.Max(all[1]))
	s.Record("peak_gflops", lists.Sum(all[2]))
	s.Record("product_flops", lists.Sum(all[3]))
	s.Record("product_bytes", lists.Sum(all[4]))
	s.Record("product_plain_bytes", lists.Sum(all[5]))
	return nil
}

// productRounds is how often each product is made; the best counts.
const productRounds = 10
