package multigrid

import (
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// classical keeps some of the rows as coarse unknowns and interpolates the others from them. The coarse rows are a
// maximal independent set of the strong couplings, chosen by all ranks in parallel (PMIS: De Sterck, Yang and Heys,
// 2006). The interpolation reaches coarse rows at a distance of two couplings (ext+i: De Sterck, Falgout, Nolting and
// Yang, 2008). It suits matrices whose couplings differ widely, because the weights follow the couplings.
type classical struct {
	threshold float64
	largest   []float64 // the largest coupling of each row and ghost, 0 if the row needs no interpolation
	couplings couplings
	coarse    []int32 // number of each coarse row among the rank's; none for the others
}

// couplings holds the strong couplings of each row: first to the rows that it depends on, then to rows that depend on
// it only.
type couplings struct {
	start, middle []int32
	cols          []int32
	vals          []float64
}

// on returns the couplings of row i to the rows that it depends on.
func (c *couplings) on(i int) ([]int32, []float64) {
	lo, hi := c.start[i], c.middle[i]
	return c.cols[lo:hi], c.vals[lo:hi]
}

// all returns the rows that row i depends on, and then the rows that depend on it only.
func (c *couplings) all(i int) (cols []int32, depends int) {
	lo, hi := c.start[i], c.start[i+1]
	return c.cols[lo:hi], int(c.middle[i] - lo)
}

const (
	// dominant is the sum of a row, relative to its diagonal, above which the smoother alone solves the row.
	dominant = 0.9
	// maxWeights is the largest number of coarse rows that a row is interpolated from. The smallest weights are dropped,
	// so that coarse matrices do not fill up.
	maxWeights = 4

	// States of a row while the coarse rows are chosen. A positive number is the measure of an undecided row.
	isCoarse = -1.
	isFine   = -2.
)

// measureCouplings finds the largest coupling of each row and ghost. A coupling is a negative entry: the two values
// approach each other.
func (g *classical) measureCouplings(f *fine) error {
	largest, err := f.exchanged(func(i int) float64 {
		first, offsets, vals := f.rows.Row(i)
		largest, sum := 0.0, 0.0
		for k, d := range offsets {
			sum += vals[k]
			if int(first+d) != i {
				largest = max(largest, -vals[k])
			}
		}
		if sum > dominant*f.diagonal[i] {
			return 0
		}
		return largest
	})
	g.largest = slices.Clone(largest)
	return err
}

// oneSided returns the share of the strong couplings that are strong for one of the two rows only, over all ranks.
func (g *classical) oneSided(f *fine) (float64, error) {
	if err := g.measureCouplings(f); err != nil {
		return 0, err
	}
	counts := make([]float64, 2)
	for i := range f.space.own {
		first, offsets, vals := f.rows.Row(i)
		for k, d := range offsets {
			j := int(first + d)
			here, there := g.dependsOn(g.largest[i], vals[k]), g.dependsOn(g.largest[j], vals[k])
			if j == i || !here && !there {
				continue
			}
			if counts[0]++; here != there {
				counts[1]++
			}
		}
	}
	sums, err := f.team.Sum(counts)
	if err != nil {
		return 0, err
	}
	return sums[1] / max(1, sums[0]), nil
}

// dependsOn reports whether a row with a given largest coupling depends strongly on a row to which it is coupled by
// the entry v.
func (g *classical) dependsOn(largest, v float64) bool {
	return largest > 0 && -v >= g.threshold*largest
}

// findCouplings lists the strong couplings, and returns for each row how many rows depend on it.
func (g *classical) findCouplings(f *fine) []float64 {
	own, entries := f.space.own, f.rows.Entries()
	c := &g.couplings
	*c = couplings{make([]int32, 1, own+1), make([]int32, 0, own), make([]int32, 0, entries), make([]float64, 0, entries)}
	influence := make([]float64, own)
	for i := range own {
		first, offsets, vals := f.rows.Row(i)
		least, others := g.threshold*g.largest[i], 0
		for k, d := range offsets {
			j, v := first+d, -vals[k]
			if int(j) == i || v <= 0 {
				continue
			}
			here, there := g.largest[i] > 0 && v >= least, g.dependsOn(g.largest[j], vals[k])
			if there {
				influence[i]++
			}
			switch {
			case here:
				c.cols, c.vals = append(c.cols, j), append(c.vals, -v)
				last := len(c.cols) - 1
				at := last - others // the first of the others moves to the end
				c.cols[at], c.cols[last] = c.cols[last], c.cols[at]
				c.vals[at], c.vals[last] = c.vals[last], c.vals[at]
			case there:
				c.cols, c.vals = append(c.cols, j), append(c.vals, -v)
				others++
			}
		}
		c.start, c.middle = append(c.start, int32(len(c.cols))), append(c.middle, int32(len(c.cols)-others))
	}
	return influence
}

// pick implements coarsener.
func (g *classical) pick(f *fine) (int, error) {
	if err := g.measureCouplings(f); err != nil {
		return 0, err
	}
	state := g.findCouplings(f)
	open := make([]int32, 0, f.space.own)
	for i := range state {
		if state[i] == 0 {
			state[i] = isFine
			continue
		}
		state[i] += (1 + sparse.Noise(11, f.space.first+i)) / 2
		open = append(open, int32(i))
	}
	for {
		left, err := f.team.Sum([]float64{float64(len(open))})
		if err != nil {
			return 0, err
		}
		all, err := f.exchanged(func(i int) float64 { return state[i] })
		if err != nil {
			return 0, err
		}
		if left[0] == 0 {
			return g.number(f, slices.Clone(all))
		}
		stillOpen := open[:0]
		for _, i := range open {
			if state[i] = g.decide(int(i), all); state[i] > 0 {
				stillOpen = append(stillOpen, i)
			}
		}
		open = stillOpen
	}
}

// decide returns the next state of an undecided row: fine if it depends on a coarse row, coarse if its measure exceeds
// the measures of all undecided rows that it is strongly coupled to in either direction. The measure is the number of
// rows that depend on it, plus a random number below 1 against ties (see pick).
func (g *classical) decide(i int, state []float64) float64 {
	cols, depends := g.couplings.all(i)
	own := state[i]
	next := isCoarse
	for k, j := range cols {
		if other := state[j]; other >= own {
			next = own
		} else if other == isCoarse && k < depends {
			return isFine
		}
	}
	return next
}

// number numbers the coarse rows. A fine row that depends on rows but has no coarse row within two couplings becomes
// coarse too.
func (g *classical) number(f *fine, state []float64) (int, error) {
	near, err := f.exchanged(func(i int) float64 {
		cols, _ := g.couplings.on(i)
		for _, j := range cols {
			if state[j] == isCoarse {
				return 1
			}
		}
		return 0
	})
	if err != nil {
		return 0, err
	}
	count := int32(0)
	g.coarse = slices.Repeat([]int32{none}, f.space.own)
	for i := range g.coarse {
		cols, _ := g.couplings.on(i)
		reached := len(cols) == 0 || near[i] > 0 || slices.ContainsFunc(cols, func(j int32) bool { return near[j] > 0 })
		if state[i] == isCoarse || !reached {
			g.coarse[i] = count
			count++
		}
	}
	return int(count), nil
}

// interpolate implements coarsener.
func (g *classical) interpolate(f *fine, first int, coarse *space) (*sparse.Shapes, error) {
	to, err := f.positions(g.coarse, first, coarse)
	if err != nil {
		return nil, err
	}
	// near interpolates from the coarse rows that a row is coupled to. sums holds the sum of these couplings.
	near := sparse.NewShapes(f.space.own, f.rows.Stored())
	shared, err := f.exchanged(func(i int) float64 {
		sum := 0.0
		if to[i] >= 0 {
			near.Add(to[i], 1)
			near.End()
			return sum
		}
		cols, vals := g.couplings.on(i)
		for k, j := range cols {
			if to[j] >= 0 {
				sum += vals[k]
			}
		}
		for k, j := range cols {
			if to[j] >= 0 {
				near.Add(to[j], vals[k]/sum)
			}
		}
		near.End()
		return sum
	})
	if err != nil {
		return nil, err
	}
	sums := slices.Clone(shared)
	if err := fetch(f.team, near, f.space, coarse); err != nil {
		return nil, err
	}
	p := sparse.NewShapes(f.space.own, f.rows.Stored())
	row := newAccumulator(coarse.width())
	for i := range f.space.own {
		g.weights(f, i, to, sums, near, row)
		row.flush(p)
	}
	return p, nil
}

// weights adds the weights of row i to a row. A fine row that the row depends on is replaced by its interpolation from
// near coarse rows and from row i itself.
func (g *classical) weights(f *fine, i int, to []int32, sums []float64, near *sparse.Shapes, row *accumulator) {
	if to[i] >= 0 {
		row.add(to[i], 1)
		return
	}
	if g.largest[i] == 0 {
		return
	}
	_, _, vals := f.rows.Row(i)
	diagonal := 0.0 // the sum of the row without the couplings that are interpolated
	for _, v := range vals {
		diagonal += v
	}
	cols, vals := g.couplings.on(i)
	for k, j := range cols {
		v := vals[k]
		diagonal -= v
		if to[j] >= 0 {
			row.add(to[j], v)
			continue
		}
		// The fine row j passes its coupling on: to its coarse rows, and the share through back to row i.
		through := v / (sums[j] + v)
		diagonal += v * through
		first, offsets, weights := near.Row(int(j))
		for m, d := range offsets {
			row.add(first+d, v*(1-through)*weights[m])
		}
	}
	if !(diagonal > 0) {
		diagonal = f.diagonal[i]
	}
	row.normalise(-1/diagonal, maxWeights)
}

// normalise multiplies the row by a factor and keeps at most n entries, the largest. They are scaled so that the sum of
// the row stays the same.
func (a *accumulator) normalise(factor float64, n int) {
	sum := 0.0
	for _, c := range a.cols {
		a.cells[c].sum *= factor
		sum += a.cells[c].sum
	}
	if len(a.cols) <= n {
		return
	}
	slices.SortStableFunc(a.cols, func(c, d int32) int {
		switch x, y := a.cells[c].sum, a.cells[d].sum; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	kept := 0.0
	for _, c := range a.cols[:n] {
		kept += a.cells[c].sum
	}
	a.cols = a.cols[:n]
	slices.Sort(a.cols)
	for _, c := range a.cols {
		a.cells[c].sum *= sum / kept
	}
}
