package solvescaling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
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
	memory := newMemory()
	g, err := join(ctx, s, spec)
	if err != nil {
		return collectives.JoinError(err)
	}
	defer g.Close()
	if automatic(s.Point()) {
		if spec, err = chooseSolver(ctx, s, g, spec); err != nil {
			return err
		}
	}
	if err := reportSetting(ctx, s, spec, name); err != nil {
		return err
	}
	sub, err := prepare(s, g, spec, b, memory)
	if _, refused := errors.AsType[*solve.Refusal](err); refused {
		return bench.Skip("%v", err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = sub.close() }()
	if err := measure(ctx, s, spec, sub); err != nil || !s.Bool(adjointOption) {
		return err
	}
	return reportAdjoint(ctx, s, g, spec, sub.own.Traits.Singular)
}

// measure times the solves of a subject and checks their solution, and then measures where the time went.
func measure(ctx context.Context, s *bench.State, spec solve.Spec, sub subject) error {
	if sub.own != nil {
		reportNullSpace(s, sub.own, sub.size)
	}
	sub.observe("before")
	s.Phase("warm-up")
	if _, err := sub.Solve(max(warmup, spec.Restart)); err != nil {
		return err
	}
	sub.part.Grown = sub.grown() // now, while the process holds nothing but the solver
	out, times, err := timeSolves(ctx, s, sub)
	if err != nil {
		return err
	}
	sub.observe("after")
	gate := sub.gate(out)
	sub.report()
	if gate == nil && sub.own != nil {
		if err := writeResults(ctx, s, spec, sub); err != nil {
			return err
		}
	}
	if err := reportParts(ctx, s, sub, out); err != nil {
		return err
	}
	if gate == nil {
		if err := reportTimes(ctx, s, sub, times); err != nil {
			return err
		}
	}
	s.Phase("gate")
	return gate
}

// reportParts records the partition, the memory and the communication.
func reportParts(ctx context.Context, s *bench.State, sub subject, out solve.Outcome) error {
	products := float64(out.Products) / float64(max(1, out.Iterations))
	if err := reportSystem(ctx, s, sub, products); err != nil || sub.own == nil {
		return err
	}
	if err := reportWorkingSet(ctx, s, sub.working); err != nil {
		return err
	}
	return reportCommunication(ctx, s, sub, out)
}

// reportTimes records where the time of an iteration went.
func reportTimes(ctx context.Context, s *bench.State, sub subject, times solves) error {
	if err := reportPhases(ctx, s, sub, times); err != nil {
		return err
	}
	if err := reportSlowRank(ctx, s, sub, times); err != nil || sub.matrix == nil {
		return err
	}
	return reportProducts(ctx, s, sub.matrix)
}

// thisHost describes the machine. It reads some hundred files, so it does that once.
var thisHost = sync.OnceValue(hostinfo.Local)

// peakGFLOPS measures the arithmetic of a core. Tests replace it, because it takes some ten milliseconds.
var peakGFLOPS = probe.PeakGFLOPS

// reportSetting records the problem, the library of the partitioner, the seed, and the machines.
func reportSetting(ctx context.Context, s *bench.State, spec solve.Spec, name string) error {
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
	hosts, err := bench.Gather(ctx, s, hostName())
	s.Detail(hostsDetail, fmt.Sprint(len(lists.Distinct(hosts))))
	return err
}

// hostName returns the name of this host, or "" if it is unknown.
func hostName() string {
	name, _ := os.Hostname()
	return name
}

// reportNullSpace warns if the matrix is singular, and records what was projected out.
func reportNullSpace(s *bench.State, n *system.System, size int) {
	if n.Asymmetry > 0 {
		s.Warn("the matrix is symmetric up to rounding (relative differences of at most %.2g): the solve used the mean of "+
			"each entry and its mirror image, and the residual is computed with the matrix of the file", n.Asymmetry)
	}
	switch {
	case n.Traits.Singular:
		rows, constants := describeNullSpace(n.NullPieces, n.NullRows, size)
		s.Detail(nullSpaceDetail, constants)
		s.Warn("the matrix is singular: %s. Constants were projected out of the right-hand side "+
			"(%.3g %% of its norm), the residuals and the solution; the residual is computed without it", rows,
			100*n.RemovedRHS)
	case n.Unprojected:
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
	recordFacts(s, historyDetail, history(out.History))
	if !out.Stopped {
		s.RecordSamples("solve_time_s", seconds)
		s.Record("throughput_dof_s", float64(size)/slices.Min(seconds))
	} else {
		s.Condition(string(journal.CodeEarlyStop), journal.Named{"iterations": float64(out.Iterations),
			"residual": out.TrueResidual})
	}
}

// residual is the relative residual after an iteration. Rows have some hundred, so few digits are kept.
type residual [2]float32

// history returns the relative residuals of at most historyPoints iterations, and of the last.
func history(all []float64) (kept []residual) {
	step := max(1, (len(all)+historyPoints-1)/historyPoints)
	for i, r := range all {
		if (i%step == 0 || i == len(all)-1) && !math.IsNaN(r) && !math.IsInf(float64(float32(r)), 0) {
			kept = append(kept, residual{float32(i), float32(r)})
		}
	}
	return kept
}

// reportCommunication records the time of the messages and reductions of an iteration without any arithmetic. It takes
// the best round of each rank, which no late rank delayed.
func reportCommunication(ctx context.Context, s *bench.State, sub subject, out solve.Outcome) error {
	s.Phase("messages")
	iterations := max(1, out.Iterations)
	products, reductions := (out.Products+iterations/2)/iterations, (out.Reductions+iterations/2)/iterations
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	best := math.Inf(1)
	for range communicationRounds {
		seconds, err := sub.Communicate(products, reductions)
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

// product is the time of a product on one rank, with the matrix as it is stored and in plain storage.
type product struct {
	Stored, Plain           float64 // seconds
	GFLOPS, Flops           float64 // peak, and operations of the product
	StoredBytes, PlainBytes float64
}

// reportProducts times products with the matrix as it is stored and in plain storage. The difference is the effect of
// compression, and the plain time belongs to a matrix that cannot be compressed.
func reportProducts(ctx context.Context, s *bench.State, matrix *sparse.Matrix) error {
	s.Phase("products")
	plain, err := matrix.Unpack().Matrix(matrix.Columns(), sparse.Plain)
	if err != nil {
		return err
	}
	x, y := make([]float64, max(1, plain.Columns())), make([]float64, plain.Rows())
	for i := range x {
		x[i] = sparse.Noise(s.Seed(), i)
	}
	vectors := 8 * (plain.Rows() + plain.Columns())
	mine := product{Stored: math.Inf(1), Plain: math.Inf(1), Flops: 2 * float64(plain.Entries()),
		StoredBytes: float64(matrix.Bytes() + vectors), PlainBytes: float64(plain.Bytes() + vectors)}
	once := func(m *sparse.Matrix, best *float64) error {
		if err := s.Barrier(ctx); err != nil {
			return err
		}
		began := time.Now()
		m.Multiply(y, x, 0, m.Rows())
		*best = min(*best, time.Since(began).Seconds())
		return nil
	}
	for range productRounds {
		if err := errors.Join(once(matrix, &mine.Stored), once(plain, &mine.Plain)); err != nil {
			return err
		}
	}
	if err := s.Barrier(ctx); err != nil { // so that all cores measure their peak at the same time
		return err
	}
	mine.GFLOPS = peakGFLOPS(dist.F64)
	ranks, err := bench.Gather(ctx, s, mine)
	if err != nil {
		return err
	}
	s.Record("product_us", 1e6*maxOf(ranks, func(p product) float64 { return p.Stored }))
	s.Record("product_plain_us", 1e6*maxOf(ranks, func(p product) float64 { return p.Plain }))
	s.Record("peak_gflops", sumOf(ranks, func(p product) float64 { return p.GFLOPS }))
	s.Record("product_flops", sumOf(ranks, func(p product) float64 { return p.Flops }))
	s.Record("product_bytes", sumOf(ranks, func(p product) float64 { return p.StoredBytes }))
	s.Record("product_plain_bytes", sumOf(ranks, func(p product) float64 { return p.PlainBytes }))
	return nil
}
