package solvescaling

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
)

const (
	// columnsOfFile is the number of right-hand sides that stands for the columns of the file, and for one without a file.
	columnsOfFile = 0
	// maxColumns limits the right-hand sides. The arithmetic of a block method grows with their square.
	maxColumns = 256
)

// rhs holds the right-hand sides of a point.
type rhs struct {
	columns int
	rows    int // 0 unless they come from a file
	at      func(row, column int) float64
}

// rightHandSides makes the right-hand sides of a point, or reads them from its file and records their hash.
func rightHandSides(s *bench.State) (rhs, error) {
	columns := s.Int(columnsAxis)
	b := rhs{columns: max(1, columns)}
	path, file := strings.CutPrefix(s.Str(rhsAxis), rhsFile)
	switch {
	case !file && s.Str(rhsAxis) == "ones":
		b.at = func(int, int) float64 { return 1 }
		return b, nil
	case !file: // the first column does not depend on the number of columns
		b.at = func(row, column int) float64 { return sparse.Noise(s.Seed()+uint64(column)<<32, row) }
		return b, nil
	}
	a, err := sparse.LoadArray(path)
	if err != nil {
		return b, err
	}
	if columns != columnsOfFile && columns != a.Columns {
		return b, fmt.Errorf("%s has %s, but --%s is %d: want the same number, or leave --%s out", path,
			unit.Plural(a.Columns, "column"), columnsAxis, columns, columnsAxis)
	}
	for column := range a.Columns {
		values := a.Values[column*a.Rows : (column+1)*a.Rows]
		if !slices.ContainsFunc(values, func(x float64) bool { return x != 0 }) {
			return b, fmt.Errorf("column %d of %s has only zeros, so its solution needs no iteration: want other values",
				column+1, path)
		}
	}
	if p := s.Point().With(columnsAxis, point.IntValue(int64(a.Columns))); a.Columns > 1 { // the plan did not know it
		for _, check := range []func(point.Point) error{checkColumns, checkPrecision} {
			if err := check(p); err != nil {
				return b, bench.Skip("%s has %d columns: %v", path, a.Columns, err)
			}
		}
	}
	hash := sha256.New()
	for _, x := range a.Values {
		hash.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
	}
	s.Detail(rhsDetail, fmt.Sprintf("%x", hash.Sum(nil)))
	return rhs{columns: a.Columns, rows: a.Rows, at: a.At}, nil
}

// checkColumns returns an error if a point has several right-hand sides and no way to solve for them at once.
func checkColumns(p point.Point) error {
	n := p.At(columnsAxis).Int()
	text := func(axis string) string { return p.At(axis).String() }
	switch {
	case n < 0 || n > maxColumns:
		return fmt.Errorf("--%s %d: want 1 to %d, or 0 for the columns of the file", columnsAxis, n, maxColumns)
	case n <= 1:
		return nil
	case text(methodAxis) != system.BlockMethod:
		return fmt.Errorf("%s has no block form, so it solves for one right-hand side: --%s %d needs --%s %s",
			text(methodAxis), columnsAxis, n, methodAxis, system.BlockMethod)
	case multigridOf(p).Flexible():
		return fmt.Errorf("--%s %d needs a symmetric cycle, which cycle %s is not: use v or w", columnsAxis, n,
			text(cycleAxis))
	case device.SupportsBackend(text(bench.BackendName)):
		return fmt.Errorf("a GPU solves for one right-hand side, not %d", n)
	case text(rhsAxis) == "ones":
		return fmt.Errorf("--%s ones would make %d equal right-hand sides: use random", rhsAxis, n)
	}
	return nil
}
