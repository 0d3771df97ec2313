package bench

import (
	"slices"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// Section is a piece of a report in words: Markdown with an optional table or
// grid. [Sections] makes them.
type Section struct {
	Title string
	Text  string // paragraphs and lists; rendered escaped, never as HTML
	Table [][]string
	Grid  *Grid
	Lead  bool // what matters most: it comes first
	// Detail is for looking things up: the page shows it when it is opened, and does
	// not print it.
	Detail bool
	// Headline sections are what a run prints at its end, in place of the table
	// of all rows.
	Headline bool
}

// Grid is a matrix of cells whose colour is their status: what passed, what
// failed, what did not run.
type Grid struct {
	Corner  string   // names the rows
	Columns []string // headings
	Rows    []GridRow
}

// GridRow is a line of a grid, a cell for each column.
type GridRow struct {
	Name  string
	Cells []GridCell
}

// GridCell is one cell; its status decides the colour, and one without a status
// is empty.
type GridCell struct {
	Status Status
	Text   string // short: a count, a name
	Note   string // shown when the reader points at the cell
}

// File is one export: its name within the run's folder, and its content. [Exports]
// makes them.
type File struct {
	Name string
	Data []byte
}

// View returns what tables, figures and exports show of a run: the latest row of
// each point, merged with those of earlier runs of the folder where the bench
// accumulates, with what [Derive] adds. Without a bench it is the run itself.
func (b *Bench) View(j *journal.Journal, r *journal.Run) *journal.Run {
	if b == nil {
		return r
	}
	if b.Accumulate {
		r = j.Accumulated(r)
	}
	if b.Derive != nil {
		shown := *r
		shown.Rows = b.Derive(slices.Clone(r.Latest()))
		r = &shown
	}
	return r
}
