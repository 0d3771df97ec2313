package sparse

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Format limits how a Builder may compress the matrix.
type Format uint8

// The storage formats. Compressed and Plain give the same bits in every product.
const (
	Compressed  Format = iota // the smallest exact form
	Plain                     // every value in 64 bits, every column in 32 bits
	Single                    // values rounded to single precision, then the smallest form
	PlainSingle               // every value rounded to 32 bits, every column in 32 bits
	Bfloat16                  // couplings of a square matrix rounded to 16 bits, then the smallest form; see roundRow
)

// String returns the name of the format in records.
func (f Format) String() string {
	return [...]string{"compressed", "plain", "single", "plain-single", "bfloat16"}[f]
}

const (
	chunkRows = 4096 // rows that are analysed together, and the longest run of varying or scattered rows
	longRun   = 16   // shortest run of equal rows that is worth a kernel call of its own
	shortGap  = 4    // longest gap between long runs whose rows become runs of one row each
)

// Builder makes a Matrix from its rows, which must be added in order. It buffers only one chunk of rows at a time, so
// that memory never holds the matrix twice.
type Builder struct {
	format Format
	m      Matrix
	first  int // first row of the chunk
	ptr    []int
	cols   []int32
	vals   []float64
	shared bool // the next rows are stored once for a whole run, so that shorter values would save nothing

	// memory for the values of the next runs in bfloat16
	singles []float32
	halves  []uint16

	shapes map[string]*constant // distinct rows that were stored, by the offsets and values of their entries
	key    []byte               // buffer for the keys of shapes
}

// NewBuilder starts a matrix with the given numbers of rows and columns. cols includes the ghosts.
func NewBuilder(rows, cols int, format Format) (*Builder, error) {
	if rows < 0 || cols < rows || cols > math.MaxInt32 {
		return nil, fmt.Errorf("building a matrix of %d rows and %d columns: one rank holds at most %d columns", rows, cols,
			math.MaxInt32)
	}
	return &Builder{format: format, m: Matrix{rows: rows, cols: cols}, ptr: []int{0}, shapes: map[string]*constant{}}, nil
}

// Add appends the next row. Products sum its entries in the given order.
func (b *Builder) Add(cols []int, vals []float64) {
	if len(cols) != len(vals) {
		panic(fmt.Sprintf("sparse: a row with %d columns and %d values", len(cols), len(vals)))
	}
	for _, c := range cols {
		if uint(c) >= uint(b.m.cols) { // check before the conversion to int32, which would wrap around
			panic(fmt.Sprintf("sparse: column %d of %d", c, b.m.cols))
		}
		b.cols = append(b.cols, int32(c))
	}
	b.endRow(vals)
}

// endRow appends the values of a row. The caller has already appended its columns to b.cols.
func (b *Builder) endRow(vals []float64) {
	row := b.first + len(b.ptr) - 1
	if row >= b.m.rows {
		panic(fmt.Sprintf("sparse: row %d of %d", row, b.m.rows))
	}
	cols := b.cols[len(b.cols)-len(vals):]
	for _, c := range cols {
		if uint(c) >= uint(b.m.cols) {
			panic(fmt.Sprintf("sparse: row %d has column %d of %d", row, c, b.m.cols))
		}
		if int(c) < b.m.rows {
			b.m.reach = max(b.m.reach, int(c)-row)
		}
	}
	at := len(b.vals)
	b.vals = append(b.vals, vals...)
	switch {
	case b.format == Single || b.format == PlainSingle:
		for i, v := range b.vals[at:] {
			b.vals[at+i] = float64(float32(v))
		}
	case b.format == Bfloat16 && !b.shared:
		b.roundRow(row, at)
	}
	b.ptr = append(b.ptr, len(b.cols))
	b.m.entries += len(b.vals) - at
	if len(b.ptr) > chunkRows {
		b.flush()
	}
}

// shape is a row with its columns relative to the first: column k is first+offsets[k].
type shape struct {
	first   int32
	offsets []int32
	vals    []float64
}

// addRow appends a row with its columns relative to the first.
func (b *Builder) addRow(first int32, offsets []int32, vals []float64) {
	for _, d := range offsets {
		b.cols = append(b.cols, first+d)
	}
	b.endRow(vals)
}

// addRun appends n rows that repeat the rows in like: each further row is the one len(like) rows before it, with all
// columns moved by step. The buffered rows before the run are stored first. On a grid they are usually the ends of its
// lines, a few rows of few kinds.
func (b *Builder) addRun(like []shape, step, n int) {
	if gap := len(b.ptr) - 1; gap <= shortGap {
		for i := range gap {
			if step == len(like) {
				b.add(i, i+1, b.constantOf(i, b.first+i))
			} else {
				b.add(i, i+1, b.periodicOf(i, i+1, 1))
			}
		}
		b.start(gap)
	} else {
		b.flush()
	}
	for k, s := range like {
		b.check(s, b.first+k, (n-k+len(like)-1)/len(like), len(like), step)
		b.shared = true
		b.addRow(s.first, s.offsets, s.vals)
		b.shared = false
	}
	if step == len(like) {
		b.add(0, n, b.constantOf(0, b.first))
	} else {
		b.add(0, n, b.periodicOf(0, len(like), step))
	}
	for k := len(like); k < n; k++ {
		b.m.entries += len(like[k%len(like)].offsets)
	}
	b.start(n)
}

// check verifies the columns of n repetitions of s. They start at row, every period rows, and move by step columns.
func (b *Builder) check(s shape, row, n, period, step int) {
	for _, d := range s.offsets {
		c := int(s.first + d)
		if last := c + (n-1)*step; last >= b.m.cols {
			panic(fmt.Sprintf("sparse: row %d has column %d of %d", row+(n-1)*period, last, b.m.cols))
		}
		if owned := min(n-1, (b.m.rows-1-c)/step); c < b.m.rows {
			b.m.reach = max(b.m.reach, c-row+owned*(step-period))
		}
	}
}

// start begins the next chunk, n rows after the current one.
func (b *Builder) start(n int) {
	b.first += n
	b.ptr, b.cols, b.vals = b.ptr[:1], b.cols[:0], b.vals[:0]
}

// Done returns the matrix. All rows must have been added.
func (b *Builder) Done() *Matrix {
	b.flush()
	if b.first != b.m.rows {
		panic(fmt.Sprintf("sparse: %d rows of %d were added", b.first, b.m.rows))
	}
	b.m.runs = slices.Clip(b.m.runs)
	b.m.index()
	return &b.m
}

// flush stores the rows of the chunk as runs: first the long stretches with equal offsets, then the gaps between them.
func (b *Builder) flush() {
	n := len(b.ptr) - 1
	if b.format == Plain || b.format == PlainSingle {
		b.addScattered(0, n)
	} else {
		gap := 0
		for lo := 0; lo < n; {
			hi := b.stretch(lo, n, b.sameOffsets)
			if hi-lo >= longRun && b.width(lo) > 0 {
				b.addGap(gap, lo)
				b.addStretch(lo, hi)
				gap = hi
			}
			lo = hi
		}
		b.addGap(gap, n)
	}
	b.start(n)
}

// stretch returns the end of the rows that are the same as row lo.
func (b *Builder) stretch(lo, n int, same func(i, j int) bool) int {
	hi := lo + 1
	for hi < n && same(lo, hi) {
		hi++
	}
	return hi
}

func (b *Builder) width(i int) int { return b.ptr[i+1] - b.ptr[i] }

func (b *Builder) sameOffsets(i, j int) bool {
	if b.width(i) != b.width(j) {
		return false
	}
	ci, cj := b.cols[b.ptr[i]:b.ptr[i+1]], b.cols[b.ptr[j]:b.ptr[j+1]]
	offsets := int32(j - i)
	for k := range ci {
		if cj[k]-ci[k] != offsets {
			return false
		}
	}
	return true
}

func (b *Builder) sameValues(i, j int) bool {
	return identical(b.vals[b.ptr[i]:b.ptr[i+1]], b.vals[b.ptr[j]:b.ptr[j+1]])
}

// addStretch stores rows with equal offsets: long parts with equal values as constant, the rest as varying.
func (b *Builder) addStretch(lo, hi int) {
	rest := lo
	for at := lo; at < hi; {
		end := b.stretch(at, hi, b.sameValues)
		if end-at >= longRun {
			b.addVarying(rest, at)
			b.add(at, end, b.constantOf(at, b.first+at))
			rest = end
		}
		at = end
	}
	b.addVarying(rest, hi)
}

// addGap stores the rows between long stretches. On a grid these are the ends of its lines, a few rows of few kinds,
// which are stored as constants and shared.
func (b *Builder) addGap(lo, hi int) {
	if hi-lo > shortGap || lo == 0 || hi == len(b.ptr)-1 {
		b.addScattered(lo, hi)
		return
	}
	for ; lo < hi; lo++ {
		b.add(lo, lo+1, b.constantOf(lo, b.first+lo))
	}
}

func (b *Builder) add(lo, hi int, f form) {
	b.m.runs = append(b.m.runs, run{lo: int32(b.first + lo), hi: int32(b.first + hi), form: f})
}

// periodicOf returns the form of a run that repeats the rows lo to hi.
func (b *Builder) periodicOf(lo, hi, step int) *periodic {
	p := &periodic{step: step}
	for i := lo; i < hi; i++ {
		at := 0
		if b.width(i) > 0 {
			at = int(b.cols[b.ptr[i]])
		}
		p.at, p.shapes = append(p.at, at), append(p.shapes, b.constantOf(i, at))
	}
	b.m.bytes += p.bytes()
	return p
}

// constantOf returns the entries of row i at offsets from a column. Equal rows share one form.
func (b *Builder) constantOf(i, from int) *constant {
	cols, vals := b.cols[b.ptr[i]:b.ptr[i+1]], b.vals[b.ptr[i]:b.ptr[i+1]]
	b.key = b.key[:0]
	for k, c := range cols {
		b.key = binary.LittleEndian.AppendUint64(b.key, uint64(int(c)-from))
		b.key = binary.LittleEndian.AppendUint64(b.key, math.Float64bits(vals[k]))
	}
	if known := b.shapes[string(b.key)]; known != nil {
		return known
	}
	shape := &constant{offs: make([]int, len(cols)), coefs: slices.Clone(vals)}
	for k, c := range cols {
		shape.offs[k] = 8 * (int(c) - from)
	}
	b.shapes[string(b.key)] = shape
	b.m.bytes += shape.bytes()
	return shape
}

// addVarying stores rows with equal offsets and different values, transposed, so that a kernel loads the k-th values
// of consecutive rows as vectors.
func (b *Builder) addVarying(lo, hi int) {
	if lo == hi {
		return
	}
	n, width := hi-lo, b.width(lo)
	v := &varying{n: n, offs: make([]int, width)}
	vals := make([]float64, n*width)
	for k := range width {
		v.offs[k] = 8 * (int(b.cols[b.ptr[lo]+k]) - (b.first + lo))
		for i := range n {
			vals[k*n+i] = b.vals[b.ptr[lo+i]+k]
		}
	}
	switch {
	case b.format == Bfloat16 && width > 1:
		rows := b.m.rows - b.first - lo
		v.vals32 = next(&b.singles, to32(vals[:n]), rows)
		v.vals16 = next(&b.halves, to16(vals[n:]), rows*(width-1))
	case exact32(vals):
		v.vals32 = to32(vals)
	default:
		v.vals64 = vals
	}
	b.m.bytes += v.bytes()
	b.add(lo, hi, v)
}

// slabValues is the number of values that are allocated at once for many runs.
const slabValues = 1 << 19

// next moves the values of a run to the memory after the values of the run before it. With bfloat16 values, the part of
// a run that belongs to one column is only 2 KB for a line of 1000 points. Hardware prefetchers are too late for that,
// so the kernel prefetches the next run, which must be adjacent. rest is the number of values of all remaining runs.
func next[T any](slab *[]T, vals []T, rest int) []T {
	if cap(*slab)-len(*slab) < len(vals) {
		*slab = make([]T, 0, max(len(vals), min(slabValues, rest)))
	}
	at := len(*slab)
	*slab = append(*slab, vals...)
	return (*slab)[at:]
}
