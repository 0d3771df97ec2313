package multigrid

import (
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// matrix is a rank's rows of a matrix between levels, ready to be multiplied.
type matrix struct {
	precondition.Square
	owned  int       // columns of this rank
	ghosts []int     // the others, by number
	x      []float64 // owned, then ghosts
}

// assemble stores rows whose columns are shared out like that.
func assemble(team precondition.Team, r *rows, columns share) (*matrix, error) {
	rank := team.Rank()
	lo, hi := columns[rank], columns[rank+1]
	m := &matrix{owned: hi - lo}
	for _, c := range r.cols {
		if c < lo || c >= hi {
			m.ghosts = append(m.ghosts, c)
		}
	}
	slices.Sort(m.ghosts)
	m.ghosts = slices.Compact(m.ghosts)
	plan := sparse.PlanOf(columns, rank, m.ghosts)
	var err error
	if m.Halo, err = team.Connect(plan); err != nil {
		return nil, err
	}
	width := max(r.count(), m.owned+len(m.ghosts)) // the kernels address columns from the row's place
	b, err := sparse.NewBuilder(r.count(), width, sparse.Compressed)
	if err != nil {
		return nil, err
	}
	var local []int
	for i := range r.count() {
		cols, vals := r.row(i)
		local = local[:0]
		for _, c := range cols {
			local = append(local, m.local(c, lo))
		}
		b.Add(local, vals)
	}
	m.Matrix = b.Done()
	m.x = make([]float64, width)
	return m, nil
}

// local is the place of a column, of which the rank's first is lo.
func (m *matrix) local(c, lo int) int {
	if c >= lo && c < lo+m.owned {
		return c - lo
	}
	at, _ := slices.BinarySearch(m.ghosts, c)
	return m.owned + at
}

// apply sets dst to the product with the rank's part of a vector.
func (m *matrix) apply(dst, src []float64) error {
	copy(m.x, src[:m.owned])
	return m.Multiply(dst, m.x)
}

// transpose gives the rank's rows of the transposed matrix. The rank's own row i has number
// first+i, columns are owned as by owners.
func transpose(team precondition.Team, m *rows, first int, owners share) (*rows, error) {
	rank := team.Rank()
	lo, n := owners[rank], owners.of(rank)
	to := make([][]float64, team.Size())
	to[rank] = make([]float64, 0, 3*len(m.cols))
	for i := range m.count() {
		cols, vals := m.row(i)
		for k, c := range cols {
			r := owners.Owner(c)
			to[r] = append(to[r], float64(c), float64(first+i), vals[k])
		}
	}
	from, err := team.Exchange(to)
	if err != nil {
		return nil, err
	}
	out := &rows{start: make([]int, n+1)}
	for _, list := range from {
		for k := 0; k < len(list); k += 3 {
			out.start[int(list[k])-lo+1]++
		}
	}
	for i := range n {
		out.start[i+1] += out.start[i]
	}
	out.cols, out.vals = make([]int, out.start[n]), make([]float64, out.start[n])
	next := slices.Clone(out.start)
	for _, list := range from { // ranks ascend, and so do the numbers of their rows
		for k := 0; k < len(list); k += 3 {
			c := int(list[k]) - lo
			out.cols[next[c]], out.vals[next[c]] = int(list[k+1]), list[k+2]
			next[c]++
		}
	}
	return out, nil
}

// galerkin gives the rank's rows of P' A P, of which owners says whose they are.
func galerkin(team precondition.Team, a *rows, fine share, p *rows, owners share) (*rows, error) {
	rank := team.Rank()
	far, err := fetch(team, a, fine, p)
	if err != nil {
		return nil, err
	}
	lo, hi := fine[rank], fine[rank+1]
	product := newRows(a.count(), 2*len(a.cols))
	sum := newAccumulator(owners, rank)
	for i := range a.count() {
		cols, vals := a.row(i)
		for k, j := range cols {
			var pc []int
			var pv []float64
			if j >= lo && j < hi {
				pc, pv = p.row(j - lo)
			} else {
				pc, pv = far.row(far.at[j])
			}
			for m, c := range pc {
				sum.add(c, vals[k]*pv[m])
			}
		}
		sum.flush(product)
	}
	return collect(team, p, product, owners, sum)
}

// entry is one of P: its row, and its place among all.
type entry struct{ row, at int32 }

// byColumn sorts the entries of P by column: those of the rank's own, which are n from lo
// on, with where each column starts, and those of others.
func byColumn(p *rows, lo, n int) (own []entry, start []int32, others map[int][]entry) {
	start, others = make([]int32, n+1), map[int][]entry{}
	each := func(mine func(c int, e entry), theirs func(c int, e entry)) {
		for i := range p.count() {
			for k := p.start[i]; k < p.start[i+1]; k++ {
				if c := p.cols[k] - lo; c >= 0 && c < n {
					mine(c, entry{int32(i), int32(k)})
				} else {
					theirs(p.cols[k], entry{int32(i), int32(k)})
				}
			}
		}
	}
	each(func(c int, _ entry) { start[c+1]++ }, func(c int, e entry) { others[c] = append(others[c], e) })
	for c := range n {
		start[c+1] += start[c]
	}
	own = make([]entry, start[n])
	next := slices.Clone(start)
	each(func(c int, e entry) { own[next[c]] = e; next[c]++ }, func(int, entry) {})
	return own, start, others
}

// collect adds the rows of A P up to those of P' A P, and sends each to its owner.
func collect(team precondition.Team, p, product *rows, owners share, sum *accumulator) (*rows, error) {
	lo, n := owners[team.Rank()], owners.of(team.Rank())
	own, start, others := byColumn(p, lo, n)
	add := func(e entry) {
		cols, vals := product.row(int(e.row))
		for m, c := range cols {
			sum.add(c, p.vals[e.at]*vals[m])
		}
	}
	to := make([][]float64, team.Size())
	for _, c := range slices.Sorted(maps.Keys(others)) {
		for _, e := range others[c] {
			add(e)
		}
		row := newRows(1, 0)
		sum.flush(row)
		r := owners.Owner(c)
		to[r] = append(to[r], float64(c), float64(len(row.cols)))
		for m := range row.cols {
			to[r] = append(to[r], float64(row.cols[m]), row.vals[m])
		}
	}
	from, err := team.Exchange(to)
	if err != nil {
		return nil, err
	}
	received := make([][][]float64, n)
	for _, list := range from {
		for len(list) > 0 {
			c, width := int(list[0])-lo, int(list[1])
			received[c] = append(received[c], list[2:2+2*width])
			list = list[2+2*width:]
		}
	}
	out := newRows(n, len(product.cols)/2)
	for c := range n {
		for _, e := range own[start[c]:start[c+1]] {
			add(e)
		}
		for _, list := range received[c] {
			for m := 0; m < len(list); m += 2 {
				sum.add(int(list[m]), list[m+1])
			}
		}
		sum.flush(out)
	}
	return out, nil
}

// farRows are rows of other ranks.
type farRows struct {
	*rows
	at map[int]int // by number
}

// fetch asks the owners for the rows of p that the columns of a need.
func fetch(team precondition.Team, a *rows, fine share, p *rows) (*farRows, error) {
	rank := team.Rank()
	lo, hi := fine[rank], fine[rank+1]
	out := &farRows{rows: newRows(0, 0), at: map[int]int{}}
	ask := make([][]float64, team.Size())
	for _, c := range a.cols {
		if _, known := out.at[c]; (c < lo || c >= hi) && !known {
			out.at[c] = -1
			r := fine.Owner(c)
			ask[r] = append(ask[r], float64(c))
		}
	}
	asked, err := team.Exchange(ask)
	if err != nil {
		return nil, err
	}
	answers := make([][]float64, team.Size())
	for r, list := range asked {
		for _, id := range list {
			cols, vals := p.row(int(id) - lo)
			answers[r] = append(answers[r], id, float64(len(cols)))
			for k := range cols {
				answers[r] = append(answers[r], float64(cols[k]), vals[k])
			}
		}
	}
	got, err := team.Exchange(answers)
	if err != nil {
		return nil, err
	}
	for _, list := range got {
		for len(list) > 0 {
			out.at[int(list[0])] = out.count()
			n := int(list[1])
			for k := 2; k < 2+2*n; k += 2 {
				out.add(int(list[k]), list[k+1])
			}
			out.end()
			list = list[2+2*n:]
		}
	}
	return out, nil
}
