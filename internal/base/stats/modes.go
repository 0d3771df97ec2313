package stats

import (
	"math"
	"slices"
)

// Mode is one of several values around which samples are concentrated.
type Mode struct {
	Center float64 `json:"center"` // median of the samples of the mode
	Share  float64 `json:"share"`  // of all samples, between 0 and 1
}

const (
	// minModeValues is the smallest number of values in which two modes can be distinguished from chance.
	minModeValues = 8
	// minShare is the smallest share of a mode that is reported, and minDistance the smallest relative distance of two
	// modes. A smaller share is a tail of the distribution, and a smaller distance is not important.
	minShare    = 0.10
	minDistance = 0.05
	// minDip suppresses ripples that only many thousand samples show. Two modes that do not
	// overlap have a dip of half the share of the smaller one.
	minDip = 0.025
)

// FindModes returns the two modes of values in the order in which they were taken, the smaller
// center first, or nil if they are compatible with one mode. Unimodal values, independent or not,
// are found to have two modes with a probability of at most 2 %.
//
// The test is the dip test (Hartigan and Hartigan, The Dip Test of Unimodality, Annals of Statistics
// 13, 1985): the largest difference between the distribution of the values and the nearest
// unimodal distribution. Data that consists of two distinct values counts as two modes
// too, although they could be one value that was rounded.
func FindModes(series []float64) []Mode {
	n := len(series)
	if n < minModeValues {
		return nil
	}
	sorted := slices.Sorted(slices.Values(series))
	split := twoGroups(sorted)
	low, high := sorted[:split], sorted[split:]
	modes := []Mode{{Median(low), float64(len(low)) / float64(n)}, {Median(high), float64(len(high)) / float64(n)}}
	if !(modes[1].Center-modes[0].Center >= minDistance*math.Abs(modes[0].Center)) || sorted[0] == sorted[n-1] {
		return nil
	}
	d := Dip(spreadTies(sorted))
	if d < minDip || d < criticalDip(Effective(n, autocorrelationTime(series, -1))) {
		return nil
	}
	return modes
}

// CoverModes widens the interval of the median to both modes if the median may be in either of them. This is the case
// if, given the number of effective values, a mode may have half of the distribution. The median then jumps between the
// modes from sample to sample, so CoverModes requires near certainty (99.9 %) that it does not.
func CoverModes(low, high float64, modes []Mode, effective float64) (float64, float64) {
	if len(modes) == 2 && math.Abs(modes[0].Share-0.5) < 3.29/2/math.Sqrt(effective) {
		return min(low, modes[0].Center), max(high, modes[1].Center)
	}
	return low, high
}

// criticalDip returns the dip that n independent uniform values exceed with a probability of 2 %.
// The uniform distribution has the largest dips of all unimodal ones. The formula fits simulated
// quantiles for 8 to 5000 values within 2 %.
func criticalDip(n float64) float64 {
	root := math.Sqrt(n)
	return (0.6 - 0.38/root) / root
}

// twoGroups returns the index that splits sorted values into the two groups with the smallest sum
// of squared distances from their means. Each has a share of at least minShare.
func twoGroups(sorted []float64) int {
	n := len(sorted)
	sums := make([]float64, n+1)
	for i, v := range sorted {
		sums[i+1] = sums[i] + v - sorted[0]
	}
	minCount := int(math.Ceil(minShare * float64(n)))
	best, largest := minCount, math.Inf(-1)
	for i := minCount; i <= n-minCount; i++ {
		left, right := sums[i]/float64(i), (sums[n]-sums[i])/float64(n-i)
		// The sum of squares between the groups, which is largest where the one within is smallest.
		between := float64(i) * float64(n-i) * (right - left) * (right - left)
		if between > largest && sorted[i] > sorted[i-1] {
			best, largest = i, between
		}
	}
	return best
}

// spreadTies spreads equal values evenly over the distance to the next possible value, which is the
// smallest distance of two values. A clock or a program that rounds makes a staircase of every
// distribution, and each step would be a mode.
func spreadTies(sorted []float64) []float64 {
	step, distinct := math.Inf(1), 1
	for i, v := range sorted[1:] {
		if d := v - sorted[i]; d > 0 {
			step = min(step, d)
			distinct++
		}
	}
	if distinct <= 2 || distinct == len(sorted) {
		return sorted
	}
	out := make([]float64, 0, len(sorted))
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		for k := range j - i {
			out = append(out, sorted[i]+step*(float64(k)+0.5)/float64(j-i))
		}
		i = j
	}
	return out
}

// Dip returns Hartigan's dip of at least one sorted value, a number between 1/(2n) and 1/4. It follows
// algorithm AS 217 (Applied Statistics 34, 1985): the greatest convex minorant and the least concave
// majorant of the distribution within an interval, which shrinks to the modal interval.
func Dip(sorted []float64) float64 {
	n := len(sorted)
	if n < 2 || sorted[0] == sorted[n-1] {
		return 1 / (2 * float64(max(n, 1)))
	}
	d := dipFinder{x: sorted, minorant: make([]int, n), majorant: make([]int, n)}
	d.hulls()
	low, high, dip := 0, n-1, 1.0
	for {
		d.touching(low, high)
		distance, ig, ih := d.widest()
		if distance < dip {
			break
		}
		dip = max(dip, d.below(ig), d.above(ih))
		if low == d.gcm[ig] && high == d.lcm[ih] {
			break
		}
		low, high = d.gcm[ig], d.lcm[ih]
	}
	return dip / (2 * float64(n))
}

// dipFinder holds the state of the dip algorithm. Distances are in units of 1/n.
type dipFinder struct {
	x []float64
	// minorant[i] is the previous vertex of the convex minorant of x[:i+1]; majorant[i] is the next
	// vertex of the concave majorant of x[i:].
	minorant, majorant []int
	// gcm and lcm are the vertices within the interval: gcm from high to low, lcm from low to high.
	gcm, lcm []int
}

// hulls computes minorant and majorant.
func (d *dipFinder) hulls() {
	x, n := d.x, len(d.x)
	for j := 1; j < n; j++ {
		m := j - 1
		for m > 0 {
			next := d.minorant[m]
			if (x[j]-x[m])*float64(m-next) < (x[m]-x[next])*float64(j-m) {
				break
			}
			m = next
		}
		d.minorant[j] = m
	}
	for k := n - 2; k >= 0; k-- {
		m := k + 1
		for m < n-1 {
			next := d.majorant[m]
			if (x[k]-x[m])*float64(m-next) < (x[m]-x[next])*float64(k-m) {
				break
			}
			m = next
		}
		d.majorant[k] = m
	}
}

// touching collects the vertices of both hulls between low and high.
func (d *dipFinder) touching(low, high int) {
	d.gcm, d.lcm = append(d.gcm[:0], high), append(d.lcm[:0], low)
	for at := high; at > low; {
		at = d.minorant[at]
		d.gcm = append(d.gcm, at)
	}
	for at := low; at < high; {
		at = d.majorant[at]
		d.lcm = append(d.lcm, at)
	}
}

// widest returns the largest distance between the hulls, and the indices into gcm and lcm of the
// modal interval that it gives.
func (d *dipFinder) widest() (distance float64, ig, ih int) {
	x, gcm, lcm := d.x, d.gcm, d.lcm
	ig, ih = len(gcm)-1, len(lcm)-1
	if len(gcm) == 2 && len(lcm) == 2 {
		return 1, ig, ih
	}
	ix, iv := len(gcm)-2, 1
	for {
		g, l := gcm[ix], lcm[iv]
		if g > l { // the next vertex is of the majorant
			before := gcm[ix+1]
			dx := float64(l-before+1) - (x[l]-x[before])*float64(g-before)/(x[g]-x[before])
			iv++
			if dx >= distance {
				distance, ig, ih = dx, ix+1, iv-1
			}
		} else {
			before := lcm[iv-1]
			dx := (x[g]-x[before])*float64(l-before)/(x[l]-x[before]) - float64(g-before-1)
			ix--
			if dx >= distance {
				distance, ig, ih = dx, ix+1, iv
			}
		}
		ix, iv = max(ix, 0), min(iv, len(lcm)-1)
		if gcm[ix] == lcm[iv] {
			return distance, ig, ih
		}
	}
}

// below returns the largest distance of the distribution above its minorant left of the modal interval.
func (d *dipFinder) below(ig int) float64 {
	largest := 0.0
	for j := ig; j+1 < len(d.gcm); j++ {
		from, to := d.gcm[j+1], d.gcm[j]
		furthest := 1.0
		if d.x[to] != d.x[from] {
			slope := float64(to-from) / (d.x[to] - d.x[from])
			for i, x := range d.x[from:to] {
				furthest = max(furthest, float64(i+1)-(x-d.x[from])*slope)
			}
		}
		largest = max(largest, furthest)
	}
	return largest
}

// above returns the largest distance of the distribution below its majorant right of the modal interval.
func (d *dipFinder) above(ih int) float64 {
	largest := 0.0
	for j := ih; j+1 < len(d.lcm); j++ {
		from, to := d.lcm[j], d.lcm[j+1]
		furthest := 1.0
		if d.x[to] != d.x[from] {
			slope := float64(to-from) / (d.x[to] - d.x[from])
			for i, x := range d.x[from:to] {
				furthest = max(furthest, (x-d.x[from])*slope-float64(i-1))
			}
		}
		largest = max(largest, furthest)
	}
	return largest
}
