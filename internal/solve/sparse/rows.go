package sparse

import (
	"math"
	"slices"
)

// CSR holds rows as compressed sparse rows, for code that works on single entries.
type CSR struct {
	Start []int // position of each row in Cols and Vals, and the end of the last row
	Cols  []int32
	Vals  []float64
}

// NewCSR returns an empty CSR with capacity for the given numbers of rows and entries.
func NewCSR(rows, entries int) *CSR {
	return &CSR{append(make([]int, 0, rows+1), 0), make([]int32, 0, entries), make([]float64, 0, entries)}
}

// Rows returns the number of rows.
func (c *CSR) Rows() int { return len(c.Start) - 1 }

// Row returns the columns and values of row i.
func (c *CSR) Row(i int) ([]int32, []float64) {
	lo, hi := c.Start[i], c.Start[i+1]
	return c.Cols[lo:hi], c.Vals[lo:hi]
}

// Add appends an entry to the current row. End completes the row.
func (c *CSR) Add(col int32, val float64) {
	c.Cols, c.Vals = append(c.Cols, col), append(c.Vals, val)
}

// End completes the current row.
func (c *CSR) End() { c.Start = append(c.Start, len(c.Cols)) }

// Matrix returns the rows in the form for products, with vectors of width values.
func (c *CSR) Matrix(width int, format Format) (*Matrix, error) {
	b, err := NewBuilder(c.Rows(), width, format)
	if err != nil {
		return nil, err
	}
	for i := range c.Rows() {
		cols, vals := c.Row(i)
		b.cols = append(b.cols, cols...)
		b.endRow(vals)
	}
	return b.Done(), nil
}

// Unpack returns the rows of the matrix, with the entries in the order of summation.
func (m *Matrix) Unpack() *CSR {
	out := NewCSR(m.rows, m.entries)
	for _, r := range m.runs {
		for i := int(r.lo); i < int(r.hi); i++ {
			r.form.row(out, i, int(r.lo))
			out.End()
		}
	}
	return out
}

// Shapes holds rows for code that works on single entries. It needs little memory if rows repeat, as they do on a grid:
// a row that equals one of the two rows before it, with all columns moved by the same distance, shares its entries.
type Shapes struct {
	distinct CSR     // columns are relative to the first column of the row
	of       []int32 // index in distinct of each row
	first    []int32 // first column of each row
	entries  int
}

// NewShapes returns empty Shapes with capacity for the given numbers of rows and of entries of distinct rows.
func NewShapes(rows, entries int) *Shapes {
	return &Shapes{distinct: *NewCSR(0, entries), of: make([]int32, 0, rows), first: make([]int32, 0, rows)}
}

// Shapes returns the rows of the matrix, with the entries in the order of summation.
func (m *Matrix) Shapes() *Shapes {
	entries := m.entries
	for _, r := range m.runs {
		if c, same := r.form.(*constant); same {
			entries -= (int(r.hi-r.lo) - 1) * len(c.offs)
		}
	}
	out := NewShapes(m.rows, entries)
	for _, r := range m.runs {
		_, same := r.form.(*constant)
		for i := int(r.lo); i < int(r.hi); i++ {
			if same && i > int(r.lo) {
				out.Repeat(1, 1)
				continue
			}
			r.form.row(&out.distinct, i, int(r.lo))
			out.End()
		}
	}
	return out
}

// Shapes returns the same rows as Shapes. It reuses the memory of c, which must not be used afterwards.
func (c *CSR) Shapes() *Shapes {
	out := &Shapes{distinct: CSR{[]int{0}, c.Cols[:0], c.Vals[:0]}}
	for i := range c.Rows() {
		out.AddAll(c.Row(i))
		out.End()
	}
	return out
}

// Rows returns the number of rows.
func (s *Shapes) Rows() int { return len(s.of) }

// Entries returns the number of entries of all rows, counting shared entries once per row.
func (s *Shapes) Entries() int { return s.entries }

// Stored returns the number of entries in memory.
func (s *Shapes) Stored() int { return len(s.distinct.Cols) }

// Row returns row i. Its k-th entry is vals[k] in column first + offsets[k].
func (s *Shapes) Row(i int) (first int32, offsets []int32, vals []float64) {
	offsets, vals = s.distinct.Row(int(s.of[i]))
	return s.first[i], offsets, vals
}

// Follows reports whether row i shares the entries of the row before rows earlier, with all columns moved by shift.
func (s *Shapes) Follows(i, before, shift int) bool {
	return i >= before && s.of[i] == s.of[i-before] && int(s.first[i]-s.first[i-before]) == shift
}

// Add appends an entry to the current row. End completes the row.
func (s *Shapes) Add(col int32, val float64) { s.distinct.Add(col, val) }

// AddAll appends entries to the current row.
func (s *Shapes) AddAll(cols []int32, vals []float64) {
	d := &s.distinct
	// double the capacity; append grows long slices by a quarter only
	if need := len(d.Cols) + len(cols); need > cap(d.Cols) {
		d.Cols, d.Vals = slices.Grow(d.Cols, need), slices.Grow(d.Vals, need)
	}
	d.Cols, d.Vals = append(d.Cols, cols...), append(d.Vals, vals...)
}

// End completes the current row.
func (s *Shapes) End() {
	at := s.distinct.Start[len(s.distinct.Start)-1]
	cols, vals := s.distinct.Cols[at:], s.distinct.Vals[at:]
	first := int32(0)
	if len(cols) > 0 {
		first = cols[0]
	}
	for i := len(s.of) - 1; i >= max(0, len(s.of)-2); i-- {
		if _, offsets, known := s.Row(i); moved(cols, offsets, first) && identical(vals, known) {
			s.distinct.Cols, s.distinct.Vals = s.distinct.Cols[:at], s.distinct.Vals[:at]
			s.append(s.of[i], first, len(cols))
			return
		}
	}
	s.distinct.End()
	for k := range cols {
		cols[k] -= first
	}
	s.append(int32(s.distinct.Rows()-1), first, len(cols))
}

func (s *Shapes) append(shape, first int32, entries int) {
	s.of, s.first = append(s.of, shape), append(s.first, first)
	s.entries += entries
}

// Repeat appends a copy of the row that is before rows back, with its columns moved by shift.
func (s *Shapes) Repeat(before int, shift int32) {
	like := len(s.of) - before
	shape := s.of[like]
	s.append(shape, s.first[like]+shift, s.distinct.Start[shape+1]-s.distinct.Start[shape])
}

// moved reports whether the columns are at the given offsets from first.
func moved(cols, offsets []int32, first int32) bool {
	if len(cols) != len(offsets) {
		return false
	}
	for k, c := range cols {
		if c-first != offsets[k] {
			return false
		}
	}
	return true
}

func identical(a, b []float64) bool {
	for k, v := range a {
		if math.Float64bits(v) != math.Float64bits(b[k]) {
			return false
		}
	}
	return true
}

// Beyond lists the rows that have a column >= limit.
func (s *Shapes) Beyond(limit int) (rows []int) {
	farthest := make([]int32, s.distinct.Rows())
	for shape := range farthest {
		offsets, _ := s.distinct.Row(shape)
		farthest[shape] = math.MinInt32
		for _, d := range offsets {
			farthest[shape] = max(farthest[shape], d)
		}
	}
	for i, shape := range s.of {
		if int(s.first[i])+int(farthest[shape]) >= limit {
			rows = append(rows, i)
		}
	}
	return rows
}

// Rename replaces each column of row i by name(column).
func (s *Shapes) Rename(i int, name func(col int32) int32) {
	first, offsets, vals := s.Row(i)
	if len(offsets) == 0 {
		return
	}
	s.first[i], s.of[i] = name(first+offsets[0]), int32(s.distinct.Rows())
	for k, d := range offsets {
		s.distinct.Add(name(first+d)-s.first[i], vals[k])
	}
	s.distinct.End()
}

// Matrix returns the rows in the form for products, with vectors of width values.
func (s *Shapes) Matrix(width int, format Format) (*Matrix, error) {
	b, err := NewBuilder(s.Rows(), width, format)
	if err != nil {
		return nil, err
	}
	for lo := 0; lo < s.Rows(); {
		period, step, hi := s.run(lo)
		if hi-lo < longRun || format == Plain {
			b.addRow(s.Row(lo))
			lo++
			continue
		}
		var like []shape
		for i := range period {
			first, offsets, vals := s.Row(lo + i)
			like = append(like, shape{first, offsets, vals})
		}
		b.addRun(like, step, hi-lo)
		lo = hi
	}
	return b.Done(), nil
}

// run finds how the rows repeat from row lo on: the period in rows, the step of the columns per period, and the end of
// the run.
func (s *Shapes) run(lo int) (period, step, hi int) {
	// In this order: a matrix, interpolation from a coarser grid, and restriction to one.
	for _, pattern := range [...]struct{ period, step int }{{1, 1}, {2, 1}, {1, 2}} {
		hi = min(lo+pattern.period, s.Rows())
		for hi < s.Rows() && s.Follows(hi, pattern.period, pattern.step) {
			hi++
		}
		if hi-lo >= longRun {
			return pattern.period, pattern.step, hi
		}
	}
	return 1, 1, lo + 1
}
