package gemm

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Matrix is a view of elements in memory: element (i, j) is number
// i*RowStep + j*ColStep of Data. One of the steps is 1.
type Matrix struct {
	Type             dtype.DType
	Rows, Cols       int
	RowStep, ColStep int
	Data             []byte
}

// New allocates a matrix of zeros, row by row.
func New(d dtype.DType, rows, cols int) Matrix {
	return Matrix{Type: d, Rows: rows, Cols: cols, RowStep: cols, ColStep: 1, Data: make([]byte, rows*cols*d.Size())}
}

// Of views elements that lie row by row, from one row to the next by stride
// elements.
func Of[E dtype.Element](elements []E, rows, cols, stride int) Matrix {
	return Matrix{Type: dtype.Of[E](), Rows: rows, Cols: cols, RowStep: stride, ColStep: 1, Data: dtype.Bytes(elements)}
}

// T is the transposed view.
func (m Matrix) T() Matrix {
	m.Rows, m.Cols = m.Cols, m.Rows
	m.RowStep, m.ColStep = m.ColStep, m.RowStep
	return m
}

// RowRange views the rows [from, to).
func (m Matrix) RowRange(from, to int) Matrix {
	if from < 0 || from > to || to > m.Rows {
		panic(fmt.Sprintf("gemm: rows %d to %d of %d", from, to, m.Rows))
	}
	m.Rows = to - from
	// An empty range may start behind the last element.
	m.Data = m.Data[min(from*m.RowStep*m.Type.Size(), len(m.Data)):]
	return m
}

// ColRange views the columns [from, to).
func (m Matrix) ColRange(from, to int) Matrix { return m.T().RowRange(from, to).T() }

// Result is the type of C for operands of a type; 0 where there is none.
func Result(operand dtype.DType) dtype.DType {
	switch operand {
	case dtype.F64:
		return dtype.F64
	case dtype.F32, dtype.F16, dtype.BF16, dtype.TF32, dtype.E4M3:
		return dtype.F32
	}
	return 0
}

// sizes has the bytes of an element by type, for where a call must not cost.
var sizes = func() (s [dtype.Last + 1]int) {
	for _, d := range append(dtype.All(), dtype.Products()...) {
		s[d] = d.Size()
	}
	return s
}()

// usual reports whether a view is of the common kind, which needs no further
// checks: row by row, with all elements in Data.
func (m *Matrix) usual(size int) bool {
	return m.Rows > 0 && m.Cols > 0 && m.ColStep == 1 && m.RowStep >= m.Cols &&
		((m.Rows-1)*m.RowStep+m.Cols)*size <= len(m.Data)
}

// check says why the view cannot be used.
func (m *Matrix) check(name string) error {
	switch {
	case m.Rows < 0 || m.Cols < 0:
		return fmt.Errorf("%s is %d x %d: sizes are at least 0", name, m.Rows, m.Cols)
	case m.empty():
		return nil
	case m.RowStep < 0 || m.ColStep < 0 || !m.byRows() && !m.T().byRows():
		return fmt.Errorf("%s is %d x %d with steps %d and %d: one step is 1 and the other at least the elements it "+
			"passes over",
			name, m.Rows, m.Cols, m.RowStep, m.ColStep)
	}
	if need := ((m.Rows-1)*m.RowStep + (m.Cols-1)*m.ColStep + 1) * sizes[m.Type]; len(m.Data) < need {
		return fmt.Errorf("%s is %d x %d with steps %d and %d, which needs %d bytes: it has %d",
			name, m.Rows, m.Cols, m.RowStep, m.ColStep, need, len(m.Data))
	}
	return nil
}

// byRows reports whether rows lie one after the other, without overlap.
func (m Matrix) byRows() bool { return m.ColStep == 1 && (m.RowStep >= m.Cols || m.Rows == 1) }

func (m *Matrix) empty() bool { return m.Rows == 0 || m.Cols == 0 }

// first is the address of element (0, 0).
func (m *Matrix) first() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.Data)) }

// at is the address of an element.
func (m *Matrix) at(i, j int) unsafe.Pointer {
	return unsafe.Add(m.first(), (i*m.RowStep+j*m.ColStep)*sizes[m.Type])
}

// Run is n elements from (i, j) in the direction whose step is 1.
func (m *Matrix) Run(i, j, n int) []byte {
	size := m.Type.Size()
	at := (i*m.RowStep + j*m.ColStep) * size
	return m.Data[at : at+n*size]
}

// Check says why c = a x b cannot be computed by a provider of these operand
// types. Overlap of c with a or b is not looked for; its result is undefined.
func Check(c, a, b *Matrix, types []dtype.DType) error {
	if a.Type != b.Type || c.Type != Result(a.Type) || c.Type == 0 || !slices.Contains(types, a.Type) {
		return fmt.Errorf("operands of %v and %v with a result of %v: want two of one type of %v, and f32 from what "+
			"is narrower",
			a.Type, b.Type, c.Type, types)
	}
	if a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows {
		return fmt.Errorf("shapes C %d x %d = A %d x %d times B %d x %d: want (M x N) = (M x K) times (K x N)",
			c.Rows, c.Cols, a.Rows, a.Cols, b.Rows, b.Cols)
	}
	if size := sizes[a.Type]; a.usual(size) && b.usual(size) && c.usual(sizes[c.Type]) {
		return nil
	}
	return errors.Join(a.check("A"), b.check("B"), c.check("C"))
}

// Clear sets every element to zero, as the product over an empty k is.
func (m Matrix) Clear() {
	if m.ColStep != 1 {
		m = m.T()
	}
	for i := range m.Rows {
		clear(m.Run(i, 0, m.Cols))
	}
}

// At is the value of one element, for checks: it is slow.
func (m *Matrix) At(i, j int) float64 { return m.Type.Get(m.element(i, j), 0) }

// Set rounds a value to an element.
func (m *Matrix) Set(i, j int, v float64) { m.Type.Put(m.element(i, j), 0, v) }

func (m *Matrix) element(i, j int) []byte {
	if i < 0 || i >= m.Rows || j < 0 || j >= m.Cols {
		panic(fmt.Sprintf("gemm: element (%d, %d) of %d x %d", i, j, m.Rows, m.Cols))
	}
	return m.Run(i, j, 1)
}
