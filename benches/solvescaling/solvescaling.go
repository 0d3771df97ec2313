// Package solvescaling is the bench `solve-scaling`. It measures how a distributed sparse linear solve scales with the
// number of ranks, checks the solution, and explains what limits the scaling. docs/solve-scaling.md explains every
// metric and how to add a problem, a partitioner or a method.
package solvescaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// The names of axes and options.
const (
	modeAxis        = "mode"
	perRankAxis     = "dof-per-rank"
	totalAxis       = "total-dof"
	problemAxis     = "problem"
	dimAxis         = "dim"
	stencilAxis     = "stencil"
	methodAxis      = "method"
	precondAxis     = "precond"
	partitionerAxis = "partitioner"
	objectiveAxis   = "objective"
	weightsAxis     = "weights"
	rhsAxis         = "rhs"
	storageAxis     = "storage"
	contrastAxis    = "contrast"
	columnsAxis     = "nrhs"
	precisionAxis   = "precision"

	rtolOption    = "rtol"
	maxIterOption = "maxiter"
	stopOption    = "stop-after"
	restartOption = "restart"
	repeatOption  = "repeat"
	matrixOption  = "matrix"
)

// The modes. A throughput row is a weak row that is shown by its rate only.
const (
	weak       = "weak"
	strong     = "strong"
	throughput = "throughput"
)

// The default sizes.
const (
	defaultPerRank = 100000
	defaultTotal   = 1000000
)

// rhsFile is the prefix of a right-hand side that is read from a file.
const rhsFile = "file:"

// auto is the default problem: the file of --matrix, or the default kind.
const auto = "auto"

// Bench returns the declaration of the bench.
func Bench() *bench.Bench {
	items := []bench.Clause{
		bench.Help("weak, strong and throughput scaling of a distributed sparse solve, with the residual as gate"),
		bench.Doc(manual()),
		bench.Timeout(2 * time.Hour),
		bench.Backends(dist.Backends(func(d dist.Description) bool {
			return system.CanSolve(d) || device.SupportsBackend(d.Name)
		})...),
		bench.Version("1"),
		bench.Accumulates(),
		bench.Headline("num_ranks=ranks", "dof_global=unknowns", "iterations=iter.", "time_us=µs/iter.",
			"solve_time_s=time (s)", "efficiency", "triad_fraction=of triad", verdictDetail),
		bench.Derive(derive),
		decl.Figures(figures),
		bench.Sections(sections),
		bench.Exports(exports),
		bench.Reports("finest_level_gbps", "GB/s", "rate at which a rank moves the bytes of the finest level"),
	}
	for _, check := range []func(point.Point) error{checkRHS, unusedSize, checkMultigrid, checkColumns, checkPrecision,
		checkPartitioner, checkSuitable, checkDeviceMemory} {
		items = append(items, bench.Drop(check))
	}
	for _, check := range []func(p, options point.Point) error{checkSizes, checkDevice, checkAutomatic, checkFile} {
		items = append(items, bench.Refuse(check))
	}
	items = slices.Concat(settings(), items, declaredViews())
	for _, m := range metrics {
		items = append(items, bench.Metric(m.name, m.unit, m.better, m.meaning))
	}
	return bench.New("solve-scaling", body, items...)
}

// settings declares the axes and options.
func settings() []bench.Clause {
	return append([]bench.Clause{
		bench.Ranks("1,2"),
		bench.Strings(modeAxis, weak),
		bench.Strings(problemAxis, auto),
		bench.Ints(dimAxis, "2"),
		bench.Ints(stencilAxis, "0"),
		bench.Floats(contrastAxis, "0"),
		bench.Strings(methodAxis, krylov.Default),
		bench.Strings(precondAxis, precondition.None),
		bench.Strings(partitionerAxis, partition.Default),
		bench.Strings(objectiveAxis, string(partition.EdgeCut)),
		bench.Strings(weightsAxis, string(partition.ByRows)),
		bench.Strings(rhsAxis, "random"),
		bench.Strings(storageAxis, sparse.Compressed.String()),
		bench.Ints(columnsAxis, fmt.Sprint(columnsOfFile)),
		bench.Strings(precisionAxis, system.Double),
		bench.Ints(perRankAxis, fmt.Sprint(defaultPerRank)),
		bench.Ints(totalAxis, fmt.Sprint(defaultTotal)),
		decl.Within(decl.Between(0, 1), bench.Option(rtolOption, bench.KindFloat, "1e-8",
			"residual to reach, relative to the right-hand side")),
		decl.Within(decl.AtLeast(0),
			bench.Option(maxIterOption, bench.KindInt, "0", "most iterations; 0 is 10000 + 50 sqrt(unknowns)"),
			bench.Option(stopOption, bench.KindInt, "0",
				"iterations after which a solve may stop without converging, to time only these; 0 is off")),
		decl.Within(decl.AtLeast(1),
			bench.Option(restartOption, bench.KindInt, "30", "steps between restarts of "+strings.Join(restarting(), ", ")),
			bench.Option(repeatOption, bench.KindInt, "3", "timed solves; the best counts, the row keeps the spread")),
		bench.Option(adjointOption, bench.KindBool, "false",
			"also solve the adjoint system, and check the gradients that follow from it by finite differences"),
		bench.OutputFile(solutionOption, "Matrix Market file to write the solution of the last row to"),
		bench.OutputFile(writtenOption, "Matrix Market file to write the matrix of the last row to"),
		bench.FileOption(matrixOption, "", "Matrix Market file to solve with instead of a generated problem"),
		decl.OneOf(modeAxis, weak, strong, throughput),
		decl.OneOf(methodAxis, append(krylov.Methods.Names(), auto)...),
		decl.OneOf(partitionerAxis, partition.Partitioners.Names()...),
		decl.OneOf(precondAxis, append(precondition.Preconditioners.Names(), auto)...),
		decl.OneOf(objectiveAxis, partition.Objectives()...),
		decl.OneOf(weightsAxis, string(partition.ByRows), string(partition.ByEntries)),
		decl.OneOf(storageAxis, sparse.Compressed.String(), sparse.Plain.String()),
		decl.OneOf(precisionAxis, system.Precisions()...),
	}, multigridAxes()...)
}

// manual returns the help text.
func manual() string {
	return `Solves A x = b on a growing number of ranks, and reports how the solve scales, where
the knee is, and what limits it. Each rank generates only its own rows.

mode=weak keeps --dof-per-rank unknowns on every rank, mode=strong distributes
--total-dof over the ranks, and mode=throughput is weak scaling shown as unknowns
solved per second. A row fails if it does not converge or if its true residual
||b - Ax|| / ||b|| exceeds 10 x rtol. Failed rows are in no curve, and the exit status is 1.

Problems:     ` + list(solve.Problems(), func(k solve.Kind) (string, string) { return k.Name, k.Help }) + `
              --matrix FILE takes a Matrix Market file instead: .mtx, .mtx.gz, or SuiteSparse's .tar.gz
Partitioners: ` + list(solve.Partitioners(), func(p solve.Partitioner) (string, string) { return p.Name, p.Help }) + `
              --weights nnz balances matrix entries instead of rows, for rows of very different lengths
Methods:      ` + list(solve.Methods(), methodHelp) + `
Precond:      ` + list(solve.Preconditioners(), func(p solve.Preconditioner) (string, string) { return p.Name, p.Help }) + `
              --method auto --precond auto choose the solver with the shortest time to solution by trial
Multigrid:    --smoother ` + strings.Join(precondition.Smoothers, "|") + ` --sweeps N
              --cycle ` + strings.Join(precondition.Cycles, "|") + `
              --coarsest ` + strings.Join(precondition.CoarsestSolvers, "|") + ` tune gmg and amg, and amg alone
              --coarsening ` + strings.Join(precondition.Coarsenings, "|") + ` --strength T --aggressive LEVELS
--contrast C sets the jumps of variable (1000) and the anisotropy of anisotropic (100).
The right-hand side is random, ones, or file:PATH in the array format of Matrix Market. (A smooth
right-hand side would be an eigenvector of the Poisson stencils, solved in one step.)
--nrhs 1,4,16 solves for several right-hand sides at once by block conjugate gradients, which read the
matrix once for all of them. Every column is checked. By default the file gives the number of columns.
--precision f64,f32-matrix,f32 stores the matrix (f32-matrix) or also the vectors (f32) of cg in single
precision. Residuals in double precision correct the solution, so the gate is the same.
--adjoint also solves A' v = g, the system behind the gradients of g'x with respect to b (v) and to the
entries of A (-v_i x_j). The row fails if finite differences contradict one of them.

  kernbench run --bench solve-scaling --mode weak --ranks 1,2,4,8 --dof-per-rank 100000 --method cg --partitioner simple
  kernbench run --bench solve-scaling --mode strong --total-dof 1M --dim 3 --stencil 27 --precond jacobi,gmg,amg
  kernbench run --bench solve-scaling --total-dof 1M --mode strong --problem variable --precond amg --cycle v,w,k
  kernbench run --bench solve-scaling --mode strong --total-dof 1M --ranks 1,2 --method auto --precond auto
  kernbench run --bench solve-scaling --mode strong --total-dof 100K --problem hub --weights rows,nnz
  kernbench run --bench solve-scaling --mode strong --total-dof 1M --storage plain --nrhs 1,4,16,64
  kernbench run --bench solve-scaling --mode strong --total-dof 1M --storage plain --precision f64,f32-matrix,f32
  kernbench run --bench solve-scaling --mode strong --matrix thermal2.tar.gz --rhs file:thermal2.tar.gz --precond amg --partitioner multilevel
  kernbench run --bench solve-scaling --backend cuda --mode strong --total-dof 64M --ranks 1 --storage plain,compressed --precond jacobi

GPUs (--backend cuda) support ` + strings.Join(device.Methods(), ", ") + ` with
` + strings.Join(device.Preconditioners(), ", ") + ` on poisson, anisotropic and variable,
in strips of rows: see 'kernbench docs gpu'.

'kernbench docs solve-scaling' explains every metric.`
}

// list formats the entries of a registry, one per line.
func list[T any](all []T, words func(T) (name, help string)) string {
	return strings.Join(lists.Map(all, func(x T) string {
		name, help := words(x)
		return fmt.Sprintf("%-12s %s", name, help)
	}), "\n              ")
}

// methodHelp returns the help line of a method.
func methodHelp(m solve.Method) (name, help string) {
	reductions := unit.Plural(m.Reductions, "reduction") + " per iteration"
	if m.Needs == krylov.Any {
		return m.Name, fmt.Sprintf("%s; %s", m.Help, reductions)
	}
	return m.Name, fmt.Sprintf("%s; %s, needs %v", m.Help, reductions, m.Needs)
}

// restarting lists the methods that use --restart.
func restarting() []string {
	return krylov.Methods.NamesWhere(func(m krylov.Method) bool { return m.Restarts })
}

// checkRHS refuses unknown right-hand sides.
func checkRHS(p point.Point) error {
	if rhs := p.At(rhsAxis).String(); rhs != "random" && rhs != "ones" && !strings.HasPrefix(rhs, rhsFile) {
		return bench.Unknown(rhsAxis, rhs, []string{"random", "ones", rhsFile + "PATH"})
	}
	return nil
}

// checkPartitioner returns an error if the partitioner has not the objective or the weights of a point.
func checkPartitioner(p point.Point) error {
	part, err := partition.Partitioners.Lookup(p.At(partitionerAxis).String())
	if err != nil {
		return err
	}
	return cmp.Or(part.CheckObjective(partition.Objective(p.At(objectiveAxis).String())),
		part.CheckWeights(partition.Weights(p.At(weightsAxis).String())))
}

// checkSuitable returns an error if the method, preconditioner, partitioner or right-hand side does not suit a
// generated problem. The ranks check the default kind or a file, and trials show what auto can choose.
func checkSuitable(p point.Point) error {
	text := func(axis string) string { return p.At(axis).String() }
	if text(problemAxis) == auto || automatic(p) {
		return nil
	}
	part, err := partition.Partitioners.Lookup(text(partitionerAxis))
	if err != nil {
		return err
	}
	v, err := generate(p, solve.Params{Rows: sampleRows})
	if err != nil {
		return err
	}
	cfg := krylov.Config{RTol: 1, MaxIter: 1, Flexible: multigridOf(p).Flexible()}
	if _, err := krylov.New(text(methodAxis), v.Traits(), cfg); err != nil {
		return fmt.Errorf("problem %s: %w", text(problemAxis), err)
	}
	pre, err := precondition.Preconditioners.Lookup(text(precondAxis))
	if err != nil {
		return err
	}
	if err := pre.Check(v, v.Traits()); err != nil {
		return fmt.Errorf("problem %s: %w", text(problemAxis), err)
	}
	if v.Traits().Singular && text(rhsAxis) == "ones" {
		return fmt.Errorf("problem %s is singular, so --%s ones has no solution: use random", text(problemAxis), rhsAxis)
	}
	return part.Check(v)
}

// sampleRows is the size of the problem that stands for a point before its own size is known: 16x16x16 or 64x64, which
// preconditioners that halve a grid accept. The ranks check the real size.
const sampleRows = 4096

// checkSizes refuses sizes below 1.
func checkSizes(p, _ point.Point) error {
	for _, size := range []string{perRankAxis, totalAxis} {
		if v := p.At(size); v.Int() < 1 {
			return fmt.Errorf("--%s %s: want at least 1", size, v)
		}
	}
	return nil
}

// checkFile refuses axes that have no effect with a matrix from a file.
func checkFile(p, options point.Point) error {
	path := options.At(matrixOption)
	switch mode, problem, total := p.At(modeAxis), p.At(problemAxis), p.At(totalAxis); {
	case path.String() == "":
		return nil
	case problem.String() != auto:
		return fmt.Errorf("--%s %s and --%s %s: give one of them", problemAxis, problem, matrixOption, path)
	case mode.String() != strong:
		return fmt.Errorf("--%s %s has one size: %s scaling needs a generated problem, --%s %s takes the file",
			matrixOption, path, mode, modeAxis, strong)
	case total.Int() != defaultTotal:
		return fmt.Errorf("--%s %s has one size: --%s %s has no effect, leave it out", matrixOption, path, totalAxis, total)
	}
	return nil
}

// unusedSize refuses the size of another mode, because all its values would mean the same work, at a size that the user
// did not intend.
func unusedSize(p point.Point) error {
	mode := p.At(modeAxis)
	used, unused, unusedDefault := perRankAxis, totalAxis, defaultTotal
	if mode.String() == strong {
		used, unused, unusedDefault = totalAxis, perRankAxis, defaultPerRank
	}
	if v := p.At(unused); v.Int() != int64(unusedDefault) {
		return fmt.Errorf("mode=%s takes its size from --%s, so --%s %s has no effect: leave it out, or run each mode by "+
			"itself into the same --out", mode, used, unused, v)
	}
	return nil
}

// generate makes the problem of a point.
func generate(p point.Point, params solve.Params) (sparse.Problem, error) {
	params.Dim, params.Stencil = int(p.At(dimAxis).Int()), int(p.At(stencilAxis).Int())
	params.Contrast = p.At(contrastAxis).Float()
	return solve.NewProblem(kindOf(p), params)
}

func kindOf(p point.Point) string {
	if kind := p.At(problemAxis).String(); kind != auto {
		return kind
	}
	return sparse.DefaultKind
}

// joinLimit is the time that a rank waits for another. While rank 0 partitions a large graph, the others wait for their
// part. A dead rank is noticed at once.
const joinLimit = 15 * time.Minute

// sharedBytes returns the shared memory that a rank needs for the messages of a solve. No message has more than a few
// values for each of its rows. rows may be 0 if unknown.
func sharedBytes(rows, ranks int) int { return 64<<20 + 64*(rows/ranks+1) }

// join creates the group of this point. Its ID is unique among all points and launches.
func join(ctx context.Context, s *bench.State, spec solve.Spec) (*dist.Group, error) {
	rows := 0
	if spec.Problem != nil {
		rows = spec.Problem.Size()
	} else if head, err := sparse.LoadHeader(spec.MatrixFile); err == nil { // solve.New reports what is wrong with it
		rows = head.Size()
	}
	return dist.Init(ctx, dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: joinLimit,
		ID: s.Session() + "/" + s.Point().String(), SharedBytes: sharedBytes(rows, s.Size()),
		Exchange: s.Exchange})
}

// rowsOf returns the size of the generated problem of a point.
func rowsOf(p point.Point, ranks int) int {
	if p.At(modeAxis).String() == strong {
		return int(p.At(totalAxis).Int())
	}
	return int(p.At(perRankAxis).Int()) * ranks
}

// specOf returns the system that the point describes, with its first right-hand side, and the name of its problem.
func specOf(s *bench.State, b rhs) (solve.Spec, string, error) {
	spec := solve.Spec{
		Partitioner: s.Str(partitionerAxis), Objective: solve.Objective(s.Str(objectiveAxis)),
		Weights: solve.Weights(s.Str(weightsAxis)), Seed: s.Seed(),
		Method: s.Str(methodAxis), Preconditioner: s.Str(precondAxis),
		RTol: s.Float(rtolOption), MaxIter: s.Int(maxIterOption), Restart: s.Int(restartOption), StopAfter: s.Int(stopOption),
		Uncompressed: s.Str(storageAxis) == sparse.Plain.String(),
		Multigrid:    multigridOf(s.Point()),
	}
	spec.RHS, spec.RHSRows = func(row int) float64 { return b.at(row, 0) }, b.rows
	if path := s.Str(matrixOption); path != "" {
		spec.MatrixFile = path
		return spec, path, nil
	}
	p, err := generate(s.Point(), solve.Params{Rows: rowsOf(s.Point(), s.Size()), Seed: s.Seed()})
	if err != nil {
		return spec, "", err
	}
	spec.Problem = p
	name := fmt.Sprintf("%s %d-D", kindOf(s.Point()), s.Int(dimAxis))
	if st, ok := p.(interface{ Points() int }); ok {
		name += fmt.Sprintf(" %d-point", st.Points())
	}
	return spec, name, nil
}
