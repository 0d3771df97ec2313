package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/point"
)

// The table of nccl-tests and rccl-tests has a header of comment lines
//
//	#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//
// and one line per size: key columns, then the same columns out of place and
// in place. Versions differ in columns (error for #wrong, no root, #iters,
// per-iteration statistics), so columns are found by the header's names and
// never by their number.

// ncclNames are the header's words for a column, newest first.
var ncclNames = map[string][]string{
	"time":  {"time", "cputime"},
	"algbw": {"algbw"},
	"busbw": {"busbw"},
	"wrong": {"#wrong", "wrong", "error"},
}

// ncclKeys are the key columns that every version has.
var ncclKeys = []decl.Axis{{Name: "size", Kind: point.Bytes}, {Name: "type", Kind: point.String}, {Name: "redop", Kind: point.String}}

// ncclPlaces are the two groups of columns.
var ncclPlaces = map[string]string{"out": "out of", "in": "in"}

func ncclUnit(column string) (unit, better string) {
	switch column {
	case "time":
		return "us", "lower"
	case "wrong":
		return "", "lower"
	}
	return "GB/s", "higher"
}

// ncclColumn finds a metric's column: the first of that name is out of place,
// the second in place.
func ncclColumn(header []string, c *column) int {
	skip := 0
	if c.place == "in" {
		skip = 1
	}
	for i, name := range header {
		if slices.Contains(ncclNames[c.name], name) {
			if skip == 0 {
				return i
			}
			skip--
		}
	}
	return -1
}

// isNCCLHeader recognises the line with the names of the columns.
func isNCCLHeader(fields []string) bool {
	return len(fields) > 2 && fields[0] == "#" && fields[1] == "size" && slices.Contains(fields, "algbw")
}

func (t *table) ncclLines(text string) ([]line, error) {
	var header []string
	var lines []line
	n := 0
	for text := range strings.Lines(text) {
		n++
		fields := strings.Fields(text)
		if isNCCLHeader(fields) {
			header = fields[1:]
			for _, m := range t.metrics {
				if ncclColumn(header, m.column) < 0 {
					return nil, fmt.Errorf("the nccl-tests table has no column %s %s place", m.column.name, ncclPlaces[m.column.place])
				}
			}
			continue
		}
		// Everything else that is no size is a comment or a log line.
		if header == nil || len(fields) == 0 {
			continue
		}
		if _, err := strconv.ParseInt(fields[0], 10, 64); err != nil {
			continue
		}
		l, err := t.ncclLine(header, fields)
		if err != nil {
			return nil, fmt.Errorf("line %d of the nccl-tests table: %w", n, err)
		}
		l.number = n
		lines = append(lines, l)
	}
	if header == nil {
		return nil, fmt.Errorf("there is no table of nccl-tests: no line starts with \"#  size  count\" and has algbw")
	}
	return lines, nil
}

func (t *table) ncclLine(header, fields []string) (line, error) {
	l := line{values: map[string]float64{}}
	// A time stamp at the end is one column but two fields, so there may be
	// more fields than columns, never fewer.
	if len(fields) < len(header) {
		return l, fmt.Errorf("it has %s, the header %d: %q", plural(len(fields), "field"), len(header), clip(strings.Join(fields, " ")))
	}
	for i, name := range header {
		switch name {
		case "size":
			size, err := strconv.ParseInt(fields[i], 10, 64)
			if err != nil || size < 0 {
				return l, fmt.Errorf("the size %q is not a number of bytes", clip(fields[i]))
			}
			l.keys = append(l.keys, point.Coord{Name: name, Value: point.BytesValue(size)})
		case "type", "redop":
			l.keys = append(l.keys, point.Coord{Name: name, Value: point.StringValue(fields[i])})
		case "root":
			// -1 stands for an operation without a root.
			if root, err := strconv.ParseInt(fields[i], 10, 64); err == nil && root >= 0 {
				l.keys = append(l.keys, point.Coord{Name: name, Value: point.IntValue(root)})
			}
		}
	}
	for _, m := range t.metrics {
		text := fields[ncclColumn(header, m.column)]
		if text == "N/A" {
			continue // not measured on this line
		}
		v, err := number(text)
		if err != nil {
			return l, fmt.Errorf("%s: %w", m.column.name, err)
		}
		l.values[m.info.Name] = v
	}
	return l, nil
}
