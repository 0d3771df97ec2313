package solvescaling

import (
	"context"
	"fmt"
	"io"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

const (
	solutionOption  = "write-solution"
	writtenOption   = "write-matrix"
	mtxArrayBanner  = "%%MatrixMarket matrix array real general"
	mtxMatrixBanner = "%%MatrixMarket matrix coordinate real general"
)

// writeResults writes the files that the run asks for.
func writeResults(ctx context.Context, s *bench.State, spec solve.Spec, sub subject) error {
	if err := writeSolution(ctx, s, sub.own, sub.solution(), sub.columns); err != nil {
		return err
	}
	return writeMatrixFile(s, spec)
}

// writeSolution writes the last solutions as a Matrix Market file, if the run asks for it. mine holds the solutions of
// this rank's rows, row by row. Rank 0 writes the values of all ranks.
func writeSolution(ctx context.Context, s *bench.State, sys *system.System, mine []float64, columns int) error {
	path := s.Str(solutionOption)
	if path == "" {
		return nil
	}
	type part struct {
		Rows   []int
		Values []float64
	}
	rows := lists.Map(lists.Range[int](len(mine)/columns), sys.Plan.Global)
	all, err := bench.Gather(ctx, s, part{rows, mine})
	if err != nil || s.Rank() != 0 {
		return err
	}
	x := make([]float64, sys.Size*columns)
	for _, p := range all {
		for i, row := range p.Rows {
			for j := range columns {
				x[j*sys.Size+row] = p.Values[i*columns+j]
			}
		}
	}
	return journal.WriteAtomic(path, func(w io.Writer) error {
		fmt.Fprintf(w, "%s\n%d %d\n", mtxArrayBanner, sys.Size, columns)
		for _, v := range x {
			if _, err := fmt.Fprintf(w, "%.17g\n", v); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeMatrixFile writes the matrix as a Matrix Market file, if the run asks for it. Rank 0 makes all rows.
func writeMatrixFile(s *bench.State, spec solve.Spec) error {
	path := s.Str(writtenOption)
	if path == "" || s.Rank() != 0 {
		return nil
	}
	problem := spec.Problem
	if spec.MatrixFile != "" {
		file, err := sparse.LoadMatrix(spec.MatrixFile, nil)
		if err != nil {
			return err
		}
		problem = file
	}
	var row sparse.Row
	entries := 0
	for i := range problem.Size() { // the count stands before the entries
		problem.Row(i, &row)
		entries += len(row.Cols)
	}
	return journal.WriteAtomic(path, func(w io.Writer) error {
		fmt.Fprintf(w, "%s\n%d %d %d\n", mtxMatrixBanner, problem.Size(), problem.Size(), entries)
		for i := range problem.Size() {
			problem.Row(i, &row)
			for k, c := range row.Cols {
				if _, err := fmt.Fprintf(w, "%d %d %.17g\n", i+1, c+1, row.Vals[k]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
