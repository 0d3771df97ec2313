package sparse

import (
	"fmt"
	"io"
	"slices"
)

// Transposed returns the transpose of a problem, whose pattern must be symmetric: see CheckPattern. A symmetric problem
// is its own transpose.
func Transposed(p Problem) Problem {
	if p.Traits().Symmetric {
		return p
	}
	return placed(transposed{p}, p)
}

type transposed struct{ Problem }

// Row implements Problem. The pattern is symmetric, so the columns of row i name the rows that have an
// entry in column i.
func (t transposed) Row(i int, r *Row) {
	var own, other Row
	t.Problem.Row(i, &own)
	r.Reset()
	for _, j := range own.Cols {
		t.Problem.Row(j, &other)
		if k, found := slices.BinarySearch(other.Cols, i); found {
			r.Add(j, other.Vals[k])
		}
	}
}

// CheckPattern returns an error if a problem has an entry (i, j) and none at (j, i), for the rows i that share accepts.
func CheckPattern(p Problem, share func(row int) bool) error {
	var own, other Row
	for i := range p.Size() {
		if !share(i) {
			continue
		}
		p.Row(i, &own)
		for _, j := range own.Cols {
			p.Row(j, &other)
			if _, found := slices.BinarySearch(other.Cols, i); !found {
				return fmt.Errorf("the transpose cannot be made row by row: the matrix has an entry at (%d, %d) and none "+
					"at (%d, %d)",
					i, j, j, i)
			}
		}
	}
	return nil
}

// LoadTransposed reads the rows of the transpose of a matrix file like LoadMatrix.
func LoadTransposed(path string, keep func(row int) bool) (*File, error) {
	return load(path, func(r io.Reader) (*File, error) {
		return readFile(r, &mtxReader{keep: keep, transpose: true}, (*mtxReader).read)
	})
}

// Perturbed returns a problem with the entries of some rows and columns changed: an entry in a row or
// column that chosen accepts is multiplied by 1 + eps times a number between -1 and 1, which is the
// same for its mirror image.
func Perturbed(p Problem, eps float64, seed uint64, chosen func(i int) bool) Problem {
	return placed(perturbed{p, eps, seed, chosen}, p)
}

type perturbed struct {
	Problem
	eps    float64
	seed   uint64
	chosen func(i int) bool
}

// Row implements Problem.
func (p perturbed) Row(i int, r *Row) {
	p.Problem.Row(i, r)
	for k, j := range r.Cols {
		if p.chosen(i) || p.chosen(j) {
			r.Vals[k] *= 1 + p.eps*Noise(p.seed, min(i, j)*p.Size()+max(i, j))
		}
	}
}

// Traits implements Problem. Rows that added up to zero no longer do.
func (p perturbed) Traits() Traits {
	t := p.Problem.Traits()
	t.Singular = false
	return t
}

// placed gives p the grid and the coordinates of another problem, if that has any.
func placed(p, of Problem) Problem {
	grid, gridded := of.(Gridded)
	place, located := of.(Located)
	switch {
	case gridded && located:
		return struct {
			Problem
			Gridded
			Located
		}{p, grid, place}
	case gridded:
		return struct {
			Problem
			Gridded
		}{p, grid}
	case located:
		return struct {
			Problem
			Located
		}{p, place}
	}
	return p
}
