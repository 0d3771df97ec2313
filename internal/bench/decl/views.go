package decl

import (
	"errors"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Section is a part of a report: text with an optional table or grid.
type Section struct {
	Title string
	Text  string // Markdown paragraphs and lists; HTML is escaped
	// Sentences follow Text. The report adds their citations, which lead to the rows that they rest on.
	Sentences []views.Sentence
	Table     [][]string // the first line is the heading
	// Lines holds, if any line of Table cites rows, an ID and rows for each line after the heading.
	Lines []views.Sentence
	Grid  *Grid
	Lead  bool // one of the main findings: comes first
	// Detail marks reference material. The page shows it folded, and it is not printed.
	Detail bool
	// Headline sections are printed at the end of a run, instead of the table of all rows.
	Headline bool
}

// AddLine adds a line to the table, and the rows that it rests on, if there are any.
func (s *Section) AddLine(id string, rows dataset.Set, cells ...string) {
	s.Table = append(s.Table, cells)
	s.Lines = append(s.Lines, views.Sentence{ID: id, Rows: rows})
}

// Grid is a matrix of cells coloured by their status: passed, failed, not run.
type Grid struct {
	Corner  string   // heading of the row names
	Columns []string // headings
	Rows    []GridRow
}

// GridRow is a line of a grid with one cell per column.
type GridRow struct {
	Name  string
	Cells []GridCell
}

// GridCell is one cell of a grid. A cell without a status is empty.
type GridCell struct {
	Status journal.Status // decides the colour
	Text   string         // short: a count, a name
	Note   string         // tooltip
}

// File is an exported file: its name within the run folder, and its content.
type File struct {
	Name string
	Data []byte
}

// View returns what tables, figures and exports of a run show: the latest row of each point, with the metrics that
// Derive adds, and a note if the folder has other builds. If the bench accumulates, earlier runs of the folder are
// merged into it. b may be nil.
func View(b *Bench, j *journal.Journal, r *journal.Run) *dataset.Dataset {
	return Derived(b, j, Data(b, j, r))
}

// Data returns the rows that a view of a run is made from. b may be nil.
func Data(b *Bench, j *journal.Journal, r *journal.Run) *dataset.Dataset {
	if b != nil && b.Accumulate {
		return dataset.Accumulated(j, r)
	}
	return dataset.Of(r)
}

// Derived returns a view of the given rows. b may be nil.
func Derived(b *Bench, j *journal.Journal, d *dataset.Dataset) *dataset.Dataset {
	view := *d
	if others := dataset.DescribeOthers(j, d.Run()); others != "" {
		view.Notes = append(slices.Clip(d.Notes), journal.Note{Run: d.ID(), Text: journal.Text(others), Time: d.Header.Time})
	}
	if b != nil && b.Derive != nil {
		view.Rows = b.Derive(d.Rows)
	}
	if names := Headlines(b); len(names) > 0 {
		view.Header.Headline = names
	}
	return &view
}

// Headlines returns the headline columns of all parts. b may be nil.
func Headlines(b *Bench) (names []string) {
	if b == nil {
		return nil
	}
	for _, p := range b.Parts {
		names = append(names, p.Headline...)
	}
	return lists.Distinct(names)
}

// Describe returns the sections of a bench, then the tables that it declares, with the sentences of its rules. A
// section that only has sentences comes first, as one of the main findings. Tables without a value are left out.
func Describe(b *Bench, rows dataset.Set) (sections []Section, err error) {
	var own, stated []Section
	if b.Sections != nil {
		own = b.Sections(rows)
	}
	for _, p := range b.Pivots {
		t, fault := p.Table(ViewHeader(b), rows)
		if err = errors.Join(err, fault); len(t.Cells) > 0 {
			own = append(own, Section{Title: t.Title, Text: t.Text, Table: t.Cells, Headline: p.Show == "headline",
				Detail: p.Show == "detail"})
		}
	}
	add := func(to []Section, s views.Sentence) bool {
		i := slices.IndexFunc(to, func(section Section) bool { return section.Title == s.Section })
		if i >= 0 {
			to[i].Sentences = append(to[i].Sentences, s)
		}
		return i >= 0
	}
	if b.Sentences != nil {
		for _, s := range b.Sentences(rows) {
			if !add(own, s) && !add(stated, s) {
				stated = append(stated, Section{Title: s.Section, Lead: true, Sentences: []views.Sentence{s}})
			}
		}
	}
	return append(stated, own...), err
}
