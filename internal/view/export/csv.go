package export

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func init() {
	Formats.Register(Format{Name: "csv", Help: "comma-separated values with a header, one line per row", Write: writeCSV})
}

// writeCSV writes one record per row, trials apart, with every column whether
// or not it varies, so that a script finds the same headings in every run.
// Control characters other than line ends and tabs are escaped, and what a spreadsheet would take for a
// formula has an apostrophe in front. Quoting is RFC 4180's; lines end in a plain line feed, as the tools people
// pipe csv into expect.
//
// Numbers have full precision and sizes are bytes. A metric's unit has a column
// of its own (busbw, busbw_unit) unless the metric's name says it (time_us).
// Column.Value says how a variable that is unset differs from an empty one;
// jsonl is the format that loses nothing at all.
func writeCSV(w io.Writer, in Input, opts Options) error {
	columns, err := choose(append(Columns(in.Header, in.Rows), machineColumns(in.Rows)...), opts.Columns)
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
			record[j] = csvCell(c.Value(&in.Rows[i]))
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// machineColumns say what simulated rows were made on.
func machineColumns(rows []journal.Row) (columns []Column) {
	for _, name := range journal.MachineDetails() {
		if slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Details[name] != "" }) {
			columns = append(columns, Column{Role: Detail, Name: "detail." + name, Key: name})
		}
	}
	return columns
}

// csvCell makes a value harmless to whatever opens the file.
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
