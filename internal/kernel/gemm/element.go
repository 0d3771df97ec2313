package gemm

import (
	"fmt"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// At is the value of one element, for checks: it is slow.
func (m *Matrix) At(i, j int) float64 {
	p := m.element(i, j)
	switch m.Type {
	case dtype.F64:
		return *(*float64)(p)
	case dtype.F32:
		return float64(*(*float32)(p))
	case dtype.F16:
		return float64((*(*dtype.Float16)(p)).Float32())
	case dtype.BF16:
		return float64((*(*dtype.BFloat16)(p)).Float32())
	}
	panic(fmt.Sprintf("gemm: no matrices of %v", m.Type))
}

// Set rounds a value to an element.
func (m *Matrix) Set(i, j int, v float64) {
	p := m.element(i, j)
	switch m.Type {
	case dtype.F64:
		*(*float64)(p) = v
	case dtype.F32:
		*(*float32)(p) = float32(v)
	case dtype.F16:
		*(*dtype.Float16)(p) = dtype.Float16From(float32(v))
	case dtype.BF16:
		*(*dtype.BFloat16)(p) = dtype.BFloat16From(float32(v))
	default:
		panic(fmt.Sprintf("gemm: no matrices of %v", m.Type))
	}
}

func (m *Matrix) element(i, j int) unsafe.Pointer {
	if i < 0 || i >= m.Rows || j < 0 || j >= m.Cols {
		panic(fmt.Sprintf("gemm: element (%d, %d) of %d x %d", i, j, m.Rows, m.Cols))
	}
	return unsafe.Pointer(unsafe.SliceData(m.run(i, j, 1)))
}
