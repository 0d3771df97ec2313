package solve

import (
	"fmt"
	"syscall"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
)

// Phase is what the time of an iteration goes to.
type Phase int

// The phases. What lies between them, a method's own scalars, is Other.
const (
	SpMV Phase = iota
	HaloPack
	HaloWait
	Dots
	AllReduce
	Updates
	Precond // a preconditioner that is no diagonal, with all that it exchanges
	Other
	NumPhases
)

// String is the phase's name in a row's metrics.
func (p Phase) String() string {
	if p < 0 || p >= NumPhases {
		return fmt.Sprintf("Phase(%d)", int(p))
	}
	return [...]string{"spmv", "halo_pack", "halo_wait", "dots", "allreduce", "updates", "precond", "other"}[p]
}

// phaseOf translates what the engine says.
var phaseOf = map[krylov.Phase]Phase{
	krylov.Update: Updates, krylov.Precondition: Precond, krylov.Exchange: HaloPack, krylov.Multiply: SpMV,
	krylov.Wait: HaloWait, krylov.Dots: Dots, krylov.Idle: Other,
}

// Profile is where the time of some iterations went on this rank.
type Profile struct {
	Iterations int
	Seconds    [NumPhases]float64 // NaN of a phase that is not told from the others
	Bytes      float64            // that the iterations move through memory, by the model
	// Flops are the operations of the iterations, by the model; 0 where those of the preconditioner are not known.
	Flops float64
	// Blocking is the seconds of the phase AllReduce where a method that hides its reductions waits for them
	// at once instead, in the least disturbed of a few rounds: what is less in Seconds was hidden. 0 of other methods.
	Blocking float64
	// Levels are the seconds of each level of a multigrid preconditioner, of which the phase Precond is made up.
	Levels []float64
}

// Hierarchy is a preconditioner of several levels, the finest first.
type Hierarchy interface {
	Levels() int
	Size(level int) (rows, entries float64) // over all ranks
	Complexities() (operator, grid float64)
	Trace(fn func(level int)) // who is told when work on a level begins; nil is nobody
}

// Trace solves for at most limit iterations and takes the time of every phase.
// Asking the clock so often costs a few per cent, more where a rank has few
// rows: how the time is shared out is what it tells. A method that hides reductions
// then solves again without hiding them.
func (s *System) Trace(limit int) (Profile, error) {
	b, overlaps, err := s.trace(limit, s.sums.begin)
	if err != nil || !overlaps {
		return b, err
	}
	for range blockingRounds {
		blocking, _, err := s.trace((limit+blockingRounds-1)/blockingRounds, func(local []float64) error {
			if err := s.sums.begin(local); err != nil {
				return err
			}
			return s.sums.wait()
		})
		if err != nil {
			return b, err
		}
		each := blocking.Seconds[AllReduce] / float64(max(1, blocking.Iterations)) * float64(b.Iterations)
		if b.Blocking == 0 || each < b.Blocking {
			b.Blocking = each
		}
	}
	return b, nil
}

// blockingRounds is how often reductions are timed that are not hidden: the shortest counts, so that a disturbance does
// not look as if it had been hidden.
const blockingRounds = 4

// trace begins reductions that are to be hidden as it is told, and says whether there are any.
func (s *System) trace(limit int, begin func(local []float64) error) (b Profile, overlaps bool, err error) {
	solver, err := s.solver(limit)
	if err != nil {
		return b, false, err
	}
	watch := stopwatch{clock: s.group.Clock(), phase: Other}
	if h, ok := s.operator.(Hierarchy); ok {
		watch.levels = make([]int64, h.Levels())
		h.Trace(func(level int) {
			watch.enter(Precond)
			watch.level = level
		})
		defer h.Trace(nil)
	}
	s.engine.Trace = func(p krylov.Phase) { watch.enter(phaseOf[p]) }
	s.engine.Begin = func(local []float64) error {
		watch.enter(AllReduce)
		defer watch.enter(Other)
		return begin(local)
	}
	defer func() { s.engine.Trace, s.engine.Begin = nil, s.sums.begin }()
	bytes, flops := 0.0, 0.0
	watch.now = watch.clock.Now()
	var sums []float64
	starting := true // which is no part of an iteration
	for stage := solver.Next(nil); stage != nil; stage = solver.Next(sums) {
		if !starting {
			moved, made := s.model(stage)
			bytes, flops = bytes+moved, flops+made
		}
		starting, overlaps = false, overlaps || stage.Overlaps()
		local, err := s.engine.Run(stage, s.halo)
		if err != nil {
			return b, false, err
		}
		watch.enter(AllReduce)
		if sums, err = s.sums.add(local); err != nil {
			return b, false, err
		}
		watch.enter(Other)
	}
	watch.enter(Other)
	b = Profile{Iterations: solver.Result().Iterations, Bytes: bytes}
	if _, diagonal := s.operator.(krylov.Diagonal); diagonal || s.operator == nil {
		b.Flops = flops
	}
	for p, ps := range watch.spent {
		b.Seconds[p] = float64(ps) / 1e12
	}
	b.Levels = lists.Map(watch.levels, func(ps int64) float64 { return float64(ps) / 1e12 })
	return b, overlaps, nil
}

// model counts the bytes that a stage moves through memory and the operations that it makes, without those of a
// preconditioner that is no diagonal.
func (s *System) model(stage *krylov.Stage) (bytes, flops float64) {
	rows := float64(s.Plan.Owned)
	bytes, flops = 8*rows*float64(stage.Passes()), rows*float64(stage.Flops())
	if stage.Multiplies() {
		bytes += float64(s.Matrix.Bytes() + 8*len(s.Plan.Ghosts))
		flops += 2 * float64(s.Matrix.Entries())
	}
	if stage.Preconditions() {
		bytes += float64(s.applied().Bytes())
	}
	return bytes, flops
}

// Alone makes at most limit iterations on this rank's rows as if they were all there
// is: the same sweeps over the same memory, but nothing is exchanged and no rank
// waits for another. It gives the seconds of one iteration, 0 if there were too few or
// the preconditioner needs the other ranks, and overwrites the solution.
func (s *System) Alone(limit int) (float64, error) {
	if operator := s.applied(); operator != nil && !operator.Local() {
		return 0, nil
	}
	solver, err := s.solver(limit)
	if err != nil {
		return 0, err
	}
	s.engine.ForgetGhosts()
	s.engine.Begin = nil
	defer func() { s.engine.Begin = s.sums.begin }()
	clock := s.group.Clock()
	var sums []float64
	began, before := int64(0), 0 // after some iterations, when the caches hold what they can
	for stage := solver.Next(nil); stage != nil; stage = solver.Next(sums) {
		if n := solver.Result().Iterations; before == 0 && n >= limit/4 {
			began, before = clock.Now(), n
		}
		if sums, err = s.engine.Run(stage, krylov.NoHalo{}); err != nil {
			return 0, err
		}
	}
	if n := solver.Result().Iterations - before; before > 0 && n > 0 {
		return float64(clock.Now()-began) / 1e12 / float64(n), nil
	}
	return 0, nil
}

// Communicate makes the messages of so many products and reductions with nothing else in
// between, and gives the seconds that this rank took: what the messages of an iteration
// cost where no rank is late.
func (s *System) Communicate(products, reductions int) (float64, error) {
	clock := s.group.Clock()
	began := clock.Now()
	for range products {
		if err := s.halo.Start(s.engine.Padded(krylov.X)); err != nil {
			return 0, err
		}
		if err := s.halo.Finish(s.engine.Padded(krylov.X)); err != nil {
			return 0, err
		}
	}
	for range reductions {
		if _, err := s.sums.add([]float64{0}); err != nil {
			return 0, err
		}
	}
	return float64(clock.Now()-began) / 1e12, nil
}

// ProcessorTime is the seconds that the process has had a processor for, on all of its threads: what
// other programs on the machine disturb less than the clock. Ranks that wait by spinning use it too.
func ProcessorTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// stopwatch adds up picoseconds by phase.
type stopwatch struct {
	clock dist.Clock
	phase Phase
	now   int64
	spent [NumPhases]int64

	level  int     // of the hierarchy, in the phase Precond
	levels []int64 // by level
}

// enter ends the current phase and starts another.
func (w *stopwatch) enter(p Phase) {
	t := w.clock.Now()
	w.spent[w.phase] += t - w.now
	if w.phase == Precond && w.levels != nil {
		w.levels[w.level] += t - w.now
	}
	w.phase, w.now = p, t
}
