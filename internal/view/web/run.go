package web

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/document"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/floorplan"
	"github.com/kernbench/kernbench/internal/view/report"
)

// viewKey identifies a view of a run.
type viewKey struct {
	id   string
	only string // the filter
	plot string // the requested figure; "" for the bench's own figures
}

// view is a run as requested: the latest rows that match the filter, and the page
// made of them.
type view struct {
	key     viewKey
	run     *dataset.Dataset
	rows    dataset.Set
	tables  map[tableKey][]export.Table
	damage  []string // damaged lines of the journal
	page    *runPage // nil until requested
	figures []figure.Figure
}

// maxViews is the number of views of one journal that are kept in memory.
const maxViews = 16

// maxQuery is the longest filter or plot that is accepted, in bytes.
const maxQuery = 1000

// runPage is the page of a run.
type runPage struct {
	document.Document
	Info     runInfo          `json:"info"`
	Problems []string         `json:"problems,omitempty"`
	Failures []report.Failure `json:"failures"` // the first of Failed
	Failed   int              `json:"failed"`
	Rows     int              `json:"rows"`
	Inside   []kernel         `json:"inside"` // simulated kernels with a recorded profile
	More     int              `json:"inside_more,omitempty"`
	Names    []string         `json:"names"`   // coordinates that a plot may use
	Metrics  []string         `json:"metrics"` // metrics that a plot may use
	Only     string           `json:"only"`
	Plot     string           `json:"plot"`
}

// kernel is a simulated kernel whose floor plan the page can show.
type kernel struct {
	File   string `json:"file"`
	Label  string `json:"label"`
	Chosen bool   `json:"chosen,omitempty"` // the report has figures of it
}

// maxKernels is the number of kernels that a page offers.
const maxKernels = 500

// kernels returns the first kernels with a recorded profile, and the number of the rest.
func kernels(rows dataset.Set) (list []kernel, more int) {
	chosen := floorplan.Chosen(rows)
	if len(chosen) == 0 {
		return nil, 0
	}
	common := floorplan.Common(rows)
	for _, r := range rows {
		switch {
		case r.Inside == "" || r.Status != journal.OK:
		case len(list) == maxKernels:
			more++
		default:
			list = append(list, kernel{r.Inside, dataset.Label(r, common...), slices.Contains(chosen, r)})
		}
	}
	return list, more
}

// inside answers with the profile of one kernel.
func (s *Server) inside(r *http.Request) (out any, err error) {
	err = s.withView(r, func(b *cachedJournal, v *view) error {
		file := r.URL.Query().Get("file")
		if !slices.ContainsFunc(v.rows, func(row *journal.Row) bool { return row.Inside == file && file != "" }) {
			return notFound{fmt.Errorf("no row of the run has the file %q", file)}
		}
		record, err := floorplan.Read(b.path, file)
		if errors.Is(err, fs.ErrNotExist) {
			return notFound{err}
		}
		out = record
		return err
	})
	return out, err
}

// maxFailures is the number of failures that a page lists.
const maxFailures = 50

// parseRequest parses the run, the filter and the plot of a request.
func (s *Server) parseRequest(r *http.Request) (*cachedJournal, viewKey, error) {
	q := r.URL.Query()
	for _, name := range []string{"only", "plot"} {
		if len(q.Get(name)) > maxQuery {
			return nil, viewKey{}, badRequest{fmt.Errorf("%s is longer than %d characters", name, maxQuery)}
		}
	}
	b, id, err := s.store.open(q.Get("run"))
	return b, viewKey{id, strings.TrimSpace(q.Get("only")), strings.TrimSpace(q.Get("plot"))}, err
}

// withView calls work with the requested view while its journal is locked.
func (s *Server) withView(r *http.Request, work func(b *cachedJournal, v *view) error) error {
	b, key, err := s.parseRequest(r)
	if err != nil {
		return err
	}
	return s.store.use(b, func(j *journal.Journal) error {
		v, err := s.store.view(b, j, key)
		if err != nil {
			return err
		}
		return work(b, v)
	})
}

// view returns the view for a key. It is made once and then kept.
func (s *store) view(b *cachedJournal, j *journal.Journal, key viewKey) (*view, error) {
	if v := b.views[key]; v != nil {
		return v, nil
	}
	r, err := j.Find(key.id)
	if err != nil {
		return nil, notFound{err}
	}
	v := &view{key: key, run: decl.View(s.bench(r.Header.Bench), j, r), damage: damage(j, r.ID()),
		tables: map[tableKey][]export.Table{}}
	v.rows = v.run.Rows
	if key.only != "" {
		rows, err := v.rows.Select(key.only)
		if err != nil {
			return nil, badRequest{err}
		}
		v.rows = rows
	}
	if len(b.views) >= maxViews {
		clear(b.views)
	}
	b.views[key] = v
	return v, nil
}

// maxDamage is the number of damaged lines that a page lists.
const maxDamage = 5

// damage lists the damaged lines of a journal that belong to a run, or to no known one.
func damage(j *journal.Journal, id string) []string {
	return damageLines(lists.Filter(j.Problems, func(p journal.Problem) bool { return p.Run == id || p.Run == "" }))
}

// damageLines describes the first damaged lines of a journal and counts the rest.
func damageLines(problems []journal.Problem) []string {
	out := lists.Map(problems[:min(len(problems), maxDamage)], func(p journal.Problem) string {
		return fmt.Sprintf("%s: %v", journal.FileName, p)
	})
	if more := len(problems) - maxDamage; more > 0 {
		out = append(out, fmt.Sprintf("%s: %s damaged", journal.FileName,
			unit.Counted(more, "more line is", "more lines are")))
	}
	return out
}

// run answers with the page of a run. The outcome is set anew, because it depends on
// whether a process is still working on the run.
func (s *Server) run(r *http.Request) (out any, err error) {
	err = s.withView(r, func(b *cachedJournal, v *view) error {
		if err := s.store.describe(b, v); err != nil {
			return err
		}
		page := *v.page
		page.Info.Outcome = b.outcome(page.Info.ID, page.Info.Outcome)
		out = page
		return nil
	})
	return out, err
}

// describe makes the page of a run, once per view.
func (s *store) describe(b *cachedJournal, v *view) error {
	if v.page != nil {
		return nil
	}
	key := v.key
	in := report.Input{Bench: s.bench(v.run.Header.Bench), Data: v.run, PlotsOnly: key.plot != ""}
	if in.PlotsOnly {
		plot, err := views.ParsePlot(key.plot)
		if err != nil {
			return badRequest{err}
		}
		in.Plots = []views.Plot{plot}
	}
	doc, errs := report.Document(&in, v.rows)
	if in.PlotsOnly && len(doc.Figures) == 0 {
		return badRequest{errors.Join(errs...)}
	}
	p := &runPage{Document: doc, Info: summarize(b.folder, v.run), Rows: len(v.rows), Only: key.only, Plot: key.plot}
	if key.only != "" {
		p.Summary, p.Remarks = fmt.Sprintf("Only the rows where %s: %d.", key.only, len(v.rows)), nil
	}
	p.Problems = v.damage
	for _, err := range errs {
		if err != nil {
			p.Problems = append(p.Problems, err.Error())
		}
	}
	for i := range p.Figures {
		f := floorplan.WithoutPlan(p.Figures[i].Figure)
		if key.only != "" {
			f.AddCaption("Only rows where " + key.only + ".")
		}
		v.figures = append(v.figures, f)
		p.Figures[i] = sentFigure(f)
	}
	p.Failures, p.Failed = failures(v.rows)
	p.Inside, p.More = kernels(v.rows)
	p.Names, p.Metrics = views.Names(&v.run.Header, v.rows)
	v.page = p
	return nil
}

// sentFigure returns a figure for the page, with series short enough to send.
func sentFigure(f figure.Figure) document.Figure {
	return document.Figure{Figure: f.Thinned(maxPoints), Alt: document.NewFigure(f, nil).Alt}
}

// failures returns the first rows that failed, and the number of all of them.
func failures(rows dataset.Set) (out []report.Failure, n int) {
	for i := range rows {
		if !rows[i].Status.Bad() {
			continue
		}
		if n++; len(out) < maxFailures {
			out = append(out, report.NewFailure(rows[i]))
		}
	}
	return out, n
}

// picture draws a figure as SVG: the page draws charts itself, but no other panels.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) {
	var svg bytes.Buffer
	err := s.withView(r, func(b *cachedJournal, v *view) error {
		if err := s.store.describe(b, v); err != nil {
			return err
		}
		name := r.URL.Query().Get("figure")
		i := slices.IndexFunc(v.figures, func(f figure.Figure) bool { return f.Name == name })
		if i < 0 {
			return notFound{fmt.Errorf("the run has no figure %q", name)}
		}
		f := v.figures[i]
		f.Title, f.Caption = "", "" // the page has both
		return figure.SVG(&svg, f)
	})
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	w.Write(svg.Bytes()) // an error means that the reader has gone
}

// maxPoints is the number of points of a series that are sent. It is more than the
// columns of a screen.
const maxPoints = 4000

// csv sends all rows of a view.
func (s *Server) csv(w http.ResponseWriter, r *http.Request) {
	var text bytes.Buffer
	name := ""
	err := s.withView(r, func(_ *cachedJournal, v *view) error {
		name = v.run.ID()
		return export.Write(&text, "csv", export.Input{Header: &v.run.Header, Rows: v.rows}, export.Options{})
	})
	if err != nil {
		s.fail(w, err)
		return
	}
	plain := strings.Map(func(c rune) rune {
		if c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			return c
		}
		return '_'
	}, name)
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+plain+`.csv"`)
	w.Write(text.Bytes()) // an error means that the reader has gone
}
