package krylov

import "github.com/kernbench/kernbench/internal/solve/sparse"

// Operator is a preconditioner as the engine applies it: a linear operator near the
// inverse of the matrix, the same in every application, on one rank's rows.
type Operator interface {
	// Apply sets dst to the operator times src. Both have room for the ghosts, whose
	// values are nobody's. All ranks call it together, unless it is Local.
	Apply(dst, src []float64) error
	// Local reports whether it needs no other rank.
	Local() bool
	// Bytes is what one application moves through memory beside src, dst and as many
	// factors, which the engine counts.
	Bytes() int
}

// Diagonal is the operator that multiplies each value by a number of its own. The
// engine fuses it into its passes over memory.
type Diagonal []float64

// Apply implements Operator.
func (d Diagonal) Apply(dst, src []float64) error {
	sparse.Times(dst[:len(d)], d, src[:len(d)])
	return nil
}

// Local implements Operator.
func (Diagonal) Local() bool { return true }

// Bytes implements Operator.
func (Diagonal) Bytes() int { return 0 }
