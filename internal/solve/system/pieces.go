package system

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
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

// piece is a piece of the matrix, or the part of it that one rank has seen.
type piece struct {
	label         int // its smallest row number
	rows, nonzero int // number of its rows, and of its rows whose sum is not zero
}

// findPieces finds the singular pieces of a symmetric matrix. zero says which rows of this rank add up to zero. All
// ranks call it together. The result is nil if there is none.
func (s *System) findPieces(problem sparse.Problem, zero []bool) (*singularPieces, error) {
	labels, err := s.labelPieces(problem)
	if err != nil {
		return nil, err
	}
	mine := map[int]piece{}
	for i, l := range labels[:len(zero)] {
		p := mine[l]
		p.label = l
		p.rows++
		if !zero[i] {
			p.nonzero++
		}
		mine[l] = p
	}
	// A piece may lie on several ranks. The rank with the number label mod size adds up the counts of a piece.
	to := make([][]piece, s.team.Size())
	for l, p := range mine {
		to[l%len(to)] = append(to[l%len(to)], p)
	}
	counted, err := precondition.Exchange(s.team, to)
	if err != nil {
		return nil, err
	}
	all := map[int]piece{}
	for _, p := range slices.Concat(counted...) {
		all[p.label] = piece{p.label, all[p.label].rows + p.rows, all[p.label].nonzero + p.nonzero}
	}
	var singular []piece
	for _, p := range all {
		if p.nonzero == 0 {
			singular = append(singular, p)
		}
	}
	sums, err := s.team.Sum([]float64{float64(len(singular))})
	if err != nil || sums[0] == 0 {
		return nil, err
	}
	if sums[0] > maxPieces {
		return nil, &krylov.Refusal{Reason: fmt.Errorf("the matrix has %.0f uncoupled pieces whose rows add up to zero: "+
			"each makes it singular, and at most %d can be projected out", sums[0], maxPieces)}
	}
	gathered, err := precondition.Exchange(s.team, slices.Repeat([][]piece{singular}, len(to)))
	if err != nil {
		return nil, err
	}
	return numberPieces(labels[:len(zero)], slices.Concat(gathered...)), nil
}

// numberPieces numbers the singular pieces by their labels.
func numberPieces(labels []int, singular []piece) *singularPieces {
	slices.SortFunc(singular, func(a, b piece) int { return cmp.Compare(a.label, b.label) })
	p := &singularPieces{of: make([]int32, len(labels))}
	number := map[int]int32{}
	for i, s := range singular {
		number[s.label] = int32(i)
		p.rows = append(p.rows, float64(s.rows))
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
// (union-find), and then asks the owners of the ghosts for their labels until none changes.
func (s *System) labelPieces(problem sparse.Problem) ([]int, error) {
	plan := s.Plan
	columns := plan.Owned + len(plan.Ghosts)
	parent := lists.Range[int32](columns)
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
	labels := make([]int, columns) // the smallest row number, of each root
	for i := range columns {
		label := s.globalColumn(i)
		if r := root(int32(i)); int(r) == i {
			labels[i] = label
		} else {
			labels[r] = min(labels[r], label)
		}
	}
	for {
		of := func(i int) int { return labels[root(int32(i))] }
		ghosts, err := fetch(s, of)
		if err != nil {
			return nil, err
		}
		changed := 0.0
		for k, g := range plan.Ghosts {
			if r := root(int32(plan.Owned + k)); ghosts[g] < labels[r] {
				labels[r], changed = ghosts[g], 1
			}
		}
		sums, err := s.team.Sum([]float64{changed})
		if err != nil || sums[0] == 0 {
			return lists.Map(lists.Range[int](plan.Owned), of), err
		}
	}
}

// globalColumn returns the row number in the whole matrix of a local column, which may be a ghost.
func (s *System) globalColumn(i int) int {
	if i >= s.Plan.Owned {
		return s.Plan.Ghosts[i-s.Plan.Owned]
	}
	return s.Plan.Global(i)
}
