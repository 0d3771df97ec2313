package krylov

import (
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Default is the method if none is named.
const Default = "cg"

// Method is a registered Krylov method with its properties.
type Method struct {
	Name, Help string
	Needs      Requirement
	Reductions int  // all-reduces per iteration
	Restarts   bool // uses Config.Restart
	Flexible   bool // supports Config.Flexible
	// Trial is the place of the method among those that a choice by trial begins with, or 0. A choice by trial ends with
	// the methods that improve on the best: with fewer reductions, they take the same steps as the method Improves.
	Trial    int
	Improves string
	// Start prepares a solve and returns its loop, which ends when the solve is done. Start sets c.Vectors, and c.Dots if
	// a stage has more than 4 scalar products. The loop carries out stages with c.Do.
	Start func(c *Core) (iterate func())
}

// Methods is the registry of methods.
var Methods = registry.New("method", func(m Method) registry.Entry {
	return registry.Entry{Name: m.Name, Help: m.Help}
})

// Requirement is the kind of matrix that a method requires.
type Requirement uint8

// The requirements.
const (
	Any Requirement = iota
	Symmetric
	SymmetricDefinite
)

// String returns the requirement in words.
func (m Requirement) String() string {
	return [...]string{"any matrix", "a symmetric matrix", "a symmetric positive definite matrix"}[m]
}

// Check returns an error if the method cannot work on a matrix. Whether a symmetric matrix is definite is often not
// known. In that case a method that needs it may try.
func (m Method) Check(t sparse.Traits) error {
	switch {
	case m.Needs == SymmetricDefinite && t.Indefinite:
		able := Methods.NamesWhere(func(m Method) bool { return m.Needs == Symmetric })
		return fmt.Errorf("method %s needs %v, but this matrix is indefinite: use %s", m.Name, m.Needs,
			strings.Join(able, " or "))
	case m.Needs == Any || t.Symmetric:
		return nil
	}
	general := Methods.NamesWhere(func(m Method) bool { return m.Needs == Any })
	return fmt.Errorf("method %s needs %v, but this matrix is not symmetric: use %s", m.Name, m.Needs,
		strings.Join(general, " or "))
}

// Core is the state of a running solve that its method works with.
type Core struct {
	Config  Config
	Vectors int     // number of vectors of the solve, including X and B
	Dots    int     // largest number of scalar products of a stage, if more than 4
	Norm    float64 // of the right-hand side
	Result  Result

	stage Stage
	do    func(*Stage) ([]float64, error)
}

// end is the panic value that ends the loop of a method. Core.Run recovers it.
type end struct{ err error }

// Run calls the loop of a method and returns its result. Loops end by returning, by Breakdown, or in Accept.
func (c *Core) Run(loop func()) (r Result, err error) {
	defer func() {
		switch over := recover().(type) {
		case nil:
		case end:
			err = over.err
		default:
			panic(over)
		}
		r = c.Result
	}()
	loop()
	return c.Result, nil
}

// Do carries out a stage on all ranks and returns the sums of its scalar products over the ranks, which are valid until
// the next call. It does not return if the stage fails or a sum is not finite: the solve is then over.
func (c *Core) Do(s *Stage) []float64 {
	if len(s.dots) > 0 {
		c.Result.Reductions++
	}
	if s.multiply != nil {
		c.Result.Products++
	}
	return c.Accept(c.do(s))
}

// Accept returns the sums if the error is nil and they are finite. Otherwise it does not return: the solve is over.
func (c *Core) Accept(sums []float64, err error) []float64 {
	if err != nil {
		panic(end{err})
	}
	for _, v := range sums {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			c.Breakdown("a scalar product is not finite")
		}
	}
	return sums
}

// Stage returns an empty stage. It reuses the memory of the previous stage.
func (c *Core) Stage() *Stage { return c.stage.reset(c.Config.Stored) }

// Begin returns the first stage of most methods: x = 0, r = b, and the squared norm of b, which is also the squared
// norm of r.
func (c *Core) Begin(r Vec) *Stage {
	return c.Stage().Set(X).Set(r, Term{1, B}).Dot(B, B)
}

// Began records the squared norm of the right-hand side. It returns true if the solve is done because x = 0 is the
// solution.
func (c *Core) Began(squared float64) (done bool) {
	c.Norm = math.Sqrt(squared)
	return c.Check(c.Norm)
}

// Check records the norm of the residual after an iteration, or at the start. It returns true if the solve is done.
func (c *Core) Check(residual float64) (done bool) {
	relative := 0.0
	if c.Norm > 0 {
		relative = residual / c.Norm
	}
	c.Result.Residual = relative
	c.Result.History = append(c.Result.History, relative)
	switch {
	case residual <= max(c.Config.ATol, c.Config.RTol*c.Norm):
		c.Result.Status = Converged
	case relative > c.divergence():
		c.Result.Status = Breakdown
		c.Result.Reason = fmt.Sprintf("diverged: the residual has grown to %.3g times the right-hand side, and rounding "+
			"errors of that size can no longer be removed", relative)
	case c.Result.Iterations >= c.Config.MaxIter:
		c.Result.Status = TooManyIterations
	}
	return c.Result.Status != Running
}

// divergence returns the relative residual above which a solve is hopeless. Rounding leaves 2^-52 of
// the largest residual in x, which must stay below the 10 RTol that a solution may miss. The least
// value spares methods whose residual rises by some orders of magnitude before it falls.
func (c *Core) divergence() float64 { return max(1e6, 10*c.Config.RTol*(1<<52)) }

// Iterated counts an iteration and records the norm of its residual. It returns true if the solve is done.
func (c *Core) Iterated(residual float64) (done bool) {
	c.Result.Iterations++
	return c.Check(residual)
}

// Corrected replaces the last recorded residual by the true one. It returns true if the solve is done.
func (c *Core) Corrected(residual float64) (done bool) {
	c.Result.Status, c.Result.Reason = Running, ""
	c.Result.History = c.Result.History[:len(c.Result.History)-1]
	return c.Check(residual)
}

// Breakdown ends the solve without a solution. It does not return.
func (c *Core) Breakdown(reason string) {
	c.Result.Status, c.Result.Reason = Breakdown, reason
	panic(end{})
}

// Preconditioned returns the vector for the preconditioned r: the next free vector n, or r itself if there is no
// preconditioner.
func (c *Core) Preconditioned(r Vec, n *Vec) Vec {
	if !c.Config.Precondition {
		return r
	}
	*n++
	return *n - 1
}
