package hpcg

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// The numeric rules of HPCG.
const (
	referenceIterations = 50      // of a set; further iterations that a method needs are not credited
	maxIterations       = 10 * 50 // most iterations to reach the residual of the reference
	slack               = 1e-6    // relative tolerance of the residual to reach
	// attainable is the smallest residual that is demanded. On a small problem the reference reports much smaller ones,
	// which are only rounding errors.
	attainable = 1e-13
	// On a matrix with a huge diagonal of ten different values, a method needs about ten iterations, and about one with
	// the preconditioner.
	maxPlain, maxPreconditioned = 12, 2
	spectralTolerance           = 1e-12
	maxDeparture                = 1 // largest departure from symmetry, in units of rounding
	// largest variance of the residuals at the end of the sets, relative to their squared mean
	maxVariance     = 1e-6
	matrixNorm      = 2 * 26.0
	officialSeconds = 1800
)

// work is the work of all sets.
type work struct {
	sets, iterations int       // iterations per set
	rows             float64   // over all ranks
	entries          []float64 // of each level, the finest first
}

// flops returns the number of operations by HPCG's formula. Each iteration has 3 scalar products, 3 vector updates, a
// product with the matrix and a cycle. On all levels but the last, the cycle smooths twice, at 4 operations per entry,
// and computes a residual. Each set has one more of everything except the cycle.
func (w work) flops() float64 {
	sets, iterations := float64(w.sets), float64(w.sets*w.iterations)
	total := 2 * (3*iterations + sets) * 2 * w.rows // scalar products and updates
	total += (iterations + sets) * 2 * w.entries[0]
	last := len(w.entries) - 1
	for _, n := range w.entries[:last] {
		total += iterations * (4 + 2 + 4) * n
	}
	return total + iterations*4*w.entries[last]
}

// rating returns HPCG's figure of merit in GFLOP/s: the operations of the reference iterations over the time of the
// sets plus a tenth of the set-up for each set.
func (w work) rating(seconds, setup float64) float64 {
	return w.flops() * referenceIterations / float64(w.iterations) / (seconds + float64(w.sets)*setup/10) / 1e9
}

// raw returns the rate of the iterations alone, in GFLOP/s.
func (w work) raw(seconds float64) float64 { return w.flops() / seconds / 1e9 }

// A check is a condition of a valid result: value must not exceed limit.
type check struct {
	name         string
	value, limit float64
}

// ok is false if the value is NaN.
func (c check) ok() bool { return c.value <= c.limit }

func (c check) String() string { return fmt.Sprintf("%s %.3g, at most %g", c.name, c.value, c.limit) }

// invalid returns an error that lists the failed checks, or nil.
func invalid(checks []check) error {
	wrong := lists.Map(lists.Filter(checks, func(c check) bool { return !c.ok() }), check.String)
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("the result is not valid: %s", strings.Join(wrong, "; "))
}

// iterationsNeeded returns the number of iterations after which the residual reaches a target, and at least
// referenceIterations. If it never does, iterationsNeeded returns maxIterations+1.
func iterationsNeeded(history []float64, target float64) int {
	for i, r := range history {
		if r <= target*(1+slack) {
			return max(referenceIterations, i)
		}
	}
	return maxIterations + 1
}

// variance returns the variance of values that should all be the same, relative to their squared mean.
func variance(values []float64) float64 {
	mean, variance := stat.PopMeanVariance(values, nil)
	if mean == 0 {
		return variance
	}
	return variance / (mean * mean)
}

// setChecks returns the checks of the residuals at the end of the sets, given the one to reach. A single set cannot
// show whether sets repeat each other.
func setChecks(residuals []float64, goal float64) []check {
	out := []check{{"residual of a set over that of the reference", slices.Max(residuals) / goal, 1 + slack}}
	if len(residuals) > 1 {
		out = append(out, check{"variance of the residuals of the sets", variance(residuals), maxVariance})
	}
	return out
}

// departure returns how far x'Ay and y'Ax differ, scaled as in HPCG: about 1 or less if they differ only by rounding.
func departure(xAy, yAx, xNorm, yNorm float64) float64 {
	return math.Abs(xAy-yAx) / ((xNorm*matrixNorm*yNorm + yNorm*matrixNorm*xNorm) * 0x1p-52)
}

// processes returns the process grid that is nearest to a cube.
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
