// Package nccltable reads the tables that nccl-tests and rccl-tests print, and
// kernbench's own format of that name:
//
//	#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//	#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
//	        1024           256     float     sum      -1    12.34    0.08    0.15      0    12.30    0.08    0.15      0
//
// Versions differ in their columns (error for #wrong, cputime for time, no root, #iters,
// statistics of iterations), so columns are found by the names in the header and never by
// position. The package finds the lines of tables and parses their columns; it does not
// interpret the other lines or the numbers.
package nccltable

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Place is one of the two groups of columns: the operation writes to another buffer than its
// input (out of place), or to the same (in place).
type Place int

// The places, in the order of their columns.
const (
	OutOfPlace Place = iota
	InPlace
)

// Places lists both places.
var Places = []Place{OutOfPlace, InPlace}

func (p Place) String() string {
	if p == InPlace {
		return "in place"
	}
	return "out of place"
}

// Names of the columns of numbers in each place, for Row.Number.
const (
	Time  = "time" // in microseconds
	AlgBW = "algbw"
	BusBW = "busbw" // in GB/s, like AlgBW
	Wrong = "wrong" // wrong elements, or the largest error

	// Statistics of single iterations, with -I; times in microseconds.
	IterMin = "i_min"
	IterMax = "i_max"
	IterP99 = "i_p99"
	IterCV  = "i_cv%" // standard deviation over mean, in per cent
)

// columns maps the names in headers to the columns of numbers.
var columns = map[string]string{"time": Time, "cputime": Time, "algbw": AlgBW, "busbw": BusBW, "#wrong": Wrong,
	"wrong": Wrong, "error": Wrong, IterMin: IterMin, IterMax: IterMax, IterP99: IterP99, IterCV: IterCV}

// units are the units allowed in the line below the header.
var units = []string{"(B)", "(elements)", "(us)", "(GB/s)", "(%)"}

// ErrNone means that a text contains no table.
var ErrNone = errors.New("no table of nccl-tests: no line starts with \"#  size  count\" and has algbw")

// Fault is an error at a line of the text.
type Fault struct {
	Line int // from 1
	Err  error
}

func (f *Fault) Error() string {
	return fmt.Sprintf("line %d of the nccl-tests table: %v", f.Line, f.Err)
}
func (f *Fault) Unwrap() error { return f.Err }

func fault(line int, format string, args ...any) error {
	return &Fault{line, fmt.Errorf(format, args...)}
}

// Header holds the positions of a table's columns.
type Header struct {
	width  int
	keys   map[string]int
	places []map[string]int
	// deviation means that the column Wrong holds the largest deviation, as in the first
	// versions of the tool. The last line of their output states whether it was too large.
	deviation bool
}

// Has reports whether a place has a column of numbers.
func (h *Header) Has(p Place, column string) bool {
	if int(p) >= len(h.places) {
		return false
	}
	_, has := h.places[p][column]
	return has
}

// HasKey reports whether the table has a key column: count, type, redop or root.
func (h *Header) HasKey(name string) bool {
	_, has := h.keys[name]
	return has
}

// Row is the line of a table for one size.
type Row struct {
	Size   int64 // in bytes
	line   int
	header *Header
	fields []string
}

// Key returns the text in a key column (count, type, redop, root), "" if there is no such column.
func (r *Row) Key(name string) string {
	if i, has := r.header.keys[name]; has && i < len(r.fields) {
		return r.fields[i]
	}
	return ""
}

// Number returns the number in a column. has is false if the column is missing or the tool
// measured nothing.
func (r *Row) Number(p Place, column string) (v float64, has bool, err error) {
	if !r.header.Has(p, column) {
		return 0, false, nil
	}
	text := r.fields[r.header.places[p][column]]
	if text == "N/A" {
		return 0, false, nil
	}
	v, err = strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, false, fault(r.line, "%s is %q, want a number or N/A", column, clip(text))
	}
	return v, true, nil
}

// WrongElements returns the number of wrong elements over both places.
func (r *Row) WrongElements() (wrong float64, err error) {
	if r.header.deviation {
		return 0, nil
	}
	for _, p := range Places {
		n, _, err := r.Number(p, Wrong)
		if err != nil {
			return 0, err
		}
		wrong += n
	}
	return wrong, nil
}

// clip shortens a text for a message.
func clip(text string) string {
	const maxLength = 60
	if len(text) > maxLength {
		return strings.ToValidUTF8(text[:maxLength], "") + "..."
	}
	return text
}

// Line is a line that is not blank. At most one of Header and Row is set; a line with
// neither is a comment, which starts with #, or a log line.
type Line struct {
	Number int // from 1
	Text   string
	Header *Header
	Row    *Row
	Ends   bool // a comment that starts another run and so ends the table above it
	// Failure is the message with which the tool gave up, if the line has one. Begun is then
	// the row that it was printing, with the columns up to there.
	Failure string
	Begun   *Row
}

// failure matches the messages of nccl-tests about a failed call of NCCL or CUDA, including the messages
// of the calling functions.
var failure = regexp.MustCompile(`Test (?:NCCL |CUDA |)failure .*`)

// Failed reports whether the line is the footer of a table with wrong results.
func (l Line) Failed() bool {
	return strings.HasPrefix(strings.Join(strings.Fields(l.Text), " "), "# Out of bounds values : ") &&
		strings.HasSuffix(strings.TrimSpace(l.Text), "FAILED")
}

// Comment reports whether the line starts with #.
func (l Line) Comment() bool { return strings.HasPrefix(strings.TrimSpace(l.Text), "#") }

// Read parses the tables of a text, without the messages of NCCL's log. It returns ErrNone or a
// *Fault as its error.
func Read(text string) ([]Line, error) {
	text, _ = WithoutLog(text)
	var out []Line
	var head *Header
	headAt, tables := 0, 0
	number := 0
	for text := range strings.Lines(text) {
		number++
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		line := Line{Number: number, Text: strings.TrimRight(text, "\r\n")}
		var err error
		switch {
		case isHeader(fields):
			head, err = newHeader(fields[1:], number)
			line.Header = head
			headAt = number
			tables++
		case failure.MatchString(text):
			line.fail(head, number)
		case line.Comment():
			if head != nil && number == headAt+1 {
				err = checkUnits(fields, number)
			}
			if head != nil && startsRun(fields) {
				head, line.Ends = nil, true
			}
		case head != nil:
			line.Row, err = head.row(fields, number)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, line)
	}
	if tables == 0 {
		return nil, ErrNone
	}
	return out, nil
}

// fail parses a line with a failure, which may follow the beginning of a row.
func (l *Line) fail(head *Header, number int) {
	at := failure.FindStringIndex(l.Text)
	l.Failure = strings.TrimSpace(l.Text[at[0]:])
	fields := strings.Fields(l.Text[:at[0]])
	if head == nil || len(fields) == 0 {
		return
	}
	if size, err := strconv.ParseInt(fields[0], 10, 64); err == nil && size >= 0 {
		l.Begun = &Row{Size: size, line: number, header: head, fields: fields}
	}
}

func isHeader(fields []string) bool {
	return len(fields) > 2 && fields[0] == "#" && fields[1] == "size" && slices.Contains(fields, "algbw")
}

// startsRun reports whether a comment starts another run, or another table of kernbench's
// own format.
func startsRun(fields []string) bool {
	text := strings.Join(fields, " ")
	return strings.HasPrefix(text, "# nThread ") || strings.HasPrefix(text, "# Collective test starting") ||
		strings.Contains(text, " num_ranks=")
}

// newHeader finds the columns of a table by their names. The columns of the second place follow the
// columns of the first place and have the same names.
func newHeader(names []string, line int) (*Header, error) {
	h := &Header{width: len(names), keys: map[string]int{}}
	for i, name := range names {
		if slices.Contains([]string{"count", "type", "redop", "root"}, name) {
			h.keys[name] = i
			continue
		}
		column, known := columns[name]
		switch {
		case !known:
			continue
		case column == Time: // always the first column of a place
			h.places = append(h.places, map[string]int{})
		case len(h.places) == 0:
			return nil, fault(line, "the column %s stands before any time", name)
		}
		h.places[len(h.places)-1][column] = i
		h.deviation = h.deviation || name == "error"
	}
	if n := len(h.places); n < 1 || n > len(Places) {
		return nil, fault(line, "the header has %d columns called time, want 1 or 2", n)
	}
	return h, nil
}

// checkUnits checks the units in the line below the header. Tables in other units cannot be
// read.
func checkUnits(fields []string, line int) error {
	for _, unit := range fields[1:] {
		if strings.HasPrefix(unit, "(") && !slices.Contains(units, unit) {
			return fault(line, "the unit %s is not one of nccl-tests' (B, elements, us, GB/s, %%)", clip(unit))
		}
	}
	return nil
}

// row parses a line below the header. It returns nil for a line that does not begin with a
// size, such as a log line.
func (h *Header) row(fields []string, line int) (*Row, error) {
	size, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return nil, nil
	}
	// A time stamp at the end is one column but two fields, and other text may follow. Another number means that
	// the fields do not belong to the columns of the header.
	if len(fields) < h.width || slices.ContainsFunc(fields[h.width:], continuesRow) {
		return nil, fault(line, "the line has %d fields, the header %d: it is cut off or not of this table", len(fields),
			h.width)
	}
	if size < 0 {
		return nil, fault(line, "the size \"%d\" is not a number of bytes", size)
	}
	return &Row{Size: size, line: line, header: h, fields: fields}, nil
}
