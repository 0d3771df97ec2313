package gemmtest

import (
	"fmt"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// naive is a provider that multiplies with three loops. It is its own engine, because it has no
// threads or buffers.
type naive struct{}

func init() { gemm.Register(gemm.Host, naive{}) }

func (naive) Name() string         { return "naive" }
func (naive) Help() string         { return "three loops, for tests" }
func (naive) Types() []dtype.DType { return []dtype.DType{dtype.F32} }

func (n naive) Open(threads int) (gemm.Engine, error) {
	if threads != 1 {
		return nil, fmt.Errorf("%d threads: want 1", threads)
	}
	return n, nil
}

func (n naive) Multiply(c, a, b gemm.Matrix) error {
	if err := gemm.Check(&c, &a, &b, n.Types()); err != nil {
		return err
	}
	columns := rows(b.T())
	for i, row := range rows(a) {
		for j, column := range columns {
			sum := 0.0
			for k, v := range row {
				sum += v * column[k]
			}
			c.Set(i, j, sum)
		}
	}
	return nil
}

// rows copies a matrix, because At is too slow for the inner loop.
func rows(m gemm.Matrix) [][]float64 {
	out := make([][]float64, m.Rows)
	for i := range out {
		for j := range m.Cols {
			out[i] = append(out[i], m.At(i, j))
		}
	}
	return out
}

func (naive) String() string     { return "three loops" }
func (naive) Warnings() []string { return nil }
func (naive) Close()             {}

func TestNaive(t *testing.T) { Run(t, naive{}, 1) }
