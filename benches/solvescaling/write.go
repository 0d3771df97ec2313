package solvescaling

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/solve/sparse"
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
func writeSolution(ctx context.Context, s *bench.State, sys *solve.System, mine []float64, columns int) error {
	path := s.Str(solutionOption)
	if path == "" {
		return nil
	}
	var sent []byte
	for i := range len(mine) / columns {
		sent = binary.LittleEndian.AppendUint64(sent, uint64(sys.Global(i)))
		for _, v := range mine[i*columns:][:columns] {
			sent = binary.LittleEndian.AppendUint64(sent, math.Float64bits(v))
		}
	}
	all, err := s.Exchange(ctx, sent)
	if err != nil || s.Rank() != 0 {
		return err
	}
	x := make([]float64, sys.Size*columns)
	for _, list := range all {
		for ; len(list) > 0; list = list[8*(1+columns):] {
			row := int(binary.LittleEndian.Uint64(list))
			for j := range columns {
				x[j*sys.Size+row] = math.Float64frombits(binary.LittleEndian.Uint64(list[8*(1+j):]))
			}
		}
	}
	return replaceFile(path, func(w io.Writer) {
		fmt.Fprintf(w, "%s\n%d %d\n", mtxArrayBanner, sys.Size, columns)
		for _, v := range x {
			fmt.Fprintf(w, "%.17g\n", v)
		}
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
	return replaceFile(path, func(w io.Writer) {
		fmt.Fprintf(w, "%s\n%d %d %d\n", mtxMatrixBanner, problem.Size(), problem.Size(), entries)
		for i := range problem.Size() {
			problem.Row(i, &row)
			for k, c := range row.Cols {
				fmt.Fprintf(w, "%d %d %.17g\n", i+1, c+1, row.Vals[k])
			}
		}
	})
}

// replaceFile replaces a file at once, so that a reader never sees half of it.
func replaceFile(path string, write func(w io.Writer)) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // fails once the file has its name
	w := bufio.NewWriter(f)
	write(w)
	err = w.Flush()
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
