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

// form is how the coarser matrices are stored: so many diagonals, row by row or in a table by the sides of the grid.
type form struct {
	diagonals int
	table     bool
}

// level is one rank's part of a level.
type level struct {
	grid          sparse.Grid
	layout        layout
	at            []cuda.Pointer // its memory, by rank
	buffer        dist.Buffer
	params        gpusolve.Params
	along, beyond float64 // the smoother
	entries       float64 // of the matrix, on all ranks
}

// The vectors of a level: its right-hand side is vecR.
const (
	vecSolution = vecS0
	vecBetween  = vecW0
)

// gridReach is how far apart the numbers of neighbours in a grid are, in memory that is stored by so
// many diagonals; of the last level every rank has all values.
func gridReach(grid sparse.Grid, diagonals int) int {
	switch {
	case multigrid.IsLast(grid.Size()):
		return grid.Size()
	case diagonals == 27:
		return 1 + grid[0] + grid[0]*grid[1]
	}
	return 1 + grid[0]
}

// coarser is the form of the coarser matrices. Where the problem's own matrix is a stencil that is not
// stored, rows that lie at the same sides are alike on every level.
func (m *shape) coarser() form {
	return form{map[int]int{5: 9, 7: 27, 9: 9, 27: 27}[len(m.points)], !m.plain && !m.variable}
}

// firstLevel is the layout of the problem itself.
func (s *System) firstLevel(strips []sparse.Range) layout {
	places := append(slices.Clip(s.method.places), place{vecSolution, true}, place{vecBetween, true})
	return newLayout(strips, s.Size, max(s.shape.reach, gridReach(s.shape.grid, s.shape.coarser().diagonals)), places)
}

// coarseLayout is that of a coarser grid: a rank has the points of it that are among its own.
func (lv *level) coarseLayout(coarse sparse.Grid, f form) layout {
	strips := slices.Clone(lv.layout.strips)
	for r := range strips {
		strips[r] = sparse.Range{Lo: pointsBefore(lv.grid, coarse, strips[r].Lo),
			Hi: pointsBefore(lv.grid, coarse, strips[r].Hi)}
	}
	places := []place{{vecR, true}, {vecSolution, true}, {vecBetween, true}, {vecInverse, true}}
	for k := 0; k < f.diagonals && !f.table; k++ {
		places = append(places, place{vecDiagonal + vector(k), true})
	}
	l := newLayout(strips, coarse.Size(), gridReach(coarse, f.diagonals), places)
	l.idle = true
	return l
}

// pointsBefore is how many points of a coarser grid come before a point of the finer one, by its number.
func pointsBefore(grid, coarse sparse.Grid, row int) (count int) {
	at := grid.Point(row)
	for axis := 2; axis >= 0; axis-- {
		before, kept := at[axis], true
		if coarse[axis] != grid[axis] {
			before, kept = min(at[axis]/2, coarse[axis]), at[axis]%2 == 1
		}
		count = count*coarse[axis] + before
		if !kept { // all that come before it along the other axes are of the line or plane before
			for axis--; axis >= 0; axis-- {
				count *= coarse[axis]
			}
		}
	}
	return count
}

// levelBytes is about what the coarser levels will take, all axes being halved that are coupled on the first.
func (s *System) levelBytes() (bytes int) {
	if s.spec.Preconditioner != multigridName {
		return 0
	}
	var coupling [3]float64
	for _, q := range s.shape.points {
		for axis, d := range q.Step {
			if s.shape.variable {
				q.Coef = 1 // the coefficients are alike along all axes
			}
			coupling[axis] += math.Abs(q.Coef * float64(d))
		}
	}
	for lv := (&level{grid: s.shape.grid, layout: s.layout}); !multigrid.IsLast(lv.grid.Size()); {
		coarse := multigrid.Coarser(lv.grid, multigrid.Halved(lv.grid, coupling))
		lv = &level{grid: coarse, layout: lv.coarseLayout(coarse, s.shape.coarser())}
		bytes += lv.bytes(s)
	}
	return bytes
}

// bytes is what a coarser level takes on this rank.
func (lv *level) bytes(s *System) int {
	n := 8 * lv.layout.values()
	if s.shape.coarser().table {
		n += lv.layout.rows(s.group.Rank()).Len() + tableBytes
	}
	return n
}

// tableBytes is the memory for the entries of rows by the sides that they lie at.
const tableBytes = 8 * gpusolve.Sides * gpusolve.MaxPoints

// matrix is where the entries of a coarser matrix are, as steps on other levels find them: a table, or
// row 0 of the first diagonal.
func (lv *level) matrix() uint64 {
	if lv.params.Table != 0 {
		return lv.params.Vals
	}
	return lv.params.Vals - 8*(lv.params.First-lv.params.Below)
}

// describe fills in the argument of a coarser level.
func (lv *level) describe(s *System) {
	p, rank, diagonals := &lv.params, s.group.Rank(), s.cycle.diagonals
	mail := p.Mail
	p.SendLo, p.SendHi, p.Ghosts = [gpusolve.MaxRanks]uint64{}, [gpusolve.MaxRanks]uint64{}, [gpusolve.MaxRanks]uint64{}
	lv.layout.fill(p, lv.at, rank)
	p.Mail = mail
	stored := lv.layout.two(lv.at[rank], rank, vecDiagonal, vecInverse)
	p.Vals, p.Diagonal = stored[0], stored[1]
	p.Stride, p.Diagonals = uint64(lv.layout.room(place{ghosts: true})), uint32(diagonals)
	p.Starts, p.Cols, p.Codes, p.Variable, p.Fault = 0, 0, 0, 0, 0
	p.Points = uint32(diagonals)
	for axis, n := range lv.grid {
		p.Grid[axis] = uint64(n)
	}
	for k, step := range neighbours(diagonals) {
		p.Reach[k] = int64(step[0] + lv.grid[0]*(step[1]+lv.grid[1]*step[2]))
		p.Sides[k] = sides(step)
	}
	p.Blocks = s.blocksFor(lv.layout.rows(rank).Len())
	lv.entries = 1
	for axis, n := range lv.grid {
		if axis < 2 || diagonals == 27 {
			lv.entries *= float64(3*n - 2)
		}
	}
}

// neighbours are the steps from a point to those that it is coupled to, in the order of diagonals.
func neighbours(diagonals int) (steps [][3]int) {
	for k := range diagonals {
		step := [3]int{k%3 - 1, k/3%3 - 1, k/9 - 1}
		if diagonals == 9 {
			step[2] = 0
		}
		steps = append(steps, step)
	}
	return steps
}

// readMatrix reads a coarser matrix of which this rank has all rows, as its own or as ghosts.
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
		for k, step := range neighbours(s.cycle.diagonals) {
			at, bits := lv.grid.Point(i), uint32(0)
			for axis, d := range step {
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
			if bits&sides(step) == 0 {
				dense[i*n+lv.grid.Index(at)] = values[entry]
			}
		}
	}
	return nil
}
