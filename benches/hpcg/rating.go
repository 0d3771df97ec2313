package hpcg

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// The rules that are numbers.
const (
	referenceIterations = 50      // of a set; more that are needed to get as far earn nothing
	mostIterations      = 10 * 50 // to get there
	slack               = 1e-6    // relative, of the residual to reach
	// attainable is the least residual that is asked for: on a small problem the reference believes in
	// far less, where there is only rounding.
	attainable = 1e-13
	// On a matrix with a huge diagonal of ten different values a method needs about ten iterations, and about one with the
	// preconditioner.
	mostPlain, mostPreconditioned = 12, 2
	spectralTolerance             = 1e-12
	mostDeparture                 = 1    // from symmetry, in units of rounding
	mostVariance                  = 1e-6 // of the residuals at the end of the sets, over their mean
	matrixNorm                    = 2 * 26.0
	officialSeconds               = 1800
)

// work is what was done in all sets.
type work struct {
	sets, iterations int       // iterations of each
	rows             float64   // over all ranks
	entries          []float64 // of each level, the finest first
}

// flops is by HPCG's formula: in each iteration 3 scalar products, 3 vector updates, a product with
// the matrix and a cycle, which on all levels but the last smooths twice, at 4 operations an entry,
// and takes a residual; once a set, one of each without the cycle.
func (w work) flops() float64 {
	sets, iterations := float64(w.sets), float64(w.sets*w.iterations)
	total := 2 * (3*iterations + sets) * 2 * w.rows // scalar products, and updates
	total += (iterations + sets) * 2 * w.entries[0]
	last := len(w.entries) - 1
	for _, n := range w.entries[:last] {
		total += iterations * (4 + 2 + 4) * n
	}
	return total + iterations*4*w.entries[last]
}

// rating is HPCG's figure of merit in GFLOP/s: operations scaled to those of the reference iterations,
// over the time of the sets and a tenth of the set-up for each of them.
func (w work) rating(seconds, setup float64) float64 {
	return w.flops() * referenceIterations / float64(w.iterations) / (seconds + float64(w.sets)*setup/10) / 1e9
}

// raw is what the iterations do by themselves.
func (w work) raw(seconds float64) float64 { return w.flops() / seconds / 1e9 }

// A check is one of the conditions of a valid result: a value that must not be above a limit.
type check struct {
	name         string
	value, limit float64
}

// ok also refuses what is no number.
func (c check) ok() bool { return c.value <= c.limit }

func (c check) String() string { return fmt.Sprintf("%s %.3g, at most %g", c.name, c.value, c.limit) }

// invalid says which checks fail, nil if none does.
func invalid(checks []check) error {
	wrong := lists.Map(lists.Filter(checks, func(c check) bool { return !c.ok() }), check.String)
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("the result is not valid: %s", strings.Join(wrong, "; "))
}

// needed is the iterations after which a residual is as small as a target, at least those of the
// reference; one more than the most where it never is.
func needed(history []float64, target float64) int {
	for i, r := range history {
		if r <= target*(1+slack) {
			return max(referenceIterations, i)
		}
	}
	return mostIterations + 1
}

// variance is that of the values over their mean, which should all be the same.
func variance(values []float64) float64 {
	mean, variance := stat.PopMeanVariance(values, nil)
	if mean == 0 {
		return variance
	}
	return variance / (mean * mean)
}

// departure is how far x'Ay and y'Ax differ, of which HPCG makes a number near 1 or below where only rounding differs.
func departure(xAy, yAx, xNorm, yNorm float64) float64 {
	return math.Abs(xAy-yAx) / ((xNorm*matrixNorm*yNorm + yNorm*matrixNorm*xNorm) * 0x1p-52)
}

// processes is the process grid that comes nearest to a cube.
func processes(ranks int) [3]int {
	best := [3]int{1, 1, ranks}
	for x := 1; x*x*x <= ranks; x++ {
		for y := x; x*y*y <= ranks; y++ {
			if z := ranks / (x * y); x*y*z == ranks && x+y+z < best[0]+best[1]+best[2] {
				best = [3]int{x, y, z}
			}
		}
	}
	return best
}
