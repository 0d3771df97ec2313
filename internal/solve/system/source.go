package system

import "github.com/kernbench/kernbench/internal/solve/sparse"

// outline returns a problem that knows its size, its traits, and its grid or coordinates if it has any. The rows of a
// matrix file are missing: only its header is read.
func (s *Spec) outline() (sparse.Problem, error) {
	if s.MatrixFile == "" {
		return s.Problem, nil
	}
	return sparse.LoadHeader(s.MatrixFile)
}

// rows returns a problem with at least the rows that keep accepts, or with all rows if keep is nil. Every rank reads
// the matrix file, and stores only the rows that it keeps. The rows of a file that is symmetric up to rounding are made
// symmetric.
func (s *Spec) rows(keep func(row int) bool) (sparse.Problem, error) {
	switch {
	case s.MatrixFile == "":
		return s.Problem, nil
	case s.transpose && !s.symmetrise:
		return sparse.LoadTransposed(s.MatrixFile, keep)
	case s.symmetrise:
		return sparse.LoadSymmetric(s.MatrixFile, keep)
	}
	return sparse.LoadMatrix(s.MatrixFile, keep)
}

// rowsAsWritten returns the rows of the file without making them symmetric.
func (s *Spec) rowsAsWritten(keep func(row int) bool) (sparse.Problem, error) {
	file := *s
	file.symmetrise = false
	return file.rows(keep)
}
