// Package export writes the rows of a journal as text: an aligned table for
// people, csv, json, jsonl, markdown, the Go benchmark format that benchstat
// reads, and the table of nccl-tests. Every format is a pure view of a header and its rows, one
// file per format; nothing here runs, measures, judges or draws, and pages are
// made elsewhere.
package export

import (
	"cmp"
	"fmt"
	"io"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Default is the format of a run that names none.
const Default = "table"

// Input is what a format shows: one run. A nil Header is allowed; the columns
// then follow the order of the first rows.
type Input struct {
	Header *journal.Header
	Rows   []journal.Row
}

// Options are the reader's wishes. They concern the formats for people (table,
// markdown), and Columns csv too; the others always write everything.
type Options struct {
	Width    int  // columns of the terminal; 0 means no limit
	MaxRows  int  // lines shown per table before the middle is left out; 0 means all
	PerTrial bool // one line per trial instead of one per point

	Columns []string // which to show, in this order; none means what the rows call for
}

// format is one entry of the registry. Text is buffered by Write, so a format
// may make many small writes.
type format struct {
	name  string
	write func(w io.Writer, in Input, opts Options) error
	// sweep are the values that a run takes of an axis which nobody names, since the
	// format has a place for each of them.
	sweep map[string]string
}

// formats is keyed by the user's word, in the order help shows them. A new
// format is one more file and one more line here.
var formats = []format{
	{name: Default, write: writeTable},
	{name: "csv", write: writeCSV},
	{name: "json", write: writeJSON},
	{name: "jsonl", write: writeJSONL},
	{name: "markdown", write: writeMarkdown},
	{name: "benchfmt", write: writeBenchfmt},
	{name: "nccl-tests", write: writeNCCLTests, sweep: map[string]string{ncclInPlace: "false,true"}},
}

// Formats are the words Write accepts, the default first.
func Formats() []string {
	return lists.Map(formats, func(f format) string { return f.name })
}

// Sweep is what a run that is to be shown in a format takes of axes which nobody names:
// values by axis.
func Sweep(name string) map[string]string {
	f, _ := lists.First(formats, func(f format) bool { return f.name == name })
	return f.sweep
}

// Write shows in as the named format; "" is the default.
func Write(w io.Writer, name string, in Input, opts Options) error {
	name = cmp.Or(name, Default)
	f, err := suggest.Find("format", name, formats, func(f format) string { return f.name })
	if err != nil {
		return err
	}
	if err := f.write(w, in, opts); err != nil {
		return fmt.Errorf("writing format %s: %w", name, err)
	}
	return nil
}
