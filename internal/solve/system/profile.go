package system

import (
	"slices"
	"syscall"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
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
		slices.Contains(can.DTypes, dist.U8) && slices.Contains(can.Reductions, dist.Sum)
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

// Trace solves for at most limit iterations and times every phase. Reading the clock this often makes the iterations a
// few per cent slower, and more where a rank has few rows, so use the shares of the phases and not their sum. If the
// method hides reductions, Trace then solves again without hiding them.
func (s *System) Trace(limit int) (Profile, error) {
	p, overlaps, err := s.trace(limit, s.sums.begin)
	if err != nil || !overlaps {
		return p, err
	}
	for range blockingRounds {
		blocking, _, err := s.trace((limit+blockingRounds-1)/blockingRounds, func(local []float64) error {
			if err := s.sums.begin(local); err != nil {
				return err
			}
			return s.sums.wait()
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
func (s *System) trace(limit int, begin func(local []float64) error) (p Profile, overlaps bool, err error) {
	solver, err := s.solver(limit)
	if err != nil {
		return p, false, err
	}
	watch := s.startWatch()
	defer watch.stop()
	s.Engine.Trace = watch.enter
	s.Engine.Begin = func(local []float64) error {
		watch.enter(krylov.AllReduce)
		defer watch.enter(krylov.Other)
		overlaps = true
		return begin(local)
	}
	defer func() { s.Engine.Trace, s.Engine.Begin = nil, s.sums.begin }()
	sum := watch.sum(s.sums)
	application := s.application()
	first := true // the first stage belongs to no iteration
	result, err := solver.Run(func(stage *krylov.Stage) ([]float64, error) {
		if !first {
			krylov.AddWork(&p.Work, stage, s.Plan, s.Matrix, application)
		}
		first = false
		local, err := s.Engine.Run(stage, s.Halo)
		if err != nil {
			return nil, err
		}
		return sum(local)
	})
	return s.profile(watch, result.Iterations, p.Work), overlaps, err
}

// profile returns the profile of some iterations. The operations are unknown if the preconditioner is not a diagonal
// and does not know its own.
func (s *System) profile(w *stopwatch, iterations int, work [krylov.NumPhases]krylov.Work) Profile {
	w.enter(krylov.Other)
	p := Profile{Iterations: iterations, Work: work, Levels: lists.Map(w.levels, seconds)}
	for phase, ps := range w.spent {
		p.Seconds[phase] = seconds(ps)
	}
	for _, phase := range []krylov.Phase{krylov.SpMV, krylov.Dots, krylov.Updates, krylov.Precond} {
		p.Bytes, p.Flops = p.Bytes+work[phase].Bytes, p.Flops+work[phase].Flops
	}
	_, diagonal := s.Operator.(krylov.Diagonal)
	if known := work[krylov.Precond].Flops > 0; !diagonal && !known && s.Operator != nil {
		p.Flops = 0
	}
	return p
}

// application returns the work of one application of the preconditioner. Its operations are known only if it has levels
// that know theirs.
func (s *System) application() (w krylov.Work) {
	if s.Applied == nil {
		return w
	}
	w.Bytes = float64(s.Applied.Bytes())
	h, levels := s.Operator.(Hierarchy)
	if l, known := s.Operator.(Leveled); levels && known {
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
func (s *System) Alone(limit int) (float64, error) {
	if s.Applied != nil && !s.Applied.Local() {
		return 0, nil
	}
	solver, err := s.solver(limit)
	if err != nil {
		return 0, err
	}
	s.Engine.ForgetGhosts()
	s.Engine.Begin = nil
	defer func() { s.Engine.Begin = s.sums.begin }()
	began, before := int64(0), 0 // timing begins after a quarter of the iterations, when the caches are warm
	result, err := solver.Run(func(stage *krylov.Stage) ([]float64, error) {
		if done := solver.Result().Iterations; before == 0 && done >= limit/4 {
			began, before = s.meter.clock.Now(), done
		}
		return s.Engine.Run(stage, krylov.NoHalo{})
	})
	if timed := result.Iterations - before; err == nil && before > 0 && timed > 0 {
		return seconds(s.meter.clock.Now()-began) / float64(timed), nil
	}
	return 0, err
}

// Communicate performs the communication of the given numbers of products and reductions, without any arithmetic, and
// returns the seconds that it took on this rank. That is what the messages of an iteration cost when no rank is late.
func (s *System) Communicate(products, reductions int) (float64, error) {
	return s.timeMessages(products, reductions, func() error { return s.square().Exchange(s.Engine.Padded(krylov.X)) },
		func(int) error {
			_, err := s.sums.sum([]float64{0})
			return err
		})
}

// timeMessages calls exchange and then reduce the given numbers of times, and returns the seconds that this took.
func (s *System) timeMessages(products, reductions int, exchange func() error, reduce func(i int) error) (float64,
	error) {
	began := s.meter.clock.Now()
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
	return seconds(s.meter.clock.Now() - began), nil
}

// square returns the matrix with its halo exchange.
func (s *System) square() precondition.Square {
	return precondition.Square{Matrix: s.Matrix, Halo: s.Halo}
}

// Multiply sets dst to A times x. Both need room for Matrix.Columns() values: first the values of this rank, then the
// ghosts. Multiply updates the ghosts of x.
func (s *System) Multiply(dst, x []float64) error { return s.square().Multiply(dst, x) }

// seconds converts from picoseconds.
func seconds(ps int64) float64 { return float64(ps) / 1e12 }

// stopwatch adds up the picoseconds of each phase, and of each level of a preconditioner that has levels.
type stopwatch struct {
	clock dist.Clock
	phase krylov.Phase
	start int64 // of the current phase
	spent [krylov.NumPhases]int64

	hierarchy Hierarchy // nil without levels
	level     int       // current level, during krylov.Precond
	levels    []int64   // picoseconds of each level
}

// startWatch starts a stopwatch in the phase krylov.Other.
func (s *System) startWatch() *stopwatch {
	w := &stopwatch{clock: s.meter.clock, phase: krylov.Other, start: s.meter.clock.Now()}
	if h, ok := s.Operator.(Hierarchy); ok {
		w.hierarchy, w.levels = h, make([]int64, h.Levels())
		h.Trace(func(level int) {
			w.enter(krylov.Precond)
			w.level = level
		})
	}
	return w
}

// stop ends the reports of the preconditioner.
func (w *stopwatch) stop() {
	if w.hierarchy != nil {
		w.hierarchy.Trace(nil)
	}
}

// enter ends the current phase and starts another.
func (w *stopwatch) enter(p krylov.Phase) {
	now := w.clock.Now()
	w.spent[w.phase] += now - w.start
	if w.phase == krylov.Precond && w.levels != nil {
		w.levels[w.level] += now - w.start
	}
	w.phase, w.start = p, now
}

// sum returns the sum of a reducer as a phase of its own.
func (w *stopwatch) sum(r *reducer) func(local []float64) ([]float64, error) {
	return func(local []float64) ([]float64, error) {
		w.enter(krylov.AllReduce)
		defer w.enter(krylov.Other)
		return r.sum(local)
	}
}
