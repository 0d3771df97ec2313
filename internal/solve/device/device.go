// Package device is one rank's part of a linear system in the memory of a GPU: it places
// rows and vectors there, has the kernels of package gpusolve make the matrix and solve, and
// checks the solution on the host.
//
// Rows are strips of consecutive numbers, and a vector has its ghosts before and behind them,
// so that a column lies as far from its row in memory as in the whole matrix. Ranks reach
// each other's ghosts through the memory of their group (package dist/cuda), and the kernels
// send what others need themselves: between the start and the end of a solve the host starts
// kernels, some at a time, and looks whether it has ended.
//
// Methods are the kernels' own, and not the stages of package krylov: those hand every
// scalar product to the host before they go on, which is what a GPU has no time for. They are
// held to krylov's iterations and solutions by tests.
package device

import (
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

// RHS is a right-hand side that the device makes itself.
type RHS uint32

// The right-hand sides: ones, or [sparse.Noise].
const (
	Ones  = RHS(gpusolve.Ones)
	Noise = RHS(gpusolve.Noise)
)

// Spec is what is to be solved. Of the embedded one, RHS is what the solution is checked
// against: the same function as Made, for the host.
type Spec struct {
	solve.Spec
	Made  RHS
	Fault uint32 // that is planted, of package gpusolve

	wide bool // starts of 64 bits for however few entries
}

// method is how a method uses memory.
type method struct {
	name                string
	module              string // of its kernels
	vectors             int    // that an iteration moves
	diagonals           int    // how often it reads those of jacobi
	flops, precondFlops int    // of a row, without the matrix
	before              int    // kernels before the first iteration
	steps               []string
	places              []place
}

// place is a vector of a method, and whether it has ghosts.
type place struct {
	vector
	ghosts bool
}

var methods = []method{
	{name: "cg", module: "cg", vectors: 9, diagonals: 2, flops: 10, precondFlops: 4, steps: []string{"direct", "descend"},
		places: []place{{vecX, false}, {vecQ, false}, {vecR, true}, {vecP0, true}, {vecP1, true}}},
	{name: "cg-single", module: "cg", vectors: 10, diagonals: 1, flops: 12, precondFlops: 4, before: 1,
		steps: []string{"single"},
		places: []place{{vecX, false}, {vecQ, false}, {vecR, true}, {vecR1, true}, {vecS0, true}, {vecS1, true},
			{vecW0, true}, {vecW1, true}}},
	{name: "cg-pipelined", module: "pipelined", vectors: 12, diagonals: 1, flops: 18, precondFlops: 3, before: 1,
		steps: []string{"step"},
		places: []place{{vecX, true}, {vecQ, false}, {vecR, true}, {vecP0, true}, {vecS0, true}, {vecW0, true},
			{vecW1, true}}},
}

// Methods lists the methods that there are on a device.
func Methods() []string { return lists.Map(methods, func(m method) string { return m.name }) }

// Preconditioners lists the preconditioners that there are.
func Preconditioners() []string { return []string{precondition.None, "jacobi", multigridName} }

// multigridName is the preconditioner that is a cycle over several levels. It runs with cg alone.
const multigridName = "gmg"

// Pairs reports whether a method runs with a preconditioner.
func Pairs(method, preconditioner string) bool {
	return preconditioner != multigridName || method == "" || method == "cg"
}

// Partitioners lists the partitioners that there are.
func Partitioners() []string { return []string{partition.Default} }

// Refuse says what there is not on a device of a problem, a method, a preconditioner or a
// partition; nil if all of it is there. The problem may be any size.
func Refuse(p sparse.Problem, s solve.Spec) error {
	for _, c := range []struct {
		what, word string
		have       []string
	}{
		{"method", s.Method, Methods()},
		{"preconditioner", s.Preconditioner, Preconditioners()},
		{"partitioner", s.Partitioner, Partitioners()},
		{"weights", string(s.Weights), []string{string(partition.ByRows)}},
	} {
		if c.word != "" && !slices.Contains(c.have, c.word) {
			return fmt.Errorf("%s %s does not run on GPUs, only %s", c.what, c.word, strings.Join(c.have, ", "))
		}
	}
	if !Pairs(s.Method, s.Preconditioner) {
		return fmt.Errorf("preconditioner %s runs on GPUs with method cg alone, not with %s", s.Preconditioner, s.Method)
	}
	if _, ok := rowsOf(p); !ok {
		return errors.New("a GPU makes its rows itself, and has only problems with the same entries in every row of a " +
			"grid, and that of variable coefficients: poisson, anisotropic, variable")
	}
	if t := p.Traits(); !t.Definite {
		return errors.New("the methods on GPUs need a matrix that is symmetric and positive definite")
	}
	return nil
}

// stencils are the numbers of points that there are kernels for.
var stencils = []int{5, 7, 9, 27}

// shape is the matrix of one rank.
type shape struct {
	grid     sparse.Grid
	points   []sparse.StencilPoint
	variable bool // their entries follow from coefficients, which a seed makes
	seed     uint64
	reach    int // the most columns from the diagonal
	plain    bool
	wide     bool // starts of 64 bits
	entries  int  // of this rank
	jacobi   bool
}

// rowsOf is the rows of a problem that a device can make.
func rowsOf(p sparse.Problem) (m shape, ok bool) {
	if m.grid, m.points, ok = sparse.StencilOf(p); ok {
		return m, slices.Contains(stencils, len(m.points))
	}
	var steps [][3]int
	m.grid, steps, m.seed, m.variable = sparse.VariableOf(p)
	m.points = lists.Map(steps, func(step [3]int) sparse.StencilPoint { return sparse.StencilPoint{Step: step} })
	return m, m.variable
}

func shapeOf(s Spec, rows sparse.Range) (shape, error) {
	if err := Refuse(s.Problem, s.Spec); err != nil {
		return shape{}, &solve.Refusal{Reason: err}
	}
	m, _ := rowsOf(s.Problem)
	m.plain, m.jacobi = s.Uncompressed, s.Preconditioner != "" && s.Preconditioner != precondition.None
	for _, q := range m.points {
		m.reach = max(m.reach, abs(m.distance(q.Step)))
	}
	m.entries = m.entriesBefore(rows.Hi) - m.entriesBefore(rows.Lo)
	m.wide = s.wide || m.entries > math.MaxUint32
	if m.plain && rows.Len()+2*m.reach > math.MaxUint32 {
		return m, &solve.Refusal{Reason: fmt.Errorf("%d rows on one GPU: columns of 32 bits number at most %d, --storage "+
			"compressed has none", rows.Len(), math.MaxUint32)}
	}
	return m, nil
}

func abs(i int) int { return max(i, -i) }

// distance is that of the columns of two neighbours.
func (m *shape) distance(step [3]int) int {
	return step[0] + m.grid[0]*(step[1]+m.grid[1]*step[2])
}

// sides are those of the grid at which a row lacks an entry, as the kernels number them.
func sides(step [3]int) (bits uint32) {
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

// entriesBefore is how many entries the rows before one have: the rows that have a point of
// the stencil are those of a box of the grid.
func (m *shape) entriesBefore(row int) int {
	at := m.grid.Point(row)
	if row == m.grid.Size() {
		at = [3]int{0, 0, m.grid[2]}
	}
	n := 0
	for _, q := range m.points {
		before, whole := 0, 1
		for axis, d := range q.Step {
			lo, hi := max(0, -d), m.grid[axis]-max(0, d)
			if at[axis] < lo || at[axis] >= hi {
				before = 0
			}
			before += whole * (min(max(at[axis], lo), max(hi, lo)) - lo)
			whole *= max(0, hi-lo)
		}
		n += before
	}
	return n
}

// diagonal is the entry that every row has on it.
func (m *shape) diagonal() float64 {
	q, _ := lists.First(m.points, func(q sparse.StencilPoint) bool { return q.Step == [3]int{} })
	return q.Coef
}

// bytes is what the matrix of so many rows takes, jacobi's reciprocals included.
func (m *shape) bytes(rows, ghosts int) int {
	if !m.plain {
		return rows + m.coefficientBytes(rows+ghosts) + m.diagonalBytes(rows+ghosts)
	}
	n := 12*m.entries + 4*(rows+1)
	if m.wide {
		n += 4 * (rows + 1)
	}
	return n + m.diagonalBytes(rows+ghosts)
}

// coefficientBytes is what the coefficients of points take that are not stored as entries.
func (m *shape) coefficientBytes(values int) int {
	if m.variable && !m.plain {
		return 8 * values
	}
	return 0
}

func (m *shape) diagonalBytes(values int) int {
	if (m.plain || m.variable) && m.jacobi {
		return 8 * values
	}
	return 0
}

// kernel is the name of a step of a module for this matrix.
func (m *shape) kernel(module, step string) string {
	name := module + "_" + step
	switch {
	case step == "begin", step == "descend":
		return name
	case m.plain && m.wide:
		return name + "_plain64"
	case m.plain:
		return name + "_plain32"
	case step == "make":
		return name + "_stencil"
	case m.variable:
		return fmt.Sprintf("%s_variable%d", name, len(m.points))
	}
	return fmt.Sprintf("%s_stencil%d", name, len(m.points))
}
