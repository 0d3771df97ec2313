// Package hpcg is the bench `hpcg-like`: a rating by the rules of the HPCG benchmark, with the kernels of this project.
// It is not an official HPCG result. docs/hpcg-like.md lists the differences.
package hpcg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// The names of axes and options.
const (
	sideAxis   = "side"
	methodAxis = "method"
	timeOption = bench.SecondsOption
)

// preconditioner is the registered preconditioner that follows the rules of HPCG.
const preconditioner = "hpcg"

// disclaimer accompanies every row, table and figure.
const disclaimer = "not an official HPCG result"

// Bench returns the declaration of the bench.
func Bench() *bench.Bench {
	return bench.New("hpcg-like", body,
		bench.Help("GFLOP/s by the rules of the HPCG benchmark with our own kernels: "+disclaimer),
		bench.Doc(`Rates a solve by the rules of the HPCG benchmark (27 points in 3-D, cg with a 4-level
multigrid of symmetric Gauss-Seidel sweeps, sets of 50 iterations): `+disclaimer+`.

Every rank has a cube of --side points along each axis, a multiple of 8. A reference
solve of 50 iterations by cg gives the residual to reach. Further iterations that
--method needs are not credited. Operations are counted by HPCG's formula, and a tenth
of the set-up is charged to every set.

A row fails unless the matrix and the preconditioner are symmetric, a matrix with a huge
diagonal is solved in 12 iterations (2 with the preconditioner), the residual is reached,
every set ends with the same residual, and the solution is correct.

  kernbench run --bench hpcg-like --ranks 1,2 --side 104 --seconds 60
  kernbench run --bench hpcg-like --side 32,64,104 --method cg,cg-pipelined

'kernbench docs hpcg-like' has the rules and what differs from them.`),
		bench.Ranks("1,2"),
		bench.Ints(sideAxis, "64"),
		bench.Strings(methodAxis, "cg"),
		bench.Seconds("10", "time of all sets together, at least one set; an official run takes 1800"),
		bench.Drop(invalidPoint),
		bench.Timeout(2*time.Hour),
		bench.Backends(dist.Backends(system.CanSolve)...),
		bench.Metric("rating_gflops", "GFLOP/s", "higher", "rating by the rules of HPCG"),
		bench.Metric("raw_gflops", "GFLOP/s", "higher", "operations divided by the time, without the penalties"),
		bench.Metric("iterations", "", "lower", "iterations of a set"),
		bench.Metric("sets", "", "", "timed sets"),
		bench.Metric("setup_s", "s", "lower", "preparation before the first set"),
		bench.Metric("unknowns", "", "", "unknowns of all ranks"),
		bench.Metric("reference_residual", "", "", "residual of the reference solve"),
		bench.Metric("rel_residual", "", "lower", "residual of the solution, recomputed row by row"),
		bench.Headline("rating_gflops=rating (GFLOP/s)", "raw_gflops=raw (GFLOP/s)", "iterations", "rel_residual=residual"),
		bench.Version("1"),
		bench.Plot("x=num_ranks,y=rating_gflops,by=method+side+backend,xscale=log", bench.Named("hpcg_like_rating"),
			bench.Title("By the rules of HPCG: "+disclaimer),
			bench.Caption("Times are measured, operations counted by HPCG's formula."),
			bench.Label("rating_gflops", "rating"), bench.Label("side", "{}^3 points per rank")),
		bench.Pivot("rows=num_ranks+side+method,value=unknowns+iterations+sets+time_us+raw_gflops+rating_gflops,"+
			"show=headline",
			bench.Title("Rated by the rules of HPCG: "+disclaimer),
			bench.Caption(fmt.Sprintf("Every set reaches the residual that cg reaches in %d iterations. Further iterations of "+
				"a method take time but do not count as work, and a tenth of the set-up is added to the time of every set. "+
				"All rows passed the checks of symmetry and convergence, and with more than one set that of repeatability.",
				referenceIterations)),
			bench.Label("num_ranks", "ranks"), bench.Label("time_us", "set"), bench.Label("raw_gflops", "raw"),
			bench.Label("rating_gflops", "rating")),
	)
}

// invalidPoint refuses sides that cannot be halved three times, and methods that are not variants of cg.
func invalidPoint(p bench.Point) error {
	if n := p.At(sideAxis).Int(); n < 16 || n%8 != 0 {
		return fmt.Errorf("--%s %d: want a multiple of 8, at least 16", sideAxis, n)
	}
	method := p.At(methodAxis)
	names := krylov.Methods.NamesWhere(func(m krylov.Method) bool { return m.Needs == krylov.SymmetricDefinite })
	if !slices.Contains(names, method.String()) {
		return bench.Unknown(methodAxis, method.String(), names)
	}
	return nil
}

// body joins the ranks and makes the problem: a cube of side^3 unknowns for each rank, as in HPCG.
func body(ctx context.Context, s *bench.State) error {
	s.Phase("set-up")
	g, err := dist.Init(ctx, dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: 15 * time.Minute,
		ID: strings.Join([]string{s.Session(), s.Str(sideAxis), s.Str(methodAxis)}, "/"), Exchange: s.Exchange})
	if err != nil {
		return err
	}
	defer g.Close()
	b := &benchmark{ctx: ctx, s: s, group: g, method: s.Str(methodAxis)}
	s.Warn("%s: by its rules, with kernbench's kernels", disclaimer)
	if s.Float(timeOption) < officialSeconds {
		s.Warn("sets are timed for %g s, an official run for %d", s.Float(timeOption), officialSeconds)
	}
	grid := processes(s.Size())
	for axis := range grid {
		grid[axis] *= s.Int(sideAxis)
	}
	s.Detail("grid", sparse.Grid(grid).String())
	made, err := sparse.NewGridPoisson(grid, 27)
	if err != nil {
		return err
	}
	return b.run(problem{made})
}

// benchmark is one rank's part of a rated run.
type benchmark struct {
	ctx    context.Context
	s      *bench.State
	group  *dist.Group
	method string
	checks []check
}

func (b *benchmark) check(name string, value, limit float64) {
	b.checks = append(b.checks, check{name, value, limit})
}

// system sets up a problem.
func (b *benchmark) system(p solve.Problem, rhs func(int) float64, method, precond string,
	rtol float64) (*system.System, error) {
	return system.New(b.group, solve.Spec{Problem: p, RHS: rhs, Partitioner: "block",
		Uncompressed: true, Method: method, Preconditioner: precond, RTol: rtol, MaxIter: maxIterations})
}

// unreachable is a tolerance that no solve reaches, so that every solve makes all its iterations.
const unreachable = 1e-300

// run follows the phases of HPCG. 50 iterations of the reference set the residual to reach. The rated method is
// validated, the iterations that it needs for that residual are counted, and it is timed with this number of
// iterations.
func (b *benchmark) run(p problem) error {
	b.s.Phase("reference")
	reference, err := b.system(p, p.rhs, "cg", preconditioner, unreachable)
	if err != nil {
		return err
	}
	target, err := reference.Solve(referenceIterations)
	if err != nil {
		return err
	}
	b.s.Record("reference_residual", target.Residual)
	rated := reference
	if b.method != "cg" {
		if rated, err = b.system(p, p.rhs, b.method, preconditioner, unreachable); err != nil {
			return err
		}
	}
	b.s.Phase("validation")
	if err := b.validate(p, rated); err != nil {
		return err
	}
	b.s.Phase("iterations")
	goal := max(target.Residual, attainable)
	iterations := maxIterations + 1
	for _, limit := range []int{referenceIterations, maxIterations} {
		trial, err := rated.Solve(limit)
		if err != nil {
			return err
		}
		if iterations = iterationsNeeded(trial.History, goal); iterations <= maxIterations {
			break
		}
	}
	b.check("iterations to the residual of the reference", float64(iterations), maxIterations)
	if iterations > maxIterations {
		return invalid(b.checks)
	}
	if err := b.timeSets(rated, iterations, goal); err != nil {
		return err
	}
	return invalid(b.checks)
}

// validate makes the checks that need no timed set.
func (b *benchmark) validate(p problem, rated *system.System) error {
	huge := exaggerated{p}
	for _, c := range []struct {
		name, precond string
		limit         float64
	}{{"iterations on the exaggerated diagonal", "none", maxPlain},
		{"iterations there with the preconditioner", preconditioner, maxPreconditioned}} {
		sys, err := b.system(huge, huge.rhs, b.method, c.precond, spectralTolerance)
		if err != nil {
			return err
		}
		n, err := spectral(sys)
		if err != nil {
			return err
		}
		b.check(c.name, n, c.limit)
	}
	departures, err := symmetry(rated, b.s.Seed(), b.sum)
	b.checks = append(b.checks, departures...)
	return err
}

// timeSets runs sets until the time is over, and rates them.
func (b *benchmark) timeSets(sys *system.System, iterations int, goal float64) error {
	s := b.s
	s.Phase("sets")
	var times, residuals []float64
	total := 0.0
	var out solve.Outcome
	for len(times) == 0 || total < s.Float(timeOption) {
		if err := s.Barrier(b.ctx); err != nil {
			return err
		}
		var err error
		if out, err = sys.Solve(iterations); err != nil {
			return err
		}
		slowest, err := b.maxOverRanks(out.Seconds)
		if err != nil {
			return err
		}
		times, residuals, total = append(times, slowest*1e6), append(residuals, out.Residual), total+slowest
	}
	s.Phase("check")
	if err := sys.Check(&out); err != nil {
		return err
	}
	setup, err := b.maxOverRanks(sys.Times.Total)
	if err != nil {
		return err
	}
	b.checks = append(b.checks, setChecks(residuals, goal)...)
	b.check("true residual of the solution over that of the reference", out.TrueResidual/goal, 10)

	w := work{sets: len(times), iterations: iterations, rows: float64(sys.Size)}
	h := sys.Operator.(system.Hierarchy)
	for l := range h.Levels() {
		_, entries := h.Size(l)
		w.entries = append(w.entries, entries)
	}
	s.RecordSamples("time_us", times)
	s.Record("rel_residual", out.TrueResidual)
	s.Record("iterations", float64(iterations))
	s.Record("sets", float64(w.sets))
	s.Record("setup_s", setup)
	s.Record("unknowns", w.rows)
	if invalid(b.checks) == nil { // only valid results are rated
		s.Record("rating_gflops", w.rating(total, setup))
		s.Record("raw_gflops", w.raw(total))
	}
	for _, c := range b.checks {
		s.Detail(c.name, fmt.Sprintf("%.3g (at most %g)", c.value, c.limit))
	}
	return nil
}

// sum adds up numbers over the ranks, in rank order.
func (b *benchmark) sum(mine ...float64) ([]float64, error) {
	all, err := bench.Gather(b.ctx, b.s, mine)
	totals := make([]float64, len(mine))
	for _, ranks := range all {
		for i, v := range ranks {
			totals[i] += v
		}
	}
	return totals, err
}

// maxOverRanks returns the largest number of any rank.
func (b *benchmark) maxOverRanks(mine float64) (float64, error) {
	all, err := bench.Gather(b.ctx, b.s, mine)
	if err != nil {
		return 0, err
	}
	return slices.Max(all), nil
}
