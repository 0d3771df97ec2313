package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/profile"
	"github.com/kernbench/kernbench/solve"
)

// ahead is how many iterations are started before the host looks whether the solve has ended,
// when it does not know how many there will be.
const ahead = 16

// Solve solves once, from zero. A limit above 0 ends it early. All ranks call it together.
// The true residual is left to Check.
func (s *System) Solve(limit int) (solve.Outcome, error) {
	if err := s.group.Barrier(); err != nil { // nobody writes to who still reads the last solution
		return solve.Outcome{}, err
	}
	clock := s.group.Clock()
	began := clock.Now()
	if err := s.context.Do(func() error { return s.run(limit, nil) }); err != nil {
		return solve.Outcome{}, err
	}
	seconds := float64(clock.Now()-began) / 1e12
	out, err := s.outcome()
	out.Seconds = seconds
	if limit == 0 && err == nil {
		s.expected = int(s.seen().State.Steps)
	}
	return out, err
}

// seen is what the kernels have told the host.
func (s *System) seen() *gpusolve.Outcome {
	return (*gpusolve.Outcome)(unsafe.Pointer(&s.shared.Bytes[0]))
}

// over tells whether a solve has ended, or cannot.
func (s *System) over() (bool, error) {
	o := s.seen()
	if atomic.LoadUint32(&o.Late) != 0 {
		return true, fmt.Errorf("rank %d waited %v for the scalar products of rank %d in vain (step %d; in their place "+
			"are those of step %d)",
			s.group.Rank(), waitLimit, o.WaitedFor, o.Step, o.Seen)
	}
	return atomic.LoadUint32(&o.State.Status) != gpusolve.Running, nil
}

// run starts steps until the solve has ended. After the start and each step watch is called, where it is not nil.
func (s *System) run(limit int, watch func() error) error {
	*s.seen() = gpusolve.Outcome{}
	p := s.params
	p.Most = uint32(s.most)
	if limit > 0 {
		p.Most = uint32(min(s.most, limit))
	}
	// How many kernels a rank starts after the last that was needed is a matter of time. So that
	// ranks count alike, they go on counting from those that were needed.
	began := p.Step
	defer func() { p.Step, p.Turn = began+s.seen().State.Steps+2, 0 }()
	p.Step++
	if err := s.begin.Start(s.stream); err != nil {
		return err
	}
	var marks [2]*cuda.Event
	for i := range marks {
		var err error
		if marks[i], err = s.context.Event(); err != nil {
			return err
		}
		defer marks[i].Destroy()
	}
	if watch != nil {
		if err := watch(); err != nil {
			return err
		}
	}
	known := s.expected > 0 && limit == 0
	batch := s.ahead
	if known {
		batch = s.expected/len(s.steps) + 1 // the last sees that it has ended
	}
	for k := 0; ; k++ {
		if err := s.iterate(batch, watch); err != nil {
			return err
		}
		if err := marks[k%2].Record(s.stream); err != nil {
			return err
		}
		looked := marks[(k+1)%2] // the end of the batch before: meanwhile the GPU works on this one
		if k == 0 && known {
			looked = marks[0]
		}
		if k > 0 || known {
			if err := await(looked); err != nil {
				return err
			}
			if over, err := s.over(); over || err != nil {
				return errors.Join(err, s.stream.Synchronize())
			}
		}
		batch = s.ahead
	}
}

// step is a kernel of an iteration, with its argument.
type step struct {
	kernel loaded
	launch *cuda.Launch
	params *gpusolve.Params // the system's, or one of its own
	phase  krylov.Phase
	level  int  // of a cycle
	turns  bool // the vectors that take turns have done so
}

func newStep(k loaded, p *gpusolve.Params, phase krylov.Phase) step {
	return step{kernel: k, launch: cuda.NewLaunch(k.Kernel, int(p.Blocks), gpusolve.Rows, k.shared, false, p), params: p,
		phase: phase}
}

// start starts a step that all ranks make and wait for.
func (st *step) start(s *System) error {
	p := s.params
	p.Step++
	st.params.Step, st.params.Turn, st.params.Most = p.Step, p.Turn, p.Most
	err := st.launch.Start(s.stream)
	if st.turns {
		p.Turn ^= 1
	}
	return err
}

// iterate starts some iterations.
func (s *System) iterate(count int, watch func() error) error {
	for range count {
		for i := range s.steps {
			if err := s.steps[i].start(s); err != nil {
				return err
			}
			if watch != nil {
				if err := watch(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// await returns when the GPU has come to an event.
func await(e *cuda.Event) error {
	for {
		if done, err := e.Done(); done || err != nil {
			return err
		}
		runtime.Gosched()
	}
}

// outcome is how the solve ended, in the words of package krylov.
func (s *System) outcome() (solve.Outcome, error) {
	state := s.seen().State
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

// read copies values from the device.
func (s *System) read(from cuda.Pointer, count int) ([]float64, error) {
	bytes := make([]byte, 8*count)
	if err := s.context.Do(func() error { return s.context.Read(bytes, from) }); err != nil {
		return nil, err
	}
	out := make([]float64, count)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(bytes[8*i:]))
	}
	return out, nil
}

// Trace solves for at most limit iterations with an event between any two kernels: SpMV is the
// kernel with the product and all that is fused into it, Updates the other of cg. Where
// ranks wait for each other, they do so within these. A cycle is Precond, and told by its levels.
func (s *System) Trace(limit int) (b profile.Profile, err error) {
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
		b.Iterations = int(s.seen().State.Iterations)
		for k := s.method.before; k < int(s.seen().State.Steps); k++ {
			us, err := marks[k+1].Since(marks[k])
			if err != nil {
				return err
			}
			st := s.steps[k%len(s.steps)]
			b.Seconds[st.phase] += us / 1e6
			if st.phase == krylov.Precond {
				b.Levels[st.level] += us / 1e6
			}
		}
		return nil
	})
	iterations := float64(b.Iterations)
	b.Bytes, b.Flops = iterations*s.iterationBytes(), iterations*s.iterationFlops()
	return b, err
}

// iterationBytes is what an iteration moves through the GPU's memory.
func (s *System) iterationBytes() float64 {
	if s.cycle != nil {
		return float64(8*s.method.vectors*s.Part.Rows+s.matrixPass()) + s.cycleBytes()
	}
	diagonal := s.shape.diagonalBytes(s.Part.Rows)
	return float64(8*s.method.vectors*s.Part.Rows + s.matrixPass() + s.method.diagonals*diagonal)
}

// matrixPass is what a product reads of the matrix.
func (s *System) matrixPass() int {
	return s.MatrixBytes - s.shape.diagonalBytes(s.Part.Rows+s.Part.Halo)
}

// iterationFlops is the operations of an iteration; 0 where those of the preconditioner are not counted.
func (s *System) iterationFlops() float64 {
	if s.cycle != nil {
		return 0
	}
	n := s.method.flops
	if s.shape.jacobi {
		n += s.method.precondFlops
	}
	return float64(2*s.shape.entries + n*s.Part.Rows)
}

// TriadBytes is what one sweep of the triad moves, counted as stream.c does.
func (s *System) TriadBytes() float64 { return 24 * float64(s.triad.values) }

// Triad is the seconds of one sweep x = r + 3 q over vectors beyond the caches.
func (s *System) Triad() (seconds float64, err error) {
	err = s.context.Do(func() error {
		old := *s.params
		defer func() { *s.params = old }()
		s.params.X, s.params.R[0], s.params.Q, s.params.Rows = uint64(s.triad.at[0]), uint64(s.triad.at[1]),
			uint64(s.triad.at[2]), uint64(s.triad.values)
		s.params.Blocks = uint32(s.blocks)
		us, err := s.timed(func() error { return s.start("triad") })
		seconds = us / 1e6
		return err
	})
	return seconds, err
}

// timed is how many microseconds the GPU takes for what start starts.
func (s *System) timed(start func() error) (us float64, err error) {
	var marks [2]*cuda.Event
	for i := range marks {
		if marks[i], err = s.context.Event(); err != nil {
			return 0, err
		}
		defer marks[i].Destroy()
	}
	if err := errors.Join(marks[0].Record(s.stream), start(), marks[1].Record(s.stream),
		s.stream.Synchronize()); err != nil {
		return 0, err
	}
	return marks[1].Since(marks[0])
}

// GPU is what the GPU of this rank is called.
func (s *System) GPU() string { return s.context.Device().Name }

// Alone is not measured on a device: its kernels wait for other ranks where they work.
func (s *System) Alone(int) (float64, error) { return 0, nil }
