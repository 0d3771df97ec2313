package sparse

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Format says how far a Builder may go in making the matrix smaller.
type Format uint8

// The formats. Compressed and Plain give the same bits in every product.
const (
	Compressed Format = iota // whatever is smallest
	Plain                    // every value as a double, every column as 32 bits
	Single                   // values rounded to single precision, then whatever is smallest
)

// String is the format's name in a result's record.
func (f Format) String() string {
	return [...]string{"compressed", "plain", "single"}[f]
}

const (
	chunkRows = 4096 // rows looked at together, and the most in one run
	longRun   = 16   // rows from which a run of equal rows is worth its call
	shortGap  = 4    // rows between long runs that become runs of one row
)

// Builder makes a Matrix from its rows, given in order. It keeps a small number
// of rows at a time, so that memory never holds the matrix twice.
type Builder struct {
	format Format
	m      Matrix
	first  int // of the chunk
	ptr    []int
	cols   []int32
	vals   []float64

	shapes map[string]*constant // by distances and values
	key    []byte               // of the last one looked for
}

// NewBuilder starts a matrix of rows x cols, where cols counts ghosts too.
func NewBuilder(rows, cols int, format Format) (*Builder, error) {
	if rows < 0 || cols < rows || cols > math.MaxInt32 {
		return nil, fmt.Errorf("building a matrix of %d rows and %d columns: one rank holds at most %d columns", rows, cols,
			math.MaxInt32)
	}
	return &Builder{format: format, m: Matrix{rows: rows, cols: cols}, ptr: []int{0}, shapes: map[string]*constant{}}, nil
}

// Add appends the next row. Its order of entries is the order of summation.
func (b *Builder) Add(cols []int, vals []float64) {
	if len(cols) != len(vals) {
		panic(fmt.Sprintf("sparse: a row with %d columns and %d values", len(cols), len(vals)))
	}
	for _, c := range cols {
		if uint(c) >= uint(b.m.cols) { // before the conversion, which would wrap
			panic(fmt.Sprintf("sparse: column %d of %d", c, b.m.cols))
		}
		b.cols = append(b.cols, int32(c))
	}
	b.endRow(vals)
}

// endRow appends the values of a row whose columns have been.
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
	if b.format == Single {
		for i, v := range b.vals[at:] {
			b.vals[at+i] = float64(float32(v))
		}
	}
	b.ptr = append(b.ptr, len(b.cols))
	b.m.entries += len(cols)
	if len(b.ptr) > chunkRows {
		b.flush()
	}
}

// shape is a row whose columns are distances from the first.
type shape struct {
	first int32
	far   []int32
	vals  []float64
}

// addRow appends a row whose columns are distances from the first.
func (b *Builder) addRow(first int32, far []int32, vals []float64) {
	for _, d := range far {
		b.cols = append(b.cols, first+d)
	}
	b.endRow(vals)
}

// addRun appends rows that repeat, of which it is given the first ones: each further one is that so many before, all
// columns moved by step. What lies between two runs is the ends of a grid's lines as a rule: a few rows, of few kinds.
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
		b.addRow(s.first, s.far, s.vals)
	}
	if step == len(like) {
		b.add(0, n, b.constantOf(0, b.first))
	} else {
		b.add(0, n, b.periodicOf(0, len(like), step))
	}
	for k := len(like); k < n; k++ {
		b.m.entries += len(like[k%len(like)].far)
	}
	b.start(n)
}

// check looks at the columns of n rows, every period-th from one on, each moved by step.
func (b *Builder) check(s shape, row, n, period, step int) {
	for _, d := range s.far {
		c := int(s.first + d)
		if last := c + (n-1)*step; last >= b.m.cols {
			panic(fmt.Sprintf("sparse: row %d has column %d of %d", row+(n-1)*period, last, b.m.cols))
		}
		if owned := min(n-1, (b.m.rows-1-c)/step); c < b.m.rows {
			b.m.reach = max(b.m.reach, c-row+owned*(step-period))
		}
	}
}

// start begins another chunk, so many rows on.
func (b *Builder) start(n int) {
	b.first += n
	b.ptr, b.cols, b.vals = b.ptr[:1], b.cols[:0], b.vals[:0]
}

// Done gives the matrix. Every row must have been added.
func (b *Builder) Done() *Matrix {
	b.flush()
	if b.first != b.m.rows {
		panic(fmt.Sprintf("sparse: %d rows of %d were added", b.first, b.m.rows))
	}
	b.m.runs = slices.Clip(b.m.runs)
	b.m.index()
	return &b.m
}

// flush turns the rows of the chunk into runs: long stretches of equal
// distances first, then what lies between them.
func (b *Builder) flush() {
	n := len(b.ptr) - 1
	if b.format == Plain {
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

// stretch is the end of the rows that are the same as row lo.
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
	far := int32(j - i)
	for k := range ci {
		if cj[k]-ci[k] != far {
			return false
		}
	}
	return true
}

func (b *Builder) sameValues(i, j int) bool {
	return identical(b.vals[b.ptr[i]:b.ptr[i+1]], b.vals[b.ptr[j]:b.ptr[j+1]])
}

// addStretch stores rows of equal distances: long constant parts as such, the
// rest with their values.
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

// addGap stores what lies between long stretches. On a grid that is the ends of
// its lines: a few rows, of few kinds.
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

// periodicOf is the form of rows that repeat the rows lo to hi.
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

// constantOf gives the row's entries at distances from a column, the same ones for equal rows.
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
	if exact32(vals) {
		v.vals32 = to32(vals)
	} else {
		v.vals64 = vals
	}
	b.m.bytes += v.bytes()
	b.add(lo, hi, v)
}
