// Package report makes the figures and reports of a run. It draws the figures that the command line requests
// ([views.Plot]), or a default one ([views.AutoPlot]). The reports, report.html and report.md, contain the
// findings in words, the figures, the rows and their provenance.
//
// All views are made from the journal and can be made again at any time. They are pure functions of the
// header and the rows; only Render writes files. The package draws with package figure, writes pages with
// package document, and writes tables with package export.
package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/floorplan"
	"github.com/kernbench/kernbench/internal/view/tuned"
)

// Input is the rows of a run, and what its views should contain.
type Input struct {
	Bench     *bench.Bench // adds its figures and sections; may be nil
	Data      *dataset.Dataset
	Plots     []views.Plot
	PlotsOnly bool   // draw Plots without the bench's own figures
	Folder    string // subfolder of the RUN folder for the views of a run that is not the latest; else ""

	Verdict  string          // additional lines for the verdict, in Markdown
	Sections []bench.Section // shown before the bench's own sections

	study *tune.Result // nil if the run is none
	seen  []floorplan.Seen
}

// load reads the result of a tuning study and the profiles of simulated kernels.
func (in *Input) load(rows dataset.Set) error {
	study, err := tuned.Load(in.Data)
	seen, errs := floorplan.Load(in.Data.Dir(), rows)
	in.study, in.seen = study, seen
	return errors.Join(append(errs, err)...)
}

// onlyPlots reports whether the user wants no figures but the plots.
func (in Input) onlyPlots() bool { return in.PlotsOnly || in.Bench == nil && len(in.Plots) > 0 }

// Render writes all views of a run into its folder: figures/*.png and *.svg, table.txt, rows.csv,
// report.html, report.md and the bench's own files. Each file is replaced atomically, and other files are
// not changed. If figures cannot be drawn, the error names them, but everything else is written.
func Render(dir string, in Input) (files []string, err error) {
	if in.Data == nil {
		return nil, errors.New("making a report: no run")
	}
	out := rendering{dir: dir, folder: in.Folder}
	rows := in.Data.Rows
	doc := out.document(&in, rows)
	for _, as := range [][2]string{{"table.txt", "table"}, {"rows.csv", "csv"}} {
		out.write(as[0], func(w io.Writer) error {
			return export.Write(w, as[1], export.Input{Header: &in.Data.Header, Rows: rows}, export.Options{})
		})
	}
	out.write("report.html", doc.WriteHTML)
	out.write("report.md", doc.WriteMarkdown)
	for _, f := range out.exports(in, doc, rows) {
		out.write(f.Name, func(w io.Writer) error { _, err := w.Write(f.Data); return err })
	}
	for _, name := range needed(in.Bench, rows) {
		if !slices.Contains(out.files, filepath.Join(dir, filepath.FromSlash(path.Join(in.Folder, name)))) {
			out.fail(fmt.Errorf("the artifact %s was not written", name))
		}
	}
	if err := errors.Join(out.errs...); err != nil {
		return out.files, fmt.Errorf("making the report of run %s: %w", in.Data.ID(), err)
	}
	return out.files, nil
}

// Picture returns the only figure of the input as a file with the ending .png or .svg.
func Picture(in Input, ending string) ([]byte, error) {
	damaged := in.load(in.Data.Rows)
	figures, why, errs := Figures(in, in.Data.Rows)
	if !in.onlyPlots() {
		errs = append(errs, damaged)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(figures) != 1 {
		return nil, fmt.Errorf("there are %d figures, want one: choose it with --plot. %s", len(figures), why)
	}
	draw := figure.SVG
	if ending == ".png" {
		draw = figure.PNG
	}
	var b bytes.Buffer
	err := draw(&b, figures[0])
	return b.Bytes(), err
}

// Page returns the page of a run, which needs no other files. The error names figures that could not be
// drawn; everything else is on the page.
func Page(in Input) ([]byte, error) {
	var out rendering
	doc := out.document(&in, in.Data.Rows)
	doc.Alone = true
	var b bytes.Buffer
	out.fail(doc.WriteHTML(&b))
	return b.Bytes(), errors.Join(out.errs...)
}

// Document loads the input and returns the document of a run, without its tables of rows. The figures are not drawn
// yet. The errors name figures, sections and stored files that could not be used.
func Document(in *Input, rows dataset.Set) (doc document.Document, errs []error) {
	damaged := in.load(rows)
	h := &in.Data.Header
	figures, noFigure, errs := Figures(*in, rows)
	sections, err := Sections(*in, rows)
	doc = document.Document{
		Title: cmp.Or(h.Bench, "kernbench run"), Subtitle: subtitle(h), Counts: countStatuses(in.Data, rows),
		Doubtful: disturbed(rows),
		Summary:  Summary(in.Data, rows), Remarks: Remarks(in.Data, rows),
		Sections: lists.Map(sections, document.NewSection),
		Figures:  lists.Map(figures, func(f figure.Figure) document.Figure { return document.NewFigure(f, nil) }),
		NoFigure: noFigure,
		Facts:    append(facts(h), earlierFacts(in.Data.Earlier)...), Environ: pairs(h.Environ), Inputs: pairs(h.Inputs),
		Commands: commandLines(in.Data), Redraw: redrawLine(h), Evidence: describeEvidence(citedSentences(sections)),
	}
	return doc, append(errs, err, damaged)
}

// Sections returns the sections of a report: a warning if ranks shared a GPU, the verdict unless the bench
// has its own, the results of a tuning study, the bench's own sections, and sections about simulated
// kernels.
func Sections(in Input, rows dataset.Set) (sections []bench.Section, err error) {
	sections, err = benchSections(in.Bench, rows)
	if in.study != nil {
		sections = append(tuned.Sections(*in.study, in.Data.Rows), sections...)
	}
	sections = append(slices.Clip(in.Sections), sections...)
	sections = append(sections, floorplan.Sections(in.seen)...)
	// The answers of a bench do not say that rows are lost.
	if in.Data.Lost() > 0 || !slices.ContainsFunc(sections, func(s bench.Section) bool { return s.Lead }) {
		sections = append([]bench.Section{opening(in, rows)}, sections...)
	}
	return append(sharing(rows), sections...), err
}

// Headlines prints the sections that the bench marks as headlines, for a terminal of the given width. It
// reports whether there were any.
func Headlines(w io.Writer, b *bench.Bench, rows dataset.Set, width int) (written bool, err error) {
	return printSections(w, b, rows, width, func(s bench.Section) bool { return s.Headline })
}

// Titled prints the sections of the bench whose titles contain a text, ignoring case. If there are none, the error
// lists the titles.
func Titled(w io.Writer, b *bench.Bench, rows dataset.Set, text string, width int) error {
	var titles []string
	written, err := printSections(w, b, rows, width, func(s bench.Section) bool {
		titles = append(titles, s.Title)
		return strings.Contains(strings.ToLower(s.Title), strings.ToLower(text))
	})
	switch {
	case err != nil || written:
		return err
	case len(titles) == 0:
		return errors.New("the report of this bench has no sections of its own")
	}
	return texttab.WithDetail(fmt.Errorf("no section has %q in its title; the titles are", text),
		strings.Join(lists.Map(titles, texttab.Plain), "\n"))
}

// printSections prints the sections that satisfy a condition, and reports whether there were any.
func printSections(w io.Writer, b *bench.Bench, rows dataset.Set, width int,
	wanted func(s bench.Section) bool) (written bool, err error) {
	sections, err := benchSections(b, rows)
	for _, s := range sections {
		if !wanted(s) {
			continue
		}
		if written {
			fmt.Fprintln(w)
		}
		written = true
		if err := document.NewSection(s).WriteText(w, width); err != nil {
			return written, err
		}
	}
	return written, err
}

// rendering collects the files of a report and the errors of making them.
type rendering struct {
	dir    string // "" to write no files
	folder string // subfolder of dir
	files  []string
	errs   []error
}

// fail records an error. It may be nil, because joining the errors ignores nil.
func (o *rendering) fail(err error) { o.errs = append(o.errs, err) }

// document builds the complete document with drawn figures.
func (o *rendering) document(in *Input, rows dataset.Set) document.Document {
	doc, errs := Document(in, rows)
	o.errs = append(o.errs, errs...)
	doc.Tables, doc.Omitted = tables(&in.Data.Header, rows)
	drawn := doc.Figures[:0]
	for _, f := range doc.Figures {
		var err error
		if f.SVG, err = o.draw(f.Figure); err != nil {
			o.fail(fmt.Errorf("figure %s: %w", f.Name, err))
			continue
		}
		drawn = append(drawn, f)
	}
	doc.Figures = drawn
	return doc
}

// draw returns a figure as SVG. It also writes the figure's files, unless dir is "".
func (o *rendering) draw(f figure.Figure) ([]byte, error) {
	var svg bytes.Buffer
	if err := figure.SVG(&svg, f); err != nil || o.dir == "" {
		return svg.Bytes(), err
	}
	name := "figures/" + f.Name
	o.write(name+".png", func(w io.Writer) error { return figure.PNG(w, f) })
	o.write(name+".svg", func(w io.Writer) error { _, err := w.Write(svg.Bytes()); return err })
	return svg.Bytes(), nil
}

// printable makes the control characters of a text visible, so that it can neither control a
// terminal nor forge lines.
func printable(content func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		var text strings.Builder
		if err := content(&text); err != nil {
			return err
		}
		_, err := io.WriteString(w, texttab.Lines(text.String()))
		return err
	}
}

// write writes a file. Its name may contain folders.
func (o *rendering) write(name string, content func(io.Writer) error) {
	switch path.Ext(name) {
	case ".txt", ".md", ".tsv": // users show these files in terminals
		content = printable(content)
	}
	name = path.Join(o.folder, name)
	if err := journal.WriteIn(o.dir, name, content); err != nil {
		o.fail(err)
		return
	}
	o.files = append(o.files, filepath.Join(o.dir, filepath.FromSlash(name)))
}

// exports returns the files of the bench and of a tuning study.
func (o *rendering) exports(in Input, doc document.Document, rows dataset.Set) (files []bench.File) {
	if b := in.Bench; b != nil && b.Exports != nil {
		_, err := guarded("exports", b, func(rows dataset.Set) []bench.File {
			made, err := b.Exports(rows)
			o.fail(err)
			files = made
			return nil
		}, rows)
		o.fail(err)
	}
	if in.Bench != nil {
		tables, err := tableFiles(in.Bench, doc, rows)
		o.fail(err)
		files = append(files, tables...)
	}
	if in.study != nil {
		pasted, err := tuned.Files(*in.study, in.Bench, rows)
		o.fail(err)
		files = append(files, pasted...)
	}
	return files
}

// Figures returns the figures of a report: the figures of the bench and the requested plots, or a default
// plot if there are none, and figures about simulated kernels. If there is no figure, why is the reason for
// the reader.
func Figures(in Input, rows dataset.Set) (figures []figure.Figure, why string, errs []error) {
	figures, why, errs = charts(in, rows)
	if !in.onlyPlots() {
		figures = append(figures, floorplan.Figures(in.seen)...)
	}
	for i := range figures {
		figures[i].AddCaption(in.Data.Incomplete())
	}
	return figures, why, errs
}

// charts returns the figures of a report that show metrics.
func charts(in Input, rows dataset.Set) (figures []figure.Figure, why string, errs []error) {
	var own []figure.Figure
	if in.Bench != nil && !in.PlotsOnly {
		var err error
		own, err = guarded("figures", in.Bench, in.Bench.Figures, rows)
		declared, faults := views.Figures(in.Bench.Plots, decl.ViewHeader(in.Bench), rows)
		own, errs = append(declared, own...), append(append(errs, err), faults...)
	}
	if in.study != nil {
		own = append(tuned.Figures(*in.study, in.Data.Rows), own...)
	}
	anyOK := slices.ContainsFunc(rows, func(r *journal.Row) bool { return r.Status == journal.OK })
	names := map[string]bool{}
	for _, f := range own {
		switch {
		case !anyOK && len(f.Panels) == 0: // there was nothing to draw
		case names[f.Name]:
			errs = append(errs, fmt.Errorf("duplicate figure %s of the bench", f.Name))
		default:
			names[f.Name] = true
			figures = append(figures, f)
		}
	}
	for _, p := range in.Plots {
		f, err := p.Figure(&in.Data.Header, rows)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for base, n := f.Name, 2; names[f.Name]; n++ {
			f.Name = fmt.Sprintf("%s_%d", base, n)
		}
		names[f.Name] = true
		figures = append(figures, f)
	}
	if len(figures) > 0 || len(in.Plots) > 0 {
		return figures, "", errs
	}
	p, ok := views.AutoPlot(&in.Data.Header, rows)
	switch f, err := p.Figure(&in.Data.Header, rows); {
	case !anyOK:
		why = "There is no ok row to draw."
	case !ok:
		why = "There is no curve to draw: no coordinate varies, or no row has a metric."
	case err != nil: // nobody asked for this figure, so it is not an error
		why = fmt.Sprintf("No figure was drawn by default (%v). Choose one with --plot.", err)
	default:
		figures = append(figures, f)
	}
	return figures, why, errs
}

// guarded calls a view of a bench, which may be nil, and converts a panic to an error. The rows are already
// safe in the journal, and the other views must still be made.
func guarded[T any](what string, b *bench.Bench, view func(dataset.Set) []T, rows dataset.Set) (out []T,
	err error) {
	if view == nil {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s of bench %s: panic: %v", what, b.Name, p)
		}
	}()
	return view(rows), nil
}

// sharing returns a section with a warning if ranks shared a GPU: such times say nothing about links.
func sharing(rows dataset.Set) []bench.Section {
	var maxRanks, shared int
	for i := range rows {
		if n := rows[i].Sharing(); n > 0 {
			maxRanks, shared = max(maxRanks, n), shared+1
		}
	}
	if shared == 0 {
		return nil
	}
	return []bench.Section{{Title: "Ranks shared a GPU", Lead: true, Text: fmt.Sprintf(
		"In %d of %d rows the ranks shared one GPU, up to %d of them. These times show whether the algorithms are "+
			"right, what their protocols cost, and how well they use the memory and caches of that GPU. They show nothing "+
			"about NVLink, PCIe or a network, or about a machine with a GPU for each rank, and are never compared with "+
			"times of such machines.", shared, len(rows), maxRanks)}}
}
