package krylov

import "github.com/kernbench/kernbench/internal/solve/sparse"

// Operator is a preconditioner as the engine applies it: a linear operator that approximates the inverse of the matrix,
// on the rows of one rank. It must not change between applications.
type Operator interface {
	// Apply sets dst to the operator times src. Both have room for ghosts, whose values are undefined. All ranks call it
	// together, unless it is Local.
	Apply(dst, src []float64) error
	// Local reports whether Apply needs no other rank.
	Local() bool
	// Bytes returns the memory traffic of one application, except for src, dst and one vector of factors, which the engine
	// counts.
	Bytes() int
}

// Diagonal is the operator that multiplies each value by its own factor. The engine fuses it into its passes over
// memory.
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
