package krylov

import (
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Default is the method where none is named.
const Default = "cg"

// Method is a registered Krylov method and its properties.
type Method struct {
	Name, Help string
	Needs      Matrix
	Reductions int  // all-reduces per iteration
	Restarts   bool // takes Config.Restart
	// Start prepares a solve: it sets c.Next, c.Vectors, and c.Dots where a stage
	// has more than 4 scalar products.
	Start func(c *Core)
}

// Methods is the registry of methods.
var Methods = registry.New("method", func(m Method) registry.Entry {
	return registry.Entry{Name: m.Name, Help: m.Help}
})

// Matrix is what a method demands of the matrix.
type Matrix uint8

// The demands.
const (
	Any Matrix = iota
	Symmetric
	SymmetricDefinite
)

// String is the demand in words.
func (m Matrix) String() string {
	return [...]string{"any matrix", "a symmetric matrix", "a symmetric positive definite matrix"}[m]
}

// Check says why a method cannot work on a matrix, nil if it can. Whether a
// symmetric matrix is definite is often not known: a method that needs it is
// allowed to try.
func (m Method) Check(t sparse.Traits) error {
	switch {
	case m.Needs == SymmetricDefinite && t.Indefinite:
		able := Methods.NamesWhere(func(m Method) bool { return m.Needs == Symmetric })
		return fmt.Errorf("method %s needs %v, and this one is indefinite: use %s", m.Name, m.Needs,
			strings.Join(able, " or "))
	case m.Needs == Any || t.Symmetric:
		return nil
	}
	general := Methods.NamesWhere(func(m Method) bool { return m.Needs == Any })
	return fmt.Errorf("method %s needs %v, which this is not: %s take any", m.Name, m.Needs,
		strings.Join(general, " and "))
}

// Step continues a method with the sums of the last stage, over all ranks. It
// returns the next stage, or nil when the solve has ended.
type Step func(sums []float64) *Stage

// Core is a solve under way, as its method sees it. A method sets Next to the step
// that follows each stage. Inside the loop it should keep those in variables:
// taking a method value allocates.
type Core struct {
	Config  Config
	Vectors int // that the solve uses, X and B included
	Dots    int // the most scalar products of a stage, where more than 4
	Next    Step
	Norm    float64 // of the right-hand side
	Result  Result

	stage Stage
}

// Stage is an empty stage. Its memory is that of the stage before.
func (c *Core) Stage() *Stage { return c.stage.reset(c.Config.Stored) }

// Begin is the first stage of most methods: x = 0, r = b, and the squared norm of
// b, which is the residual's too.
func (c *Core) Begin(r Vec) *Stage {
	return c.Stage().Set(X).Set(r, Term{1, B}).Dot(B, B)
}

// Began notes the squared norm. It reports whether the solve is over: x = 0 is the
// solution.
func (c *Core) Began(squared float64) bool {
	c.Norm = math.Sqrt(squared)
	return c.Check(c.Norm)
}

// Check notes the norm of a residual after an iteration (or the start) and reports
// whether the solve is over.
func (c *Core) Check(residual float64) bool {
	relative := 0.0
	if c.Norm > 0 {
		relative = residual / c.Norm
	}
	c.Result.Residual = relative
	c.Result.History = append(c.Result.History, relative)
	switch {
	case residual <= max(c.Config.ATol, c.Config.RTol*c.Norm):
		c.Result.Status = Converged
	case c.Result.Iterations >= c.Config.MaxIter:
		c.Result.Status = TooManyIterations
	}
	return c.Result.Status != Running
}

// Iterated counts an iteration and checks its residual.
func (c *Core) Iterated(residual float64) bool {
	c.Result.Iterations++
	return c.Check(residual)
}

// Corrected replaces the residual that was noted last by the true one, and reports whether the solve is over.
func (c *Core) Corrected(residual float64) bool {
	c.Result.Status, c.Result.History = Running, c.Result.History[:len(c.Result.History)-1]
	return c.Check(residual)
}

// Breakdown ends the solve without a solution.
func (c *Core) Breakdown(reason string) *Stage {
	c.Result.Status, c.Result.Reason, c.Next = Breakdown, reason, nil
	return nil
}

// Preconditioned is the vector for the preconditioned r: n, the next free one, or r
// itself where there is no preconditioner.
func (c *Core) Preconditioned(r Vec, n *Vec) Vec {
	if !c.Config.Precondition {
		return r
	}
	*n++
	return *n - 1
}

// End is the step after a closing stage.
func End([]float64) *Stage { return nil }
