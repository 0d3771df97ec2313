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

// Buffer is elements in memory: a slice of the program, or memory of a group.
// It is a small value that refers to the memory, like a slice. The zero Buffer
// is empty and fits every element type.
type Buffer struct {
	dtype  DType
	count  int
	data   unsafe.Pointer // nil where the host cannot reach the memory, or count is 0
	memory Memory         // nil: the program's own
	off    int            // bytes from the start of a [DeviceMemory]
}

// Memory is where a backend allocates buffers.
type Memory interface {
	// Name is the kind of memory, such as "symmetric".
	Name() string
}

// DeviceMemory is a Memory that the host cannot reach: one allocation of a device.
type DeviceMemory interface {
	Memory
	// Read and Write copy between host memory and the device's, from byte off on.
	Read(dst []byte, off int) error
	Write(off int, src []byte) error
}

// Of wraps a slice.
func Of[E Element](s []E) Buffer {
	return Buffer{dtype: dtype.Of[E](), count: len(s), data: unsafe.Pointer(unsafe.SliceData(s))}
}

// Make gives a buffer of new, zeroed memory of the program's own.
func Make(d DType, count int) Buffer {
	words := make([]uint64, (count*d.Size()+7)/8) // aligned for every type
	return Buffer{dtype: d, count: count, data: unsafe.Pointer(unsafe.SliceData(words))}
}

// Slice views the elements of a buffer of host memory. It panics if E is not the
// buffer's element type or the host cannot reach the memory.
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

// Convert gives the elements of out the values of those of in, of the same number and
// any type. Floats round to nearest; f16 and bf16 by way of float32. Integers are truncated and wrap
// around, and those beyond 2^53 are rounded where the types differ.
func Convert(out, in Buffer) error {
	if out.count != in.count {
		return fmt.Errorf("converting %v to %v: not as many", in, out)
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

// NewBuffer is for backends: count elements at data, in memory of theirs.
func NewBuffer(d DType, count int, data unsafe.Pointer, in Memory) Buffer {
	return Buffer{dtype: d, count: count, data: data, memory: in}
}

// NewDeviceBuffer is for backends: count elements at the start of an allocation that
// the host cannot reach.
func NewDeviceBuffer(d DType, count int, m DeviceMemory) Buffer {
	return Buffer{dtype: d, count: count, memory: m}
}

// Offset is where the buffer begins in its DeviceMemory, in bytes.
func (b Buffer) Offset() int { return b.off }

// Mirror is a buffer of host memory with the same elements, to look at or to
// change: b itself where the host can reach it, a copy otherwise. Update brings
// changes back.
func (b Buffer) Mirror() (Buffer, error) {
	m, far := b.memory.(DeviceMemory)
	if !far || b.count == 0 {
		return b, nil
	}
	copied := Make(b.dtype, b.count)
	return copied, m.Read(copied.Bytes(), b.off)
}

// Update gives b the elements of its mirror.
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

// pieceBytes is how much of memory that the host cannot reach goes through its own at once.
const pieceBytes = 4 << 20

// Overwrite gives b new elements, all of which set writes: for b itself where the host can
// reach it, otherwise for one piece of host memory after the other, of which first is the
// index of the first element. Nothing is read from b, and no copy of all of it is made.
func (b Buffer) Overwrite(set func(piece Buffer, first int)) error {
	return b.inPieces(func(piece Buffer, m DeviceMemory, first int) error {
		set(piece, first)
		if m == nil {
			return nil
		}
		return m.Write(b.off+first*b.dtype.Size(), piece.Bytes())
	})
}

// Inspect has look see all elements of b, in pieces as Overwrite has them.
func (b Buffer) Inspect(look func(piece Buffer, first int) error) error {
	return b.inPieces(func(piece Buffer, m DeviceMemory, first int) error {
		if m != nil {
			if err := m.Read(piece.Bytes(), b.off+first*b.dtype.Size()); err != nil {
				return err
			}
		}
		return look(piece, first)
	})
}

func (b Buffer) inPieces(f func(piece Buffer, m DeviceMemory, first int) error) error {
	m, far := b.memory.(DeviceMemory)
	if !far || b.count == 0 {
		return f(b, nil, 0)
	}
	most := pieceBytes / b.dtype.Size()
	host := Make(b.dtype, min(b.count, most))
	for first := 0; first < b.count; first += most {
		if err := f(host.Slice(0, min(most, b.count-first)), m, first); err != nil {
			return err
		}
	}
	return nil
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
	} else {
		b.off += off * b.dtype.Size()
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

// distance is by how many bytes b begins after other, if the two overlap.
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

// allocation is memory that [Group.Alloc] gave.
type allocation struct {
	Buffer
	freed atomic.Bool
}

var errFreed = errors.New("in or out is memory that was freed")

// gone tells whether it was freed; memory that no group gave, nil, never is.
func (a *allocation) gone() bool { return a != nil && a.freed.Load() }

func (a *allocation) holds(b Buffer) bool {
	if b.memory == nil {
		return false
	}
	if _, far := a.memory.(DeviceMemory); far {
		return a.memory == b.memory
	}
	_, overlap := b.distance(a.Buffer)
	return overlap
}

// allocations are those of a group, also freed ones whose memory was not given again.
type allocations struct {
	mu   sync.Mutex
	list []*allocation
}

func (l *allocations) allocated(b Buffer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(a *allocation) bool { return a.freed.Load() && a.holds(b) })
	l.list = append(l.list, &allocation{Buffer: b})
}

func (l *allocations) freed(b Buffer) {
	if a := l.find(b); a != nil {
		a.freed.Store(true)
	}
}

func (l *allocations) find(b Buffer) *allocation {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, _ := lists.First(l.list, func(a *allocation) bool { return a.holds(b) })
	return a
}
