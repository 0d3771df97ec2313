package service

import (
	"fmt"
	"sort"

	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/solve"
)

// csr is a matrix in compressed sparse rows. It implements solve.Problem.
type csr struct {
	starts, columns []int64
	values          []float64
	symmetric       bool
}

// newCSR checks the arrays of a matrix and sorts the columns of each row. It keeps arrays that are sorted, and copies
// others.
func newCSR(starts, columns []int64, values []float64) (*csr, error) {
	m := &csr{starts: starts, columns: columns, values: values}
	n := len(starts) - 1
	if starts[0] != 0 || starts[n] != int64(len(columns)) {
		return nil, errShape
	}
	copied := false
	for i := range n {
		lo, hi := starts[i], starts[i+1]
		if lo > hi || hi > int64(len(columns)) {
			return nil, errShape
		}
		sorted := true
		for k := lo; k < hi; k++ {
			if c := m.columns[k]; c < 0 || c >= int64(n) {
				return nil, fmt.Errorf("row %d of A has an entry in column %d, but A has %d columns (both count from 0)", i, c, n)
			}
			sorted = sorted && (k == lo || m.columns[k-1] < m.columns[k])
		}
		if sorted {
			continue
		}
		if !copied { // the arrays belong to the other process
			m.columns, m.values, copied = append([]int64(nil), columns...), append([]float64(nil), values...), true
		}
		sort.Sort(entries{m.columns[lo:hi], m.values[lo:hi]})
		for k := lo + 1; k < hi; k++ {
			if m.columns[k-1] == m.columns[k] {
				return nil, fmt.Errorf("row %d of A has two entries in column %d", i, m.columns[k])
			}
		}
	}
	m.symmetric = m.isSymmetric()
	return m, nil
}

// entries sorts the entries of a row by column.
type entries struct {
	columns []int64
	values  []float64
}

func (e entries) Len() int           { return len(e.columns) }
func (e entries) Less(i, j int) bool { return e.columns[i] < e.columns[j] }
func (e entries) Swap(i, j int) {
	e.columns[i], e.columns[j] = e.columns[j], e.columns[i]
	e.values[i], e.values[j] = e.values[j], e.values[i]
}

// transposed returns the transpose.
func (m *csr) transposed() *csr {
	n := len(m.starts) - 1
	t := &csr{starts: make([]int64, n+1), columns: make([]int64, len(m.columns)), values: make([]float64, len(m.values))}
	for _, c := range m.columns {
		t.starts[c+1]++
	}
	for i := range n {
		t.starts[i+1] += t.starts[i]
	}
	next := append([]int64(nil), t.starts[:n]...)
	for i := range n {
		for k := m.starts[i]; k < m.starts[i+1]; k++ {
			c := m.columns[k]
			t.columns[next[c]], t.values[next[c]] = int64(i), m.values[k]
			next[c]++
		}
	}
	return t
}

// isSymmetric reports whether the matrix equals its transpose up to rounding.
func (m *csr) isSymmetric() bool {
	t := m.transposed()
	for i, s := range m.starts {
		if t.starts[i] != s {
			return false
		}
	}
	for k, c := range m.columns {
		a, b := m.values[k], t.values[k]
		if t.columns[k] != c || a != b && !(max(a-b, b-a) <= sparse.NearlySymmetric*max(a, -a, b, -b)) {
			return false
		}
	}
	return true
}

// Size implements solve.Problem.
func (m *csr) Size() int { return len(m.starts) - 1 }

// Traits implements solve.Problem. Whether the matrix is definite becomes known during the solve.
func (m *csr) Traits() solve.Traits { return solve.Traits{Symmetric: m.symmetric} }

// Row implements solve.Problem.
func (m *csr) Row(i int, r *solve.Row) {
	r.Reset()
	for k := m.starts[i]; k < m.starts[i+1]; k++ {
		r.Add(int(m.columns[k]), m.values[k])
	}
}

var _ solve.Problem = (*csr)(nil)
