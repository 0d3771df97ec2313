package multigrid

import (
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// fewRows is the mean number of rows per rank below which ranks hand their rows over. Tests reduce it.
var fewRows = 256

// gathered lets the first rank of every group of neighbouring ranks own all rows of the group. The groups are as large
// as necessary to have enough rows each, and there is one group if the level is the last.
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

// space maps the unknowns of a level to positions in the vectors of one rank: first its own unknowns in their order,
// then unknowns of other ranks, its ghosts, in the order in which it meets them.
type space struct {
	sparse.Strips
	first, own int // number of the rank's first unknown, and how many it owns
	ghosts     []int
	at         map[int]int32 // positions of ghosts, by number
}

func newSpace(s sparse.Strips, rank int) *space {
	return &space{Strips: s, first: s[rank], own: s.Of(rank), at: map[int]int32{}}
}

// width returns the number of unknowns that have a position.
func (s *space) width() int { return s.own + len(s.ghosts) }

// place returns the position of an unknown. It adds the unknown to the ghosts if it is new.
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

// id returns the number of the unknown at a position.
func (s *space) id(place int32) int {
	if int(place) < s.own {
		return s.first + int(place)
	}
	return s.ghosts[int(place)-s.own]
}

// settle removes ghosts that no row uses, sorts the others, as halo exchanges require, and renames the columns of the
// rows accordingly.
func (s *space) settle(m *sparse.Shapes) {
	if len(s.ghosts) == 0 {
		return
	}
	beyond := m.Beyond(s.own)
	used := make([]bool, len(s.ghosts))
	for _, i := range beyond {
		first, offsets, _ := m.Row(i)
		for _, d := range offsets {
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

// clone returns an independent copy of the space.
func (s *space) clone() *space {
	out := &space{Strips: s.Strips, first: s.first, own: s.own,
		ghosts: slices.Clone(s.ghosts), at: make(map[int]int32, len(s.at))}
	for k, id := range out.ghosts {
		out.at[id] = int32(out.own + k)
	}
	return out
}

// accumulator adds up the entries of one row at a time.
type accumulator struct {
	cells []cell // by column
	row   int32  // number of the current row, from 1
	cols  []int32
	vals  []float64
}

// cell is the sum of a column. It is valid if row is the current row.
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

// flush appends the row to the output and starts another.
func (a *accumulator) flush(to *sparse.Shapes) {
	a.vals = a.vals[:0]
	for _, c := range a.cols {
		a.vals = append(a.vals, a.cells[c].sum)
	}
	to.AddAll(a.cols, a.vals)
	to.End()
	a.next()
}
