package solvescaling

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// solver is a linear system that is ready to be solved: by its Krylov method, for several right-hand sides, in lower
// precision, or on a GPU.
type solver interface {
	Solve(limit int) (solve.Outcome, error)
	Check(out *solve.Outcome) error
	Alone(limit int) (float64, error)
	Trace(limit int) (system.Profile, error)
	// Communicate repeats the messages of an iteration without its arithmetic. See system.System.
	Communicate(products, reductions int) (float64, error)
	LastSolve() system.Timed
}

// subject is a solver with what is known about it.
type subject struct {
	solver
	size     int
	columns  int // right-hand sides
	part     part
	operator any // the preconditioner; it may be a system.Hierarchy
	triad    *triad
	grown    func() float64 // memory of this rank in bytes, 0 if unknown
	working  int            // bytes that an iteration touches on this rank; 0 if unknown
	gate     func(out solve.Outcome) error
	report   func()         // records what only this kind of subject has
	own      *system.System // the system on processors, or nil
	matrix   *sparse.Matrix // whose products are timed, or nil
	solution func() []float64
	observe  func(when string) // records the state of the device
	close    func() error
}

// part describes one rank's part of a system.
type part struct {
	partition.Local
	system.SetupTimes
	Messages int     // of a product
	Matrix   int     // bytes
	Grown    float64 // bytes of memory
}

// gpuSolver solves on a GPU, where communication is a part of the kernels.
type gpuSolver struct{ *device.System }

// LastSolve returns nothing.
func (gpuSolver) LastSolve() system.Timed { return system.Timed{} }

// Communicate returns nothing.
func (gpuSolver) Communicate(int, int) (float64, error) { return 0, nil }

// prepare sets up the system of a spec with its right-hand sides.
func prepare(s *bench.State, g *dist.Group, spec solve.Spec, b rhs, memory *memory) (subject, error) {
	if device.SupportsBackend(s.Backend()) {
		return prepareDevice(s, g, spec)
	}
	n, err := system.New(g, spec)
	if err != nil {
		return subject{}, err
	}
	sub := subject{solver: n, size: n.Size, columns: 1, operator: n.Operator,
		triad: newTriad(s.Int(repeatOption)), grown: memory.grown,
		part: part{Local: partition.LocalOf(n.Plan), SetupTimes: n.Times, Messages: n.Messages, Matrix: n.Matrix.Bytes()},
		gate: func(out solve.Outcome) error { return out.Gate(spec.RTol) }, report: func() {}, own: n, matrix: n.Matrix,
		solution: n.Solution, observe: func(string) {}, close: func() error { return nil }}
	vectors := n.Engine.Bytes()
	switch {
	case b.columns > 1:
		vectors, err = sub.solveColumns(s, spec, b)
	case s.Str(precisionAxis) != system.Double:
		vectors, err = sub.solveRounded(s)
	}
	sub.working = n.Matrix.Bytes() + vectors
	if n.Applied != nil {
		sub.working += n.Applied.Bytes()
	}
	return sub, err
}

// solveColumns makes the subject solve for several right-hand sides. It returns the bytes of the vectors.
func (sub *subject) solveColumns(s *bench.State, spec solve.Spec, b rhs) (vectors int, err error) {
	if s.Bool(adjointOption) {
		return 0, bench.Skip("--%s checks the gradients of one right-hand side, not of %d", adjointOption, b.columns)
	}
	sys, err := system.NewBlock(sub.own, b.columns, b.at)
	if err != nil {
		return 0, err
	}
	sub.solver, sub.columns, sub.matrix, sub.solution = sys, b.columns, nil, sys.Solution
	sub.part.Messages = sys.Messages
	sub.gate = func(out solve.Outcome) error { return sys.Gate(out, spec.RTol) }
	sub.report = func() { reportColumns(s, sys) }
	return sys.Bytes(), nil
}

// reportColumns records the properties of a block solve.
func reportColumns(s *bench.State, sys *system.Block) {
	r := sys.Result()
	s.Record("rhs_columns", float64(sys.Columns))
	s.Record("block_width", float64(r.Widths)/float64(max(1, r.Iterations)))
	s.Record("restarts", float64(r.Restarts))
	if t := s.Metric("solve_time_s"); t > 0 {
		s.Record("solve_time_per_rhs_s", t/float64(sys.Columns))
	}
	s.Detail(convergedDetail, strings.Join(lists.Map(r.Converged, func(k int) string { return fmt.Sprint(k) }), " "))
}

// convergedDetail lists the iteration after which each right-hand side had converged, -1 for none.
const convergedDetail = "converged_after"

// solveRounded makes the subject solve in lower precision. It returns the bytes of the vectors and the rounded matrix.
func (sub *subject) solveRounded(s *bench.State) (vectors int, err error) {
	precision := s.Str(precisionAxis)
	if s.Bool(adjointOption) {
		return 0, bench.Skip("--%s solves in double precision, not with --%s %s", adjointOption, precisionAxis, precision)
	}
	sys, err := system.NewRefined(sub.own, precision, s.Str(storageAxis) == sparse.Plain.String())
	if err != nil {
		return 0, err
	}
	sub.solver, sub.matrix, sub.part.Matrix = sys, nil, sys.MatrixBytes()
	sub.report = func() { s.Record("reliable_updates", float64(sys.Updates)) }
	return sys.Bytes(), nil
}

// deviceSweeps is the number of triad sweeps in GPU memory before and after each solve.
const deviceSweeps = 5

// prepareDevice sets up the system on the GPUs.
func prepareDevice(s *bench.State, g *dist.Group, spec solve.Spec) (subject, error) {
	deviceSpec := device.Spec{Spec: spec, DeviceRHS: device.Noise}
	if s.Str(rhsAxis) == "ones" {
		deviceSpec.DeviceRHS = device.Ones
	}
	sys, err := device.New(g, deviceSpec)
	if _, refused := errors.AsType[*solve.Refusal](err); refused {
		return subject{}, bench.NotExecuted(false, "%v", err)
	}
	if err != nil {
		return subject{}, err
	}
	facts := g.Facts()
	s.Detail("library", facts.Library)
	s.Detail(gpuDetail, sys.GPU())
	s.Detail(journal.SharingDetail, fmt.Sprint(facts.RanksPerDevice))
	return subject{solver: gpuSolver{sys}, size: sys.Size, columns: 1, operator: sys.Hierarchy(),
		triad: &triad{once: sys.Triad, bytes: sys.TriadBytes(), sweeps: deviceSweeps},
		grown: func() float64 { return float64(sys.Bytes) },
		part:  part{Local: sys.Part, SetupTimes: sys.Times, Messages: sys.Part.Neighbours, Matrix: sys.MatrixBytes},
		gate:  func(out solve.Outcome) error { return out.Gate(spec.RTol) }, report: func() {},
		observe: func(when string) { collectives.Observe(s, instrument.ObserverOf(g), when) }, close: sys.Close}, nil
}

// reportSystem records the quality of the partition, the communication of an iteration with the given number of
// products, and the time and memory of the set-up.
func reportSystem(ctx context.Context, s *bench.State, sub subject, products float64) error {
	ranks, err := bench.Gather(ctx, s, sub.part)
	if err != nil {
		return err
	}
	q := partition.Combine(lists.Map(ranks, func(p part) partition.Local { return p.Local }))
	perRow := func(of func(p part) float64) float64 {
		return maxOf(ranks, func(p part) float64 { return of(p) / float64(max(1, p.Rows)) })
	}
	s.Record("row_imbalance", q.RowImbalance)
	s.Record("nnz_imbalance", q.EntryImbalance)
	s.Record("edge_cut", float64(q.EdgeCut))
	s.Record("comm_volume", float64(q.Volume))
	s.Record("halo_max", float64(q.MaxHalo))
	s.Record("halo_mean", float64(q.Volume)/float64(s.Size()))
	s.Record("neighbours_max", float64(q.MaxNeighbours))
	s.Record("neighbours_mean", q.MeanNeighbours)
	s.Record("setup_s", maxOf(ranks, func(p part) float64 { return p.Total }))
	s.Record("partition_s", maxOf(ranks, func(p part) float64 { return p.Partition }))
	s.Record("generation_s", maxOf(ranks, func(p part) float64 { return p.Generation }))
	s.Record("precond_setup_s", maxOf(ranks, func(p part) float64 { return p.Precondition }))
	s.Record("precond_setup_cpu_s", sumOf(ranks, func(p part) float64 { return p.PreconditionCPU }))
	if h, ok := sub.operator.(system.Hierarchy); ok {
		operator, grid := h.Complexities()
		s.Record("levels", float64(h.Levels()))
		s.Record("operator_complexity", operator)
		s.Record("grid_complexity", grid)
	}
	columns := float64(sub.columns) // each message has the values of all columns
	s.Record("messages", products*sumOf(ranks, func(p part) float64 { return float64(p.Messages) }))
	s.Record("bytes", columns*products*8*float64(q.Volume))
	s.Record("halo_bytes_per_dof", columns*8*perRow(func(p part) float64 { return float64(p.Halo) }))
	s.Record("matrix_bytes_per_dof", sumOf(ranks, func(p part) float64 { return float64(p.Matrix) })/float64(sub.size))
	if grown := perRow(func(p part) float64 { return p.Grown }); grown > 0 {
		s.Record("memory_bytes_per_dof", grown)
	}
	return nil
}
