package device

import (
	"errors"
	"fmt"

	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// Given is a matrix in GPU memory, in compressed sparse rows, and a right-hand side. It replaces Spec.Problem and
// Spec.RHS, on one rank. The caller checks the arrays: the kernels read where the columns point. It also checks the
// solution, because Check generates the rows of a problem.
type Given struct {
	Rows, Entries int
	// TileEntries is the largest number of entries in gpusolve.Rows consecutive rows, counted from row 0. The kernels
	// keep their products in shared memory.
	TileEntries           int
	Starts, Columns       cuda.Pointer // unsigned, 32 bits
	Values, RHS           cuda.Pointer // doubles
	ReciprocalsOfDiagonal cuda.Pointer // for jacobi
}

// Size implements sparse.Problem.
func (g *Given) Size() int { return g.Rows }

// Traits implements sparse.Problem.
func (g *Given) Traits() sparse.Traits { return sparse.Traits{Symmetric: true, Definite: true} }

// Row implements sparse.Problem. The host never reads the rows.
func (g *Given) Row(int, *sparse.Row) { panic("device: the rows of a given matrix are in GPU memory") }

// newGiven describes a matrix that is already in memory.
func newGiven(s Spec, rows sparse.Range) (matrix, error) {
	m := matrix{plain: true, given: s.Given, entries: s.Given.Entries, jacobi: s.Preconditioner == "jacobi"}
	switch {
	case rows.Len() != s.Given.Rows:
		return m, &solve.Refusal{Reason: errors.New("a matrix in GPU memory is solved by one rank")}
	case s.Preconditioner == multigridName:
		return m, &solve.Refusal{Reason: fmt.Errorf("preconditioner %s needs the grid of a generated problem: use none "+
			"or jacobi", multigridName)}
	}
	if err := checkSolver(s.Spec); err != nil {
		return m, &solve.Refusal{Reason: err}
	}
	return m, nil
}

// place sets the addresses of the matrix and the right-hand side.
func (g *Given) place(p *gpusolve.Params, jacobi bool) {
	p.Starts, p.Cols, p.Vals = uint64(g.Starts), uint64(g.Columns), uint64(g.Values)
	p.RHS, p.Given = gpusolve.Given, uint64(g.RHS)
	p.Points, p.Reach[0] = 1, 0 // there are no ghosts, so every tile can be multiplied without them
	if jacobi {
		p.Diagonal = uint64(g.ReciprocalsOfDiagonal)
	}
}

// SolveGiven solves for another right-hand side in GPU memory, and copies the solution to x.
func (s *System) SolveGiven(rhs, x cuda.Pointer) (solve.Outcome, error) {
	s.params.Given = uint64(rhs)
	out, err := s.Solve(0)
	if err != nil {
		return out, err
	}
	err = s.context.Do(func() error {
		from := cuda.Pointer(s.layout.rowAddress(s.memory[0], vecX))
		if err := s.stream.Copy(x, from, 8*s.Part.Rows); err != nil {
			return err
		}
		return s.stream.Synchronize()
	})
	return out, err
}
