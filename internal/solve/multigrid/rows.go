package multigrid

import (
	"slices"
	"sort"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// share says who owns which unknowns of a level: rank r those from s[r] up to s[r+1].
type share []int

// Owner implements sparse.Layout.
func (s share) Owner(id int) int {
	return sort.Search(len(s)-1, func(r int) bool { return s[r+1] > id })
}

// Rows implements sparse.Layout.
func (s share) Rows(rank int) []sparse.Range {
	if s[rank] == s[rank+1] {
		return nil
	}
	return []sparse.Range{{Lo: s[rank], Hi: s[rank+1]}}
}

// total is the number of unknowns.
func (s share) total() int { return s[len(s)-1] }

// of is how many a rank owns.
func (s share) of(rank int) int { return s[rank+1] - s[rank] }

// alone reports whether one rank owns all.
func (s share) alone() bool { return s.of(s.Owner(0)) == s.total() }

// fewRows is the mean number of rows below which ranks hand theirs over. Tests take less.
var fewRows = 256

// gathered lets every group of neighbouring ranks leave all to its first, in groups as large
// as it takes to have enough rows each; and one group where the level is the last.
func (s share) gathered() share {
	size, group := len(s)-1, 1
	for group < size && (s.total() <= lastRows || s.total()*group < fewRows*size) {
		group *= 2
	}
	out := make(share, len(s))
	for r := range out {
		if r%group == 0 {
			out[r] = s[r]
		} else {
			out[r] = s[min(size, (r/group+1)*group)]
		}
	}
	return out
}

// rows are the rows of one rank, columns by their numbers.
type rows struct {
	start []int
	cols  []int
	vals  []float64
}

func newRows(n, entries int) *rows {
	return &rows{start: append(make([]int, 0, n+1), 0), cols: make([]int, 0, entries), vals: make([]float64, 0, entries)}
}

func (m *rows) count() int { return len(m.start) - 1 }

func (m *rows) add(col int, val float64) { m.cols, m.vals = append(m.cols, col), append(m.vals, val) }

// end closes a row.
func (m *rows) end() { m.start = append(m.start, len(m.cols)) }

func (m *rows) row(i int) ([]int, []float64) {
	lo, hi := m.start[i], m.start[i+1]
	return m.cols[lo:hi], m.vals[lo:hi]
}

// accumulator adds up one row at a time. Columns of the rank itself are found by number, the
// few others in a map.
type accumulator struct {
	lo   int
	near []int32 // where a column is, plus one
	far  map[int]int32
	cols []int
	vals []float64
}

func newAccumulator(s share, rank int) *accumulator {
	return &accumulator{lo: s[rank], near: make([]int32, s.of(rank)), far: map[int]int32{}}
}

func (a *accumulator) add(col int, val float64) {
	at := int32(0)
	own := uint(col-a.lo) < uint(len(a.near))
	if own {
		at = a.near[col-a.lo]
	} else {
		at = a.far[col]
	}
	if at > 0 {
		a.vals[at-1] += val
		return
	}
	a.cols, a.vals = append(a.cols, col), append(a.vals, val)
	if own {
		a.near[col-a.lo] = int32(len(a.cols))
	} else {
		a.far[col] = int32(len(a.cols))
	}
}

// flush appends the row, columns ascending, and starts another.
func (a *accumulator) flush(to *rows) {
	for _, c := range a.cols {
		if uint(c-a.lo) < uint(len(a.near)) {
			a.near[c-a.lo] = 0
		}
	}
	clear(a.far)
	for i := 1; i < len(a.cols); i++ { // rows are short
		for k := i; k > 0 && a.cols[k-1] > a.cols[k]; k-- {
			a.cols[k-1], a.cols[k] = a.cols[k], a.cols[k-1]
			a.vals[k-1], a.vals[k] = a.vals[k], a.vals[k-1]
		}
	}
	if need := len(to.cols) + len(a.cols); need > cap(to.cols) { // append grows long slices by a quarter alone
		to.cols, to.vals = slices.Grow(to.cols, need), slices.Grow(to.vals, need)
	}
	to.cols, to.vals = append(to.cols, a.cols...), append(to.vals, a.vals...)
	to.end()
	a.cols, a.vals = a.cols[:0], a.vals[:0]
}
