package sparse

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/infile"
)

// File is a matrix read from a file, or some of its rows. It implements Problem.
type File struct {
	size   int
	traits Traits
	kept   []int // the rows that are stored, ascending; nil means all
	ptr    []int
	cols   []int32
	vals   []float64
}

// Size returns the number of rows of the whole matrix.
func (f *File) Size() int { return f.size }

// Traits returns the traits that the header of the file declares. If all values of a general file were read, it also
// reports whether they are symmetric.
func (f *File) Traits() Traits { return f.traits }

// Row sets r to row i, which must have been kept.
func (f *File) Row(i int, r *Row) {
	at := i
	if f.kept != nil {
		var found bool
		if at, found = slices.BinarySearch(f.kept, i); !found {
			panic(fmt.Sprintf("sparse: row %d of the file was not kept", i))
		}
	}
	r.Reset()
	for k := f.ptr[at]; k < f.ptr[at+1]; k++ {
		r.Add(int(f.cols[k]), f.vals[k])
	}
}

// entry is one element of the matrix. Rows and columns count from 0.
type entry struct {
	row, col int32
	val      float64
}

// LoadMatrix reads a matrix file with ReadMatrix.
func LoadMatrix(path string, keep func(row int) bool) (*File, error) {
	return load(path, func(r io.Reader) (*File, error) { return ReadMatrix(r, keep) })
}

// LoadHeader reads the header of a matrix file with ReadHeader.
func LoadHeader(path string) (*File, error) { return load(path, ReadHeader) }

// LoadVector reads a vector file with ReadVector. A file with several columns is refused.
func LoadVector(path string) ([]float64, error) {
	return load(path, func(r io.Reader) ([]float64, error) {
		a, err := ReadArray(r)
		if err == nil && a.Columns != 1 {
			err = fmt.Errorf("%d rows and %d columns: want one column", a.Rows, a.Columns)
		}
		return a.Values, err
	})
}

// LoadArray reads an array file with ReadArray.
func LoadArray(path string) (Array, error) { return load(path, ReadArray) }

// Array is a dense matrix, such as several right-hand sides. Its values are stored by columns.
type Array struct {
	Rows, Columns int
	Values        []float64
}

// At returns an element. Both indices count from 0.
func (a Array) At(row, column int) float64 { return a.Values[column*a.Rows+row] }

// load opens a file and adds its path to the errors of read.
func load[T any](path string, read func(io.Reader) (T, error)) (none T, err error) {
	in, err := infile.Open(path, infile.Data)
	if err != nil {
		return none, err
	}
	defer in.Close()
	v, err := read(in)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// ReadMatrix reads a square matrix in the coordinate format of Matrix Market: real, integer or pattern
// (whose entries are 1), and general, symmetric or skew-symmetric. The file may be plain, compressed
// by gzip, or an archive of the SuiteSparse collection (NAME.tar.gz with NAME/NAME.mtx). If keep is
// not nil, only the rows that it accepts are stored, so that a rank holds only its own rows in memory.
// Entries given twice are added. Errors name the line.
func ReadMatrix(r io.Reader, keep func(row int) bool) (*File, error) {
	return readFile(r, &mtxReader{keep: keep}, (*mtxReader).read)
}

// ReadHeader reads a matrix file up to the line with the sizes. The result knows its size and traits and has no rows.
func ReadHeader(r io.Reader) (*File, error) {
	return readFile(r, &mtxReader{}, func(m *mtxReader) (*File, error) {
		if _, err := m.header(); err != nil {
			return nil, err
		}
		return &File{size: m.size, traits: m.traits(), kept: []int{}, ptr: []int{0}}, nil
	})
}

func readFile(r io.Reader, m *mtxReader, read func(*mtxReader) (*File, error)) (*File, error) {
	var err error
	if m.in, err = unpacked(r, isMatrix); err != nil {
		return nil, err
	}
	f, err := read(m)
	if err != nil {
		return nil, fmt.Errorf("matrix file, line %d: %w", max(1, m.line), err)
	}
	return f, nil
}

// mtxReader reads a matrix or vector file line by line.
type mtxReader struct {
	in        *bufio.Reader
	line      int // number of the line that was read last
	keep      func(int) bool
	pattern   bool    // entries have no values
	mirror    float64 // sign of the entries in the other triangle: 1 symmetric, -1 skew-symmetric, 0 general
	size      int
	entries   []entry
	transpose bool        // store the transpose
	mean      bool        // store the mean of each entry and its mirror image
	visit     func(entry) // if set, is called for each entry of a general file
	// asymmetry is the sum of the hashes of all entries above the diagonal minus those below. Mirror images have the same
	// hash, so the sum is 0 if the values are symmetric, and otherwise 0 with a probability of 2^-64. It works without
	// storing the entries.
	asymmetry uint64
}

// errEnd means that the file has no more lines.
var errEnd = errors.New("the file ends")

// next returns the next line that is neither empty nor a comment. It returns the first line in any case. At the end of
// the file the error is errEnd. It is another error if a compressed file is cut off, because its lines may be wrong.
func (m *mtxReader) next() ([]byte, error) {
	for {
		text, err := m.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			m.line++
			return nil, errors.New("the line is too long")
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
			if errors.Is(err, io.EOF) {
				return nil, errEnd
			}
			return nil, err
		}
		m.line++
		text = bytes.TrimSpace(text)
		if m.line == 1 || len(text) > 0 && text[0] != '%' {
			return text, nil
		}
	}
}

// header reads the banner and the sizes, and returns the number of entries.
func (m *mtxReader) header() (count int, err error) {
	if err := m.banner(); err != nil {
		return 0, err
	}
	text, err := m.next()
	if err != nil {
		return 0, fmt.Errorf("reading the sizes: %w", err)
	}
	sizes, err := integers(text, "rows, columns and entries")
	if err != nil {
		return 0, err
	}
	rows, cols, count := sizes[0], sizes[1], sizes[2]
	switch {
	case rows != cols:
		return 0, fmt.Errorf("%d rows and %d columns: a solve needs a square matrix", rows, cols)
	case rows < 1 || rows > math.MaxInt32:
		return 0, fmt.Errorf("%d rows: want 1 to %d", rows, math.MaxInt32)
	case count < rows && (m.mirror == 0 || 2*count < rows):
		return 0, fmt.Errorf("%d entries for %d rows: some row is empty, so the matrix is singular", count, rows)
	}
	m.size = rows
	return count, nil
}

// traits returns the traits that the banner declares.
func (m *mtxReader) traits() Traits { return Traits{Symmetric: m.mirror > 0} }

// read reads the whole file.
func (m *mtxReader) read() (*File, error) {
	count, err := m.header()
	if err != nil {
		return nil, err
	}
	for n := range count {
		text, err := m.next()
		if errors.Is(err, errEnd) {
			return nil, fmt.Errorf("the file ends after %d of %d entries", n, count)
		}
		if err != nil {
			return nil, err
		}
		if err := m.entry(text); err != nil {
			return nil, err
		}
	}
	if text, err := m.next(); err == nil {
		return nil, fmt.Errorf("unexpected %q after the last of %d entries", text, count)
	} else if !errors.Is(err, errEnd) {
		return nil, err
	}
	f := m.file()
	if slices.ContainsFunc(f.vals, func(v float64) bool { return math.IsInf(v, 0) || math.IsNaN(v) }) {
		return nil, errors.New("entries of the same row and column add up to no finite number")
	}
	return f, nil
}

// banner reads the first line: %%MatrixMarket matrix coordinate FIELD SYMMETRY.
func (m *mtxReader) banner() error {
	text, err := m.next()
	if err != nil {
		return fmt.Errorf("reading the header: %w", err)
	}
	word := bytes.Fields(bytes.ToLower(text))
	if len(word) != 5 || string(word[0]) != "%%matrixmarket" || string(word[1]) != "matrix" {
		return fmt.Errorf("the file starts with %.60q, want: %%%%MatrixMarket matrix coordinate real general", text)
	}
	if string(word[2]) != "coordinate" {
		return fmt.Errorf("format %s: want coordinate", word[2])
	}
	switch string(word[3]) {
	case "real", "integer":
	case "pattern":
		m.pattern = true
	default:
		return fmt.Errorf("field %s: want real, integer or pattern", word[3])
	}
	switch string(word[4]) {
	case "general":
	case "symmetric":
		m.mirror = 1
	case "skew-symmetric":
		m.mirror = -1
	default:
		return fmt.Errorf("symmetry %s: want general, symmetric or skew-symmetric", word[4])
	}
	return nil
}

// integers parses exactly three non-negative integers.
func integers(text []byte, what string) ([3]int, error) {
	var out [3]int
	word := bytes.Fields(text)
	if len(word) != 3 {
		return out, fmt.Errorf("%.60q has %d fields, want 3: %s", text, len(word), what)
	}
	for i, w := range word {
		n, err := strconv.ParseInt(string(w), 10, 64)
		if err != nil || n < 0 {
			return out, fmt.Errorf("%.60q: %.30q is not a count (%s)", text, w, what)
		}
		out[i] = int(n)
	}
	return out, nil
}

// field splits text after the first word.
func field(text []byte) (word, rest []byte) {
	text = bytes.TrimLeft(text, " \t\r")
	end := bytes.IndexAny(text, " \t\r")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// index parses a row or column number from 1 to size, and returns it counted from 0. This is faster than strconv, which
// matters for files with many millions of entries.
func (m *mtxReader) index(word []byte, what string) (int32, error) {
	n := 0
	for _, c := range word {
		if c < '0' || c > '9' || n > m.size {
			n = -1
			break
		}
		n = 10*n + int(c-'0')
	}
	if len(word) == 0 || n < 1 || n > m.size {
		return 0, fmt.Errorf("%s %.30q: want a number from 1 to %d", what, word, m.size)
	}
	return int32(n - 1), nil
}

// entry parses a line "ROW COLUMN VALUE", without the value in a pattern file.
func (m *mtxReader) entry(text []byte) error {
	word, rest := field(text)
	row, err := m.index(word, "row")
	if err != nil {
		return err
	}
	word, rest = field(rest)
	col, err := m.index(word, "column")
	if err != nil {
		return err
	}
	val := 1.0
	if !m.pattern {
		word, rest = field(rest)
		if val, err = strconv.ParseFloat(string(word), 64); err != nil || math.IsInf(val, 0) || math.IsNaN(val) {
			return fmt.Errorf("value %.30q: want a finite number", word)
		}
	}
	if extra := bytes.TrimSpace(rest); len(extra) > 0 {
		return fmt.Errorf("unexpected %.30q after the entry", extra)
	}
	switch {
	case m.mirror != 0 && col > row:
		return fmt.Errorf("entry (%d, %d) lies above the diagonal: a symmetric file stores only the lower triangle", row+1,
			col+1)
	case m.mirror < 0 && col == row:
		return fmt.Errorf("entry (%d, %d) lies on the diagonal, which is zero in a skew-symmetric matrix", row+1, col+1)
	}
	if h := hash(math.Float64bits(val+0), int(min(row, col)), int(max(row, col))); col > row {
		m.asymmetry += h
	} else if col < row {
		m.asymmetry -= h
	}
	if m.visit != nil {
		m.visit(entry{row, col, val})
	}
	if m.mean {
		m.add(entry{row, col, val / 2})
		m.add(entry{col, row, val / 2})
		return nil
	}
	if m.transpose {
		row, col = col, row
	}
	m.add(entry{row, col, val})
	if m.mirror != 0 && col != row {
		m.add(entry{col, row, m.mirror * val})
	}
	return nil
}

func (m *mtxReader) add(e entry) {
	if m.keep == nil || m.keep(int(e.row)) {
		m.entries = append(m.entries, e)
	}
}

// file sorts the entries into rows and adds up duplicates.
func (m *mtxReader) file() *File {
	f := &File{size: m.size, traits: m.traits(), ptr: []int{0}}
	f.traits.Symmetric = f.traits.Symmetric || m.mirror == 0 && m.asymmetry == 0
	slices.SortStableFunc(m.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.col, b.col))
	})
	if m.keep != nil {
		f.kept = []int{}
	}
	next := 0
	for row := range m.size {
		if m.keep != nil {
			if !m.keep(row) {
				continue
			}
			f.kept = append(f.kept, row)
		}
		first := len(f.cols)
		for ; next < len(m.entries) && int(m.entries[next].row) == row; next++ {
			e := m.entries[next]
			if n := len(f.cols); n > first && f.cols[n-1] == e.col {
				f.vals[n-1] += e.val
				continue
			}
			f.cols, f.vals = append(f.cols, e.col), append(f.vals, e.val)
		}
		f.ptr = append(f.ptr, len(f.cols))
	}
	return f
}

// ReadArray reads a dense matrix in the array format of Matrix Market, real or integer. The file may be plain,
// compressed by gzip, or an archive of the SuiteSparse collection that contains NAME_b.mtx. Errors name the line.
func ReadArray(r io.Reader) (Array, error) {
	in, err := unpacked(r, isVector)
	if err != nil {
		return Array{}, err
	}
	m := &mtxReader{in: in}
	a, err := m.array()
	if err != nil {
		return Array{}, fmt.Errorf("vector file, line %d: %w", max(1, m.line), err)
	}
	return a, nil
}

// array reads the whole array.
func (m *mtxReader) array() (a Array, err error) {
	text, err := m.next()
	if err != nil {
		return a, fmt.Errorf("reading the banner: %w", err)
	}
	words := strings.Fields(strings.ToLower(string(text)))
	if len(words) != 5 || words[0] != "%%matrixmarket" || words[1] != "matrix" || words[2] != "array" ||
		words[3] != "real" && words[3] != "integer" || words[4] != "general" {
		return a, fmt.Errorf("the banner is %q, want %q", text, "%%MatrixMarket matrix array real general")
	}
	if text, err = m.next(); err != nil {
		return a, fmt.Errorf("reading the sizes: %w", err)
	}
	var wrong [2]error
	sizes := strings.Fields(string(text))
	if len(sizes) == 2 {
		a.Rows, wrong[0] = strconv.Atoi(sizes[0])
		a.Columns, wrong[1] = strconv.Atoi(sizes[1])
	}
	if cmp.Or(wrong[:]...) != nil || a.Rows < 1 || a.Columns < 1 || a.Rows > math.MaxInt32 ||
		a.Columns > math.MaxInt32/a.Rows {
		return a, fmt.Errorf("the sizes are %q, want rows and columns", text)
	}
	count := a.Rows * a.Columns
	a.Values = make([]float64, 0, min(count, 1<<20)) // limited, because the header may be wrong
	for range count {
		text, err := m.next()
		if err != nil {
			return a, fmt.Errorf("reading value %d of %d: %w", len(a.Values)+1, count, err)
		}
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return a, fmt.Errorf("value %q: want a finite number", text)
		}
		a.Values = append(a.Values, v)
	}
	if text, err := m.next(); err == nil {
		return a, fmt.Errorf("unexpected %q after the last of %d values", text, count)
	} else if !errors.Is(err, errEnd) {
		return a, err
	}
	return a, nil
}
