package partition

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Table is a layout that has an owner for every row.
type Table struct {
	owners []int32
	ranks  int
}

func newTable(rows, ranks int) *Table { return &Table{make([]int32, rows), ranks} }

// NewTable is the layout in which row i belongs to owners[i].
func NewTable(owners []int32, ranks int) (*Table, error) {
	for row, owner := range owners {
		if owner < 0 || int(owner) >= ranks {
			return nil, fmt.Errorf("row %d belongs to rank %d of %d", row, owner, ranks)
		}
	}
	return &Table{owners, ranks}, nil
}

// Owner of a row.
func (t *Table) Owner(row int) int { return int(t.owners[row]) }

// Rows of a rank.
func (t *Table) Rows(rank int) []sparse.Range {
	var out []sparse.Range
	for row, owner := range t.owners {
		if int(owner) == rank {
			out = sparse.Extend(out, row)
		}
	}
	return out
}

// Share is what one rank needs to know of a layout: its own rows, and who owns
// those it is coupled to. It is a layout for that rank alone.
type Share struct {
	Rank   int
	Own    []sparse.Range
	Ghosts []int // ascending
	Owners []int // of the ghosts
}

// Couplings are the rows, ascending, that some rows are coupled to and that are
// none of them: the ghosts of a Share.
func Couplings(p sparse.Problem, own []sparse.Range) []int {
	mine := Share{Own: own} // of rank 0, to look rows up in
	known := map[int]bool{}
	var ghosts []int
	var row sparse.Row
	for _, r := range own {
		for i := r.Lo; i < r.Hi; i++ {
			p.Row(i, &row)
			for _, c := range row.Cols {
				if (c < r.Lo || c >= r.Hi) && mine.Owner(c) < 0 && !known[c] {
					known[c] = true
					ghosts = append(ghosts, c)
				}
			}
		}
	}
	slices.Sort(ghosts)
	return ghosts
}

// Owner of a row of this rank or of one that it is coupled to; -1 of any other.
func (s *Share) Owner(row int) int {
	if at, found := slices.BinarySearch(s.Ghosts, row); found {
		return s.Owners[at]
	}
	if sparse.Find(s.Own, row) < 0 {
		return -1
	}
	return s.Rank
}

// Rows of this rank; the others' are not known.
func (s *Share) Rows(rank int) []sparse.Range {
	if rank != s.Rank {
		return nil
	}
	return s.Own
}
