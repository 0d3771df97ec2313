package krylov

import "github.com/kernbench/kernbench/internal/solve/sparse"

// Pass is the order in which a pass over the rows of a rank works: a few rows at a time, so that all operations on them
// find them in the first-level cache.
type Pass struct {
	Interior, Boundary []sparse.Range // see sparse.Plan
	Rows               int
	Reach              int         // see sparse.Matrix.Reach
	Step               int         // number of rows that the pass works on at a time, a multiple of 8
	Trace              func(Phase) // called when a communication phase starts, unless nil
}

// Each calls fn for the rows of a range in order.
func (p Pass) Each(r sparse.Range, fn func(lo, hi int)) {
	for ; r.Lo < r.Hi; r.Lo += p.Step {
		fn(r.Lo, min(r.Lo+p.Step, r.Hi))
	}
}

// Product calls update for all rows of a vector and then multiply for all rows of its product with the matrix. multiply
// follows as soon as the rows that it needs are final, while they are still in a cache. start sends the values that
// other ranks need, and must not wait. finish receives the ghosts. In between, Product works on the interior rows.
func (p Pass) Product(update, multiply func(lo, hi int), start, finish func() error) error {
	for _, r := range p.Boundary {
		p.Each(r, update)
	}
	p.enter(HaloPack)
	if err := start(); err != nil {
		return err
	}
	in, next := 0, 0
	follow := func(limit int) {
		for ; in < len(p.Interior); in++ {
			r := p.Interior[in]
			end := r.Hi
			if limit < r.Hi {
				end = limit &^ 7 // whole slices of the matrix
			}
			if next = max(next, r.Lo); next < end {
				p.Each(sparse.Range{Lo: next, Hi: end}, multiply)
				next = end
			}
			if next < r.Hi {
				return
			}
		}
	}
	for _, r := range p.Interior {
		p.Each(r, func(lo, hi int) {
			update(lo, hi)
			follow(hi - p.Reach)
		})
	}
	follow(p.Rows)
	p.enter(HaloWait)
	if err := finish(); err != nil {
		return err
	}
	for _, r := range p.Boundary {
		p.Each(r, multiply)
	}
	return nil
}

func (p Pass) enter(phase Phase) {
	if p.Trace != nil {
		p.Trace(phase)
	}
}
