package device

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/profile"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// reacher is a backend whose memory kernels of this program reach, on every rank.
type reacher interface {
	Reach(b dist.Buffer) (context *cuda.Context, at []cuda.Pointer, ok bool)
}

// Serves reports whether systems can be made on groups of a backend.
func Serves(backend string) bool {
	_, ok := dist.As[reacher](backend)
	return ok
}

// System is one rank's part of a linear system on its GPU, ready to be solved.
type System struct {
	Size  int // rows of the whole problem
	Times profile.SetupTimes
	Part  partition.Local
	Bytes int // of device memory that this rank takes
	// MatrixBytes are those of the stored rows.
	MatrixBytes int

	group  *dist.Group
	spec   Spec
	method method
	shape  shape
	layout layout
	most   int // iterations of a solve

	context *cuda.Context
	at      []cuda.Pointer // the vectors' memory, by rank
	buffer  dist.Buffer
	private []cuda.Pointer
	stream  *cuda.Stream
	shared  *cuda.Shared
	params  *gpusolve.Params
	begin   *cuda.Launch
	steps   []step // of an iteration
	cycle   *cycle // nil: a diagonal, or nothing
	blocks  int    // the most that every kernel may have

	triad struct {
		at     [3]cuda.Pointer
		values int
	}

	expected int // steps of a whole solve, once one has ended
	ahead    int // iterations that are started before the host looks
}

// waitLimit is how long a kernel waits for another rank: far longer than a host is ever late, and short enough
// that a process which is ended while a kernel of its waits for a dead rank is soon gone. Tests take less.
var waitLimit = 20 * time.Second

// New sets a system up together with the other ranks of the group. What a device cannot do,
// and a problem that does not fit, is a *solve.Refusal on every rank.
func New(g *dist.Group, spec Spec) (*System, error) {
	clock := g.Clock()
	began := clock.Now()
	s := &System{group: g, spec: spec, ahead: ahead}
	if err := s.plan(); err != nil {
		return nil, err
	}
	if err := s.allocate(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	planned := clock.Now()
	if err := s.context.Do(s.prepare); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	made := clock.Now()
	s.Times.Generation = float64(made-planned) / 1e12
	if s.spec.Preconditioner == multigridName {
		spent := profile.CPUTime()
		if err := s.buildCycle(); err != nil {
			return nil, errors.Join(fmt.Errorf("setting up the preconditioner %s: %w", multigridName, err), s.Close())
		}
		s.Times.Precondition, s.Times.PreconditionCPU = float64(clock.Now()-made)/1e12, profile.CPUTime()-spent
	}
	if err := g.Barrier(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Times.Total = float64(clock.Now()-began) / 1e12
	return s, nil
}

// plan decides who owns which rows, and what they need.
func (s *System) plan() (err error) {
	s.Size = s.spec.Problem.Size()
	s.most = s.spec.MaxIter
	if s.most == 0 {
		s.most = krylov.MaxIter(s.Size)
	}
	if s.spec.StopAfter > 0 {
		s.most = min(s.most, s.spec.StopAfter)
	}
	by, err := partition.Partitioners.Lookup(partition.Default)
	if err != nil {
		return err
	}
	owners, err := by.Make(s.spec.Problem, partition.Options{Ranks: s.group.Size()})
	if err != nil {
		return err
	}
	strips := stripsOf(owners, s.group.Size())
	if s.shape, err = shapeOf(s.spec, strips[s.group.Rank()]); err != nil {
		return err
	}
	// One that there is not has been refused.
	s.method, _ = lists.First(methods, func(m method) bool { return m.name == cmp.Or(s.spec.Method, "cg") })
	s.layout = newLayout(strips, s.Size, s.shape.reach, s.method.places)
	if s.spec.Preconditioner == multigridName {
		s.layout = s.firstLevel(strips)
	}
	s.measurePart()
	return nil
}

// measurePart fills in what the partition's quality is made of.
func (s *System) measurePart() {
	rank := s.group.Rank()
	rows := s.layout.rows(rank)
	below, above := s.layout.ghosts(rank)
	s.Part = partition.Local{Rows: rows.Len(), Entries: s.shape.entries, Halo: below + above}
	for r := range s.group.Size() {
		if send, _ := s.layout.sends(rank, r); send.Len() > 0 {
			s.Part.Neighbours++
		}
	}
	for _, q := range s.shape.points { // an entry is cut whose column is another's
		d := s.shape.distance(q.Step)
		edge := sparse.Range{Lo: max(rows.Lo, rows.Hi-d), Hi: rows.Hi}
		if d < 0 {
			edge = sparse.Range{Lo: rows.Lo, Hi: min(rows.Hi, rows.Lo-d)}
		}
		one := shape{grid: s.shape.grid, points: []sparse.StencilPoint{q}}
		if d != 0 && edge.Len() > 0 {
			s.Part.CutEntries += one.entriesBefore(edge.Hi) - one.entriesBefore(edge.Lo)
		}
	}
	s.MatrixBytes = s.shape.bytes(rows.Len(), below+above)
}

// fits refuses what the GPU has no room for, on all ranks alike.
func (s *System) fits(context *cuda.Context) error {
	var free, total uint64
	err := context.Do(func() (err error) {
		free, total, err = context.Memory()
		return err
	})
	if err != nil {
		return err
	}
	cache, err := context.Device().Get(cuda.L2Bytes)
	if err != nil {
		return err
	}
	s.triad.values = 2 * cache / 8 // of each of three vectors
	s.Bytes = 8*s.layout.values() + s.MatrixBytes + 8*(s.most+2) + s.levelBytes()
	ranks := s.sharing()
	short := []float64{0}
	if uint64(s.Bytes+24*s.triad.values)*uint64(ranks) > free {
		short[0] = 1
	}
	if s.group.Size() > 1 {
		if err := s.group.AllReduce(dist.Of(short), dist.Of([]float64{short[0]}), dist.Sum); err != nil {
			return err
		}
	}
	if short[0] == 0 {
		return nil
	}
	const gib = 1 << 30
	return &solve.Refusal{Reason: fmt.Errorf("%d unknowns need %.1f GiB on each GPU (%d ranks of %.1f bytes an "+
		"unknown), which has %.1f of %.1f GiB free",
		s.Size, float64(s.Bytes)*float64(ranks)/gib, ranks, float64(s.Bytes)/float64(max(1, s.Part.Rows)), float64(free)/gib,
		float64(total)/gib)}
}

// allocate makes the memory that all ranks reach, and what is this rank's own.
func (s *System) allocate() error {
	backend, ok := dist.As[reacher](s.group.Backend())
	if !ok {
		return fmt.Errorf("backend %s has no memory that kernels reach", s.group.Backend())
	}
	probe, err := s.group.Alloc(dist.F64, 1) // leads to the GPU
	if err != nil {
		return err
	}
	context, _, ok := backend.Reach(probe)
	if !ok {
		return errors.New("the memory of this group is none that kernels reach")
	}
	if err := errors.Join(s.group.Free(probe), s.fits(context)); err != nil {
		return err
	}
	s.context = context
	if s.buffer, err = s.group.Alloc(dist.F64, s.layout.values()); err != nil {
		return err
	}
	_, s.at, _ = backend.Reach(s.buffer)
	return nil
}

// modules are the kernels of each GPU of this process, as far as they were needed.
var modules struct {
	sync.Mutex
	of map[module]*cuda.Module
}

type module struct {
	on   *cuda.Context
	name string
}

// sharing is how many ranks have their kernels on this rank's GPU.
func (s *System) sharing() int { return max(1, s.group.Facts().RanksPerDevice) }

// kernel finds a kernel by its name, which begins with that of its module. Kernels of ranks that share a GPU
// wait for each other, and only some of them have shared memory: all leave room for it.
func (s *System) kernel(name string) (*cuda.Kernel, error) {
	of, _, _ := strings.Cut(name, "_")
	key := module{s.context, of}
	modules.Lock()
	defer modules.Unlock()
	m := modules.of[key]
	if m == nil {
		ptx, err := gpusolve.PTX(of)
		if err != nil {
			return nil, err
		}
		if m, err = s.context.Load("the solve", ptx); err != nil {
			return nil, err
		}
		if modules.of == nil {
			modules.of = map[module]*cuda.Module{}
		}
		modules.of[key] = m
	}
	k, err := m.Kernel(name)
	if err != nil || s.sharing() == 1 {
		return k, err
	}
	return k, k.LeaveShared()
}

// prepare fills the argument in, makes the matrix, and readies the steps of a solve.
func (s *System) prepare() (err error) {
	if s.stream, err = s.context.Stream(); err != nil {
		return err
	}
	if s.shared, err = s.context.Share(int(unsafe.Sizeof(gpusolve.Outcome{}))); err != nil {
		return err
	}
	p := &gpusolve.Params{Rank: uint32(s.group.Rank()), Size: uint32(s.group.Size()), Points: uint32(len(s.shape.points)),
		RHS: uint32(s.spec.Made), Seed: s.spec.Seed, LimitNS: uint64(waitLimit), Factor: 1, Tolerance: s.spec.RTol,
		Fault:   s.spec.Fault,
		Outcome: uint64(s.shared.Device)}
	s.params = p
	for axis, n := range s.shape.grid {
		p.Grid[axis] = uint64(n)
	}
	for k, q := range s.shape.points {
		p.Reach[k], p.Coef[k], p.Sides[k] = int64(s.shape.distance(q.Step)), q.Coef, sides(q.Step)
	}
	switch {
	case s.shape.variable:
		p.Variable, p.CoefSeed = 1, s.shape.seed
	case s.shape.jacobi:
		p.Factor = 1 / s.shape.diagonal()
	}
	s.layout.fill(p, s.at, s.group.Rank())
	if err := s.ownMemory(); err != nil {
		return err
	}
	if err := s.readyLaunches(); err != nil {
		return err
	}
	return errors.Join(s.start("make"), s.stream.Synchronize())
}

// ownMemory allocates what no other rank reaches.
func (s *System) ownMemory() error {
	p, rows := s.params, s.Part.Rows
	type more struct {
		to     *uint64
		bytes  int
		before int // bytes that are read, and left out, on both sides: of what would lie beyond the grid
	}
	beyond := 8 * up(s.shape.reach)
	need := []more{{&p.Control, gpusolve.ControlBytes, 0}, {&p.History, 8 * (s.most + 2), 0},
		{&p.Partials, 8 * gpusolve.MaxSums * maxBlocks, 0},
		{&p.Diagonal, s.shape.diagonalBytes(rows + s.Part.Halo), beyond}}
	if s.shape.plain {
		width := 4
		if s.shape.wide {
			width = 8
		}
		need = append(need, more{&p.Starts, width * (rows + 1), 0}, more{&p.Cols, 4 * s.shape.entries, 0},
			more{&p.Vals, 8 * s.shape.entries, 0})
	} else {
		need = append(need, more{&p.Codes, rows, 0}, more{&p.Vals, s.shape.coefficientBytes(rows + s.Part.Halo), beyond})
	}
	for i := range s.triad.at {
		need = append(need, more{(*uint64)(&s.triad.at[i]), 8 * s.triad.values, 0})
	}
	for _, n := range need {
		if n.bytes == 0 {
			continue
		}
		at, err := s.context.Alloc(n.bytes + 2*n.before)
		if err != nil {
			return fmt.Errorf("allocating %d bytes for the matrix: %w", n.bytes, err)
		}
		s.private = append(s.private, at)
		*n.to = uint64(at) + uint64(n.before)
	}
	return s.context.Fill(cuda.Pointer(p.Control), 0, gpusolve.ControlBytes)
}

// maxBlocks is more than any GPU runs at once.
const maxBlocks = 8192

// loaded is a kernel, and the shared memory that a block of it has.
type loaded struct {
	*cuda.Kernel
	shared int
}

// load finds a kernel. All have at most as many blocks as the GPU runs of each at once, less where others have their
// kernels there too, because these wait for each other.
func (s *System) load(name string) (k loaded, err error) {
	if k.Kernel, err = s.kernel(name); err != nil {
		return k, err
	}
	if strings.Contains(name, "_plain") { // a step with the product
		k.shared = 8 * gpusolve.Rows * len(s.shape.points)
		if err := k.AllowShared(k.shared); err != nil {
			return k, err
		}
	}
	processors, err := s.context.Device().Get(cuda.Multiprocessors)
	if err != nil {
		return k, err
	}
	resident, err := k.Resident(gpusolve.Rows, k.shared)
	if err != nil {
		return k, err
	}
	sharing := s.sharing()
	if s.blocks = min(s.blocks, resident*processors/sharing); s.blocks < 1 {
		return k, fmt.Errorf("%d ranks share the GPU, whose %d multiprocessors cannot run a block of each at once", sharing,
			processors)
	}
	return k, nil
}

// blocksFor is how many blocks a kernel has for so many rows.
func (s *System) blocksFor(rows int) uint32 {
	return uint32(max(1, min(s.blocks, (rows+gpusolve.Rows-1)/gpusolve.Rows)))
}

// readyLaunches readies the steps of a solve, all of the same number of blocks.
func (s *System) readyLaunches() error {
	s.blocks = maxBlocks
	var kernels []loaded
	for _, step := range append([]string{"begin"}, s.method.steps...) {
		k, err := s.load(s.shape.kernel(s.method.module, step))
		if err != nil {
			return err
		}
		kernels = append(kernels, k)
	}
	if s.spec.Preconditioner == multigridName {
		if err := s.loadCycle(); err != nil {
			return err
		}
	}
	s.params.Blocks = s.blocksFor(s.Part.Rows)
	s.begin = newStep(kernels[0], s.params, krylov.Other).launch
	for i, k := range kernels[1:] {
		st := newStep(k, s.params, krylov.Updates)
		if i == 0 {
			st.phase, st.turns = krylov.SpMV, true
		}
		s.steps = append(s.steps, st)
	}
	return nil
}

// start starts a kernel that is no part of a solve.
func (s *System) start(step string) error {
	name := "cg_" + step
	if step == "make" {
		name = s.shape.kernel("cg", step)
	}
	k, err := s.kernel(name)
	if err != nil {
		return err
	}
	return cuda.NewLaunch(k, int(s.params.Blocks), gpusolve.Rows, 0, false, s.params).Start(s.stream)
}

// Close gives the memory back.
func (s *System) Close() error {
	if s.context == nil {
		return nil
	}
	var faults []error
	if s.at != nil {
		faults = append(faults, s.group.Free(s.buffer))
	}
	if s.cycle != nil {
		faults = append(faults, s.cycle.close(s.group))
	}
	return errors.Join(append(faults, s.context.Do(func() error {
		faults := lists.Map(s.private, s.context.Free)
		if s.stream != nil {
			faults = append(faults, s.stream.Destroy())
		}
		if s.shared != nil {
			faults = append(faults, s.shared.Free())
		}
		return errors.Join(faults...)
	}))...)
}
