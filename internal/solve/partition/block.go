package partition

import "github.com/kernbench/kernbench/internal/solve/sparse"

func init() {
	// If 7 blocks share 10 planes, some have two planes and some one. The imbalance allows for that.
	Partitioners.Register(Partitioner{Name: "block", Help: "equal boxes of the grid, in a process grid of least surface",
		Needs: Grid, Imbalance: 1.5, Slack: 1, Make: block})
}

// blocks is a grid cut into a process grid of equal boxes.
type blocks struct {
	grid  sparse.Grid
	procs [3]int
}

// block cuts the grid of a problem into as many boxes as there are ranks.
func block(p sparse.Problem, o Options) (sparse.Layout, error) {
	grid := p.(sparse.Gridded).Grid()
	return blocks{grid, processGrid(grid, o.Ranks)}, nil
}

// processGrid factors the number of ranks so that the cuts cross the fewest points. Among equal factorisations it takes
// the one with the fewest cuts across lines of the grid, which are contiguous in memory.
func processGrid(g sparse.Grid, ranks int) [3]int {
	best, fewest := [3]int{1, 1, ranks}, -1.0
	for x := 1; x <= ranks; x++ {
		if ranks%x != 0 {
			continue
		}
		for y := 1; y <= ranks/x; y++ {
			if ranks/x%y != 0 {
				continue
			}
			procs := [3]int{x, y, ranks / x / y}
			cuts := 0.0 // number of points that the cuts cross, as a share of the grid: a plane has 1/g[axis] of the points
			for axis, n := range procs {
				cuts += float64(n-1) / float64(g[axis])
				if n > g[axis] { // leaves blocks empty, so avoid it if possible
					cuts += float64(n)
				}
			}
			if fewest < 0 || cuts < fewest {
				best, fewest = procs, cuts
			}
		}
	}
	return best
}

// Owner implements sparse.Layout.
func (b blocks) Owner(row int) int {
	at := b.grid.Point(row)
	for axis := range at {
		at[axis] = piece(at[axis], b.grid[axis], b.procs[axis])
	}
	return sparse.Grid(b.procs).Index(at)
}

// Rows implements sparse.Layout.
func (b blocks) Rows(rank int) []sparse.Range {
	var part box
	for axis, i := range sparse.Grid(b.procs).Point(rank) {
		n, k := b.grid[axis], b.procs[axis]
		part.lo[axis], part.hi[axis] = n*i/k, n*(i+1)/k
	}
	return region{part}.rows(b.grid)
}
