package multigrid

import (
	"slices"

	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// matrix is a rank's rows of a matrix between levels, ready to be multiplied.
type matrix struct {
	precondition.Square
	columns *space
	x       []float64 // what it multiplies: owned, then ghosts
}

// assemble stores rows whose columns are places in a space, which it settles.
func assemble(team precondition.Team, m *sparse.CSR, columns *space, format sparse.Format) (*matrix, error) {
	columns.settle(m)
	halo, err := team.Connect(sparse.PlanOf(columns, team.Rank(), columns.ghosts))
	if err != nil {
		return nil, err
	}
	out := &matrix{columns: columns}
	out.Halo = halo
	width := max(m.Rows(), columns.width()) // the kernels address columns from the row's place
	if out.Matrix, err = m.Matrix(width, format); err != nil {
		return nil, err
	}
	out.x = make([]float64, width)
	return out, nil
}

// transposed gives the rows of the transpose of a rank's rows, as far as the rank itself
// knows them: one for every place of the columns.
func transposed(m *sparse.CSR, width int) *sparse.CSR {
	out := &sparse.CSR{Start: make([]int, width+1), Cols: make([]int32, len(m.Cols)), Vals: make([]float64, len(m.Vals))}
	for _, c := range m.Cols {
		out.Start[c+1]++
	}
	for c := range width {
		out.Start[c+1] += out.Start[c]
	}
	next := slices.Clone(out.Start)
	for i := range m.Rows() {
		cols, vals := m.Row(i)
		for k, c := range cols {
			at := next[c]
			out.Cols[at], out.Vals[at] = int32(i), vals[k]
			next[c]++
		}
	}
	return out
}

// sendRows sends those of n rows that are of ghosts to their owners: the ghost's number, how many entries,
// then the number of each column and its value. It gives what came for each of the rank's own.
func sendRows(team precondition.Team, of *space, n int, row func(place int) ([]int32, []float64), columns *space) ([][][]float64, error) {
	to := make([][]float64, team.Size())
	for k, id := range of.ghosts[:n-of.own] {
		cols, vals := row(of.own + k)
		r := of.Owner(id)
		to[r] = append(to[r], float64(id), float64(len(cols)))
		for m, c := range cols {
			to[r] = append(to[r], float64(columns.id(c)), vals[m])
		}
	}
	from, err := team.Exchange(to)
	if err != nil || team.Size() == 1 {
		return nil, err
	}
	out := make([][][]float64, of.own)
	for _, list := range from {
		for len(list) > 0 {
			k, n := int(list[0])-of.first, int(list[1])
			out[k] = append(out[k], list[2:2+2*n])
			list = list[2+2*n:]
		}
	}
	return out, nil
}

// restriction gives the rank's rows of the transpose of P: what it knows itself of them, and
// what other ranks send. Their columns are places in the fine space, which grows.
func restriction(team precondition.Team, r *sparse.CSR, fine, coarse *space) (*sparse.CSR, error) {
	received, err := sendRows(team, coarse, r.Rows(), r.Row, fine)
	if err != nil {
		return nil, err
	}
	if received == nil {
		return r, nil
	}
	out := sparse.NewCSR(coarse.own, len(r.Cols))
	for c := range coarse.own {
		cols, vals := r.Row(c)
		out.Cols, out.Vals = append(out.Cols, cols...), append(out.Vals, vals...)
		for _, list := range received[c] {
			for m := 0; m < len(list); m += 2 {
				out.Add(fine.place(int(list[m])), list[m+1])
			}
		}
		out.End()
	}
	return out, nil
}

// galerkin gives the rank's rows of P' A P. r is the transpose of the rank's rows of P; p has also
// the rows of P for the ghosts of a. Columns of p, and of the result, are places in the coarse
// space, which grows. Every row is made by itself, first that of R A, so that no product is stored.
func galerkin(team precondition.Team, a, p, r *sparse.CSR, coarse *space) (*sparse.CSR, error) {
	left, sum := newAccumulator(p.Rows()), newAccumulator(coarse.width())
	product := func(c int) {
		for k := r.Start[c]; k < r.Start[c+1]; k++ {
			i, v := r.Cols[k], r.Vals[k]
			for e := a.Start[i]; e < a.Start[i+1]; e++ {
				left.add(a.Cols[e], v*a.Vals[e])
			}
		}
		for _, j := range left.cols {
			v := left.cells[j].sum
			for e := p.Start[j]; e < p.Start[j+1]; e++ {
				sum.add(p.Cols[e], v*p.Vals[e])
			}
		}
		left.next()
	}
	one := sparse.NewCSR(1, 0)
	received, err := sendRows(team, coarse, r.Rows(), func(place int) ([]int32, []float64) {
		product(place)
		one.Start, one.Cols, one.Vals = one.Start[:1], one.Cols[:0], one.Vals[:0]
		sum.flush(one)
		return one.Cols, one.Vals
	}, coarse)
	if err != nil {
		return nil, err
	}
	out := sparse.NewCSR(coarse.own, 3*len(a.Cols)/max(1, a.Rows())*coarse.own)
	for c := range coarse.own {
		product(c)
		if received != nil {
			for _, list := range received[c] {
				for m := 0; m < len(list); m += 2 {
					place := coarse.place(int(list[m]))
					sum.fit(coarse.width())
					sum.add(place, list[m+1])
				}
			}
		}
		sum.flush(out)
	}
	return out, nil
}

// fetch appends to a rank's rows of P those for the ghosts of the fine space, from their owners.
func fetch(team precondition.Team, p *sparse.CSR, fine, coarse *space) error {
	ask := make([][]float64, team.Size())
	for _, id := range fine.ghosts {
		r := fine.Owner(id)
		ask[r] = append(ask[r], float64(id))
	}
	asked, err := team.Exchange(ask)
	if err != nil {
		return err
	}
	answers := make([][]float64, team.Size())
	for r, list := range asked {
		for _, id := range list {
			cols, vals := p.Row(int(id) - fine.first)
			answers[r] = append(answers[r], float64(len(cols)))
			for k := range cols {
				answers[r] = append(answers[r], float64(coarse.id(cols[k])), vals[k])
			}
		}
	}
	got, err := team.Exchange(answers)
	if err != nil {
		return err
	}
	for _, list := range got { // ghosts ascend, and so do their owners
		for len(list) > 0 {
			n := int(list[0])
			for k := 1; k < 1+2*n; k += 2 {
				p.Add(coarse.place(int(list[k])), list[k+1])
			}
			p.End()
			list = list[1+2*n:]
		}
	}
	return nil
}
