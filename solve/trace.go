package solve

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
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
	Seconds    [NumPhases]float64
	Bytes      float64 // that the iterations move through memory, by the model
}

// Trace solves for at most limit iterations and takes the time of every phase.
// Asking the clock so often costs a few per cent, more where a rank has few
// rows: how the time is shared out is what it tells.
func (s *System) Trace(limit int) (Profile, error) {
	solver, err := s.solver(limit)
	if err != nil {
		return Profile{}, err
	}
	watch := stopwatch{clock: s.group.Clock(), phase: Other}
	s.engine.Trace = func(p krylov.Phase) { watch.enter(phaseOf[p]) }
	defer func() { s.engine.Trace = nil }()
	rows, bytes := float64(s.Plan.Owned), 0.0
	watch.now = watch.clock.Now()
	var sums []float64
	starting := true // which is no part of an iteration
	for stage := solver.Next(nil); stage != nil; stage = solver.Next(sums) {
		if !starting {
			bytes += 8 * rows * float64(stage.Passes())
			if stage.Multiplies() {
				bytes += float64(s.Matrix.Bytes() + 8*len(s.Plan.Ghosts))
			}
			if stage.Preconditions() {
				bytes += float64(s.operator.Bytes())
			}
		}
		starting = false
		local, err := s.engine.Run(stage, s.halo)
		if err != nil {
			return Profile{}, err
		}
		watch.enter(AllReduce)
		if sums, err = s.sums.add(local); err != nil {
			return Profile{}, err
		}
		watch.enter(Other)
	}
	watch.enter(Other)
	b := Profile{Iterations: solver.Result().Iterations, Bytes: bytes}
	for p, ps := range watch.spent {
		b.Seconds[p] = float64(ps) / 1e12
	}
	return b, nil
}

// Alone makes at most limit iterations on this rank's rows as if they were all there
// is: the same sweeps over the same memory, but nothing is exchanged and no rank
// waits for another. It gives the seconds of one iteration, 0 if there were too few or
// the preconditioner needs the other ranks, and overwrites the solution.
func (s *System) Alone(limit int) (float64, error) {
	if s.operator != nil && !s.operator.Local() {
		return 0, nil
	}
	solver, err := s.solver(limit)
	if err != nil {
		return 0, err
	}
	s.engine.ForgetGhosts()
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

// stopwatch adds up picoseconds by phase.
type stopwatch struct {
	clock dist.Clock
	phase Phase
	now   int64
	spent [NumPhases]int64
}

// enter ends the current phase and starts another.
func (w *stopwatch) enter(p Phase) {
	t := w.clock.Now()
	w.spent[w.phase] += t - w.now
	w.phase, w.now = p, t
}
