// Package precondition holds the preconditioners: operators near the inverse of a matrix that is
// spread over ranks. Each is one file and one registration, which says what it needs of the
// matrix and how a rank sets it up together with the others, through a Team. The package
// starts no rank and reads no clock. Multigrid has a package of its own.
package precondition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// None is the name of solving without one, and the default.
const None = "none"

// Preconditioner is a registered preconditioner.
type Preconditioner struct {
	Name, Help string
	Needs      krylov.Matrix // of the matrix
	Grid       bool          // needs a problem whose rows are the points of a grid
	// Suits says why it cannot work on a problem, beside what Needs and Grid say. Nil: on any.
	Suits func(p sparse.Problem) error
	// New sets it up for the rows of one rank. All ranks call it together. Nil is no
	// preconditioner at all.
	New func(l *Local) (krylov.Operator, error)
}

// Local is one rank's part of the matrix.
type Local struct {
	Problem sparse.Problem // gives the rank's own rows, by their numbers in the whole matrix
	Plan    *sparse.Plan   // who owns what, as far as this rank must know
	Matrix  *sparse.Matrix // the rank's rows as they are multiplied
	Halo    krylov.Halo    // brings the ghosts of a vector up to date
	Traits  sparse.Traits
	Team    Team
}

// Team is the ranks that set a preconditioner up together. All of them make the same calls.
type Team interface {
	Rank() int
	Size() int
	// Sum adds up over the ranks, to the same bits on each.
	Sum(values []float64) ([]float64, error)
	// Exchange sends to[r] to rank r, and gives what each rank sent here.
	Exchange(to [][]float64) ([][]float64, error)
	// Connect tells the other ranks of a plan what this one needs, and gives the exchange.
	Connect(plan *sparse.Plan) (krylov.Halo, error)
}

// Preconditioners is the registry of preconditioners.
var Preconditioners = registry.New("preconditioner", func(p Preconditioner) registry.Entry {
	return registry.Entry{Name: p.Name, Help: p.Help}
})

func init() { Preconditioners.Register(Preconditioner{Name: None, Help: "solve without one"}) }

// Check says why it cannot work on a problem, nil if it can. Whether a symmetric matrix is
// definite is often not known: it is allowed to try.
func (p Preconditioner) Check(problem sparse.Problem, t sparse.Traits) error {
	if _, gridded := problem.(sparse.Gridded); p.Grid && !gridded {
		return fmt.Errorf("preconditioner %s needs the points of a grid, which this problem has not", p.Name)
	}
	if p.Needs == krylov.SymmetricDefinite && t.Indefinite {
		return fmt.Errorf("preconditioner %s needs %v, and this one is indefinite", p.Name, p.Needs)
	}
	if p.Needs != krylov.Any && !t.Symmetric {
		return fmt.Errorf("preconditioner %s needs %v, which this is not", p.Name, p.Needs)
	}
	if p.Suits != nil {
		return p.Suits(problem)
	}
	return nil
}

// EachRow calls fn for the rank's rows, in their order.
func (l *Local) EachRow(fn func(local, global int, r *sparse.Row) error) error {
	var row sparse.Row
	for i := range l.Plan.Owned {
		g := l.Plan.Global(i)
		l.Problem.Row(g, &row)
		if err := fn(i, g, &row); err != nil {
			return err
		}
	}
	return nil
}

// DiagonalOf is the operator whose number for each row follows from that row.
func DiagonalOf(l *Local, factor func(i int, r *sparse.Row) (float64, error)) (krylov.Operator, error) {
	d := make(krylov.Diagonal, l.Plan.Owned)
	err := l.EachRow(func(local, global int, r *sparse.Row) (err error) {
		d[local], err = factor(global, r)
		return err
	})
	return d, l.Agree(err)
}

// Agree gives every rank an error where one has one, with the same reason: those that have
// none would wait for it.
func (l *Local) Agree(err error) error {
	to := make([][]float64, l.Team.Size())
	if err != nil {
		reason := lists.Map([]byte(err.Error()), func(c byte) float64 { return float64(c) })
		to = slices.Repeat([][]float64{reason}, len(to))
	}
	from, failed := l.Team.Exchange(to)
	if err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	for r, list := range from {
		if len(list) > 0 {
			return fmt.Errorf("rank %d: %s", r, lists.Map(list, func(c float64) byte { return byte(c) }))
		}
	}
	return nil
}
