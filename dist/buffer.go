package dist

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// Buffer refers to elements in memory: a slice of the program, or memory of a group. It is a small value, like a slice.
// The zero Buffer is empty and fits every element type.
type Buffer struct {
	dtype  DType
	count  int
	data   unsafe.Pointer // nil if the host cannot reach the memory, or count is 0
	memory any            // the backend's allocation, or nil for memory of the program
	off    int            // bytes from the start of a [DeviceMemory]
}

// DeviceMemory is one allocation of a device, which the host cannot reach.
type DeviceMemory interface {
	// Read and Write copy between host memory and the device. off is the first byte in the allocation.
	Read(dst []byte, off int) error
	Write(off int, src []byte) error
}

// Of returns a buffer that refers to the elements of s.
func Of[E Element](s []E) Buffer {
	return Buffer{dtype: dtype.Of[E](), count: len(s), data: unsafe.Pointer(unsafe.SliceData(s))}
}

// Make returns a buffer of new, zeroed host memory.
func Make(d DType, count int) Buffer {
	words := make([]uint64, (count*d.Size()+7)/8) // aligned for every type
	return Buffer{dtype: d, count: count, data: unsafe.Pointer(unsafe.SliceData(words))}
}

// Slice returns the elements of b as a slice of the same memory. It panics if E is not the element type of b or if the
// host cannot reach the memory.
func Slice[E Element](b Buffer) []E {
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

// Convert converts the elements of in to the type of out and stores them in out. Both must have the same count. Floats
// are rounded to nearest, f16 and bf16 by way of float32. Conversion to an integer truncates and wraps around. Integers
// beyond 2^53 are rounded if the types differ.
func Convert(out, in Buffer) error {
	if out.count != in.count {
		return fmt.Errorf("converting %v to %v: their counts differ", in, out)
	}
	if in.count == 0 {
		return nil
	}
	from, err := in.Mirror()
	if err != nil {
		return fmt.Errorf("converting %v to %v: %w", in, out, err)
	}
	to, err := out.Mirror()
	if err != nil {
		return fmt.Errorf("converting %v to %v: %w", in, out, err)
	}
	if in.dtype == out.dtype {
		copy(to.Bytes(), from.Bytes())
		return out.Update(to)
	}
	values := make([]float64, min(in.count, 1024))
	for at := 0; at < in.count; at += len(values) {
		values = values[:min(len(values), in.count-at)]
		in.dtype.Decode(values, from.Slice(at, len(values)).Bytes())
		out.dtype.Encode(to.Slice(at, len(values)).Bytes(), values)
	}
	return out.Update(to)
}

// NewBuffer returns a buffer of count elements in an allocation of a backend. The elements begin at data. If data is
// nil, memory must be a [DeviceMemory], and the elements are at its start. Engines call NewBuffer in Alloc.
// [Buffer.Memory] returns memory.
func NewBuffer(d DType, count int, data unsafe.Pointer, memory any) Buffer {
	return Buffer{dtype: d, count: count, data: data, memory: memory}
}

// Offset returns the position of the buffer in its DeviceMemory, in bytes.
func (b Buffer) Offset() int { return b.off }

// Mirror returns a buffer in host memory with the same elements. It is b itself if the host can reach b, otherwise a
// copy. [Buffer.Update] writes changes back.
func (b Buffer) Mirror() (Buffer, error) {
	m, far := b.memory.(DeviceMemory)
	if !far || b.count == 0 {
		return b, nil
	}
	copied := Make(b.dtype, b.count)
	return copied, m.Read(copied.Bytes(), b.off)
}

// Update copies the elements of mirror, which Mirror returned, back into b.
func (b Buffer) Update(mirror Buffer) error {
	m, far := b.memory.(DeviceMemory)
	if !far || b.count == 0 {
		return nil
	}
	if mirror.dtype != b.dtype || mirror.count != b.count {
		return fmt.Errorf("updating %v from %v: not its mirror", b, mirror)
	}
	return m.Write(b.off, mirror.Bytes())
}

// DType returns the element type.
func (b Buffer) DType() DType { return b.dtype }

// Count returns the number of elements.
func (b Buffer) Count() int { return b.count }

// Bytes returns the memory itself, or nil if the host cannot reach it.
func (b Buffer) Bytes() []byte {
	if b.data == nil || b.count == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.data), b.count*b.dtype.Size())
}

// Memory returns the backend's allocation that contains the buffer, or nil for memory of the program.
func (b Buffer) Memory() any { return b.memory }

// Slice returns a buffer that refers to n elements of b, starting at element off. It panics if they are not all in b.
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
	} else {
		b.off += off * b.dtype.Size()
	}
	return b
}

// String returns the count and the type, such as "8 f32".
func (b Buffer) String() string {
	if b.count == 0 {
		return "no elements"
	}
	return fmt.Sprintf("%d %v", b.count, b.dtype)
}

// distance returns the offset of b from other in bytes, and whether the two buffers overlap.
func (b Buffer) distance(other Buffer) (bytes int, overlap bool) {
	if b.count == 0 || other.count == 0 {
		return 0, false
	}
	if m, far := b.memory.(DeviceMemory); far {
		if m != other.memory {
			return 0, false
		}
		bytes = b.off - other.off
	} else {
		if b.data == nil || other.data == nil {
			return 0, false
		}
		bytes = int(uintptr(b.data) - uintptr(other.data))
	}
	return bytes, bytes < other.count*other.dtype.Size() && -bytes < b.count*b.dtype.Size()
}

// allocation is memory that [Group.Alloc] returned.
type allocation struct {
	Buffer
	freed atomic.Bool
}

var errFreed = errors.New("in or out was freed")

// isFreed reports whether the memory was freed. Memory of the program (nil) never is.
func (a *allocation) isFreed() bool { return a != nil && a.freed.Load() }

func (a *allocation) overlaps(b Buffer) bool {
	if b.memory == nil {
		return false
	}
	if _, far := a.memory.(DeviceMemory); far {
		return a.memory == b.memory
	}
	_, overlap := b.distance(a.Buffer)
	return overlap
}

// allocations lists the allocations of a group. A freed one stays in the list until its memory is allocated again, so
// that a call that uses it is refused.
type allocations struct {
	mu   sync.Mutex
	list []*allocation
}

func (l *allocations) add(b Buffer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(a *allocation) bool { return a.freed.Load() && a.overlaps(b) })
	l.list = append(l.list, &allocation{Buffer: b})
}

func (l *allocations) markFreed(b Buffer) {
	if a := l.find(b); a != nil {
		a.freed.Store(true)
	}
}

func (l *allocations) find(b Buffer) *allocation {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, _ := lists.First(l.list, func(a *allocation) bool { return a.overlaps(b) })
	return a
}
