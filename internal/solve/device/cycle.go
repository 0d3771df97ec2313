package device

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/multigrid"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
)

// cycle is the V-cycle of the preconditioner gmg on a GPU, with the same grids, matrices and smoother
// as in package multigrid. The GPU computes the coarse matrices. The host chooses the axes to coarsen,
// and inverts the matrix of the last level.
type cycle struct {
	levels []*level
	storage

	measure, galerkin, transfer loadedKernel
	fineProduct, coarseProduct  loadedKernel // the steps that multiply by the matrix, on the first level and on the others
}

// loadCycle loads the kernels of the cycle.
func (s *System) loadCycle() (err error) {
	c := &cycle{storage: s.matrix.coarseStorage()}
	s.cycle = c
	others := fmt.Sprintf("cycle_product_diagonals%d", c.diagonals)
	if c.table {
		others = fmt.Sprintf("cycle_product_table%d", c.diagonals)
	}
	for _, k := range []struct {
		to   *loadedKernel
		name string
	}{{&c.measure, "cycle_measure"}, {&c.galerkin, "cycle_galerkin"}, {&c.transfer, "cycle_transfer"},
		{&c.fineProduct, s.matrix.kernel("cycle", "product")}, {&c.coarseProduct, others}} {
		if *k.to, err = s.load(k.name); err != nil {
			return err
		}
	}
	return nil
}

// buildCycle builds all levels and adds the steps of the cycle to an iteration.
func (s *System) buildCycle() error {
	*s.progress() = gpusolve.Outcome{}
	c, p := s.cycle, s.params
	first := &level{grid: s.matrix.grid, layout: s.layout, memory: s.memory, params: *p,
		entries: float64(s.matrix.entriesBefore(s.Size)), margin: multigrid.FirstMargin}
	s.Bytes -= s.estimateLevelBytes()
	first.params.Diagonals, first.params.Fault = uint32(c.diagonals), 0
	if c.table {
		first.params.Table = 1
	}
	c.levels = []*level{first}
	// The cycle replaces the diagonal preconditioner of cg, and cg computes its direction from the
	// cycle's solution.
	p.Diagonal, p.Factor = 0, 1
	p.S, p.W = [2]uint64{}, [2]uint64{}
	if err := s.allocZeroed(&first.params.Bound, 8); err != nil {
		return err
	}
	for lv := first; ; {
		if err := s.analyze(lv); err != nil {
			return err
		}
		if multigrid.IsLast(lv.grid.Size()) {
			break
		}
		next, err := s.coarsen(lv)
		if err != nil {
			return err
		}
		s.Bytes += next.bytes(s)
		lv = next
	}
	if err := s.invertLast(); err != nil {
		return err
	}
	s.prepareCycle()
	return nil
}

// allocZeroed allocates zeroed memory that only this rank uses, and stores its address in to.
func (s *System) allocZeroed(to *uint64, bytes int) error {
	return s.context.Do(func() error {
		at, err := s.alloc(bytes)
		if err != nil {
			return fmt.Errorf("allocating %d bytes for a multigrid level: %w", bytes, err)
		}
		*to = uint64(at)
		return s.context.Fill(at, 0, bytes)
	})
}

// runStep executes a step of the set-up and returns this rank's part of its dot products. All ranks
// must execute the same steps.
func (s *System) runStep(k loadedKernel, p gpusolve.Params, op uint32) (sums [gpusolve.MaxSums]float64, err error) {
	p.Op = op
	st := newStep(k, &p, krylov.Precond)
	err = s.context.Do(func() error { return errors.Join(st.start(s), s.stream.Synchronize()) })
	if err != nil {
		return sums, err
	}
	if _, err := s.finished(); err != nil {
		return sums, err
	}
	const each = gpusolve.MailBytes / (4 * gpusolve.MaxRanks)
	mail, err := s.read(cuda.Pointer(p.Mail[p.Rank]+uint64(p.Step%4*gpusolve.MaxRanks+p.Rank)*each), gpusolve.MaxSums)
	copy(sums[:], mail)
	return sums, err
}

// allGather returns the values of all ranks, by rank.
func (s *System) allGather(mine ...float64) ([][]float64, error) {
	all := make([]float64, s.group.Size()*len(mine))
	copy(all[s.group.Rank()*len(mine):], mine)
	sum := make([]float64, len(all))
	// The sums are exact: each element is one rank's value plus zeros.
	err := s.group.AllReduce(dist.Of(sum), dist.Of(all), dist.Sum)
	return slices.Collect(slices.Chunk(sum, len(mine))), err
}

// sum returns the sums over all ranks. It adds in rank order, so that all ranks get the same bits.
func (s *System) sum(mine ...float64) ([]float64, error) {
	all, err := s.allGather(mine...)
	out := make([]float64, len(mine))
	for _, list := range all {
		for i, v := range list {
			out[i] += v
		}
	}
	return out, err
}

// analyze chooses the axes along which a level is coarsened, and the factors of its smoother.
func (s *System) analyze(lv *level) error {
	if err := s.context.Do(func() error { return s.context.Fill(cuda.Pointer(lv.params.Bound), 0, 8) }); err != nil {
		return err
	}
	p := lv.params
	p.Other, p.OtherStride = lv.matrixAddress(), p.Stride
	coupling, err := s.runStep(s.cycle.measure, p, 0)
	if err != nil {
		return err
	}
	bound, err := s.read(cuda.Pointer(p.Bound), 1)
	if err != nil {
		return err
	}
	all, err := s.allGather(append(coupling[:], bound[0])...)
	if err != nil {
		return err
	}
	var total [3]float64
	for _, list := range all {
		for axis := range total {
			total[axis] += list[axis]
		}
		bound[0] = max(bound[0], list[3])
	}
	if multigrid.IsLast(lv.grid.Size()) {
		return nil
	}
	lv.halved = multigrid.Halved(lv.grid, total)
	for axis, n := range multigrid.Coarser(lv.grid, lv.halved) {
		lv.params.Coarse[axis], lv.params.Edge[axis] = uint64(n), lv.margin.Weight(axis)
	}
	largest, err := s.largestEigenvalue(lv, bound[0])
	lv.along, lv.beyond = multigrid.Smoother(largest)
	return err
}

// largestEigenvalue estimates the largest eigenvalue of D^-1 A with Lanczos steps. bound is an upper
// bound of it.
func (s *System) largestEigenvalue(lv *level, bound float64) (float64, error) {
	p := lv.params
	p.Seed, p.RHS = multigridSeed, gpusolve.Noise
	begun, err := s.runStep(s.cycle.transfer, p, gpusolve.BeginLanczos)
	if err != nil {
		return 0, err
	}
	squared, err := s.sum(begun[0])
	if err != nil {
		return 0, err
	}
	l := precondition.NewLanczos(squared[0], bound)
	for {
		along, beyond, before, more := l.Next()
		if !more {
			return l.Largest(), nil
		}
		p.Along, p.Beyond = along, beyond
		if _, err := s.runStep(s.cycle.transfer, p, gpusolve.NextLanczos); err != nil {
			return 0, err
		}
		p.Along = before
		parts, err := s.runStep(s.cycle.product(lv), p, gpusolve.Lanczos)
		if err != nil {
			return 0, err
		}
		sums, err := s.sum(parts[0], parts[1])
		if err != nil {
			return 0, err
		}
		l.Made(sums[0], sums[1])
	}
}

// product returns the kernel that multiplies by the matrix of a level.
func (c *cycle) product(lv *level) loadedKernel {
	if lv == c.levels[0] {
		return c.fineProduct
	}
	return c.coarseProduct
}

// coarsen builds the level below lv: its grid, its memory and its matrix.
func (s *System) coarsen(lv *level) (*level, error) {
	c := s.cycle
	next := &level{params: *s.params, margin: lv.margin.Coarser(lv.grid, lv.halved)}
	for axis, n := range lv.params.Coarse {
		next.grid[axis] = int(n)
	}
	next.layout = lv.coarseLayout(next.grid, c.storage)
	var err error
	if next.buffer, err = s.group.Alloc(dist.F64, next.layout.values()); err != nil {
		return nil, fmt.Errorf("allocating a multigrid level of %d rows: %w", next.layout.size, err)
	}
	c.levels = append(c.levels, next) // from here on, Close frees its memory
	backend, _ := dist.As[reacher](s.group.Backend())
	_, next.memory, _ = backend.Reach(next.buffer)
	next.fillParams(s)
	next.params.Bound, next.params.Level, next.params.Table = lv.params.Bound, lv.params.Level+1, lv.params.Table
	if c.table {
		if err := errors.Join(s.allocZeroed(&next.params.Vals, tableBytes),
			s.allocZeroed(&next.params.Codes, max(1, int(next.params.Rows)))); err != nil {
			return nil, err
		}
	}
	p := lv.params // the galerkin kernel reads the finer level, and computes the rows of the coarser one
	q := &next.params
	p.Other, p.OtherStride = lv.matrixAddress(), p.Stride
	p.Rows, p.Below, p.Above, p.First, p.Blocks = q.Rows, q.Below, q.Above, q.First, q.Blocks
	p.R, p.Vals, p.Stride, p.Codes = q.R, q.Vals, q.Stride, q.Codes
	p.Ghosts, p.SendLo, p.SendHi, p.EdgeLo, p.EdgeHi = q.Ghosts, q.SendLo, q.SendHi, q.EdgeLo, q.EdgeHi
	_, err = s.runStep(c.galerkin, p, 0)
	return next, err
}

// multigridSeed seeds the noise that Lanczos starts from. The host's multigrid uses the same.
const multigridSeed = 7

// invertLast computes the inverse of the last level's matrix on every rank.
func (s *System) invertLast() error {
	lv := s.cycle.levels[len(s.cycle.levels)-1]
	if err := s.group.Barrier(); err != nil { // the ghosts have arrived from all ranks
		return err
	}
	n := lv.grid.Size()
	dense := make([]float64, n*n)
	if lv.params.Level == 0 {
		var row sparse.Row
		for i := range n {
			s.spec.Problem.Row(i, &row)
			for k, col := range row.Cols {
				dense[i*n+col] = row.Vals[k]
			}
		}
	} else if err := s.readMatrix(lv, dense); err != nil {
		return err
	}
	inverse, err := multigrid.Inverse(dense, n)
	if err != nil {
		return err
	}
	if err := s.allocZeroed(&lv.params.Inverse, 8*n*n); err != nil {
		return err
	}
	return s.context.Do(func() error {
		return s.context.Write(cuda.Pointer(lv.params.Inverse), dist.Of(inverse).Bytes())
	})
}

// Hierarchy returns the levels of the preconditioner, or nil if it has none. A Profile of the system
// has one entry in Levels for each.
func (s *System) Hierarchy() system.Hierarchy {
	if s.cycle == nil {
		return nil
	}
	sizes := lists.Map(s.cycle.levels, func(lv *level) multigrid.Size {
		return multigrid.Size{Rows: float64(lv.layout.size), Entries: lv.entries}
	})
	h := hierarchy{Hierarchy: &multigrid.Hierarchy{Sizes: sizes}}
	if len(s.cycle.levels) > 1 {
		h.finest = s.levelBytes(0)
	}
	return h
}

// hierarchy is a hierarchy with the bytes that a cycle moves on the finest level of this rank.
type hierarchy struct {
	*multigrid.Hierarchy
	finest float64
}

// FinestBytes returns the bytes that a cycle moves on the finest level of this rank, or 0 if there is no other level.
func (h hierarchy) FinestBytes() float64 { return h.finest }

// close frees the coarser levels' memory that is shared between ranks.
func (c *cycle) close(g *dist.Group) error {
	coarser := c.levels[min(1, len(c.levels)):]
	return errors.Join(lists.Map(coarser, func(lv *level) error { return g.Free(lv.buffer) })...)
}

// CoarseHalo is a fault for tests, in addition to the faults of the kernels: on coarser levels, no
// ghosts are sent to other ranks.
const CoarseHalo uint32 = 1 << 16

// prepareCycle puts the steps of the cycle before the steps of cg, which then computes its direction
// from the cycle's solution.
func (s *System) prepareCycle() {
	direct := *s.params
	direct.R = s.cycle.levels[0].params.S
	st := newStep(s.steps[0].kernel, &direct, krylov.SpMV)
	st.swaps = true
	s.steps = append(append(s.cycleSteps(0), st), s.steps[1:]...)
	s.lookahead = 1 // an iteration already has many kernels
}

// cycleSteps returns the steps of level l, with the steps of all coarser levels in between.
func (s *System) cycleSteps(l int) []step {
	c := s.cycle
	lv := c.levels[l]
	at := func(k loadedKernel, p gpusolve.Params, op uint32) step {
		p.Op, p.Fault = op, s.spec.Fault&^CoarseHalo
		if s.spec.Fault&CoarseHalo != 0 && l > 0 {
			p.Fault |= gpusolve.DroppedHalo
		}
		st := newStep(k, &p, krylov.Precond)
		st.level = l
		return st
	}
	p := lv.params
	if l == len(c.levels)-1 {
		p.Blocks = uint32(min(s.blockLimit, lv.layout.size)) // one block per row
		return []step{at(c.transfer, p, gpusolve.Solve)}
	}
	p.Along, p.Beyond = lv.along, lv.beyond
	next := c.levels[l+1]
	down, up := next.params, p // parameters with the rows of the coarser level, and of the finer one
	down.Grid, down.Coarse, down.Edge = p.Grid, p.Coarse, p.Edge
	down.Other = p.W[0] - 8*(p.First-p.Below)
	up.Other = next.params.S[0] - 8*(next.params.First-next.params.Below)
	product := c.product(lv)
	steps := []step{at(product, p, gpusolve.Smooth), at(product, p, gpusolve.Defect),
		at(c.transfer, down, gpusolve.Restrict)}
	steps = append(steps, s.cycleSteps(l+1)...)
	return append(steps, at(c.transfer, up, gpusolve.Correct), at(product, p, gpusolve.Relax),
		at(product, p, gpusolve.Finish))
}

// cycleBytes returns the bytes that a cycle moves through GPU memory. The first level always counts,
// coarser levels only if they do not fit in the cache.
func (s *System) cycleBytes() (bytes float64) {
	for l, lv := range s.cycle.levels[:len(s.cycle.levels)-1] {
		rows := lv.layout.strips[s.group.Rank()].Len()
		// Each triad vector is twice as large as the cache.
		if l > 0 && (8*4*rows+s.coarseMatrixBytes(rows))*s.sharing() < 8*s.triad.values/2 {
			break
		}
		bytes += s.levelBytes(l)
	}
	return bytes
}

// coarseMatrixBytes returns the bytes of a coarser level's matrix.
func (s *System) coarseMatrixBytes(rows int) int {
	if s.cycle.table {
		return rows
	}
	return 8 * s.cycle.diagonals * rows
}

// levelBytes returns the bytes that a cycle moves on a level that is not the last.
func (s *System) levelBytes(l int) float64 {
	rows := s.cycle.levels[l].layout.strips[s.group.Rank()].Len()
	coarse := s.cycle.levels[l+1].layout.strips[s.group.Rank()].Len()
	diagonal, matrix := 8*rows, s.coarseMatrixBytes(rows)
	// Vector accesses, with right-hand side b, solution x and work vector t: Smooth reads b or t
	// and writes x. Defect reads b and x and writes t. Restrict reads t. Correct reads and writes
	// x. Relax is like Defect. Finish reads t and x and writes x. All except Restrict and Correct
	// also read the matrix, and of those all except Defect read the diagonal. On the next level,
	// Restrict writes b and t and reads the diagonal, and Correct reads x.
	vectors := 2 + 3 + 1 + 2 + 3 + 3
	if l == 0 {
		diagonal, matrix = s.matrix.diagonalBytes(rows), s.matrixPass()
		vectors++ // b again, for the dot products
	}
	return float64(8*vectors*rows + 4*matrix + 3*diagonal + 8*4*coarse)
}
