package gemm

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Matrix is a view of elements in memory. Element (i, j) is number i*RowStep + j*ColStep of Data. One of the steps is
// 1.
type Matrix struct {
	Type             dtype.DType
	Rows, Cols       int
	RowStep, ColStep int
	Data             []byte
}

// New allocates a matrix of zeros, stored by rows.
func New(d dtype.DType, rows, cols int) Matrix {
	return Matrix{Type: d, Rows: rows, Cols: cols, RowStep: cols, ColStep: 1, Data: make([]byte, rows*cols*d.Size())}
}

// Of returns a view of elements that are stored by rows, with stride elements from one row to the next.
func Of[E dtype.Element](elements []E, rows, cols, stride int) Matrix {
	return Matrix{Type: dtype.Of[E](), Rows: rows, Cols: cols, RowStep: stride, ColStep: 1, Data: dtype.Bytes(elements)}
}

// T returns the transposed view.
func (m Matrix) T() Matrix {
	m.Rows, m.Cols = m.Cols, m.Rows
	m.RowStep, m.ColStep = m.ColStep, m.RowStep
	return m
}

// RowRange returns a view of the rows [from, to).
func (m Matrix) RowRange(from, to int) Matrix {
	if from < 0 || from > to || to > m.Rows {
		panic(fmt.Sprintf("gemm: rows %d to %d of %d", from, to, m.Rows))
	}
	m.Rows = to - from
	// An empty range may start behind the last element.
	m.Data = m.Data[min(from*m.RowStep*m.Type.Size(), len(m.Data)):]
	return m
}

// ColRange returns a view of the columns [from, to).
func (m Matrix) ColRange(from, to int) Matrix { return m.T().RowRange(from, to).T() }

// Result returns the type of C for operands of a type, or 0 if there is none.
func Result(operand dtype.DType) dtype.DType {
	switch operand {
	case dtype.F64:
		return dtype.F64
	case dtype.F32, dtype.F16, dtype.BF16, dtype.TF32, dtype.E4M3:
		return dtype.F32
	case dtype.I8, dtype.U8:
		return dtype.I32
	}
	return 0
}

// sizes holds the element sizes by type, because a call would be too slow in hot paths.
var sizes = func() (s [dtype.Last + 1]int) {
	for _, d := range append(dtype.All(), dtype.Products()...) {
		s[d] = d.Size()
	}
	return s
}()

// usual reports whether a view is not empty, is stored by rows, and has all its elements in Data. Such views need no
// further checks.
func (m *Matrix) usual(size int) bool {
	return m.Rows > 0 && m.Cols > 0 && m.ColStep == 1 && m.RowStep >= m.Cols &&
		((m.Rows-1)*m.RowStep+m.Cols)*size <= len(m.Data)
}

// check returns an error if the view cannot be used.
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

// byRows reports whether the matrix is stored by rows that do not overlap.
func (m Matrix) byRows() bool { return m.ColStep == 1 && (m.RowStep >= m.Cols || m.Rows == 1) }

func (m *Matrix) empty() bool { return m.Rows == 0 || m.Cols == 0 }

// first returns the address of element (0, 0).
func (m *Matrix) first() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.Data)) }

// at returns the address of an element.
func (m *Matrix) at(i, j int) unsafe.Pointer {
	return unsafe.Add(m.first(), (i*m.RowStep+j*m.ColStep)*sizes[m.Type])
}

// Run returns n elements from (i, j) in the direction whose step is 1.
func (m *Matrix) Run(i, j, n int) []byte {
	size := m.Type.Size()
	at := (i*m.RowStep + j*m.ColStep) * size
	return m.Data[at : at+n*size]
}

// Check returns an error if a provider with these operand types cannot compute c = a x b. It does not detect overlap of
// c with a or b, which gives an undefined result.
func Check(c, a, b *Matrix, types []dtype.DType) error {
	bytes := Result(a.Type) == dtype.I32 && Result(b.Type) == dtype.I32 // signs may differ
	if a.Type != b.Type && !bytes || c.Type != Result(a.Type) || c.Type == 0 || !slices.Contains(types, a.Type) ||
		!slices.Contains(types, b.Type) {
		return fmt.Errorf("operands of %v and %v with a result of %v: want two of one type of %v (i8 and u8 can be "+
			"mixed), with a result of f32 (f64 for f64, i32 for i8 and u8)",
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

// Clear sets every element to zero, which is the product if k is 0.
func (m Matrix) Clear() {
	if m.ColStep != 1 {
		m = m.T()
	}
	for i := range m.Rows {
		clear(m.Run(i, 0, m.Cols))
	}
}

// At returns the value of one element. It is slow and meant for checks.
func (m *Matrix) At(i, j int) float64 { return m.Type.Get(m.element(i, j), 0) }

// Set rounds a value and stores it in an element.
func (m *Matrix) Set(i, j int, v float64) { m.Type.Put(m.element(i, j), 0, v) }

func (m *Matrix) element(i, j int) []byte {
	if i < 0 || i >= m.Rows || j < 0 || j >= m.Cols {
		panic(fmt.Sprintf("gemm: element (%d, %d) of %d x %d", i, j, m.Rows, m.Cols))
	}
	return m.Run(i, j, 1)
}
