package multigrid

import (
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// matrix is one rank's rows of a matrix between levels, ready to be multiplied.
type matrix struct {
	precondition.Square
	x []float64 // the vector to multiply: owned values, then ghosts
}

// assemble stores rows whose columns are positions in a space, and settles the space.
func assemble(team precondition.Team, m *sparse.Shapes, columns *space, format sparse.Format) (*matrix, error) {
	columns.settle(m)
	halo, err := team.Connect(sparse.PlanOf(columns, team.Rank(), columns.ghosts))
	if err != nil {
		return nil, err
	}
	out := &matrix{}
	out.Halo = halo
	width := max(m.Rows(), columns.width()) // the kernels address columns relative to the row
	if out.Matrix, err = m.Matrix(width, format); err != nil {
		return nil, err
	}
	out.x = make([]float64, width)
	return out, nil
}

// transposed returns the transpose of a rank's rows, as far as the rank knows it. It has a row for every position of
// the columns.
func transposed(m *sparse.Shapes, width int) *sparse.Shapes {
	out := &sparse.CSR{Start: make([]int, width+1), Cols: make([]int32, m.Entries()), Vals: make([]float64, m.Entries())}
	for i := range m.Rows() {
		first, offsets, _ := m.Row(i)
		for _, d := range offsets {
			out.Start[first+d+1]++
		}
	}
	for c := range width {
		out.Start[c+1] += out.Start[c]
	}
	next := slices.Clone(out.Start)
	for i := range m.Rows() {
		first, offsets, vals := m.Row(i)
		for k, d := range offsets {
			at := next[first+d]
			out.Cols[at], out.Vals[at] = int32(i), vals[k]
			next[first+d]++
		}
	}
	return out.Shapes()
}

// entry is an entry of a row that is sent to another rank.
type entry struct {
	row, col int // numbers of unknowns
	val      float64
}

// appendRow appends the entries of a row, whose columns are positions in a space.
func appendRow(list []entry, row int, columns *space, first int32, offsets []int32, vals []float64) []entry {
	for k, d := range offsets {
		list = append(list, entry{row, columns.id(first + d), vals[k]})
	}
	return list
}

// sendRows sends the rows of ghosts, among n rows, to the owners of the ghosts. It returns the entries that arrive for
// each of the rank's own rows.
func sendRows(team precondition.Team, of *space, n int, row func(place int) (int32, []int32, []float64),
	columns *space) ([][]entry, error) {
	to := make([][]entry, team.Size())
	for k, id := range of.ghosts[:n-of.own] {
		first, offsets, vals := row(of.own + k)
		r := of.Owner(id)
		to[r] = appendRow(to[r], id, columns, first, offsets, vals)
	}
	from, err := precondition.Exchange(team, to)
	if err != nil || team.Size() == 1 {
		return nil, err
	}
	out := make([][]entry, of.own)
	for _, e := range slices.Concat(from...) {
		out[e.row-of.first] = append(out[e.row-of.first], e)
	}
	return out, nil
}

// restriction returns the rank's rows of the transpose of P. It combines what the rank itself knows of them with what
// other ranks send. The columns are positions in the fine space, to which it adds ghosts.
func restriction(team precondition.Team, r *sparse.Shapes, fine, coarse *space) (*sparse.Shapes, error) {
	received, err := sendRows(team, coarse, r.Rows(), r.Row, fine)
	if err != nil {
		return nil, err
	}
	if received == nil {
		return r, nil
	}
	out := sparse.NewShapes(coarse.own, r.Stored())
	for c := range coarse.own {
		first, offsets, vals := r.Row(c)
		if c > 0 && len(received[c]) == 0 && len(received[c-1]) == 0 {
			if before, _, _ := r.Row(c - 1); r.Follows(c, 1, int(first-before)) {
				out.Repeat(1, first-before)
				continue
			}
		}
		for k, d := range offsets {
			out.Add(first+d, vals[k])
		}
		for _, e := range received[c] {
			out.Add(fine.place(e.col), e.val)
		}
		out.End()
	}
	return out, nil
}

// galerkin returns the rank's rows of R A P. r is the transpose of the rank's rows of P, and p also has the rows of P
// for the ghosts of a. The columns of p and of the result are positions in the coarse space, to which galerkin adds
// ghosts. It computes each row of R A first, then the row of R A P, so that no intermediate matrix is stored. It skips
// rows that must equal the previous row with its columns moved by one.
func galerkin(team precondition.Team, a, p, r *sparse.Shapes, coarse *space) (*sparse.Shapes, error) {
	left, sum := newAccumulator(p.Rows()), newAccumulator(coarse.width())
	product := func(c int) {
		first, offsets, vals := r.Row(c)
		for k, d := range offsets {
			v := vals[k]
			first, offsets, vals := a.Row(int(first + d))
			for e, d := range offsets {
				left.add(first+d, v*vals[e])
			}
		}
		for _, j := range left.cols {
			v := left.cells[j].sum
			first, offsets, vals := p.Row(int(j))
			for e, d := range offsets {
				sum.add(first+d, v*vals[e])
			}
		}
		left.next()
	}
	received, err := sendRows(team, coarse, r.Rows(), func(place int) (int32, []int32, []float64) {
		product(place)
		one := sparse.NewShapes(1, len(sum.cols))
		sum.flush(one)
		return one.Row(0)
	}, coarse)
	if err != nil {
		return nil, err
	}
	again := repeated(a, p, r)
	out := sparse.NewShapes(coarse.own, 3*a.Stored()/max(1, a.Rows())*coarse.own)
	for c := range coarse.own {
		alone := received == nil || len(received[c]) == 0
		if alone && c > 0 && (received == nil || len(received[c-1]) == 0) && again(c) {
			out.Repeat(1, 1)
			continue
		}
		product(c)
		if !alone {
			for _, e := range received[c] {
				place := coarse.place(e.col)
				sum.fit(coarse.width())
				sum.add(place, e.val)
			}
		}
		sum.flush(out)
	}
	return out, nil
}

// repeated returns a function that reports whether row c of R A P must equal row c-1 with its columns moved by one,
// without computing it. That is the case if the row of R repeats the row before it, moved by step rows of A; these rows
// of A repeat the rows step before them; and so do the rows of P that they multiply, moved by one.
func repeated(a, p, r *sparse.Shapes) (again func(c int) bool) {
	step := 0
	for c := r.Rows()/2 + 1; c < r.Rows() && step <= 0; c++ { // one row is enough, because most rows have the same step
		here, _, _ := r.Row(c)
		before, _, _ := r.Row(c - 1)
		if r.Follows(c, 1, int(here-before)) {
			step = int(here - before)
		}
	}
	if step <= 0 {
		return func(int) bool { return false }
	}
	interpolated := make([]bool, p.Rows())
	for j := range interpolated {
		interpolated[j] = p.Follows(j, step, 1)
	}
	all := func(set []bool, first int32, offsets []int32) bool {
		for _, d := range offsets {
			if !set[first+d] {
				return false
			}
		}
		return true
	}
	multiplied := make([]bool, a.Rows()) // rows of A P
	for i := range multiplied {
		if a.Follows(i, step, step) {
			first, offsets, _ := a.Row(i)
			multiplied[i] = all(interpolated, first, offsets)
		}
	}
	return func(c int) bool {
		first, offsets, _ := r.Row(c)
		return r.Follows(c, 1, step) && all(multiplied, first, offsets)
	}
}

// fetch appends the rows of P for the ghosts of the fine space. It asks their owners for them.
func fetch(team precondition.Team, p *sparse.Shapes, fine, coarse *space) error {
	ask := make([][]int, team.Size())
	for _, id := range fine.ghosts {
		r := fine.Owner(id)
		ask[r] = append(ask[r], id)
	}
	asked, err := precondition.Exchange(team, ask)
	if err != nil {
		return err
	}
	got, err := precondition.Exchange(team, lists.Map(asked, func(ids []int) (answer []entry) {
		for _, id := range ids {
			first, offsets, vals := p.Row(id - fine.first)
			answer = appendRow(answer, id, coarse, first, offsets, vals)
		}
		return answer
	}))
	for r, list := range got { // ghosts ascend, and so do their owners
		for _, id := range ask[r] {
			for ; len(list) > 0 && list[0].row == id; list = list[1:] {
				p.Add(coarse.place(list[0].col), list[0].val)
			}
			p.End()
		}
	}
	return err
}
