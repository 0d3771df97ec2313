package device

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// defaultLookahead is the number of iterations that the host starts before it polls for the end of the
// solve, if no earlier solve shows how many are needed.
const defaultLookahead = 16

// Solve solves once, from zero. A positive limit is the largest number of iterations. All ranks must
// call it together. It does not compute the true residual; Check does.
func (s *System) Solve(limit int) (solve.Outcome, error) {
	if err := s.group.Barrier(); err != nil { // no rank still reads the last solution
		return solve.Outcome{}, err
	}
	clock := s.group.Clock()
	start := clock.Now()
	if err := s.context.Do(func() error { return s.run(limit, func() error { return nil }) }); err != nil {
		return solve.Outcome{}, err
	}
	seconds := float64(clock.Now()-start) / 1e12
	out, err := s.result()
	out.Seconds = seconds
	if limit == 0 && err == nil {
		s.expectedSteps = int(s.progress().State.Steps)
	}
	return out, err
}

// progress returns the memory in which the kernels report the state of the solve.
func (s *System) progress() *gpusolve.Outcome {
	return (*gpusolve.Outcome)(unsafe.Pointer(&s.mapped.Bytes[0]))
}

// finished reports whether the solve has ended. The error says that a kernel timed out waiting for
// another rank.
func (s *System) finished() (bool, error) {
	o := s.progress()
	if atomic.LoadUint32(&o.Late) != 0 {
		return true, fmt.Errorf("rank %d timed out after %v waiting for the dot products of rank %d (step %d; the last ones "+
			"received are of step %d)", s.group.Rank(), waitLimit, o.WaitedFor, o.Step, o.Seen)
	}
	return atomic.LoadUint32(&o.State.Status) != gpusolve.Running, nil
}

// run starts steps until the solve has ended. It calls afterStep after the first kernel and after each step. The host
// cannot know when a solve ends without waiting for the GPU. So it starts iterations in batches, and reads the state of
// one batch while the GPU works on the next. Kernels that are started after the end do nothing.
func (s *System) run(limit int, afterStep func() error) error {
	*s.progress() = gpusolve.Outcome{}
	p := s.params
	p.Most = uint32(s.maxIter)
	if limit > 0 {
		p.Most = uint32(min(s.maxIter, limit))
	}
	// Ranks notice the end of a solve at different times and so start different numbers of surplus
	// kernels. Step numbers continue from the last kernel that was needed, so that they stay equal on
	// all ranks.
	firstStep := p.Step
	defer func() { p.Step, p.Turn = firstStep+s.progress().State.Steps+2, 0 }()
	p.Step++
	if err := s.begin.Start(s.stream); err != nil {
		return err
	}
	events, err := s.newEvents()
	if err != nil {
		return err
	}
	defer events.destroy()
	if err := afterStep(); err != nil {
		return err
	}
	batch, awaited := s.lookahead, -1
	if s.expectedSteps > 0 && limit == 0 {
		batch, awaited = s.expectedSteps/len(s.steps)+1, 0 // the last iteration notices the end
	}
	for k := 0; ; k++ {
		if err := s.startIterations(batch, afterStep); err != nil {
			return err
		}
		if err := events[k%2].Record(s.stream); err != nil {
			return err
		}
		// While the host waits for the previous batch, the GPU works on this one.
		if awaited = max(awaited, k-1); awaited >= 0 {
			if err := await(events[awaited%2]); err != nil {
				return err
			}
			if done, err := s.finished(); done || err != nil {
				return errors.Join(err, s.stream.Synchronize())
			}
		}
		batch = s.lookahead
	}
}

// eventPair is a pair of CUDA events.
type eventPair [2]*cuda.Event

func (s *System) newEvents() (pair eventPair, err error) {
	for i := range pair {
		if pair[i], err = s.context.Event(); err != nil {
			return pair, errors.Join(err, pair.destroy())
		}
	}
	return pair, nil
}

func (pair eventPair) destroy() (err error) {
	for _, e := range pair {
		if e != nil {
			err = errors.Join(err, e.Destroy())
		}
	}
	return err
}

// step is a kernel of an iteration with its parameters.
type step struct {
	kernel loadedKernel
	launch *cuda.Launch
	params *gpusolve.Params // of the system, or a copy with changes
	phase  krylov.Phase
	level  int  // multigrid level
	swaps  bool // the next step uses the swapped vectors
}

func newStep(k loadedKernel, p *gpusolve.Params, phase krylov.Phase) step {
	return step{kernel: k, launch: cuda.NewLaunch(k.Kernel, int(p.Blocks), gpusolve.Rows, k.shared, false, p), params: p,
		phase: phase}
}

// stepNames names the steps of a cycle on a level that is not the last.
var stepNames = map[uint32]string{gpusolve.Smooth: "smooth", gpusolve.Defect: "defect", gpusolve.Restrict: "restrict",
	gpusolve.Correct: "correct", gpusolve.Relax: "relax", gpusolve.Finish: "finish"}

// addFinest adds the time of a step of a cycle to list, if the step belongs to the finest level.
func (st *step) addFinest(list []system.Step, seconds float64) []system.Step {
	name, known := stepNames[st.params.Op]
	if st.level > 0 || !known {
		return list
	}
	at := slices.IndexFunc(list, func(s system.Step) bool { return s.Name == name })
	if at < 0 {
		at, list = len(list), append(list, system.Step{Name: name})
	}
	list[at].Seconds += seconds
	return list
}

// start starts a step. All ranks must start the same steps, because the kernels wait for each other.
func (st *step) start(s *System) error {
	p := s.params
	p.Step++
	st.params.Step, st.params.Turn, st.params.Most = p.Step, p.Turn, p.Most
	err := st.launch.Start(s.stream)
	if st.swaps {
		p.Turn ^= 1
	}
	return err
}

// startIterations starts count iterations.
func (s *System) startIterations(count int, afterStep func() error) error {
	for range count {
		for i := range s.steps {
			if err := s.steps[i].start(s); err != nil {
				return err
			}
			if err := afterStep(); err != nil {
				return err
			}
		}
	}
	return nil
}

// await blocks until the GPU has reached an event.
func await(e *cuda.Event) error {
	for {
		if done, err := e.Done(); done || err != nil {
			return err
		}
		runtime.Gosched()
	}
}

// result returns how the solve ended.
func (s *System) result() (solve.Outcome, error) {
	state := s.progress().State
	status := map[uint32]krylov.Status{gpusolve.Converged: krylov.Converged, gpusolve.TooMany: krylov.TooManyIterations,
		gpusolve.Breakdown: krylov.Breakdown}
	out := solve.Outcome{TrueResidual: math.NaN()}
	n := int(state.Iterations)
	out.Status, out.Iterations, out.Residual = status[state.Status], n, state.Residual
	out.Products, out.Reductions = int(state.Products), int(state.Reductions)
	if out.Status == krylov.Breakdown {
		out.Reason = gpusolve.Reason(state.Reason)
	}
	out.Stopped = out.Status == krylov.TooManyIterations && n == s.spec.StopAfter
	history, err := s.read(cuda.Pointer(s.params.History), n+1)
	out.History = history
	return out, err
}

// read copies values from the GPU.
func (s *System) read(from cuda.Pointer, count int) ([]float64, error) {
	out := make([]float64, count)
	err := s.context.Do(func() error { return s.context.Read(dist.Of(out).Bytes(), from) })
	return out, err
}

// Trace solves for at most limit iterations and measures each kernel with CUDA events. SpMV is the
// kernel with the product and everything fused into it, Updates is the second kernel of cg, and
// Precond is the multigrid cycle, also by level. These times include waiting for other ranks.
func (s *System) Trace(limit int) (b system.Profile, err error) {
	if err := s.group.Barrier(); err != nil {
		return b, err
	}
	for phase := range b.Seconds {
		if !slices.ContainsFunc(s.steps, func(st step) bool { return st.phase == krylov.Phase(phase) }) {
			b.Seconds[phase] = math.NaN()
		}
	}
	if s.cycle != nil {
		b.Levels = make([]float64, len(s.cycle.levels))
	}
	err = s.context.Do(func() (err error) {
		var marks []*cuda.Event
		defer func() {
			for _, m := range marks {
				err = errors.Join(err, m.Destroy())
			}
		}()
		if err := s.run(limit, func() error {
			e, err := s.context.Event()
			if err != nil {
				return err
			}
			marks = append(marks, e)
			return e.Record(s.stream)
		}); err != nil {
			return err
		}
		b.Iterations = int(s.progress().State.Iterations)
		for k := s.method.prologue; k < int(s.progress().State.Steps); k++ {
			us, err := marks[k+1].Since(marks[k])
			if err != nil {
				return err
			}
			st := s.steps[k%len(s.steps)]
			b.Seconds[st.phase] += us / 1e6
			if st.phase == krylov.Precond {
				b.Levels[st.level] += us / 1e6
				b.Finest = st.addFinest(b.Finest, us/1e6)
			}
		}
		return nil
	})
	iterations := float64(b.Iterations)
	b.Bytes, b.Flops = iterations*s.iterationBytes(), iterations*s.iterationFlops()
	return b, err
}

// iterationBytes returns the bytes that an iteration moves through GPU memory.
func (s *System) iterationBytes() float64 {
	bytes := float64(8*s.method.vectorPasses*s.Part.Rows + s.matrixPass())
	if s.cycle != nil {
		return bytes + s.cycleBytes()
	}
	return bytes + float64(s.method.diagonalPasses*s.matrix.diagonalBytes(s.Part.Rows))
}

// matrixPass returns the bytes of the matrix that a product reads.
func (s *System) matrixPass() int {
	return s.MatrixBytes - s.matrix.diagonalBytes(s.Part.Rows+s.Part.Halo)
}

// iterationFlops returns the operations of an iteration, or 0 with multigrid, whose operations are not
// counted.
func (s *System) iterationFlops() float64 {
	if s.cycle != nil {
		return 0
	}
	n := s.method.flops
	if s.matrix.jacobi {
		n += s.method.precondFlops
	}
	return float64(2*s.matrix.entries + n*s.Part.Rows)
}

// TriadBytes returns the bytes that one triad sweep moves, counted as stream.c does.
func (s *System) TriadBytes() float64 { return 24 * float64(s.triad.values) }

// Triad returns the seconds of one sweep x = r + 3 q over vectors larger than the caches.
func (s *System) Triad() (seconds float64, err error) {
	err = s.context.Do(func() error {
		saved := *s.params
		defer func() { *s.params = saved }()
		s.params.X, s.params.R[0], s.params.Q, s.params.Rows = uint64(s.triad.at[0]), uint64(s.triad.at[1]),
			uint64(s.triad.at[2]), uint64(s.triad.values)
		s.params.Blocks = uint32(s.blockLimit)
		events, err := s.newEvents()
		if err != nil {
			return err
		}
		defer events.destroy()
		if err := errors.Join(events[0].Record(s.stream), s.startKernel("triad"), events[1].Record(s.stream),
			s.stream.Synchronize()); err != nil {
			return err
		}
		us, err := events[1].Since(events[0])
		seconds = us / 1e6
		return err
	})
	return seconds, err
}

// GPU returns the model name of this rank's GPU.
func (s *System) GPU() string { return s.context.Device().Name }

// Alone returns 0: the time without communication cannot be measured, because the kernels that compute
// also wait for other ranks.
func (s *System) Alone(int) (float64, error) { return 0, nil }

// window is the number of rows that Check handles at a time. It limits the host memory for x.
const window = 1 << 22

// Check records the true residual of the last solution in its outcome, like solve.System.Check. It is independent of
// the solve: the host generates the rows again from the problem, multiplies them one by one, and reads
// x, including the neighbours' parts, from the memory of the ranks that own it. All ranks must call it
// together.
func (s *System) Check(out *solve.Outcome) error {
	if err := s.group.Barrier(); err != nil { // every rank has finished its solve
		return err
	}
	rows := s.Rows()
	var local krylov.ResidualSums
	for lo := rows.Lo; lo < rows.Hi; lo += window {
		part := sparse.Range{Lo: lo, Hi: min(lo+window, rows.Hi)}
		columns := sparse.Range{Lo: max(0, part.Lo-s.matrix.reach), Hi: min(s.Size, part.Hi+s.matrix.reach)}
		x, err := s.readSolution(columns)
		if err != nil {
			return err
		}
		sparse.Axpby(local[:], 1, local[:], 1, s.residual(part, x, columns.Lo))
	}
	var sums krylov.ResidualSums
	if err := s.group.AllReduce(dist.Of(sums[:]), dist.Of(local[:]), dist.Sum); err != nil {
		return err
	}
	residual, err := krylov.NewResidual(sums)
	out.TrueResidual, out.Rounding = residual.True, residual.Rounding
	return err
}

// Solution returns this rank's part of the last solution.
func (s *System) Solution() ([]float64, error) {
	return s.readSolution(s.Rows())
}

// Rows returns the range of rows that this rank owns.
func (s *System) Rows() sparse.Range { return s.layout.strips[s.group.Rank()] }

// readSolution reads the solution at rows from the ranks that own them.
func (s *System) readSolution(rows sparse.Range) (x []float64, err error) {
	for r, strip := range s.layout.strips {
		lo, hi := max(rows.Lo, strip.Lo), min(rows.Hi, strip.Hi)
		if lo >= hi {
			continue
		}
		from := s.layout.rowAddress(s.memory[r], vecX) + 8*uint64(lo-strip.Lo)
		part, err := s.read(cuda.Pointer(from), hi-lo)
		if err != nil {
			return nil, fmt.Errorf("reading the solution of rank %d: %w", r, err)
		}
		x = append(x, part...)
	}
	return x, nil
}

// residual returns the sums of some rows. x starts at column first.
// CPUs share the work in fixed pieces, whose sums are added in order, so that the result does not
// depend on the number of CPUs.
func (s *System) residual(rows sparse.Range, x []float64, first int) []float64 {
	const piece = 1 << 15
	pieces := (rows.Len() + piece - 1) / piece
	sums := make([]krylov.ResidualSums, pieces)
	var workers sync.WaitGroup
	count := min(pieces, runtime.GOMAXPROCS(0))
	for w := range count {
		workers.Go(func() {
			var row sparse.Row
			for k := w; k < pieces; k += count {
				lo := rows.Lo + k*piece
				var local krylov.ResidualSums // because elements of sums share cache lines
				for i := lo; i < min(lo+piece, rows.Hi); i++ {
					s.spec.Problem.Row(i, &row)
					local.AddRow(s.spec.RHS(i), row.Vals, func(k int) float64 { return x[row.Cols[k]-first] })
				}
				sums[k] = local
			}
		})
	}
	workers.Wait()
	var total krylov.ResidualSums
	for _, part := range sums {
		sparse.Axpby(total[:], 1, total[:], 1, part[:])
	}
	return total[:]
}
