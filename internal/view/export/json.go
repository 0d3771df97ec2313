package export

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func init() {
	Formats.Register(Format{Name: "json", Help: "a JSON array with an object per row", Write: writeJSON})
	Formats.Register(Format{Name: "jsonl", Help: "a JSON object per row, one a line", Write: writeJSONL})
	Formats.Register(Format{Name: "records", Help: "a JSON object per row with the columns of csv, one a line",
		Write: writeRecords})
}

// writeJSONL writes the rows in the journal's schema, one per line.
func writeJSONL(w io.Writer, in Input, _ Options) error {
	b := bufio.NewWriter(w)
	for i := range in.Rows {
		if err := writeRow(b, in.Rows[i], "\n"); err != nil {
			return err
		}
	}
	return b.Flush()
}

// writeJSON writes one array of the same objects. Each row is on its own line, so that a diff between two
// files is readable.
func writeJSON(w io.Writer, in Input, _ Options) error {
	b := bufio.NewWriter(w)
	b.WriteString("[\n")
	for i := range in.Rows {
		end := ",\n"
		if i == len(in.Rows)-1 {
			end = "\n"
		}
		if err := writeRow(b, in.Rows[i], end); err != nil {
			return err
		}
	}
	b.WriteString("]\n")
	return b.Flush()
}

// writeRecords writes one flat object per row and trial, for data frames. Its names are the columns of csv.
// Values keep their types: numbers and booleans are no texts, and null is a number, an axis or an option that
// the row does not have.
func writeRecords(w io.Writer, in Input, opts Options) error {
	columns, err := fileColumns(in, opts)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	for i := range in.Rows {
		for j, c := range columns {
			name, _ := json.Marshal(c.Name) // marshalling a text cannot fail
			value, err := json.Marshal(c.typed(in.Rows[i]))
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			b.WriteString(map[bool]string{true: "{", false: ","}[j == 0])
			b.Write(name)
			b.WriteByte(':')
			b.Write(value)
		}
		b.WriteString("}\n")
	}
	return b.Flush()
}

// typed returns the value of a row with its type.
func (c Column) typed(r *journal.Row) any {
	text := c.Value(r)
	switch {
	case text == "" && (c.Numeric || c.Role == Axis || c.Role == Option):
		return nil
	case c.Role == Axis:
		return r.Point.At(c.Key)
	case c.Role == Option:
		return r.Options.At(c.Key)
	case c.Numeric:
		return json.Number(text)
	}
	return text
}

// writeRow writes a row followed by end. The caller's final Flush returns write errors.
func writeRow(b *bufio.Writer, r *journal.Row, end string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%s, trial %d: %w", dataset.Label(r), r.Trial, err)
	}
	b.Write(text)
	b.WriteString(end)
	return nil
}
