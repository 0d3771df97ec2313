package partition

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Table is a layout that stores an owner for every row.
type Table struct {
	owners []int32
	ranks  int
}

func newTable(rows, ranks int) *Table { return &Table{make([]int32, rows), ranks} }

// trivial reports whether there is nothing to choose: there is only one rank, or each row gets a rank of its own.
func (t *Table) trivial() bool {
	if len(t.owners) <= t.ranks {
		t.owners = lists.Range[int32](len(t.owners))
		return true
	}
	return t.ranks == 1
}

// NewTable returns the layout in which row i belongs to rank owners[i].
func NewTable(owners []int32, ranks int) (*Table, error) {
	for row, owner := range owners {
		if owner < 0 || int(owner) >= ranks {
			return nil, fmt.Errorf("row %d belongs to rank %d of %d", row, owner, ranks)
		}
	}
	return &Table{owners, ranks}, nil
}

// Owner implements sparse.Layout.
func (t *Table) Owner(row int) int { return int(t.owners[row]) }

// Rows implements sparse.Layout.
func (t *Table) Rows(rank int) []sparse.Range {
	var out []sparse.Range
	for row, owner := range t.owners {
		if int(owner) == rank {
			out = sparse.Extend(out, row)
		}
	}
	return out
}

// Share is the part of a layout that one rank needs: its own rows, and the owners of the rows that they are coupled to.
// It is a layout for that rank only.
type Share struct {
	Rank   int
	Own    []sparse.Range
	Ghosts []int // ascending
	Owners []int // of the ghosts
}

// Couplings returns the rows outside own that rows of own are coupled to, ascending. They are the ghosts of a Share.
func Couplings(p sparse.Problem, own []sparse.Range) []int {
	mine := Share{Own: own} // used only to look up rows
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

// Owner returns the owner of a row of this rank or of a row that it is coupled to, and -1 for any other row.
func (s *Share) Owner(row int) int {
	if at, found := slices.BinarySearch(s.Ghosts, row); found {
		return s.Owners[at]
	}
	if sparse.Find(s.Own, row) < 0 {
		return -1
	}
	return s.Rank
}

// Rows returns the rows of this rank, and nil for other ranks.
func (s *Share) Rows(rank int) []sparse.Range {
	if rank != s.Rank {
		return nil
	}
	return s.Own
}
