// Package export writes the rows of a journal as text: as an aligned table for terminals, csv, json, jsonl,
// markdown, the Go benchmark format that benchstat reads, and the table of nccl-tests. There is one file
// per format. The output depends only on a header and its rows. The package does not run, measure, judge
// or draw anything.
package export

import (
	"cmp"
	"fmt"
	"io"

	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Default is the name of the default format.
const Default = "table"

// Input is the run to write. If Header is nil, the columns are in the order in which they occur in the
// rows.
type Input struct {
	Header *journal.Header
	Rows   dataset.Set
}

// Options apply to the formats table and markdown, and Columns also to csv. The other formats always write
// everything.
type Options struct {
	Width    int  // of the terminal; 0 means no limit
	MaxRows  int  // lines per table before the middle is left out; 0 means all
	PerTrial bool // one line per trial instead of one per point

	Columns []string // columns to show, in this order; nil means the ones that vary
}

// Format is a way to write rows as text. Each is a file that registers it.
type Format struct {
	Name string // the value of --format
	Help string // one line
	// Write writes one run. The writer may be unbuffered.
	Write func(w io.Writer, in Input, opts Options) error
	// Sweep has values of axes by name that the format shows in separate columns. A run that prints in
	// this format sweeps over them, unless the user sets the axis.
	Sweep map[string]string
}

// Formats is the registry of output formats.
var Formats = registry.New("output format", func(f Format) registry.Entry {
	return registry.Entry{Name: f.Name, Help: f.Help}
})

// Write writes one run in the named format; "" means the default.
func Write(w io.Writer, name string, in Input, opts Options) error {
	name = cmp.Or(name, Default)
	f, err := Formats.Lookup(name)
	if err != nil {
		return err
	}
	if err := f.Write(w, in, opts); err != nil {
		return fmt.Errorf("writing format %s: %w", name, err)
	}
	return nil
}
