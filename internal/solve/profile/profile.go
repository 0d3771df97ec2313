// Package profile measures where a distributed solve spends its time. It also gives the benches of
// this module access to parts of a solve.System that the public package does not export.
package profile

import (
	"slices"
	"syscall"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Profile is the time of some iterations on this rank, by phase.
type Profile struct {
	Iterations int
	Seconds    [krylov.NumPhases]float64 // NaN for a phase that cannot be timed separately
	Bytes      float64                   // memory traffic of the iterations, by the model
	// Flops is the number of operations of the iterations, by the model. It is 0 when the operations of the
	// preconditioner are not known.
	Flops float64
	// Blocking is the time of AllReduce when a method that hides its reductions waits for each at once instead. The
	// difference from Seconds[AllReduce] was hidden. It is the least disturbed of a few rounds, and 0 for other methods.
	Blocking float64
	// Work is the work of the iterations by phase, by the model. It is zero on GPUs.
	Work [krylov.NumPhases]krylov.Work
	// Levels is the time of each level of a multigrid preconditioner. The levels add up to Seconds[Precond].
	Levels []float64
	// Finest is the time of each kernel of a multigrid cycle on the finest level, in order. It is empty on CPUs.
	Finest []Step
}

// Step is a named part of an iteration and its time.
type Step struct {
	Name    string
	Seconds float64
}

// Leveled is implemented by hierarchies that know the work of an application on each level of this rank.
type Leveled interface {
	Work(level int) (bytes, flops float64)
}

// Timed is the time in seconds of a whole solve on this rank, as the solve itself counted it. The
// parts add up to Total.
type Timed struct {
	Total   float64
	Work    float64 // arithmetic, except for a preconditioner that is not a diagonal
	Precond float64 // such a preconditioner, without its communication
	Pack    float64 // starting to send ghosts
	Wait    float64 // waiting for ghosts
	Reduce  float64 // all-reduces
}

// Own returns the time that this rank worked: neither waiting nor communicating.
func (t Timed) Own() float64 { return t.Work + t.Precond }

// Hierarchy is implemented by preconditioners with several levels. Level 0 is the finest.
type Hierarchy interface {
	Levels() int
	Size(level int) (rows, entries float64) // over all ranks
	Complexities() (operator, grid float64)
	// Trace makes fn the function that is called when work on a level begins; nil removes it.
	Trace(fn func(level int))
}

// SetupTimes is the time in seconds that this rank spent before the first solve.
type SetupTimes struct {
	Partition    float64 // deciding which rank owns which rows; 0 where another rank decides
	Generation   float64 // making the rows
	Precondition float64 // setting up the preconditioner
	Total        float64 // everything

	PreconditionCPU float64 // CPU time of the process while it set up the preconditioner
}

// CanSolve reports whether a backend has the operations that a solve on CPUs needs: sums of f64, and point-to-point
// messages for the halo and for lists of rows. Backends with device memory are excluded, because their rows would
// measure the CPUs under another name.
func CanSolve(d dist.Description) bool {
	can := d.Capabilities
	return !d.Has(dist.OnDevice) && can.Can(dist.AllReduce) && can.Can(dist.Send) && can.Can(dist.Recv) &&
		slices.Contains(can.DTypes, dist.F64) && slices.Contains(can.DTypes, dist.I64) &&
		slices.Contains(can.Reductions, dist.Sum)
}

// CPUTime returns the CPU seconds of this process, over all of its threads. Other programs disturb it less than the
// wall clock. Ranks that wait by spinning use CPU time too.
func CPUTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// Reducer adds up numbers over all ranks.
type Reducer interface {
	// Begin starts a sum without waiting. The next call of Sum finishes it.
	Begin(local []float64) error
	// Wait waits for the sum that Begin started.
	Wait() error
	// Sum returns the sums over the ranks. The slice is valid until the next call.
	Sum(local []float64) ([]float64, error)
}

// Internals are the parts of a solve.System on one rank. All ranks call its methods together, except Alone.
type Internals struct {
	Plan     *sparse.Plan
	Matrix   *sparse.Matrix
	Traits   sparse.Traits
	Operator krylov.Operator // the preconditioner, nil for none
	Times    SetupTimes
	Timed    Timed // the last solve
	Messages int   // messages that this rank sends for one product

	// RemovedRHS is the norm of the constant part of the right-hand side, relative to the norm of the whole. If
	// Traits.Singular, that part is projected out of the right-hand side, the residuals and the solution.
	RemovedRHS float64
	// NullPieces is the number of uncoupled pieces of the matrix that are singular, and NullRows is the number of their
	// rows.
	NullPieces, NullRows int
	// Asymmetry is the largest relative difference between an entry of the matrix file and its mirror image, if the
	// solve replaced both by their mean. 0 means that it replaced none.
	Asymmetry float64
	// Unprojected reports that the rows add up to zero, but nothing is projected out because the matrix is not symmetric.
	Unprojected bool

	Clock   dist.Clock
	Engine  *krylov.Engine
	Halo    krylov.Halo
	Sums    Reducer
	Applied krylov.Operator // the preconditioner with the projection around it, as the engine applies it
	// NewSolver starts a solve of at most limit iterations. A limit of 0 stands for the limit of the spec.
	NewSolver func(limit int) (*krylov.Solver, error)
	Columns   Columns
}

// Columns are the parts of a solve.System that solves with several right-hand sides need. All ranks call the functions
// together.
type Columns struct {
	// Config returns the parameters of a solve of at most limit iterations. A limit of 0 stands for the limit of the spec.
	Config func(limit int) krylov.Config
	// StopAfter is the number of iterations after which a solve may end without having converged, or 0.
	StopAfter int
	// Connect prepares the exchange of the ghosts of block vectors of at most width columns. It also returns the number
	// of messages that this rank sends for an exchange of that many columns.
	Connect func(width int) (halo krylov.BlockHalo, messages int, err error)
	// NewSums returns a reducer of at most limit numbers.
	NewSums func(limit int) Reducer
	// Count starts to time the parts of a solve. The function that it returns stops and returns the times.
	Count func() (end func() Timed)
	// Project projects the null space out of a solution, and ProjectRHS out of a right-hand side. Both are nil unless
	// the matrix is singular.
	Project, ProjectRHS func(v []float64) error
	// Check computes the residual of each column from the problem. The solutions are x, row by row.
	Check func(columns int, x []float64, rhs func(row, column int) float64) ([]krylov.Residual, error)
}

// Trace solves for at most limit iterations and times every phase. Reading the clock this often makes the iterations a
// few per cent slower, and more where a rank has few rows, so use the shares of the phases and not their sum. If the
// method hides reductions, Trace then solves again without hiding them.
func (n *Internals) Trace(limit int) (Profile, error) {
	p, overlaps, err := n.trace(limit, n.Sums.Begin)
	if err != nil || !overlaps {
		return p, err
	}
	for range blockingRounds {
		blocking, _, err := n.trace((limit+blockingRounds-1)/blockingRounds, func(local []float64) error {
			if err := n.Sums.Begin(local); err != nil {
				return err
			}
			return n.Sums.Wait()
		})
		if err != nil {
			return p, err
		}
		each := blocking.Seconds[krylov.AllReduce] / float64(max(1, blocking.Iterations)) * float64(p.Iterations)
		if p.Blocking == 0 || each < p.Blocking {
			p.Blocking = each
		}
	}
	return p, nil
}

// blockingRounds is the number of rounds that time reductions without hiding them. The shortest round counts, so that a
// disturbance is not mistaken for hidden time.
const blockingRounds = 4

// trace calls begin for each reduction that the method overlaps with other work, and reports whether there are any.
func (n *Internals) trace(limit int, begin func(local []float64) error) (p Profile, overlaps bool, err error) {
	solver, err := n.NewSolver(limit)
	if err != nil {
		return p, false, err
	}
	watch := NewStopwatch(n.Clock)
	defer watch.Follow(n.Operator)()
	n.Engine.Trace = watch.Enter
	n.Engine.Begin = func(local []float64) error {
		watch.Enter(krylov.AllReduce)
		defer watch.Enter(krylov.Other)
		overlaps = true
		return begin(local)
	}
	defer func() { n.Engine.Trace, n.Engine.Begin = nil, n.Sums.Begin }()
	watch.start = watch.clock.Now()
	application := n.application()
	first := true // the first stage belongs to no iteration
	result, err := solver.Run(func(stage *krylov.Stage) ([]float64, error) {
		if !first {
			krylov.AddWork(&p.Work, stage, n.Plan, n.Matrix, application)
		}
		first = false
		local, err := n.Engine.Run(stage, n.Halo)
		if err != nil {
			return nil, err
		}
		watch.Enter(krylov.AllReduce)
		defer watch.Enter(krylov.Other)
		return n.Sums.Sum(local)
	})
	return n.NewProfile(watch, result.Iterations, p.Work), overlaps, err
}

// NewProfile ends the stopwatch and returns the profile of some iterations. The operations are unknown if the
// preconditioner is not a diagonal and does not know its own.
func (n *Internals) NewProfile(w *Stopwatch, iterations int, work [krylov.NumPhases]krylov.Work) Profile {
	w.Enter(krylov.Other)
	p := Profile{Iterations: iterations, Seconds: w.Seconds(), Levels: w.Levels(), Work: work}
	for _, phase := range []krylov.Phase{krylov.SpMV, krylov.Dots, krylov.Updates, krylov.Precond} {
		p.Bytes, p.Flops = p.Bytes+work[phase].Bytes, p.Flops+work[phase].Flops
	}
	_, diagonal := n.Operator.(krylov.Diagonal)
	if known := work[krylov.Precond].Flops > 0; !diagonal && !known && n.Operator != nil {
		p.Flops = 0
	}
	return p
}

// application returns the work of one application of the preconditioner. Its operations are known only if it has levels
// that know theirs.
func (n *Internals) application() (w krylov.Work) {
	if n.Applied == nil {
		return w
	}
	w.Bytes = float64(n.Applied.Bytes())
	h, levels := n.Operator.(Hierarchy)
	if l, known := n.Operator.(Leveled); levels && known {
		for level := range h.Levels() {
			_, flops := l.Work(level)
			w.Flops += flops
		}
	}
	return w
}

// Alone makes at most limit iterations on the rows of this rank as if there were no other ranks: the
// same passes over the same memory, but without communication. It returns the seconds of one
// iteration, or 0 if there were too few iterations or if the preconditioner needs other ranks. It
// overwrites the solution.
func (n *Internals) Alone(limit int) (float64, error) {
	if n.Applied != nil && !n.Applied.Local() {
		return 0, nil
	}
	solver, err := n.NewSolver(limit)
	if err != nil {
		return 0, err
	}
	n.Engine.ForgetGhosts()
	n.Engine.Begin = nil
	defer func() { n.Engine.Begin = n.Sums.Begin }()
	began, before := int64(0), 0 // timing begins after a quarter of the iterations, when the caches are warm
	result, err := solver.Run(func(stage *krylov.Stage) ([]float64, error) {
		if done := solver.Result().Iterations; before == 0 && done >= limit/4 {
			began, before = n.Clock.Now(), done
		}
		return n.Engine.Run(stage, krylov.NoHalo{})
	})
	if timed := result.Iterations - before; err == nil && before > 0 && timed > 0 {
		return float64(n.Clock.Now()-began) / 1e12 / float64(timed), nil
	}
	return 0, err
}

// Communicate performs the communication of the given numbers of products and reductions, without any arithmetic, and
// returns the seconds that it took on this rank. That is what the messages of an iteration cost when no rank is late.
func (n *Internals) Communicate(products, reductions int) (float64, error) {
	square := precondition.Square{Matrix: n.Matrix, Halo: n.Halo}
	return n.TimeMessages(products, reductions, func() error { return square.Exchange(n.Engine.Padded(krylov.X)) },
		func(int) error {
			_, err := n.Sums.Sum([]float64{0})
			return err
		})
}

// TimeMessages calls exchange and then reduce the given numbers of times, and returns the seconds that this took.
func (n *Internals) TimeMessages(products, reductions int, exchange func() error, reduce func(i int) error) (float64,
	error) {
	began := n.Clock.Now()
	for range products {
		if err := exchange(); err != nil {
			return 0, err
		}
	}
	for i := range reductions {
		if err := reduce(i); err != nil {
			return 0, err
		}
	}
	return float64(n.Clock.Now()-began) / 1e12, nil
}

// Multiply sets dst to A times x. Both need room for Matrix.Columns() values: first the values of this rank, then the
// ghosts. Multiply updates the ghosts of x.
func (n *Internals) Multiply(dst, x []float64) error {
	return precondition.Square{Matrix: n.Matrix, Halo: n.Halo}.Multiply(dst, x)
}

// Stopwatch adds up the picoseconds of each phase.
type Stopwatch struct {
	clock dist.Clock
	phase krylov.Phase
	start int64 // of the current phase
	spent [krylov.NumPhases]int64

	level  int     // current level of the hierarchy, during krylov.Precond
	levels []int64 // picoseconds of each level; nil without a hierarchy
}

// NewStopwatch starts a stopwatch in the phase krylov.Other.
func NewStopwatch(clock dist.Clock) *Stopwatch {
	return &Stopwatch{clock: clock, phase: krylov.Other, start: clock.Now()}
}

// Follow also adds up the time of each level of a preconditioner, if it has levels, until the function that it returns
// is called.
func (w *Stopwatch) Follow(operator krylov.Operator) (end func()) {
	h, ok := operator.(Hierarchy)
	if !ok {
		return func() {}
	}
	w.levels = make([]int64, h.Levels())
	h.Trace(func(level int) {
		w.Enter(krylov.Precond)
		w.level = level
	})
	return func() { h.Trace(nil) }
}

// Levels returns the seconds of each level, nil if the preconditioner has none.
func (w *Stopwatch) Levels() []float64 {
	return lists.Map(w.levels, func(ps int64) float64 { return float64(ps) / 1e12 })
}

// Enter ends the current phase and starts another.
func (w *Stopwatch) Enter(p krylov.Phase) {
	now := w.clock.Now()
	w.spent[w.phase] += now - w.start
	if w.phase == krylov.Precond && w.levels != nil {
		w.levels[w.level] += now - w.start
	}
	w.phase, w.start = p, now
}

// Seconds returns the time of each phase so far.
func (w *Stopwatch) Seconds() (out [krylov.NumPhases]float64) {
	for phase, ps := range w.spent {
		out[phase] = float64(ps) / 1e12
	}
	return out
}
