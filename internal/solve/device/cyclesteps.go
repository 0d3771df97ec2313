package device

import (
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
)

// CoarseHalo is an error that is planted: on coarser levels nothing is sent to other ranks. It is none
// of the kernels' own.
const CoarseHalo uint32 = 1 << 16

// readyCycle puts the steps of the cycle before those of cg, whose direction then starts from the cycle's solution.
func (s *System) readyCycle() {
	direct := *s.params
	direct.R = s.cycle.levels[0].params.S
	st := newStep(s.steps[0].kernel, &direct, krylov.SpMV)
	st.turns = true
	s.steps = append(append(s.cycleSteps(0), st), s.steps[1:]...)
	s.ahead = 1 // an iteration is many kernels
}

// cycleSteps are the steps on a level, and those on the coarser ones between them.
func (s *System) cycleSteps(l int) []step {
	c := s.cycle
	lv := c.levels[l]
	at := func(k loaded, p gpusolve.Params, op uint32) step {
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
		p.Blocks = uint32(min(s.blocks, lv.layout.size)) // one for each row
		return []step{at(c.transfer, p, gpusolve.Solve)}
	}
	p.Along, p.Beyond = lv.along, lv.beyond
	next := c.levels[l+1]
	down, up := next.params, p // the coarser level's rows; the finer one's
	down.Grid, down.Coarse = p.Grid, p.Coarse
	down.Other = p.W[0] - 8*(p.First-p.Below)
	up.Other = next.params.S[0] - 8*(next.params.First-next.params.Below)
	product := c.product(lv)
	steps := []step{at(product, p, gpusolve.Smooth), at(product, p, gpusolve.Defect),
		at(c.transfer, down, gpusolve.Restrict)}
	steps = append(steps, s.cycleSteps(l+1)...)
	return append(steps, at(c.transfer, up, gpusolve.Correct), at(product, p, gpusolve.Relax),
		at(product, p, gpusolve.Finish))
}

// cycleBytes is what a cycle moves through the GPU's memory. Levels that lie in its cache are not
// counted, but for the first.
func (s *System) cycleBytes() (bytes float64) {
	for l, lv := range s.cycle.levels[:len(s.cycle.levels)-1] {
		rows := lv.layout.rows(s.group.Rank()).Len()
		coarse := s.cycle.levels[l+1].layout.rows(s.group.Rank()).Len()
		diagonal, matrix := 8*rows, 8*s.cycle.diagonals*rows
		if s.cycle.table {
			matrix = rows
		}
		if l == 0 {
			diagonal, matrix = s.shape.diagonalBytes(rows), s.matrixPass()
		} else if (8*4*rows+matrix)*s.sharing() < 8*s.triad.values/2 { // which are twice the cache
			break
		}
		// Smooth reads b or t and writes x; Defect reads b and x and writes t; Restrict reads t; Correct
		// reads and writes x; Relax is as Defect; Finish reads t and x, and writes x. All but Restrict and
		// Correct read the matrix, and those but Defect the diagonal. Of the next level, Restrict writes b
		// and t and reads the diagonal, Correct reads x.
		vectors := 2 + 3 + 1 + 2 + 3 + 3
		if l == 0 {
			vectors++ // b again, for the scalar products
		}
		bytes += float64(8*vectors*rows + 4*matrix + 3*diagonal + 8*4*coarse)
	}
	return bytes
}
