package epilogue

import (
	"math"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// Norm divides rows by their root mean square and multiplies them by weights (RMSNorm).
type Norm struct {
	dtype        dtype.DType
	weight       []byte
	epsilon      float64
	row, factors []float32
}

// NewNorm returns the norm for rows with as many elements as weight. The type must be f32, f16 or bf16.
func NewNorm(d dtype.DType, weight []byte, epsilon float64) *Norm {
	n := len(weight) / d.Size()
	return &Norm{d, weight, epsilon, make([]float32, n), make([]float32, n)}
}

// Apply normalises whole rows.
func (n *Norm) Apply(out []byte) {
	vec.Widen(n.factors, n.weight, n.dtype)
	for ; len(out) > 0; out = out[len(n.weight):] {
		row := out[:len(n.weight)]
		vec.Widen(n.row, row, n.dtype)
		squares := 0.0
		for _, h := range n.row {
			squares += float64(h) * float64(h)
		}
		factor := float32(1 / math.Sqrt(squares/float64(len(n.row))+n.epsilon))
		for i, h := range n.row {
			n.row[i] = float32(h*factor) * n.factors[i]
		}
		vec.Narrow(row, n.row, n.dtype)
	}
}
