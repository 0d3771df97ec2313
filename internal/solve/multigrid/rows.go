package multigrid

import (
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// fewRows is the mean number of rows below which ranks hand theirs over. Tests take less.
var fewRows = 256

// gathered lets every group of neighbouring ranks leave all to its first, in groups as large
// as it takes to have enough rows each; and one group where the level is the last.
func gathered(s sparse.Strips) sparse.Strips {
	size, group := len(s)-1, 1
	for group < size && (s.Total() <= lastRows || s.Total()*group < fewRows*size) {
		group *= 2
	}
	out := make(sparse.Strips, len(s))
	for r := range out {
		if r%group == 0 {
			out[r] = s[r]
		} else {
			out[r] = s[min(size, (r/group+1)*group)]
		}
	}
	return out
}

// space is the unknowns of a level as one rank places them in its vectors: its own in their
// order, then those of others, its ghosts, as it meets them.
type space struct {
	sparse.Strips
	first, own int // the rank's: the number of its first unknown, and how many it owns
	ghosts     []int
	at         map[int]int32 // the place of a ghost, by its number
}

func newSpace(s sparse.Strips, rank int) *space {
	return &space{Strips: s, first: s[rank], own: s.Of(rank), at: map[int]int32{}}
}

// width is how many unknowns have a place.
func (s *space) width() int { return s.own + len(s.ghosts) }

// place is where the unknown of that number is.
func (s *space) place(id int) int32 {
	if k := id - s.first; uint(k) < uint(s.own) {
		return int32(k)
	}
	at, known := s.at[id]
	if !known {
		at = int32(s.width())
		s.ghosts, s.at[id] = append(s.ghosts, id), at
	}
	return at
}

// id is the number of the unknown at a place.
func (s *space) id(place int32) int {
	if int(place) < s.own {
		return s.first + int(place)
	}
	return s.ghosts[int(place)-s.own]
}

// settle leaves out the ghosts that no row has and sorts the others, as exchanges want them,
// and moves the columns of the rows to their new places.
func (s *space) settle(m *sparse.Shapes) {
	if len(s.ghosts) == 0 {
		return
	}
	beyond := m.Beyond(s.own)
	used := make([]bool, len(s.ghosts))
	for _, i := range beyond {
		first, far, _ := m.Row(i)
		for _, d := range far {
			if k := int(first+d) - s.own; k >= 0 {
				used[k] = true
			}
		}
	}
	old := s.ghosts
	s.ghosts, s.at = nil, map[int]int32{}
	for k, id := range old {
		if used[k] {
			s.ghosts = append(s.ghosts, id)
		}
	}
	slices.Sort(s.ghosts)
	for k, id := range s.ghosts {
		s.at[id] = int32(s.own + k)
	}
	for _, i := range beyond {
		m.Rename(i, func(c int32) int32 {
			if at := int(c) - s.own; at >= 0 {
				return s.at[old[at]]
			}
			return c
		})
	}
}

// clone is the same space, to go on by itself.
func (s *space) clone() *space {
	out := &space{Strips: s.Strips, first: s.first, own: s.own,
		ghosts: slices.Clone(s.ghosts), at: make(map[int]int32, len(s.at))}
	for k, id := range out.ghosts {
		out.at[id] = int32(out.own + k)
	}
	return out
}

// accumulator adds up one row at a time.
type accumulator struct {
	cells []cell // by column
	row   int32  // the number of the row, from one on
	cols  []int32
	vals  []float64
}

// cell is the sum of a column, if it is of the row.
type cell struct {
	sum float64
	row int32
}

func newAccumulator(width int) *accumulator { return &accumulator{cells: make([]cell, width), row: 1} }

// fit makes room for columns below width.
func (a *accumulator) fit(width int) {
	if more := width - len(a.cells); more > 0 {
		a.cells = append(a.cells, make([]cell, more)...)
	}
}

func (a *accumulator) add(col int32, val float64) {
	c := &a.cells[col]
	if c.row == a.row {
		c.sum += val
		return
	}
	c.sum, c.row = val, a.row
	a.cols = append(a.cols, col)
}

// next starts another row.
func (a *accumulator) next() {
	a.cols = a.cols[:0]
	a.row++
}

// flush appends the row and starts another.
func (a *accumulator) flush(to *sparse.Shapes) {
	a.vals = a.vals[:0]
	for _, c := range a.cols {
		a.vals = append(a.vals, a.cells[c].sum)
	}
	to.AddAll(a.cols, a.vals)
	to.End()
	a.next()
}
