// Package report makes the views with pictures of a run: figures chosen on the
// command line (Plot) or by default (AutoPlot), and one self-contained HTML page
// with the run in words, its figures, its rows and its provenance.
//
// Everything is made from the journal and made again the same: choosing what to
// draw, wording and laying out are pure functions of the header and its rows.
// Only Render touches files. The package measures and judges nothing, and it
// draws through package figure and writes tables through package export.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/floorplan"
	"github.com/kernbench/kernbench/internal/view/tuned"
)

// Input is what the views are made of.
type Input struct {
	Bench *bench.Bench // its figures and sections are added; may be nil
	Run   *journal.Run
	Plots []Plot // drawn beside the bench's own figures

	Verdict  string          // what else to say in the verdict, as Markdown
	Sections []bench.Section // before the bench's own
}

// Render writes all views of a run into its folder: figures/*.png and *.svg,
// table.txt, rows.csv, report.html and report.md. Each file appears whole or not at all, and
// no other is touched. What cannot be drawn is named in the error, and does not
// keep the rest from being written.
func Render(dir string, in Input) (files []string, err error) {
	if in.Run == nil {
		return nil, errors.New("making a report: no run")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("making a report: %w", err)
	}
	out := rendering{dir: dir}
	rows := in.Run.Latest()
	figures, noFigure, errs := Figures(in, rows)
	out.errs = errs
	for i := range figures {
		figures[i].AddCaption(in.Run.Incomplete())
	}
	pictures := out.draw(figures)
	sections, found, errs := Sections(in, rows)
	out.errs = append(out.errs, errs...)
	page := newPage(in.Run, rows, sections, pictures, noFigure)
	for _, as := range [][2]string{{"table.txt", "table"}, {"rows.csv", "csv"}} {
		out.write(as[0], func(w io.Writer) error {
			return export.Write(w, as[1], export.Input{Header: &in.Run.Header, Rows: rows}, export.Options{})
		})
	}
	out.write("report.html", page.write)
	out.write("report.md", page.writeText)
	made, err := exportsOf(in.Bench, rows)
	out.errs = append(out.errs, err)
	if found != nil {
		pasted, err := tuned.Files(*found, in.Bench, rows)
		made, out.errs = append(made, pasted...), append(out.errs, err)
	}
	for _, f := range made {
		out.write(f.Name, func(w io.Writer) error { _, err := w.Write(f.Data); return err })
	}
	out.errs = append(out.errs, missing(dir, in.Bench, rows, out.files)...)
	if err := errors.Join(out.errs...); err != nil {
		return out.files, fmt.Errorf("making the report of run %s: %w", in.Run.ID(), err)
	}
	return out.files, nil
}

// Picture is the one figure of the input as a file of this ending, .png or .svg.
func Picture(in Input, ending string) ([]byte, error) {
	figures, why, errs := Figures(in, in.Run.Latest())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(figures) != 1 {
		return nil, fmt.Errorf("there are %d figures, want one: choose it with --plot. %s", len(figures), why)
	}
	f := figures[0]
	f.AddCaption(in.Run.Incomplete())
	var b bytes.Buffer
	if ending == ".png" {
		err := figure.PNG(&b, f)
		return b.Bytes(), err
	}
	err := figure.SVG(&b, f)
	return b.Bytes(), err
}

// Page is the one self-contained page of a run, and what could not be drawn on it.
func Page(in Input) ([]byte, error) {
	rows := in.Run.Latest()
	figures, noFigure, errs := Figures(in, rows)
	var pictures []drawn
	for _, f := range figures {
		f.AddCaption(in.Run.Incomplete())
		var svg bytes.Buffer
		if err := figure.SVG(&svg, f); err != nil {
			errs = append(errs, fmt.Errorf("figure %s: %w", f.Name, err))
			continue
		}
		pictures = append(pictures, drawn{f, svg.Bytes()})
	}
	sections, _, more := Sections(in, rows)
	page := newPage(in.Run, rows, sections, pictures, noFigure)
	page.Alone = true
	text, err := page.html()
	return text, errors.Join(append(append(errs, more...), err)...)
}

// Sections are what there is to say: what the times cannot show, where ranks shared a GPU, then the verdict,
// that of the bench if it has one of its own.
func Sections(in Input, rows []journal.Row) (sections []bench.Section, found *tune.Result, errs []error) {
	sections, err := sectionsOf(in.Bench, rows)
	errs = append(errs, err)
	found, err = tuned.Load(in.Run)
	errs = append(errs, err)
	if found != nil {
		sections = append(tuned.Sections(*found), sections...)
	}
	sections = append(slices.Clip(in.Sections), sections...)
	seen, _ := floorplan.Load(in.Run.Dir(), rows) // Figures says what is damaged
	sections = append(sections, floorplan.Sections(seen)...)
	if !slices.ContainsFunc(sections, func(s bench.Section) bool { return s.Lead }) {
		sections = append([]bench.Section{verdict(rows, in.Verdict)}, sections...)
	}
	return append(sharing(rows), sections...), found, errs
}

// rendering is the files of a report that are written, and what went wrong.
type rendering struct {
	dir   string
	files []string
	errs  []error
}

// draw writes the figures and returns those that could be drawn.
func (o *rendering) draw(figures []figure.Figure) (pictures []drawn) {
	for _, f := range figures {
		written, err := figure.Write(filepath.Join(o.dir, "figures"), f)
		o.files = append(o.files, written...)
		var svg []byte
		if i := slices.IndexFunc(written, func(path string) bool {
			return filepath.Ext(path) == ".svg"
		}); err == nil && i >= 0 {
			svg, err = os.ReadFile(written[i])
		}
		if err != nil {
			o.errs = append(o.errs, fmt.Errorf("figure %s: %w", f.Name, err))
			continue
		}
		pictures = append(pictures, drawn{f, svg})
	}
	return pictures
}

// write writes a file under its name, which may have folders.
func (o *rendering) write(name string, content func(io.Writer) error) {
	path := filepath.Join(o.dir, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = journal.WriteAtomic(path, content)
	}
	if err != nil {
		o.errs = append(o.errs, err)
		return
	}
	o.files = append(o.files, path)
}

// Figures gathers what is to be drawn: the bench's own figures and the
// plots asked for, or else the automatic one, and what was seen inside simulated kernels.
// Where all that shows nothing, why says so to the reader of the page.
func Figures(in Input, rows []journal.Row) (figures []figure.Figure, why string, errs []error) {
	figures, why, errs = curves(in, rows)
	if in.Bench != nil || len(in.Plots) == 0 { // else the reader has chosen what to see
		seen, damaged := floorplan.Load(in.Run.Dir(), rows)
		figures, errs = append(figures, floorplan.Figures(seen)...), append(errs, damaged...)
	}
	return figures, why, errs
}

// curves are the figures of metrics.
func curves(in Input, rows []journal.Row) (figures []figure.Figure, why string, errs []error) {
	own, err := guarded("figures", in.Bench, func(b *bench.Bench) []figure.Figure { return call(b.Figures, rows) })
	errs = append(errs, err)
	if found, err := tuned.Load(in.Run); err == nil && found != nil {
		own = append(tuned.Figures(*found), own...)
	}
	anyOK := slices.ContainsFunc(rows, func(r journal.Row) bool { return r.Status == journal.OK })
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
		f, err := p.Figure(&in.Run.Header, rows)
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
	p, ok := AutoPlot(&in.Run.Header, rows)
	switch f, err := p.Figure(&in.Run.Header, rows); {
	case !anyOK:
		why = "There is no good row to draw."
	case !ok:
		why = "There is nothing to draw a curve of: no coordinate varies, or no row has a metric."
	case err != nil: // nobody asked for it, so it is no failure
		why = fmt.Sprintf("No figure was drawn by default (%v). Choose one with --plot.", err)
	default:
		figures = append(figures, f)
	}
	return figures, why, errs
}

// guarded calls code of a bench. The rows are safe in the journal, so a panic
// there must not cost the other views.
func guarded[T any](what string, b *bench.Bench, call func(*bench.Bench) []T) (out []T, err error) {
	if b == nil {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s of bench %s: panic: %v", what, b.Name, p)
		}
	}()
	return call(b), nil
}

// sectionsOf are what the bench says in words.
func sectionsOf(b *bench.Bench, rows []journal.Row) ([]bench.Section, error) {
	return guarded("sections", b, func(b *bench.Bench) []bench.Section { return call(b.Sections, rows) })
}

func call[T any](view func([]journal.Row) []T, rows []journal.Row) []T {
	if view == nil {
		return nil
	}
	return view(rows)
}

// sharing says first of all what times of ranks that shared a GPU can show.
func sharing(rows []journal.Row) []bench.Section {
	var most, shared int
	for i := range rows {
		if n := rows[i].Sharing(); n > 0 {
			most, shared = max(most, n), shared+1
		}
	}
	if shared == 0 {
		return nil
	}
	return []bench.Section{{Title: "Ranks shared a GPU", Lead: true, Text: fmt.Sprintf(
		"In %d of %d rows the ranks shared one GPU, up to %d of them. These times show whether the algorithms are right, "+
			"what their protocols "+
			"cost and how well they use that GPU's memory and caches. They show nothing of NVLink, PCIe or a network, and "+
			"not how a machine with a "+
			"GPU for each rank would do; they are never compared with times of such machines.", shared, len(rows), most)}}
}

// exportsOf makes the bench's own files.
func exportsOf(b *bench.Bench, rows []journal.Row) (made []bench.File, err error) {
	_, failed := guarded("exports", b, func(b *bench.Bench) []bench.File {
		if b.Exports != nil {
			made, err = b.Exports(rows)
		}
		return nil
	})
	return made, errors.Join(err, failed)
}

// missing are the artifacts that the bench promises and that were not made.
func missing(dir string, b *bench.Bench, rows []journal.Row, files []string) (errs []error) {
	if b == nil || b.Artifacts == nil {
		return nil
	}
	for _, name := range b.Artifacts(rows) {
		if !slices.Contains(files, filepath.Join(dir, filepath.FromSlash(name))) {
			errs = append(errs, fmt.Errorf("the artifact %s was not made", name))
		}
	}
	return errs
}
