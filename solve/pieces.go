package solve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// A matrix may consist of pieces that no entry couples, such as the Laplacian of a graph that is not connected. Each
// piece whose rows all add up to zero contributes its own constant to the null space.

// maxPieces limits the pieces that are projected out, because every projection adds up a number for each.
const maxPieces = 1000

// singularPieces are the pieces of a matrix whose rows add up to zero.
type singularPieces struct {
	of   []int32   // piece of each row of this rank, -1 for rows of regular pieces; nil if one piece has all rows
	rows []float64 // number of rows of each piece, over all ranks
}

// wholePiece returns the only piece of a matrix with the given number of rows.
func wholePiece(rows int) *singularPieces { return &singularPieces{rows: []float64{float64(rows)}} }

// piece returns the piece of a row of this rank, or -1.
func (p *singularPieces) piece(row int) int {
	if p.of == nil {
		return 0
	}
	return int(p.of[row])
}

// findPieces finds the singular pieces of a symmetric matrix. zero says which rows of this rank add up to zero. All
// ranks call it together. The result is nil if there is none.
func (s *System) findPieces(problem Problem, zero []bool) (*singularPieces, error) {
	labels, err := s.labelPieces(problem)
	if err != nil {
		return nil, err
	}
	size := s.group.Size()
	type count struct{ rows, nonzero float64 }
	mine := map[float64]*count{}
	for i, l := range labels[:len(zero)] {
		if mine[l] == nil {
			mine[l] = &count{}
		}
		mine[l].rows++
		if !zero[i] {
			mine[l].nonzero++
		}
	}
	// A piece may lie on several ranks. The rank with the number label mod size adds up the counts of a piece.
	to := make([][]float64, size)
	for l, c := range mine {
		to[int(l)%size] = append(to[int(l)%size], l, c.rows, c.nonzero)
	}
	counted, err := exchange(s.group, to)
	if err != nil {
		return nil, err
	}
	all := map[float64]*count{}
	for _, list := range counted {
		for ; len(list) > 0; list = list[3:] {
			c := cmp.Or(all[list[0]], &count{})
			c.rows, c.nonzero = c.rows+list[1], c.nonzero+list[2]
			all[list[0]] = c
		}
	}
	var singular []float64 // label and rows of each
	for l, c := range all {
		if c.nonzero == 0 {
			singular = append(singular, l, c.rows)
		}
	}
	sums, err := team{s.group}.Sum([]float64{float64(len(singular) / 2)})
	if err != nil || sums[0] == 0 {
		return nil, err
	}
	if sums[0] > maxPieces {
		return nil, &Refusal{Reason: fmt.Errorf("the matrix has %.0f uncoupled pieces whose rows add up to zero: each makes "+
			"it singular, and at most %d can be projected out", sums[0], maxPieces)}
	}
	gathered, err := exchange(s.group, slices.Repeat([][]float64{singular}, size))
	if err != nil {
		return nil, err
	}
	return numberPieces(labels[:len(zero)], slices.Concat(gathered...)), nil
}

// numberPieces numbers the singular pieces by their labels. singular has the label and the rows of each.
func numberPieces(labels, singular []float64) *singularPieces {
	pairs := slices.SortedFunc(slices.Chunk(singular, 2), func(a, b []float64) int { return cmp.Compare(a[0], b[0]) })
	p := &singularPieces{of: make([]int32, len(labels))}
	number := map[float64]int32{}
	for _, pair := range pairs {
		number[pair[0]] = int32(len(p.rows))
		p.rows = append(p.rows, pair[1])
	}
	for i, l := range labels {
		n, is := number[l]
		if p.of[i] = n; !is {
			p.of[i] = -1
		}
	}
	return p
}

// labelPieces gives all rows of a piece the same label: its smallest row number. It first joins the rows of this rank
// (union-find), and then exchanges labels with the neighbours until none changes. Labels are floats, because halo
// exchanges carry floats; they are exact up to 2^53.
func (s *System) labelPieces(problem Problem) ([]float64, error) {
	plan := s.parts.Plan
	columns := plan.Owned + len(plan.Ghosts)
	parent := make([]int32, columns)
	for i := range parent {
		parent[i] = int32(i)
	}
	root := func(i int32) int32 {
		for parent[i] != i {
			parent[i] = parent[parent[i]] // halves the path
			i = parent[i]
		}
		return i
	}
	ghost := make(map[int]int32, len(plan.Ghosts))
	for k, g := range plan.Ghosts {
		ghost[g] = int32(plan.Owned + k)
	}
	var row sparse.Row
	for i := range plan.Owned {
		problem.Row(plan.Global(i), &row)
		for k, c := range row.Cols {
			if row.Vals[k] == 0 {
				continue // an explicit zero couples nothing
			}
			at := int32(plan.Local(c))
			if at < 0 {
				at = ghost[c]
			}
			if a, b := root(int32(i)), root(at); a != b {
				parent[max(a, b)] = min(a, b)
			}
		}
	}
	smallest := make([]float64, columns) // of each root
	for i := range columns {
		label := float64(s.globalColumn(i))
		if r := root(int32(i)); int(r) == i {
			smallest[i] = label
		} else {
			smallest[r] = min(smallest[r], label)
		}
	}
	labels := make([]float64, max(columns, s.parts.Matrix.Columns()))
	for {
		for i := range columns {
			labels[i] = smallest[root(int32(i))]
		}
		if err := s.parts.Halo.Start(labels); err != nil {
			return nil, err
		}
		if err := s.parts.Halo.Finish(labels); err != nil {
			return nil, err
		}
		changed := 0.0
		for i := plan.Owned; i < columns; i++ {
			if r := root(int32(i)); labels[i] < smallest[r] {
				smallest[r], changed = labels[i], 1
			}
		}
		sums, err := team{s.group}.Sum([]float64{changed})
		if err != nil || sums[0] == 0 {
			return labels, err
		}
	}
}

// globalColumn returns the row number in the whole matrix of a local column, which may be a ghost.
func (s *System) globalColumn(i int) int {
	if plan := s.parts.Plan; i >= plan.Owned {
		return plan.Ghosts[i-plan.Owned]
	}
	return s.Global(i)
}
