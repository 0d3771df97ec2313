// Package precondition holds the preconditioners: operators that approximate the inverse of a distributed matrix. Each
// is one file with a registration, which states its requirements and how the ranks set it up together, through a Team.
// The package starts no ranks and reads no clock. Package multigrid registers further preconditioners.
package precondition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// None is the name of the default: no preconditioner.
const None = "none"

// Preconditioner is a registered preconditioner with its properties.
type Preconditioner struct {
	Name, Help string
	Needs      krylov.Requirement // required kind of matrix
	Grid       bool               // needs a problem whose rows are the points of a grid
	Levels     Levels             // its hierarchy, if Local.Multigrid tunes one
	// Trial is the place of the preconditioner among those that a choice by trial begins with, or 0. A choice by trial
	// ends with the preconditioners that improve on the best: they do the same as Improves, with fewer bytes.
	Trial    int
	Improves string
	// Suits returns an error if the preconditioner cannot work on a problem for other reasons than Needs and Grid. It may
	// be nil.
	Suits func(p sparse.Problem) error
	// New sets up the preconditioner for the rows of one rank. All ranks call it together. It is nil for None.
	New func(l *Local) (krylov.Operator, error)
}

// Local is one rank's part of the matrix, from which a preconditioner is set up.
type Local struct {
	Problem sparse.Problem // returns the rows of this rank by their global numbers
	Plan    *sparse.Plan   // ownership and halo, as far as this rank needs them
	Matrix  *sparse.Matrix // the rows of this rank, stored for products
	Halo    krylov.Halo    // updates the ghosts of a vector
	Traits  sparse.Traits
	Team    Team

	Multigrid Multigrid // settings of a multigrid preconditioner
}

// Team is the group of ranks that set up a preconditioner. All of them make the same calls.
type Team interface {
	Rank() int
	Size() int
	// Sum adds up over the ranks, with the same bits on each.
	Sum(values []float64) ([]float64, error)
	// Exchange sends to[r] to rank r, and returns what the ranks sent here. See the function Exchange.
	Exchange(to [][]byte) ([][]byte, error)
	// Connect tells the other ranks of a plan what this rank needs, and returns the halo exchange.
	Connect(plan *sparse.Plan) (krylov.Halo, error)
}

// Preconditioners is the registry of preconditioners.
var Preconditioners = registry.New("preconditioner", func(p Preconditioner) registry.Entry {
	return registry.Entry{Name: p.Name, Help: p.Help}
})

func init() {
	Preconditioners.Register(Preconditioner{Name: None, Help: "solve without one", Trial: 5})
}

// Check returns an error if the preconditioner cannot work on a problem. If it is not known whether a symmetric matrix
// is definite, the preconditioner may try.
func (p Preconditioner) Check(problem sparse.Problem, t sparse.Traits) error {
	if _, gridded := problem.(sparse.Gridded); p.Grid && !gridded {
		return fmt.Errorf("preconditioner %s needs a problem on a grid, which this one is not", p.Name)
	}
	if p.Needs == krylov.SymmetricDefinite && t.Indefinite {
		return fmt.Errorf("preconditioner %s needs %v, but this matrix is indefinite", p.Name, p.Needs)
	}
	if p.Needs != krylov.Any && !t.Symmetric {
		return fmt.Errorf("preconditioner %s needs %v, but this matrix is not symmetric", p.Name, p.Needs)
	}
	if p.Suits != nil {
		return p.Suits(problem)
	}
	return nil
}

// EachRow calls fn for the rows of this rank, in their order.
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

// DiagonalOf returns the operator that multiplies the value of each row by factor(i, row i).
func DiagonalOf(l *Local, factor func(i int, r *sparse.Row) (float64, error)) (krylov.Operator, error) {
	d := make(krylov.Diagonal, l.Plan.Owned)
	err := l.EachRow(func(local, global int, r *sparse.Row) (err error) {
		d[local], err = factor(global, r)
		return err
	})
	return d, l.Agree(err)
}

// Agree returns an error on every rank if any rank passes one, with its reason. Otherwise ranks without an error would
// wait for the failed rank.
func (l *Local) Agree(err error) error { return Agree(l.Team, err) }

// Agree does what Local.Agree does, for ranks that have no matrix yet.
func Agree(t Team, err error) error {
	to := make([][]byte, t.Size())
	if err != nil {
		to = slices.Repeat([][]byte{[]byte(err.Error())}, len(to))
	}
	from, failed := t.Exchange(to)
	if err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	for r, text := range from {
		if len(text) > 0 {
			return fmt.Errorf("rank %d: %s", r, text)
		}
	}
	return nil
}

// Exchange sends to[r] to rank r, and returns the lists that the ranks sent here. An element has no pointers.
func Exchange[E any](t Team, to [][]E) ([][]E, error) {
	from, err := t.Exchange(lists.Map(to, dtype.Bytes[E]))
	return lists.Map(from, dtype.View[E]), err
}
