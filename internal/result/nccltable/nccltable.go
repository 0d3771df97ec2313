// Package nccltable reads the tables that nccl-tests and rccl-tests print, and
// kernbench's own format of that name:
//
//	#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//	#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
//	        1024           256     float     sum      -1    12.34    0.08    0.15      0    12.30    0.08    0.15      0
//
// Versions differ in columns (error for #wrong, cputime for time, no root,
// #iters, statistics of iterations), so columns are found by the header's names
// and never by their number. It says which lines are of a table and what stands
// in their columns; what the other lines and the numbers mean is not its matter.
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

// Place is one of the two groups of columns: an operation's output is another
// buffer than its input, or the same.
type Place int

// The places, in the order of their columns.
const (
	OutOfPlace Place = iota
	InPlace
)

// Places are both.
var Places = []Place{OutOfPlace, InPlace}

func (p Place) String() string {
	if p == InPlace {
		return "in place"
	}
	return "out of place"
}

// The columns of numbers, which each place has, by the names Number takes.
const (
	Time  = "time" // in microseconds
	AlgBW = "algbw"
	BusBW = "busbw" // in GB/s, as AlgBW
	Wrong = "wrong" // wrong elements, or the largest error

	// Statistics of single iterations, with -I; times in microseconds.
	IterMin = "i_min"
	IterMax = "i_max"
	IterP99 = "i_p99"
	IterCV  = "i_cv%" // standard deviation over mean, in per cent
)

// columns maps the words of headers to the columns of numbers.
var columns = map[string]string{"time": Time, "cputime": Time, "algbw": AlgBW, "busbw": BusBW, "#wrong": Wrong,
	"wrong": Wrong, "error": Wrong, IterMin: IterMin, IterMax: IterMax, IterP99: IterP99, IterCV: IterCV}

// units are those of the line under the header.
var units = []string{"(B)", "(elements)", "(us)", "(GB/s)", "(%)"}

// ErrNone is the error of a text without a table.
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

// Header is where the columns of a table are.
type Header struct {
	width  int
	keys   map[string]int
	places []map[string]int
	// deviation: the column Wrong holds the largest deviation, as in the first
	// versions, whose last line says whether it was too large.
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

// HasKey reports whether there is a key column: type, redop, root.
func (h *Header) HasKey(name string) bool {
	_, has := h.keys[name]
	return has
}

// Row is a table's line for one size.
type Row struct {
	Size   int64 // in bytes
	line   int
	header *Header
	fields []string
}

// Key is the text in a key column (type, redop, root), "" without the column.
func (r *Row) Key(name string) string {
	if i, has := r.header.keys[name]; has && i < len(r.fields) {
		return r.fields[i]
	}
	return ""
}

// Number is what stands in a column of numbers; it has none where the column
// is missing or the tool measured nothing.
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

// Verdict is what the tool found of a line's results: how many elements were wrong
// in any place.
func (r *Row) Verdict() (wrong float64, err error) {
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

// clip keeps a text that may be anything fit for a message.
func clip(text string) string {
	const most = 60
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// Line is one line of a text that is not blank. At most one of Header and Row
// is set; a line with neither is a comment, which starts with #, or a log line.
type Line struct {
	Number int // from 1
	Text   string
	Header *Header
	Row    *Row
	Ends   bool // a comment that begins another run and so ends the table above it
	// Failure is the message with which the tool gave up, if this is its line. Begun
	// is then the row it was in the middle of: its size and what else had been printed.
	Failure string
	Begun   *Row
}

// failure is how nccl-tests says that a call of NCCL or CUDA went wrong, and the
// functions that passed it on.
var failure = regexp.MustCompile(`Test (?:NCCL |CUDA |)failure .*`)

// Failed reports whether the line is the verdict at the end of a table, and says
// that there were wrong results.
func (l Line) Failed() bool {
	return strings.HasPrefix(strings.Join(strings.Fields(l.Text), " "), "# Out of bounds values : ") &&
		strings.HasSuffix(strings.TrimSpace(l.Text), "FAILED")
}

// Comment reports whether the line starts with #.
func (l Line) Comment() bool { return strings.HasPrefix(strings.TrimSpace(l.Text), "#") }

// Read reads the tables of a text. Its errors are ErrNone and a *Fault.
func Read(text string) ([]Line, error) {
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
			if head != nil && begins(fields) {
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

// fail takes a failure's line apart: it may stand behind the beginning of a row.
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

// begins recognises the comments that begin another run or another table of
// kernbench's own.
func begins(fields []string) bool {
	text := strings.Join(fields, " ")
	return strings.HasPrefix(text, "# nThread ") || strings.HasPrefix(text, "# Collective test starting") ||
		strings.Contains(text, " num_ranks=")
}

func newHeader(names []string, line int) (*Header, error) {
	h := &Header{width: len(names), keys: map[string]int{}}
	for i, name := range names {
		if slices.Contains([]string{"type", "redop", "root"}, name) {
			h.keys[name] = i
			continue
		}
		column, known := columns[name]
		switch {
		case !known:
			continue
		case column == Time: // the first column of a place
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

// checkUnits checks the line under the header: bytes, microseconds and GB/s, or
// nothing that can be read here.
func checkUnits(fields []string, line int) error {
	for _, unit := range fields[1:] {
		if strings.HasPrefix(unit, "(") && !slices.Contains(units, unit) {
			return fault(line, "the unit %s is not one of nccl-tests' (B, elements, us, GB/s, %%)", clip(unit))
		}
	}
	return nil
}

// row reads a line below the header; nil for one that is no size, such as a log
// line.
func (h *Header) row(fields []string, line int) (*Row, error) {
	size, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return nil, nil
	}
	// A time stamp at the end is one column but two fields, so there may be
	// more fields than columns, never fewer.
	if len(fields) < h.width {
		return nil, fault(line, "the line has %d fields, the header %d: it is cut off or not of this table", len(fields),
			h.width)
	}
	if size < 0 {
		return nil, fault(line, "the size \"%d\" is not a number of bytes", size)
	}
	return &Row{Size: size, line: line, header: h, fields: fields}, nil
}
