package solvescaling

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/profile"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

const (
	// warmup is the minimum number of iterations of the first, untimed solve. It suffices to touch every page and every
	// connection. Methods that restart get a whole cycle, which touches all their vectors.
	warmup = 20
	// aloneIterations is the number of iterations that each rank makes on its own rows without communication.
	aloneIterations = 40
	// tracedIterations is the number of iterations whose phases are timed.
	tracedIterations = 100
	// historyPoints is the number of residuals of a solve that a row keeps.
	historyPoints = 200
	// communicationRounds is the number of times that the messages of an iteration are sent without any arithmetic.
	communicationRounds = 50
	// productRounds is the number of timed products in each storage format. The best counts.
	productRounds = 10
)

// system is a linear system that is ready to be solved, on CPUs or on a GPU.
type system interface {
	Solve(limit int) (solve.Outcome, error)
	Check() (float64, error)
	Alone(limit int) (float64, error)
	Trace(limit int) (profile.Profile, error)
}

// communicates is implemented by systems that can repeat the messages of an iteration without its arithmetic. See
// profile.Internals.
type communicates interface {
	Communicate(products, reductions int) (float64, error)
}

// cpuSystem is a system on CPUs, with the parts of it that the public package does not export.
type cpuSystem struct {
	*solve.System
	*profile.Internals
}

// Bytes returns the memory of the vectors of this rank.
func (c cpuSystem) Bytes() int { return c.Engine.Bytes() }

// body measures one point.
func body(ctx context.Context, s *bench.State) error {
	s.Phase("set-up")
	b, err := rightHandSides(s)
	if err != nil {
		return err
	}
	spec, name, err := specOf(s, b)
	if err != nil {
		return err
	}
	if device.SupportsBackend(s.Backend()) {
		return deviceBody(ctx, s, spec, name)
	}
	memory := newMemory()
	g, err := join(ctx, s, spec)
	if err != nil {
		return err
	}
	defer g.Close()
	if automatic(s.Point()) {
		if spec, err = chooseSolver(ctx, s, g, spec); err != nil {
			return err
		}
	}
	made, err := solve.New(g, spec)
	if _, refused := errors.AsType[*solve.Refusal](err); refused {
		return bench.Skip("%v", err)
	}
	if err != nil {
		return err
	}
	sys := cpuSystem{made, made.Internals()}
	if err := reportSetting(s, spec, name); err != nil {
		return err
	}
	if err := reportHosts(ctx, s); err != nil {
		return err
	}
	reportNullSpace(s, sys)
	v, err := variantOf(s, spec, sys, b)
	if err != nil {
		return err
	}
	if err := measure(ctx, s, spec, sys, v, memory); err != nil || !s.Bool(adjointOption) {
		return err
	}
	return reportAdjoint(ctx, s, g, spec, sys)
}

// measure times the solves of a variant and checks their solution, and then measures where the time went.
func measure(ctx context.Context, s *bench.State, spec solve.Spec, sys cpuSystem, v *variant, memory *memory) error {
	s.Phase("warm-up")
	if _, err := v.solves.Solve(max(warmup, spec.Restart)); err != nil {
		return err
	}
	grown := memory.grown() // now, while the process holds nothing but the solver
	triad := newTriad(s.Int(repeatOption))
	out, times, err := timeSolves(ctx, s, v.solves, sys.Size, triad)
	if err != nil {
		return err
	}
	gate := v.gate(out)
	v.report()
	if gate == nil {
		if err := writeResults(ctx, s, spec, sys.System, v); err != nil {
			return err
		}
	}
	if err := reportParts(ctx, s, sys, v, out, grown); err != nil {
		return err
	}
	if gate == nil {
		if err := reportTimes(ctx, s, sys, v, times, triad); err != nil {
			return err
		}
	}
	s.Phase("gate")
	return gate
}

// reportParts records the partition, the memory and the communication. grown is the memory of this rank in bytes.
func reportParts(ctx context.Context, s *bench.State, sys cpuSystem, v *variant, out solve.Outcome,
	grown float64) error {
	bytes := sys.Matrix.Bytes() + v.solves.Bytes()
	if sys.Applied != nil {
		bytes += sys.Applied.Bytes()
	}
	if err := reportWorkingSet(ctx, s, bytes); err != nil {
		return err
	}
	products := float64(out.Products) / float64(max(1, out.Iterations))
	mine := part{partition.LocalOf(sys.Plan), sys.Times, v.messages, v.matrix, sys.Operator}
	if err := reportSystem(ctx, s, mine, sys.Size, products, grown); err != nil {
		return err
	}
	for _, name := range []string{"bytes", "halo_bytes_per_dof"} { // each message has the values of all columns
		s.Record(name, float64(v.columns)*s.Metric(name))
	}
	return reportCommunication(ctx, s, v.solves, out)
}

// reportTimes records where the time of an iteration went.
func reportTimes(ctx context.Context, s *bench.State, sys cpuSystem, v *variant, times *timings, triad *triad) error {
	if err := reportPhases(ctx, s, v.solves, sys.Operator, triad, times); err != nil {
		return err
	}
	if err := reportSlowRank(ctx, s, v.solves, times); err != nil || !v.krylov {
		return err
	}
	return reportProducts(ctx, s, sys)
}

// thisHost describes the machine. It reads some hundred files, so it does that once.
var thisHost = sync.OnceValue(hostinfo.Local)

// peakGFLOPS measures the arithmetic of a core. Tests replace it, because it takes some ten milliseconds.
var peakGFLOPS = probe.PeakGFLOPS

// reportSetting records the problem, the library of the partitioner, the seed, and the machine.
func reportSetting(s *bench.State, spec solve.Spec, name string) error {
	s.Detail("problem", name)
	if err := reportLibrary(s, spec); err != nil {
		return err
	}
	s.Detail("seed", fmt.Sprint(s.Seed()))
	host := thisHost()
	s.Detail(cpuDetail, host.CPU.Model)
	s.Detail(versionDetail, host.Build.String())
	s.Detail(threadsDetail, fmt.Sprint(runtime.GOMAXPROCS(0)))
	if grid, ok := spec.Problem.(sparse.Gridded); ok {
		s.Detail("grid", grid.Grid().String())
	}
	return nil
}

// reportNullSpace warns if the matrix is singular, and records what was projected out.
func reportNullSpace(s *bench.State, sys cpuSystem) {
	if sys.Asymmetry > 0 {
		s.Warn("the matrix is symmetric up to rounding (relative differences of at most %.2g): the solve used the mean of "+
			"each entry and its mirror image, and the residual is computed with the matrix of the file", sys.Asymmetry)
	}
	switch {
	case sys.Traits.Singular:
		rows, constants := describeNullSpace(sys.NullPieces, sys.NullRows, sys.Size)
		s.Detail(nullSpaceDetail, constants)
		s.Warn("the matrix is singular: %s. Constants were projected out of the right-hand side "+
			"(%.3g %% of its norm), the residuals and the solution; the residual is computed without it", rows,
			100*sys.RemovedRHS)
	case sys.Unprojected:
		s.Warn("the matrix is singular: its rows add up to zero. Because it is not symmetric, nothing was projected out, " +
			"and there may be no solution")
	}
}

// describeNullSpace describes which rows of a singular matrix with size rows add up to zero, and what was projected
// out.
func describeNullSpace(pieces, rows, size int) (which, constants string) {
	switch {
	case rows < size:
		return fmt.Sprintf("the rows of %d of its uncoupled pieces (%d of %d rows) add up to zero", pieces, rows, size),
			fmt.Sprintf("constants of %d pieces", pieces)
	case pieces > 1:
		return fmt.Sprintf("the rows of %d uncoupled pieces add up to zero", pieces),
			fmt.Sprintf("constants of %d pieces", pieces)
	}
	return "its rows add up to zero", "constants"
}

// reportHosts records the number of hosts of the ranks.
func reportHosts(ctx context.Context, s *bench.State) error {
	all, err := s.Gather(ctx, hostNumber())
	if err == nil {
		s.Detail(hostsDetail, fmt.Sprint(len(lists.Distinct(all[0]))))
	}
	return err
}

// hostNumber returns a number that differs between hosts.
func hostNumber() float64 {
	hash := fnv.New32()
	name, _ := os.Hostname() // "" on every host if it is unknown
	hash.Write([]byte(name))
	return float64(hash.Sum32())
}

// reportLibrary records the C library that the partitioner used on rank 0.
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

// maxOverRanks returns the largest value of any rank.
func maxOverRanks(ctx context.Context, s *bench.State, mine float64) (float64, error) {
	all, err := s.Gather(ctx, mine)
	if err != nil {
		return 0, err
	}
	return slices.Max(all[0]), nil
}

// reportSolves records the times, the iterations and the residuals of the solves.
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
		s.Warn(stoppedWarning+"%d iterations, as requested, with a relative residual of %.3g: the time is for these "+
			"iterations, not for a solution", out.Iterations, out.TrueResidual)
	}
}

// history formats the relative residuals of at most historyPoints iterations, and of the last.
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

// part describes one rank's part of a system.
type part struct {
	local            partition.Local
	times            profile.SetupTimes
	messages, matrix int // messages of a product, and bytes of the matrix
	operator         any // the preconditioner; it may be a profile.Hierarchy
}

// reportSystem records the quality of the partition, the communication of an iteration with the given
// number of products, and the time and memory of the set-up. grown is the memory of this rank in
// bytes, 0 if unknown.
func reportSystem(ctx context.Context, s *bench.State, p part, size int, products, grown float64) error {
	l, t := p.local, p.times
	all, err := s.Gather(ctx, float64(l.Rows), float64(l.Entries), float64(l.CutEntries), float64(l.Halo),
		float64(l.Neighbours), t.Total, t.Partition, t.Generation, float64(p.messages), float64(p.matrix),
		grown/float64(max(1, l.Rows)), t.Precondition, t.PreconditionCPU)
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
	if h, ok := p.operator.(profile.Hierarchy); ok {
		operator, grid := h.Complexities()
		s.Record("levels", float64(h.Levels()))
		s.Record("operator_complexity", operator)
		s.Record("grid_complexity", grid)
	}
	s.Record("messages", products*lists.Sum(all[8]))
	s.Record("bytes", products*8*float64(q.Volume))
	s.Record("halo_bytes_per_dof", haloPerDOF)
	s.Record("matrix_bytes_per_dof", lists.Sum(all[9])/float64(size))
	if grownPerDOF := slices.Max(all[10]); grownPerDOF > 0 {
		s.Record("memory_bytes_per_dof", grownPerDOF)
	}
	return nil
}

// reportCommunication records the time of the messages and reductions of an iteration without any arithmetic. It takes
// the best round of each rank, which no late rank delayed.
func reportCommunication(ctx context.Context, s *bench.State, sys communicates, out solve.Outcome) error {
	s.Phase("messages")
	iterations := max(1, out.Iterations)
	products, reductions := (out.Products+iterations/2)/iterations, (out.Reductions+iterations/2)/iterations
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	best := math.Inf(1)
	for range communicationRounds {
		seconds, err := sys.Communicate(products, reductions)
		if err != nil {
			return err
		}
		best = min(best, seconds)
	}
	slowest, err := maxOverRanks(ctx, s, best)
	if err != nil {
		return err
	}
	s.Record("communication_us", 1e6*slowest)
	return nil
}

// reportProducts times products with the matrix as it is stored and in plain storage. The difference is the effect of
// compression, and the plain time belongs to a matrix that cannot be compressed.
func reportProducts(ctx context.Context, s *bench.State, sys cpuSystem) error {
	s.Phase("products")
	plain, err := sys.Matrix.Unpack().Matrix(sys.Matrix.Columns(), sparse.Plain)
	if err != nil {
		return err
	}
	x, y := make([]float64, max(1, plain.Columns())), make([]float64, plain.Rows())
	for i := range x {
		x[i] = sparse.Noise(s.Seed(), i)
	}
	best := [2]float64{math.Inf(1), math.Inf(1)}
	for range productRounds {
		for i, m := range []*sparse.Matrix{sys.Matrix, plain} {
			if err := s.Barrier(ctx); err != nil {
				return err
			}
			began := time.Now()
			m.Multiply(y, x, 0, m.Rows())
			best[i] = min(best[i], time.Since(began).Seconds())
		}
	}
	if err := s.Barrier(ctx); err != nil { // so that all cores measure their peak at the same time
		return err
	}
	vectors := 8 * (plain.Rows() + plain.Columns())
	all, err := s.Gather(ctx, best[0], best[1], peakGFLOPS(dist.F64), 2*float64(plain.Entries()),
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
