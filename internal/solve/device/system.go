package device

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// reacher is implemented by backends whose buffers a kernel can access on every rank. at holds the
// buffer's address on each rank.
type reacher interface {
	Reach(b dist.Buffer) (context *cuda.Context, at []cuda.Pointer, ok bool)
}

// SupportsBackend reports whether New accepts groups of a backend.
func SupportsBackend(backend string) bool {
	_, ok := dist.As[reacher](backend)
	return ok
}

// System is one rank's part of a linear system on its GPU, ready to be solved.
type System struct {
	Size  int // rows of the whole problem
	Times system.SetupTimes
	Part  partition.Local
	Bytes int // device memory of this rank, without the vectors of the triad
	// MatrixBytes is the memory of this rank's part of the matrix.
	MatrixBytes int

	group   *dist.Group
	spec    Spec
	method  method
	matrix  matrix
	layout  layout
	maxIter int // largest number of iterations of a solve

	context    *cuda.Context
	memory     []cuda.Pointer // base address of the vectors on each rank
	buffer     dist.Buffer
	private    []cuda.Pointer
	stream     *cuda.Stream
	mapped     *cuda.Shared
	params     *gpusolve.Params
	begin      *cuda.Launch
	steps      []step // of an iteration
	cycle      *cycle // nil without multigrid
	blockLimit int    // most blocks of a kernel that can all run at once

	triad struct {
		at     [3]cuda.Pointer
		values int
	}

	expectedSteps int // steps of the last complete solve, 0 before it
	lookahead     int // iterations that the host starts before it polls for the end
}

// waitLimit is how long a kernel waits for another rank. A host is never late by that much, and a
// process whose kernel waits for a dead rank still exits soon. Tests shorten it.
var waitLimit = 20 * time.Second

// New sets up a system together with the other ranks of the group. If GPUs do not support it or lack
// memory, all ranks return a *solve.Refusal.
func New(g *dist.Group, spec Spec) (*System, error) {
	s := &System{group: g, spec: spec, lookahead: defaultLookahead}
	if err := s.setUp(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// setUp partitions the rows, allocates the memory, generates the matrix and sets up the preconditioner. It times these
// steps.
func (s *System) setUp() error {
	clock := s.group.Clock()
	start := clock.Now()
	since := func(start int64) float64 { return float64(clock.Now()-start) / 1e12 }
	if err := s.plan(); err != nil {
		return err
	}
	if err := s.allocate(); err != nil {
		return err
	}
	allocated := clock.Now()
	if err := s.context.Do(s.prepare); err != nil {
		return err
	}
	s.Times.Generation = since(allocated)
	if s.spec.Preconditioner == multigridName {
		prepared, cpu := clock.Now(), system.CPUTime()
		if err := s.buildCycle(); err != nil {
			return fmt.Errorf("setting up the preconditioner %s: %w", multigridName, err)
		}
		s.Times.Precondition, s.Times.PreconditionCPU = since(prepared), system.CPUTime()-cpu
	}
	err := s.group.Barrier()
	s.Times.Total = since(start)
	return err
}

// plan assigns rows to ranks and lays out their memory.
func (s *System) plan() (err error) {
	if s.spec.Given != nil {
		s.spec.Problem = s.spec.Given
	}
	s.Size = s.spec.Problem.Size()
	s.maxIter = s.spec.MaxIter
	if s.maxIter == 0 {
		s.maxIter = krylov.MaxIter(s.Size)
	}
	if s.spec.StopAfter > 0 {
		s.maxIter = min(s.maxIter, s.spec.StopAfter)
	}
	partitioner, err := partition.Partitioners.Lookup(partition.Default)
	if err != nil {
		return err
	}
	owners, err := partitioner.Make(s.spec.Problem, partition.Options{Ranks: s.group.Size()})
	if err != nil {
		return err
	}
	strips := stripsOf(owners, s.group.Size())
	if s.matrix, err = newMatrix(s.spec, strips[s.group.Rank()]); err != nil {
		return err
	}
	s.method = methodOf(s.spec.Spec)
	s.layout = newLayout(strips, s.Size, s.matrix.reach, s.method.stored)
	if s.spec.Preconditioner == multigridName {
		s.layout = s.firstLevelLayout(strips)
	}
	s.describePart()
	return nil
}

// describePart computes the quality of the partition and the size of the matrix.
func (s *System) describePart() {
	rank := s.group.Rank()
	rows := s.layout.strips[rank]
	below, above := s.layout.ghosts(rank)
	s.Part = partition.Local{Rows: rows.Len(), Entries: s.matrix.entries, Halo: below + above}
	for r := range s.group.Size() {
		if send, _ := s.layout.sent(rank, r); send.Len() > 0 {
			s.Part.Neighbours++
		}
	}
	for _, q := range s.matrix.points { // an entry is cut if another rank owns its column
		d := columnOffset(s.matrix.grid, q.Step)
		edge := sparse.Range{Lo: max(rows.Lo, rows.Hi-d), Hi: rows.Hi}
		if d < 0 {
			edge = sparse.Range{Lo: rows.Lo, Hi: min(rows.Hi, rows.Lo-d)}
		}
		single := matrix{grid: s.matrix.grid, points: []sparse.StencilPoint{q}}
		if d != 0 && edge.Len() > 0 {
			s.Part.CutEntries += single.entriesBefore(edge.Hi) - single.entriesBefore(edge.Lo)
		}
	}
	s.MatrixBytes = s.matrix.bytes(rows.Len(), below+above)
}

// checkMemory returns a *solve.Refusal on all ranks if the system does not fit on one of the GPUs.
func (s *System) checkMemory(context *cuda.Context) error {
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
	s.triad.values = 2 * cache / 8 // of each of the three vectors
	s.Bytes = 8*s.layout.values() + s.MatrixBytes + 8*(s.maxIter+2) + s.estimateLevelBytes()
	ranks := s.sharing()
	short := []float64{0}
	if uint64(s.Bytes+24*s.triad.values)*uint64(ranks) > free {
		short[0] = 1
	}
	err = s.group.AllReduce(dist.Of(short), dist.Of([]float64{short[0]}), dist.Sum)
	if err != nil || short[0] == 0 {
		return err
	}
	const gib = 1 << 30
	return &solve.Refusal{Reason: fmt.Errorf("%d unknowns need %.1f GiB on each GPU (%d ranks with %.1f bytes per "+
		"unknown), but only %.1f of %.1f GiB are free", s.Size, float64(s.Bytes)*float64(ranks)/gib, ranks,
		float64(s.Bytes)/float64(max(1, s.Part.Rows)), float64(free)/gib, float64(total)/gib)}
}

// allocate allocates the vectors, which all ranks can access.
func (s *System) allocate() error {
	context, backend, err := contextOf(s.group)
	if err != nil {
		return err
	}
	if err := s.checkMemory(context); err != nil {
		return err
	}
	s.context = context
	if s.buffer, err = s.group.Alloc(dist.F64, s.layout.values()); err != nil {
		return err
	}
	_, s.memory, _ = backend.Reach(s.buffer)
	return nil
}

// ContextOf returns the context of this rank's GPU, in which its kernels run.
func ContextOf(g *dist.Group) (*cuda.Context, error) {
	context, _, err := contextOf(g)
	return context, err
}

func contextOf(g *dist.Group) (*cuda.Context, reacher, error) {
	backend, ok := dist.As[reacher](g.Backend())
	if !ok {
		return nil, nil, fmt.Errorf("backend %s has no memory that kernels can access on all ranks", g.Backend())
	}
	probe, err := g.Alloc(dist.F64, 1) // the context of a buffer identifies the GPU
	if err != nil {
		return nil, nil, err
	}
	context, _, ok := backend.Reach(probe)
	if !ok {
		return nil, nil, errors.New("kernels cannot access this group's memory on all ranks")
	}
	return context, backend, g.Free(probe)
}

// sharing returns the number of ranks that run kernels on this rank's GPU.
func (s *System) sharing() int { return max(1, s.group.Facts().RanksPerDevice) }

// findKernel returns a kernel by name, which starts with its module. Kernels of ranks that share a GPU wait for each
// other, so they must run at the same time. A multiprocessor cannot give a kernel more shared memory while another one
// runs, so all these kernels ask for the largest carveout.
func (s *System) findKernel(name string) (*cuda.Kernel, error) {
	file, _, _ := strings.Cut(name, "_")
	k, err := s.context.Kernel(gpusolve.Files(), file, name)
	if err != nil || s.sharing() == 1 {
		return k, err
	}
	return k, k.LeaveShared()
}

// prepare sets the parameters, generates the matrix, and prepares the steps of a solve.
func (s *System) prepare() (err error) {
	if s.stream, err = s.context.Stream(); err != nil {
		return err
	}
	if s.mapped, err = s.context.Share(int(unsafe.Sizeof(gpusolve.Outcome{}))); err != nil {
		return err
	}
	p := &gpusolve.Params{Rank: uint32(s.group.Rank()), Size: uint32(s.group.Size()), RHS: uint32(s.spec.DeviceRHS),
		Seed: s.spec.Seed, LimitNS: uint64(waitLimit), Factor: 1, Tolerance: s.spec.RTol, Fault: s.spec.Fault,
		Outcome: uint64(s.mapped.Device)}
	s.params = p
	fillStencil(p, s.matrix.grid, s.matrix.points)
	switch {
	case s.matrix.given != nil: // its reciprocals are in memory
	case s.matrix.variable:
		p.Variable, p.CoefSeed = 1, s.matrix.seed
	case s.matrix.jacobi:
		p.Factor = 1 / s.matrix.diagonal()
	}
	s.layout.fillParams(p, s.memory, s.group.Rank())
	if err := s.allocPrivate(); err != nil {
		return err
	}
	if err := s.prepareSolve(); err != nil || s.matrix.given != nil {
		return err
	}
	return errors.Join(s.startKernel("make"), s.stream.Synchronize())
}

// allocPrivate allocates the memory that only this rank accesses.
func (s *System) allocPrivate() error {
	p, rows := s.params, s.Part.Rows
	type region struct {
		to            *uint64
		bytes, margin int
	}
	// Products also read the values of neighbours outside the grid, and then ignore them. A margin on both sides keeps
	// these reads within the allocation.
	margin := 8 * alignUp(s.matrix.reach)
	regions := []region{{&p.Control, gpusolve.ControlBytes, 0}, {&p.History, 8 * (s.maxIter + 2), 0},
		{&p.Partials, 8 * gpusolve.MaxSums * maxBlocks, 0},
		{&p.Diagonal, s.matrix.diagonalBytes(rows + s.Part.Halo), margin}}
	switch {
	case s.matrix.given != nil:
		s.matrix.given.place(p, s.matrix.jacobi)
	case s.matrix.plain:
		width := 4
		if s.matrix.wide {
			width = 8
		}
		regions = append(regions, region{&p.Starts, width * (rows + 1), 0}, region{&p.Cols, 4 * s.matrix.entries, 0},
			region{&p.Vals, 8 * s.matrix.entries, 0})
	default:
		regions = append(regions, region{&p.Codes, rows, 0},
			region{&p.Vals, s.matrix.coefficientBytes(rows + s.Part.Halo), margin})
	}
	for i := range s.triad.at {
		regions = append(regions, region{(*uint64)(&s.triad.at[i]), 8 * s.triad.values, 0})
	}
	for _, r := range regions {
		if r.bytes == 0 {
			continue
		}
		at, err := s.alloc(r.bytes + 2*r.margin)
		if err != nil {
			return fmt.Errorf("allocating %d bytes for the matrix: %w", r.bytes, err)
		}
		*r.to = uint64(at) + uint64(r.margin)
	}
	return s.context.Fill(cuda.Pointer(p.Control), 0, gpusolve.ControlBytes)
}

// alloc allocates device memory, which Close frees.
func (s *System) alloc(bytes int) (cuda.Pointer, error) {
	at, err := s.context.Alloc(bytes)
	if err == nil {
		s.private = append(s.private, at)
	}
	return at, err
}

// maxBlocks is more than any GPU runs at once.
const maxBlocks = 8192

// loadedKernel is a kernel and the shared memory of each of its blocks, in bytes.
type loadedKernel struct {
	*cuda.Kernel
	shared int
}

// load finds a kernel and lowers blockLimit, so that all its blocks can run at once, together with the
// kernels of other ranks on the same GPU. Blocks and ranks wait for each other, so a block that does
// not fit would cause a deadlock.
func (s *System) load(name string) (k loadedKernel, err error) {
	if k.Kernel, err = s.findKernel(name); err != nil {
		return k, err
	}
	if strings.Contains(name, "_tiled") { // the products of a tile are in shared memory
		k.shared = 8 * gpusolve.Rows * len(s.matrix.points)
		if s.matrix.given != nil {
			k.shared = 8 * s.matrix.given.TileEntries
		}
		if err := k.AllowShared(k.shared); err != nil {
			return k, &solve.Refusal{Reason: fmt.Errorf("%d rows of the matrix have %d entries, more than fit in the "+
				"GPU's shared memory: %w", gpusolve.Rows, k.shared/8, err)}
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
	if s.blockLimit = min(s.blockLimit, resident*processors/sharing); s.blockLimit < 1 {
		return k, fmt.Errorf("%d ranks share the GPU, but its %d multiprocessors cannot run one block of each at once",
			sharing, processors)
	}
	return k, nil
}

// blocksFor returns the number of blocks for some rows.
func (s *System) blocksFor(rows int) uint32 {
	return uint32(max(1, min(s.blockLimit, (rows+gpusolve.Rows-1)/gpusolve.Rows)))
}

// prepareSolve loads the kernels of a solve and prepares its steps, all with the same number of
// blocks.
func (s *System) prepareSolve() error {
	s.blockLimit = maxBlocks
	var kernels []loadedKernel
	for _, step := range append([]string{"begin"}, s.method.steps...) {
		k, err := s.load(s.matrix.kernel(s.method.module, step))
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
			st.phase, st.swaps = krylov.SpMV, true
		}
		s.steps = append(s.steps, st)
	}
	return nil
}

// startKernel starts a kernel that is not part of a solve.
func (s *System) startKernel(step string) error {
	k, err := s.findKernel(s.matrix.kernel("cg", step))
	if err != nil {
		return err
	}
	return cuda.NewLaunch(k, int(s.params.Blocks), gpusolve.Rows, 0, false, s.params).Start(s.stream)
}

// Close frees the memory.
func (s *System) Close() error {
	if s.context == nil {
		return nil
	}
	var faults []error
	if s.memory != nil {
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
		if s.mapped != nil {
			faults = append(faults, s.mapped.Free())
		}
		return errors.Join(faults...)
	}))...)
}
