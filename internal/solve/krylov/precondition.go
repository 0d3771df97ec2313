package krylov

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// NoPreconditioner is the name of solving without one, and the default.
const NoPreconditioner = "none"

// Preconditioner is a registered preconditioner: a diagonal matrix, which the
// engine fuses into its passes over memory. It costs 8 bytes per unknown.
type Preconditioner struct {
	Name, Help string
	// Factor is the element of the diagonal that belongs to a row of the matrix,
	// given by its number and entries; nil is no preconditioner at all.
	Factor func(i int, r *sparse.Row) (float64, error)
}

var preconditioners = registry.New("preconditioner", func(p Preconditioner) string { return p.Name })

// RegisterPreconditioner adds a preconditioner.
func RegisterPreconditioner(p Preconditioner) { preconditioners.Register(p) }

// Preconditioners lists the preconditioners by name.
func Preconditioners() []Preconditioner { return preconditioners.All() }

// LookupPreconditioner finds a preconditioner by name; "" is none.
func LookupPreconditioner(name string) (Preconditioner, error) {
	if name == "" {
		name = NoPreconditioner
	}
	return preconditioners.Lookup(name)
}

func init() {
	RegisterPreconditioner(Preconditioner{Name: NoPreconditioner, Help: "solve without one"})
	RegisterPreconditioner(Preconditioner{Name: "jacobi", Help: "the inverse of the diagonal", Factor: jacobi})
}

func jacobi(i int, r *sparse.Row) (float64, error) {
	diagonal := 0.0
	for k, c := range r.Cols {
		if c == i {
			diagonal += r.Vals[k]
		}
	}
	if diagonal == 0 {
		return 0, fmt.Errorf("row %d has a zero on the diagonal: it has no inverse", i)
	}
	return 1 / diagonal, nil
}
