package krylov

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Config is what a solve is asked for. It stops when the norm of the residual
// is at most RTol times that of the right-hand side, or ATol.
type Config struct {
	RTol, ATol   float64
	MaxIter      int
	Restart      int  // gmres: steps between restarts; 0 is 30
	Precondition bool // stages may ask for the preconditioner
}

// Info describes a method to a person choosing one.
type Info struct {
	Name, Help string
	Needs      string // what it demands of the matrix; "" is nothing
	Reductions string // per iteration
}

// method is an entry of the registry.
type method struct {
	Info
	needs func(sparse.Traits) bool // nil: anything
	start func(*core)              // sets next, and the number of vectors
}

func symmetric(t sparse.Traits) bool { return t.Symmetric }

// methods is every method there is: a new one is a file of its own and a line
// here.
var methods = []method{
	{Info{"cg", "conjugate gradients", "a symmetric positive definite matrix", "2"}, symmetric, startCG},
	{Info{"cg-single", "conjugate gradients after Chronopoulos and Gear", "a symmetric positive definite matrix", "1"}, symmetric, startSingle},
	{Info{"bicgstab", "stabilised bi-conjugate gradients", "", "2"}, nil, startBiCGStab},
	{Info{"gmres", "generalised minimal residuals, restarted, orthogonalised twice", "", "2"}, nil, startGMRES},
	{Info{"minres", "minimal residuals", "a symmetric matrix", "2"}, symmetric, startMINRES},
}

// Methods lists the methods.
func Methods() []Info {
	out := make([]Info, len(methods))
	for i, m := range methods {
		out[i] = m.Info
	}
	return out
}

// Status says how a solve ended.
type Status uint8

// The ways to end.
const (
	Running Status = iota
	Converged
	TooManyIterations
	Breakdown
)

// String is the status in words.
func (s Status) String() string {
	return [...]string{"running", "converged", "too many iterations", "breakdown"}[s]
}

// Result is how far a solve is.
type Result struct {
	Status     Status
	Iterations int
	Reductions int       // stages whose sums had to be added up over the ranks
	Products   int       // with the matrix
	Residual   float64   // as the method knows it, relative to the right-hand side
	History    []float64 // the same after every iteration, the start included
	Reason     string    // of a breakdown
}

// Solver is one solve under way.
type Solver struct{ core core }

// core is what the methods share: the state between stages.
type core struct {
	cfg     Config
	vectors int
	dots    int // the most of a stage, where that is more than 4
	next    step
	stage   Stage
	norm    float64 // of the right-hand side
	result  Result
}

// step goes on with the sums of the last stage. Methods keep those of their loop,
// because taking a method's value makes garbage.
type step func(sums []float64) *Stage

// New starts a solve. A method that cannot work on such a matrix is refused
// with the reason.
func New(name string, traits sparse.Traits, cfg Config) (*Solver, error) {
	at := slices.IndexFunc(methods, func(m method) bool { return m.Name == name })
	if at < 0 {
		var names []string
		for _, m := range methods {
			names = append(names, m.Name)
		}
		return nil, fmt.Errorf("method %q is unknown: there are %s", name, strings.Join(names, ", "))
	}
	m := methods[at]
	if m.needs != nil && !m.needs(traits) {
		return nil, fmt.Errorf("method %s needs %s, which this is not: gmres and bicgstab take any", name, m.Needs)
	}
	if cfg.Restart == 0 {
		cfg.Restart = 30
	}
	switch {
	case !(cfg.RTol >= 0) || !(cfg.ATol >= 0) || cfg.RTol == 0 && cfg.ATol == 0:
		return nil, fmt.Errorf("tolerances %g (relative) and %g (absolute): one must be positive and none negative", cfg.RTol, cfg.ATol)
	case cfg.MaxIter < 1:
		return nil, fmt.Errorf("%d iterations at most: at least 1", cfg.MaxIter)
	case cfg.Restart < 1:
		return nil, errors.New("gmres restarts after at least 1 step")
	}
	s := &Solver{core{cfg: cfg}}
	m.start(&s.core)
	return s, nil
}

// Vectors is how many vectors the solve uses, X and B included.
func (s *Solver) Vectors() int { return s.core.vectors }

// MaxDots is the most scalar products of one stage.
func (s *Solver) MaxDots() int { return max(4, s.core.dots) }

// Next takes the sums of the last stage, over all ranks, and gives the next one;
// nil when the solve has ended. The stage is valid until the next call.
func (s *Solver) Next(sums []float64) *Stage {
	c := &s.core
	if c.result.Status != Running && c.next == nil {
		return nil
	}
	for _, v := range sums {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return c.breakdown("a scalar product is not finite")
		}
	}
	stage := c.next(sums)
	if stage == nil {
		c.next = nil
		return nil
	}
	if len(stage.Dots) > 0 {
		c.result.Reductions++
	}
	if stage.Multiply != nil {
		c.result.Products++
	}
	return stage
}

// Result is how far the solve is. History is shared with the solver.
func (s *Solver) Result() Result { return s.core.result }

// begin is the first stage of most methods: x = 0, r = b, and the norm of b,
// which is the residual's too.
func (c *core) begin(r Vec) *Stage {
	return c.stage.reset().set(X).set(r, Term{1, B}).dot(B, B)
}

// began notes the norm. It reports whether the solve is over: x = 0 was right.
func (c *core) began(squared float64) bool {
	c.norm = math.Sqrt(squared)
	return c.check(c.norm)
}

// check notes a residual after an iteration (or the start) and reports whether
// the solve is over.
func (c *core) check(residual float64) bool {
	relative := 0.0
	if c.norm > 0 {
		relative = residual / c.norm
	}
	c.result.Residual = relative
	c.result.History = append(c.result.History, relative)
	switch {
	case residual <= max(c.cfg.ATol, c.cfg.RTol*c.norm):
		c.result.Status = Converged
	case c.result.Iterations >= c.cfg.MaxIter:
		c.result.Status = TooManyIterations
	}
	return c.result.Status != Running
}

// iterated counts an iteration and checks its residual.
func (c *core) iterated(residual float64) bool {
	c.result.Iterations++
	return c.check(residual)
}

func (c *core) breakdown(reason string) *Stage {
	c.result.Status, c.result.Reason, c.next = Breakdown, reason, nil
	return nil
}

// preconditioned gives the number of the preconditioned r: n, the next free one,
// or r itself where there is no preconditioner.
func (c *core) preconditioned(r Vec, n *Vec) Vec {
	if !c.cfg.Precondition {
		return r
	}
	*n++
	return *n - 1
}

// ended is the next step after a closing stage.
func ended([]float64) *Stage { return nil }
