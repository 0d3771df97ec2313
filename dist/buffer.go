package dist

import (
	"fmt"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Buffer is elements in memory: a slice of the program, or memory of a group.
// It is a small value that refers to the memory, like a slice. The zero Buffer
// is empty and fits every element type.
type Buffer struct {
	dtype  DType
	count  int
	data   unsafe.Pointer // nil where the host cannot reach the memory, or count is 0
	memory Memory         // nil: the program's own
}

// Memory is where a backend allocates buffers.
type Memory interface {
	// Name is the kind of memory, such as "symmetric".
	Name() string
}

// Of wraps a slice.
func Of[E dtype.Element](s []E) Buffer {
	return Buffer{dtype: dtype.Of[E](), count: len(s), data: unsafe.Pointer(unsafe.SliceData(s))}
}

// Make gives a buffer of new, zeroed memory of the program's own.
func Make(d DType, count int) Buffer {
	words := make([]uint64, (count*d.Size()+7)/8) // aligned for every type
	return Buffer{dtype: d, count: count, data: unsafe.Pointer(unsafe.SliceData(words))}
}

// Slice views the elements of a buffer of host memory. It panics if E is not the
// buffer's element type or the host cannot reach the memory.
func Slice[E dtype.Element](b Buffer) []E {
	if b.count == 0 {
		return nil
	}
	if d := dtype.Of[E](); d != b.dtype {
		panic(fmt.Sprintf("dist: a view of a %v buffer as %v", b.dtype, d))
	}
	if b.data == nil {
		panic("dist: a view of memory that the host cannot reach")
	}
	return unsafe.Slice((*E)(b.data), b.count)
}

// NewBuffer is for backends: count elements at data, in memory of theirs.
func NewBuffer(d DType, count int, data unsafe.Pointer, in Memory) Buffer {
	return Buffer{dtype: d, count: count, data: data, memory: in}
}

// DType is the element type.
func (b Buffer) DType() DType { return b.dtype }

// Count is the number of elements.
func (b Buffer) Count() int { return b.count }

// Bytes is the memory itself, empty where the host cannot reach it.
func (b Buffer) Bytes() []byte {
	if b.data == nil || b.count == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.data), b.count*b.dtype.Size())
}

// Memory is where the buffer was allocated, nil for the program's own memory.
func (b Buffer) Memory() Memory { return b.memory }

// Slice is the n elements from off on, in the same memory. It panics beyond the
// buffer's end, as slicing does.
func (b Buffer) Slice(off, n int) Buffer {
	if off < 0 || n < 0 || off > b.count-n {
		panic(fmt.Sprintf("dist: elements %d to %d of a buffer of %d", off, off+n, b.count))
	}
	if n == 0 {
		return Buffer{dtype: b.dtype, memory: b.memory}
	}
	b.count = n
	if b.data != nil {
		b.data = unsafe.Add(b.data, off*b.dtype.Size())
	}
	return b
}

// String says what the buffer is, such as "8 f32".
func (b Buffer) String() string {
	if b.count == 0 {
		return "no elements"
	}
	return fmt.Sprintf("%d %v", b.count, b.dtype)
}
