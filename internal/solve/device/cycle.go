package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/multigrid"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/profile"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// cycle is the V-cycle of package multigrid's gmg on a device: the same grids, matrices and smoother. The GPU makes the
// matrices, as it makes the problem's; the host decides along which axes to halve, and inverts the last one.
type cycle struct {
	levels []*level
	form

	measure, galerkin, transfer loaded
	first, others               loaded // the steps with products, on the first level and the others
}

// loadCycle finds the kernels.
func (s *System) loadCycle() (err error) {
	c := &cycle{form: s.shape.coarser()}
	s.cycle = c
	others := fmt.Sprintf("cycle_product_diagonals%d", c.diagonals)
	if c.table {
		others = fmt.Sprintf("cycle_product_table%d", c.diagonals)
	}
	for _, k := range []struct {
		to   *loaded
		name string
	}{{&c.measure, "cycle_measure"}, {&c.galerkin, "cycle_galerkin"}, {&c.transfer, "cycle_transfer"},
		{&c.first, s.shape.kernel("cycle", "product")}, {&c.others, others}} {
		if *k.to, err = s.load(k.name); err != nil {
			return err
		}
	}
	return nil
}

// buildCycle makes all levels, and readies the steps of the cycle.
func (s *System) buildCycle() error {
	*s.seen() = gpusolve.Outcome{}
	c, p := s.cycle, s.params
	first := &level{grid: s.shape.grid, layout: s.layout, at: s.at, params: *p,
		entries: float64(s.shape.entriesBefore(s.Size))}
	s.Bytes -= s.levelBytes()
	first.params.Diagonals, first.params.Fault = uint32(c.diagonals), 0
	if c.table {
		first.params.Table = 1
	}
	c.levels = []*level{first}
	// What is left to cg itself is no diagonal any more, and its direction is made of the solution of the cycle.
	p.Diagonal, p.Factor = 0, 1
	p.S, p.W = [2]uint64{}, [2]uint64{}
	if err := s.own(&first.params.Bound, 8); err != nil {
		return err
	}
	for lv := first; ; {
		if err := s.examine(lv); err != nil {
			return err
		}
		if multigrid.IsLast(lv.grid.Size()) {
			break
		}
		next, err := s.coarsen(lv)
		if err != nil {
			return err
		}
		c.levels = append(c.levels, next)
		s.Bytes += next.bytes(s)
		lv = next
	}
	if err := s.invertLast(); err != nil {
		return err
	}
	s.readyCycle()
	return nil
}

// own allocates memory of this rank alone.
func (s *System) own(to *uint64, bytes int) error {
	return s.context.Do(func() error {
		at, err := s.context.Alloc(bytes)
		if err != nil {
			return fmt.Errorf("allocating %d bytes for a level: %w", bytes, err)
		}
		s.private, *to = append(s.private, at), uint64(at)
		return s.context.Fill(at, 0, bytes)
	})
}

// do makes a step of the set-up, and gives the rank's parts of its sums. All ranks make the same.
func (s *System) do(k loaded, p gpusolve.Params, op uint32) (sums [gpusolve.MaxSums]float64, err error) {
	p.Op = op
	st := newStep(k, &p, krylov.Precond)
	err = s.context.Do(func() error { return errors.Join(st.start(s), s.stream.Synchronize()) })
	if err != nil {
		return sums, err
	}
	if _, err := s.over(); err != nil {
		return sums, err
	}
	const each = gpusolve.MailBytes / (4 * gpusolve.MaxRanks)
	mail, err := s.read(cuda.Pointer(p.Mail[p.Rank]+uint64(p.Step%4*gpusolve.MaxRanks+p.Rank)*each), gpusolve.MaxSums)
	copy(sums[:], mail)
	return sums, err
}

// gather gives every rank all ranks' values, by rank.
func (s *System) gather(mine ...float64) ([][]float64, error) {
	all := make([]float64, s.group.Size()*len(mine))
	copy(all[s.group.Rank()*len(mine):], mine)
	sum := make([]float64, len(all))
	if err := s.group.AllReduce(dist.Of(sum), dist.Of(all), dist.Sum); err != nil { // nothing is added but zeros
		return nil, err
	}
	return slices.Collect(slices.Chunk(sum, len(mine))), nil
}

// add gives every rank the sums over all ranks, added in their order.
func (s *System) add(mine ...float64) ([]float64, error) {
	all, err := s.gather(mine...)
	out := make([]float64, len(mine))
	for _, list := range all {
		for i, v := range list {
			out[i] += v
		}
	}
	return out, err
}

// examine finds the axes to halve and the smoother of a level.
func (s *System) examine(lv *level) error {
	if err := s.context.Do(func() error { return s.context.Fill(cuda.Pointer(lv.params.Bound), 0, 8) }); err != nil {
		return err
	}
	p := lv.params
	p.Other, p.OtherStride = lv.matrix(), p.Stride
	coupling, err := s.do(s.cycle.measure, p, 0)
	if err != nil {
		return err
	}
	bound, err := s.read(cuda.Pointer(p.Bound), 1)
	if err != nil {
		return err
	}
	all, err := s.gather(append(coupling[:], bound[0])...)
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
	for axis, n := range multigrid.Coarser(lv.grid, multigrid.Halved(lv.grid, total)) {
		lv.params.Coarse[axis] = uint64(n)
	}
	largest, err := s.largest(lv, bound[0])
	lv.along, lv.beyond = multigrid.Smoother(largest)
	return err
}

// largest is the largest eigenvalue of D^-1 A.
func (s *System) largest(lv *level, bound float64) (float64, error) {
	p := lv.params
	p.Seed, p.RHS = multigridSeed, gpusolve.Noise
	begun, err := s.do(s.cycle.transfer, p, gpusolve.BeginLanczos)
	if err != nil {
		return 0, err
	}
	squared, err := s.add(begun[0])
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
		if _, err := s.do(s.cycle.transfer, p, gpusolve.NextLanczos); err != nil {
			return 0, err
		}
		p.Along = before
		made, err := s.do(s.cycle.product(lv), p, gpusolve.Lanczos)
		if err != nil {
			return 0, err
		}
		sums, err := s.add(made[0], made[1])
		if err != nil {
			return 0, err
		}
		l.Made(sums[0], sums[1])
	}
}

// product is the kernel of the steps with products.
func (c *cycle) product(lv *level) loaded {
	if lv == c.levels[0] {
		return c.first
	}
	return c.others
}

// coarsen makes the next level.
func (s *System) coarsen(lv *level) (*level, error) {
	c := s.cycle
	next := &level{params: *s.params}
	for axis, n := range lv.params.Coarse {
		next.grid[axis] = int(n)
	}
	next.layout = lv.coarseLayout(next.grid, c.form)
	var err error
	if next.buffer, err = s.group.Alloc(dist.F64, next.layout.values()); err != nil {
		return nil, fmt.Errorf("a level of %d rows: %w", next.layout.size, err)
	}
	backend, _ := dist.As[reacher](s.group.Backend())
	_, next.at, _ = backend.Reach(next.buffer)
	next.describe(s)
	next.params.Bound, next.params.Level, next.params.Table = lv.params.Bound, lv.params.Level+1, lv.params.Table
	if c.table {
		if err := errors.Join(s.own(&next.params.Vals, tableBytes),
			s.own(&next.params.Codes, max(1, int(next.params.Rows)))); err != nil {
			return nil, errors.Join(err, s.group.Free(next.buffer))
		}
	}
	p := lv.params // the problem of the finer level, the rows of the coarser one
	q := &next.params
	p.Other, p.OtherStride = lv.matrix(), p.Stride
	p.Rows, p.Below, p.Above, p.First, p.Blocks = q.Rows, q.Below, q.Above, q.First, q.Blocks
	p.R, p.Vals, p.Stride, p.Codes = q.R, q.Vals, q.Stride, q.Codes
	p.Ghosts, p.SendLo, p.SendHi, p.EdgeLo, p.EdgeHi = q.Ghosts, q.SendLo, q.SendHi, q.EdgeLo, q.EdgeHi
	if _, err := s.do(c.galerkin, p, 0); err != nil {
		return nil, errors.Join(err, s.group.Free(next.buffer))
	}
	return next, nil
}

// multigridSeed is that of the noise that the host's eigenvalues are found from.
const multigridSeed = 7

// invertLast gives every rank the inverse of the last matrix.
func (s *System) invertLast() error {
	lv := s.cycle.levels[len(s.cycle.levels)-1]
	if err := s.group.Barrier(); err != nil { // what others sent is there
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
	if err := s.own(&lv.params.Inverse, 8*n*n); err != nil {
		return err
	}
	var bytes []byte
	for _, v := range inverse {
		bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(v))
	}
	return s.context.Do(func() error { return s.context.Write(cuda.Pointer(lv.params.Inverse), bytes) })
}

// Hierarchy is the levels of the preconditioner, nil where it has none. A trace of the system has them.
func (s *System) Hierarchy() profile.Hierarchy {
	if s.cycle == nil {
		return nil
	}
	return &multigrid.Hierarchy{Sizes: lists.Map(s.cycle.levels, func(lv *level) multigrid.Size {
		return multigrid.Size{Rows: float64(lv.layout.size), Entries: lv.entries}
	})}
}

// close gives the memory of the levels back that all ranks reach.
func (c *cycle) close(g *dist.Group) error {
	coarser := c.levels[min(1, len(c.levels)):]
	return errors.Join(lists.Map(coarser, func(lv *level) error { return g.Free(lv.buffer) })...)
}
