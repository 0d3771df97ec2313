package device

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/multigrid"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// storage describes how the coarser matrices are stored: by diagonals with one value per row, or as a
// table with one set of entries for each combination of grid sides.
type storage struct {
	diagonals int
	table     bool
}

// level is one rank's part of a multigrid level.
type level struct {
	grid          sparse.Grid
	layout        layout
	memory        []cuda.Pointer // base address of the vectors on each rank
	buffer        dist.Buffer
	params        gpusolve.Params
	along, beyond float64 // factors of the smoother; see multigrid.Smoother
	entries       float64 // entries of the matrix on all ranks
	margin        multigrid.Margin
	halved        [3]bool // axes along which the next level has half the points
}

// The vectors of a level. Its right-hand side is vecR.
const (
	vecSolution = vecS0
	vecWork     = vecW0
)

// gridReach returns the largest distance between the row numbers of neighbours in a grid, for a matrix
// with this many diagonals. On the last level, every rank stores all values.
func gridReach(grid sparse.Grid, diagonals int) int {
	switch {
	case multigrid.IsLast(grid.Size()):
		return grid.Size()
	case diagonals == 27:
		return 1 + grid[0] + grid[0]*grid[1]
	}
	return 1 + grid[0]
}

// coarseStorage returns the storage of the coarser matrices. If the problem's matrix is a stencil that
// is not stored, rows at the same sides of the grid have the same entries on every level, so that a
// table suffices.
func (m *matrix) coarseStorage() storage {
	return storage{map[int]int{5: 9, 7: 27, 9: 9, 27: 27}[len(m.points)], !m.plain && !m.variable}
}

// firstLevelLayout returns the layout of the problem's own level, with the vectors that the cycle
// needs in addition.
func (s *System) firstLevelLayout(strips []sparse.Range) layout {
	stored := append(slices.Clip(s.method.stored), storedVector{vecSolution, true}, storedVector{vecWork, true})
	reach := gridReach(s.matrix.grid, s.matrix.coarseStorage().diagonals)
	return newLayout(strips, s.Size, max(s.matrix.reach, reach), stored)
}

// coarseLayout returns the layout of the next coarser grid. A coarse point belongs to the rank that
// owns the same point of the fine grid.
func (lv *level) coarseLayout(coarse sparse.Grid, f storage) layout {
	strips := slices.Clone(lv.layout.strips)
	for r := range strips {
		strips[r] = sparse.Range{Lo: pointsBefore(lv.grid, coarse, strips[r].Lo),
			Hi: pointsBefore(lv.grid, coarse, strips[r].Hi)}
	}
	stored := []storedVector{{vecR, true}, {vecSolution, true}, {vecWork, true}, {vecInverse, true}}
	for k := 0; k < f.diagonals && !f.table; k++ {
		stored = append(stored, storedVector{vecDiagonal + vector(k), true})
	}
	l := newLayout(strips, coarse.Size(), gridReach(coarse, f.diagonals), stored)
	l.ghostsWithoutRows = true
	return l
}

// pointsBefore returns the number of points of the coarse grid that come before point number row of
// the fine grid.
func pointsBefore(grid, coarse sparse.Grid, row int) (count int) {
	at := grid.Point(row)
	for axis := 2; axis >= 0; axis-- {
		before, kept := at[axis], true
		if coarse[axis] != grid[axis] {
			before, kept = min(at[axis]/2, coarse[axis]), at[axis]%2 == 1
		}
		count = count*coarse[axis] + before
		if !kept { // all points before this line or plane count, and none within it
			for axis--; axis >= 0; axis-- {
				count *= coarse[axis]
			}
		}
	}
	return count
}

// estimateLevelBytes estimates the memory of the coarser levels before they are built. It assumes that
// the axes coupled on the first level are halved on all levels.
func (s *System) estimateLevelBytes() (bytes int) {
	if s.spec.Preconditioner != multigridName {
		return 0
	}
	var coupling [3]float64
	for _, q := range s.matrix.points {
		for axis, d := range q.Step {
			if s.matrix.variable {
				q.Coef = 1 // its coefficients are similar along all axes
			}
			coupling[axis] += math.Abs(q.Coef * float64(d))
		}
	}
	for lv := (&level{grid: s.matrix.grid, layout: s.layout}); !multigrid.IsLast(lv.grid.Size()); {
		coarse := multigrid.Coarser(lv.grid, multigrid.Halved(lv.grid, coupling))
		lv = &level{grid: coarse, layout: lv.coarseLayout(coarse, s.matrix.coarseStorage())}
		bytes += lv.bytes(s)
	}
	return bytes
}

// bytes returns the memory of a coarser level on this rank.
func (lv *level) bytes(s *System) int {
	n := 8 * lv.layout.values()
	if s.matrix.coarseStorage().table {
		n += lv.layout.strips[s.group.Rank()].Len() + tableBytes
	}
	return n
}

// tableBytes is the memory of a table of entries by sides of the grid.
const tableBytes = 8 * gpusolve.Sides * gpusolve.MaxPoints

// matrixAddress returns the address of a coarser matrix for the steps of other levels: its table, or row 0 of
// its first diagonal.
func (lv *level) matrixAddress() uint64 {
	if lv.params.Table != 0 {
		return lv.params.Vals
	}
	return lv.params.Vals - 8*(lv.params.First-lv.params.Below)
}

// fillParams sets the parameters of a coarser level.
func (lv *level) fillParams(s *System) {
	p, rank, diagonals := &lv.params, s.group.Rank(), s.cycle.diagonals
	mail := p.Mail
	p.SendLo, p.SendHi, p.Ghosts = [gpusolve.MaxRanks]uint64{}, [gpusolve.MaxRanks]uint64{}, [gpusolve.MaxRanks]uint64{}
	lv.layout.fillParams(p, lv.memory, rank)
	p.Mail = mail
	stored := lv.layout.pairAddress(lv.memory[rank], rank, vecDiagonal, vecInverse)
	p.Vals, p.Diagonal = stored[0], stored[1]
	p.Stride, p.Diagonals = uint64(lv.layout.length(storedVector{ghosts: true})), uint32(diagonals)
	p.Starts, p.Cols, p.Codes, p.Variable, p.Fault = 0, 0, 0, 0, 0
	fillStencil(p, lv.grid, neighbours(diagonals))
	p.Blocks = s.blocksFor(lv.layout.strips[rank].Len())
	lv.entries = 1
	for axis, n := range lv.grid {
		if axis < 2 || diagonals == 27 {
			lv.entries *= float64(3*n - 2)
		}
	}
}

// neighbours returns the points to which a grid point is coupled, in the order of the diagonals.
func neighbours(diagonals int) (points []sparse.StencilPoint) {
	for k := range diagonals {
		step := [3]int{k%3 - 1, k/3%3 - 1, k/9 - 1}
		if diagonals == 9 {
			step[2] = 0
		}
		points = append(points, sparse.StencilPoint{Step: step})
	}
	return points
}

// readMatrix copies a coarser matrix to the host. This rank must have all its rows, as its own or as
// ghosts.
func (s *System) readMatrix(lv *level, dense []float64) error {
	n, stride := lv.grid.Size(), int(lv.params.Stride)
	count := stride*(s.cycle.diagonals-1) + n
	if s.cycle.table {
		count = tableBytes / 8
	}
	values, err := s.read(cuda.Pointer(lv.params.Vals), count)
	if err != nil {
		return err
	}
	for i := range n {
		for k, q := range neighbours(s.cycle.diagonals) {
			at, bits := lv.grid.Point(i), uint32(0)
			for axis, d := range q.Step {
				if at[axis] == 0 {
					bits |= 1 << (2 * axis)
				}
				if at[axis] == lv.grid[axis]-1 {
					bits |= 2 << (2 * axis)
				}
				at[axis] += d
			}
			entry := k*stride + i
			if s.cycle.table {
				entry = int(bits)*gpusolve.MaxPoints + k
			}
			if bits&sideMask(q.Step) == 0 {
				dense[i*n+lv.grid.Index(at)] = values[entry]
			}
		}
	}
	return nil
}
