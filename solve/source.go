package solve

import (
	"fmt"
	"io"
	"os"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Source is where a problem comes from, so that a rank can have as much of it as
// it needs.
type Source interface {
	// Outline knows size, traits, and grid or coordinates where there are any. Its
	// rows may be missing.
	Outline() (sparse.Problem, error)
	// Rows has the rows that keep accepts, or all where keep is nil.
	Rows(keep func(row int) bool) (sparse.Problem, error)
}

// Generated is a problem that gives any row on demand.
type Generated struct{ sparse.Problem }

// Outline is the problem itself.
func (g Generated) Outline() (sparse.Problem, error) { return g.Problem, nil }

// Rows is the problem itself: it stores none.
func (g Generated) Rows(func(int) bool) (sparse.Problem, error) { return g.Problem, nil }

// MatrixFile is the path of a Matrix Market file, plain or compressed, or of an archive of the
// SuiteSparse collection (NAME.tar.gz). Every rank reads the file,
// and keeps its own rows.
type MatrixFile string

// Outline reads the header.
func (f MatrixFile) Outline() (sparse.Problem, error) {
	return readFile(string(f), func(in io.Reader) (sparse.Problem, error) { return sparse.ReadHeader(in) })
}

// readFile reads a file of the problem.
func readFile[T any](path string, read func(io.Reader) (T, error)) (none T, err error) {
	in, err := os.Open(path)
	if err != nil {
		return none, err
	}
	defer in.Close()
	v, err := read(in)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// VectorFile reads a right-hand side from a Matrix Market file in array format, plain or
// compressed, or from an archive of the SuiteSparse collection.
func VectorFile(path string) ([]float64, error) { return readFile(path, sparse.ReadVector) }

// Symmetric reads the file and tells whether its values are, whatever the header
// says.
func (f MatrixFile) Symmetric() (bool, error) {
	m, err := f.Rows(func(int) bool { return false })
	if err != nil {
		return false, err
	}
	return m.Traits().Symmetric, nil
}

// Rows reads the file.
func (f MatrixFile) Rows(keep func(row int) bool) (sparse.Problem, error) {
	return readFile(string(f), func(in io.Reader) (sparse.Problem, error) { return sparse.ReadMatrix(in, keep) })
}
