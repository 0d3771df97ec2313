// Package device solves linear systems on GPUs. It places one rank's rows and vectors in GPU memory,
// runs the kernels of package gpusolve, which generate the matrix and solve, and checks the solution
// on the host.
//
// Each rank owns a strip of consecutive rows. A vector stores its ghosts directly before and after the
// rank's own rows, so the distance between a row and a column in memory is the same as in the whole
// matrix. Kernels write ghosts directly into the memory of other ranks, which the backend (dist/cuda)
// makes accessible. During a solve, the host only starts kernels, several iterations ahead, and polls
// whether the solve has ended.
//
// The methods are implemented in the kernels and do not use package krylov, which returns every dot
// product to the host before it continues. On a GPU that round trip would dominate. Tests compare
// iterations and solutions with krylov's.
package device

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// RHS is a right-hand side that the GPU can generate.
type RHS uint32

// The right-hand sides: all ones, or [sparse.Noise].
const (
	Ones  = RHS(gpusolve.Ones)
	Noise = RHS(gpusolve.Noise)
)

// Spec describes a system. DeviceRHS and the embedded RHS must be the same function: the GPU solves
// with the first, and the host checks the solution with the second.
type Spec struct {
	solve.Spec
	DeviceRHS RHS
	Given     *Given // the system is in GPU memory already
	Fault     uint32 // fault of package gpusolve to plant; for tests

	wide bool // use 64-bit row offsets even if 32 bits suffice; for tests
}

// method describes the kernels of a method, its vectors, and its cost per iteration.
type method struct {
	name                string
	module              string // file of its kernels
	vectorPasses        int    // vectors read or written in an iteration
	diagonalPasses      int    // reads of jacobi's reciprocals in an iteration
	flops, precondFlops int    // per row, without the product and only with jacobi
	prologue            int    // kernels before the first iteration
	steps               []string
	stored              []storedVector
}

// storedVector is a vector that a method stores. ghosts is set if products read it.
type storedVector struct {
	vector
	ghosts bool
}

var methods = []method{
	{name: "cg", module: "cg", vectorPasses: 9, diagonalPasses: 2, flops: 10, precondFlops: 4,
		steps:  []string{"direct", "descend"},
		stored: []storedVector{{vecX, false}, {vecQ, false}, {vecR, true}, {vecP0, true}, {vecP1, true}}},
	{name: "cg-single", module: "cg", vectorPasses: 10, diagonalPasses: 1, flops: 12, precondFlops: 4, prologue: 1,
		steps: []string{"single"},
		stored: []storedVector{{vecX, false}, {vecQ, false}, {vecR, true}, {vecR1, true}, {vecS0, true}, {vecS1, true},
			{vecW0, true}, {vecW1, true}}},
	{name: "cg-pipelined", module: "pipelined", vectorPasses: 12, diagonalPasses: 1, flops: 18, precondFlops: 3,
		prologue: 1, steps: []string{"step"},
		stored: []storedVector{{vecX, true}, {vecQ, false}, {vecR, true}, {vecP0, true}, {vecS0, true}, {vecW0, true},
			{vecW1, true}}},
}

// Methods lists the methods that run on GPUs.
func Methods() []string { return lists.Map(methods, func(m method) string { return m.name }) }

// Preconditioners lists the preconditioners that run on GPUs.
func Preconditioners() []string { return []string{precondition.None, "jacobi", multigridName} }

// multigridName is the preconditioner that runs a cycle over several levels. It requires method cg.
const multigridName = "gmg"

// Compatible reports whether a method can use a preconditioner on GPUs.
func Compatible(method, preconditioner string) bool {
	return preconditioner != multigridName || method == "" || method == "cg"
}

// Partitioners lists the partitioners that run on GPUs.
func Partitioners() []string { return []string{partition.Default} }

// CheckSupported returns an error if GPUs do not support the problem, or the method, preconditioner or partition of s.
// It does not check the size of the problem.
func CheckSupported(p sparse.Problem, s solve.Spec) error {
	if err := checkSolver(s); err != nil {
		return err
	}
	if _, ok := matrixOf(p); !ok {
		return errors.New("a GPU generates the matrix itself and supports only grid problems, with the same entries in " +
			"every row or with variable coefficients: poisson, anisotropic, and variable with its default contrast")
	}
	if t := p.Traits(); !t.Definite {
		return errors.New("the methods on GPUs need a symmetric positive definite matrix")
	}
	return nil
}

// checkSolver returns an error if GPUs do not support the method, preconditioner or partition of s.
func checkSolver(s solve.Spec) error {
	for _, c := range []struct {
		noun, name string
		supported  []string
	}{
		{"method", s.Method, Methods()},
		{"preconditioner", s.Preconditioner, Preconditioners()},
		{"partitioner", s.Partitioner, Partitioners()},
		{"weights", string(s.Weights), []string{string(partition.ByRows)}},
	} {
		if c.name != "" && !slices.Contains(c.supported, c.name) {
			return fmt.Errorf("%s %s does not run on GPUs, only %s", c.noun, c.name, strings.Join(c.supported, ", "))
		}
	}
	if !Compatible(s.Method, s.Preconditioner) {
		return fmt.Errorf("preconditioner %s requires method cg on GPUs, not %s", s.Preconditioner, s.Method)
	}
	if changed := s.Multigrid.Changed(false); len(changed) > 0 {
		return fmt.Errorf("multigrid on GPUs has no %s", strings.Join(changed, ", "))
	}
	return nil
}

// stencils lists the numbers of points for which there are kernels.
var stencils = []int{5, 7, 9, 27}

// matrix describes one rank's part of the matrix.
type matrix struct {
	grid     sparse.Grid
	points   []sparse.StencilPoint
	variable bool // entries are computed from random coefficients of the grid points
	seed     uint64
	reach    int // largest distance of a column from the diagonal
	plain    bool
	wide     bool // 64-bit row offsets
	entries  int  // number of entries on this rank
	jacobi   bool
	given    *Given // nil if the kernels generate the matrix
}

// matrixOf describes the rows of a problem. ok is false if the kernels cannot generate them.
func matrixOf(p sparse.Problem) (m matrix, ok bool) {
	if m.grid, m.points, ok = sparse.StencilOf(p); ok {
		return m, slices.Contains(stencils, len(m.points))
	}
	var steps [][3]int
	m.grid, steps, m.seed, m.variable = sparse.VariableOf(p)
	m.points = lists.Map(steps, func(step [3]int) sparse.StencilPoint { return sparse.StencilPoint{Step: step} })
	return m, m.variable
}

func newMatrix(s Spec, rows sparse.Range) (matrix, error) {
	if s.Given != nil {
		return newGiven(s, rows)
	}
	if err := CheckSupported(s.Problem, s.Spec); err != nil {
		return matrix{}, &solve.Refusal{Reason: err}
	}
	m, _ := matrixOf(s.Problem)
	m.plain, m.jacobi = s.Uncompressed, s.Preconditioner != "" && s.Preconditioner != precondition.None
	for _, q := range m.points {
		m.reach = max(m.reach, abs(columnOffset(m.grid, q.Step)))
	}
	m.entries = m.entriesBefore(rows.Hi) - m.entriesBefore(rows.Lo)
	m.wide = s.wide || m.entries > math.MaxUint32
	if m.plain && rows.Len()+2*m.reach > math.MaxUint32 {
		return m, &solve.Refusal{Reason: fmt.Errorf("%d rows on one GPU exceed the %d of 32-bit column indices: use "+
			"--storage compressed, which stores none", rows.Len(), math.MaxUint32)}
	}
	return m, nil
}

// LeastBytes returns the memory that a rank's vectors and its part of the matrix need on its GPU, without the coarser
// levels of multigrid.
func LeastBytes(s solve.Spec, ranks int) (int, error) {
	rows := sparse.Range{Hi: s.Problem.Size() / ranks}
	m, err := newMatrix(Spec{Spec: s}, rows)
	if err != nil {
		return 0, err
	}
	return m.bytes(rows.Len(), 0) + 8*rows.Len()*len(methodOf(s).stored), nil
}

// methodOf returns the method of a system that CheckSupported accepts.
func methodOf(s solve.Spec) method {
	m, _ := lists.First(methods, func(m method) bool { return m.name == cmp.Or(s.Method, "cg") })
	return m
}

func abs(i int) int { return max(i, -i) }

// columnOffset returns the difference between the row numbers of two grid points that are step apart.
func columnOffset(grid sparse.Grid, step [3]int) int {
	return step[0] + grid[0]*(step[1]+grid[1]*step[2])
}

// fillStencil sets the parameters that describe the entries of a row.
func fillStencil(p *gpusolve.Params, grid sparse.Grid, points []sparse.StencilPoint) {
	p.Points = uint32(len(points))
	for axis, n := range grid {
		p.Grid[axis] = uint64(n)
	}
	for k, q := range points {
		p.Reach[k], p.Coef[k], p.Sides[k] = int64(columnOffset(grid, q.Step)), q.Coef, sideMask(q.Step)
	}
}

// sideMask returns a bit for each side of the grid at which a row lacks the entry at step. The kernels
// use the same bits.
func sideMask(step [3]int) (bits uint32) {
	for axis, d := range step {
		switch {
		case d < 0:
			bits |= 1 << (2 * axis)
		case d > 0:
			bits |= 2 << (2 * axis)
		}
	}
	return bits
}

// entriesBefore returns the number of entries in the rows before row. For each point of the stencil,
// the grid points that have this neighbour form a box, so that its entries can be counted without a
// loop over rows.
func (m *matrix) entriesBefore(row int) int {
	at := m.grid.Point(row)
	if row == m.grid.Size() {
		at = [3]int{0, 0, m.grid[2]}
	}
	n := 0
	for _, q := range m.points {
		before, points := 0, 1
		for axis, d := range q.Step {
			lo, hi := max(0, -d), m.grid[axis]-max(0, d)
			if at[axis] < lo || at[axis] >= hi {
				before = 0
			}
			before += points * (min(max(at[axis], lo), max(hi, lo)) - lo)
			points *= max(0, hi-lo)
		}
		n += before
	}
	return n
}

// diagonal returns the diagonal entry, which is the same in every row of a stencil.
func (m *matrix) diagonal() float64 {
	q, _ := lists.First(m.points, func(q sparse.StencilPoint) bool { return q.Step == [3]int{} })
	return q.Coef
}

// bytes returns the memory of the matrix, including jacobi's reciprocals.
func (m *matrix) bytes(rows, ghosts int) int {
	if m.given != nil {
		return 0
	}
	if !m.plain {
		return rows + m.coefficientBytes(rows+ghosts) + m.diagonalBytes(rows+ghosts)
	}
	n := 12*m.entries + 4*(rows+1)
	if m.wide {
		n += 4 * (rows + 1)
	}
	return n + m.diagonalBytes(rows+ghosts)
}

// coefficientBytes returns the memory of the coefficients, from which kernels compute the entries that
// are not stored.
func (m *matrix) coefficientBytes(values int) int {
	if m.variable && !m.plain {
		return 8 * values
	}
	return 0
}

func (m *matrix) diagonalBytes(values int) int {
	if (m.plain || m.variable) && m.jacobi && m.given == nil {
		return 8 * values
	}
	return 0
}

// longRows is the number of entries of a row up to which every thread multiplies its own row. On an H200 that takes
// 10 % less time than tiles with 5 entries, 22 % less with 7 and 4 % less with 9, but 42 % more with 27.
const longRows = 9

// kernel returns the name of the kernel of a step for this kind of matrix.
func (m *matrix) kernel(module, step string) string {
	name := module + "_" + step
	switch {
	case step == "begin", step == "descend", step == "triad":
		return name
	case m.plain:
		rows, bits := "_plain", 32
		long := len(m.points) > longRows || m.given != nil && m.entries > longRows*m.given.Rows
		if long && step != "make" {
			rows = "_tiled"
		}
		if m.wide {
			bits = 64
		}
		return fmt.Sprint(name, rows, bits)
	case step == "make":
		return name + "_stencil"
	case m.variable:
		return fmt.Sprintf("%s_variable%d", name, len(m.points))
	}
	return fmt.Sprintf("%s_stencil%d", name, len(m.points))
}
