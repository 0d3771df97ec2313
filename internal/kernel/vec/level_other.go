//go:build !amd64

package vec

import "github.com/kernbench/kernbench/internal/base/dtype"

const best = Portable

func loopsOf(Level) (*table, int) { return &portable, 1 }

// SumFour returns nil: there is no assembly for this architecture.
func SumFour(dtype.DType) func(dst []byte, srcs [][]byte) { return nil }

func widenFast([]float32, []byte, dtype.DType) int { return 0 }

func narrowFast([]byte, []float32, dtype.DType) int { return 0 }
