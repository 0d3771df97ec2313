package export

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func init() {
	Formats.Register(Format{Name: "csv", Help: "comma-separated values with a header, one line per row", Write: writeCSV})
}

// writeCSV writes one record per row and trial. It writes every column, even constant ones, so that a
// script finds the same headings in every run. Only statistics over all trials of a point are left out.
// Control characters other than line ends and tabs are escaped, and text that a spreadsheet would treat as
// a formula is preceded by an apostrophe. Quoting follows RFC 4180, but lines end in a line feed only, as
// most tools expect.
//
// Numbers have full precision and sizes are bytes. The unit of a metric is in a column of its
// own (busbw, busbw_unit), unless the name contains it (time_us). Column.Value describes how
// unset variables differ from empty ones. Only json and jsonl are lossless.
func writeCSV(w io.Writer, in Input, opts Options) error {
	columns, err := fileColumns(in, opts)
	if err != nil {
		return err
	}
	record := make([]string, len(columns))
	out := csv.NewWriter(w)
	for i, c := range columns {
		record[i] = csvCell(c.Name)
	}
	if err := out.Write(record); err != nil {
		return err
	}
	for i := range in.Rows {
		for j, c := range columns {
			record[j] = csvCell(c.Value(in.Rows[i]))
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// fileColumns returns the columns of files: all that the reader names, or else all but statistics over trials.
func fileColumns(in Input, opts Options) ([]Column, error) {
	columns, err := choose(append(Columns(in.Header, in.Rows), machineColumns(in.Rows)...), opts.Columns)
	return slices.DeleteFunc(columns, func(c Column) bool { return roles[c.Role].tableOnly && !c.chosen }), err
}

// machineColumns returns the columns that describe the simulated machine.
func machineColumns(rows dataset.Set) (columns []Column) {
	for _, name := range journal.MachineDetails() {
		if slices.ContainsFunc(rows, func(r *journal.Row) bool { return r.Details[name] != "" }) {
			columns = append(columns, Column{Role: Detail, Name: "detail." + name, Key: name})
		}
	}
	return columns
}

// csvCell escapes control characters and formulas.
func csvCell(s string) string {
	s = texttab.Lines(s)
	if begin := strings.TrimLeft(s, " \t\n"); len(begin) < 2 || !strings.ContainsRune("=+-@", rune(begin[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}
