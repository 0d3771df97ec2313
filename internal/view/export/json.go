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
}

// writeJSONL writes the rows in the journal's schema, one per line.
func writeJSONL(w io.Writer, in Input, _ Options) error {
	b := bufio.NewWriter(w)
	for i := range in.Rows {
		if err := writeRow(b, &in.Rows[i], "\n"); err != nil {
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
		if err := writeRow(b, &in.Rows[i], end); err != nil {
			return err
		}
	}
	b.WriteString("]\n")
	return b.Flush()
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
