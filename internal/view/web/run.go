package web

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/floorplan"
	"github.com/kernbench/kernbench/internal/view/report"
)

// viewKey is a run as somebody looks at it.
type viewKey struct {
	id   string
	only string // the filter
	plot string // the figure asked for, "" for the bench's own
}

// view is what was made for a look at a run: the rows that count and hold the filter, and
// what the page says of them.
type view struct {
	key     viewKey
	run     *journal.Run
	rows    []journal.Row
	columns []export.Column
	page    *runPage // nil: not asked for yet
	figures []figure.Figure
}

// maxViews is how many looks at one journal are kept.
const maxViews = 16

// maxQuery is the longest filter or figure that is taken.
const maxQuery = 1000

// runPage is the page of a run.
type runPage struct {
	Info     runInfo       `json:"info"`
	Summary  string        `json:"summary"`
	Remarks  []string      `json:"remarks"`
	Sections []section     `json:"sections"`
	Figures  []shownFigure `json:"figures"`
	NoFigure string        `json:"no_figure,omitempty"`
	Problems []string      `json:"problems,omitempty"`
	Facts    []report.Fact `json:"facts"`
	Commands []string      `json:"commands"`
	Failures []failure     `json:"failures"`
	Failed   int           `json:"failed"` // of which Failures are the first
	Rows     int           `json:"rows"`
	Inside   []kernel      `json:"inside"` // simulated kernels that were looked into
	More     int           `json:"inside_more,omitempty"`
	Names    []string      `json:"names"`   // coordinates, for the choice of a figure
	Metrics  []string      `json:"metrics"` // the same upward
	Only     string        `json:"only"`
	Plot     string        `json:"plot"`
}

// section is what a bench says in words.
type section struct {
	Title  string         `json:"title"`
	Blocks []report.Block `json:"blocks,omitempty"`
	Table  [][]string     `json:"table,omitempty"`
	Grid   *bench.Grid    `json:"grid,omitempty"`
	Lead   bool           `json:"lead,omitempty"`
	Detail bool           `json:"detail,omitempty"`
}

// shownFigure is a figure with what a page needs beside it. Panels that are not charts
// are pictures.
type shownFigure struct {
	figure.Figure
	Alt string `json:"alt"`
}

// failure is a row without a result, with its last words.
type failure struct {
	Point  string   `json:"point"`
	Trial  int      `json:"trial"`
	Status string   `json:"status"`
	Reason string   `json:"reason"`
	Output string   `json:"output,omitempty"`
	Ranks  []string `json:"ranks,omitempty"`
	Logs   string   `json:"logs,omitempty"`
}

// kernel is a simulated one, whose floor plan the page can show.
type kernel struct {
	File   string `json:"file"`
	Label  string `json:"label"`
	Chosen bool   `json:"chosen,omitempty"` // figures are drawn of it
}

// maxKernels is how many a page offers.
const maxKernels = 500

// kernels are the first of those that were looked into, and how many more there are.
func kernels(rows []journal.Row) (list []kernel, more int) {
	chosen := floorplan.Chosen(rows)
	if len(chosen) == 0 {
		return nil, 0
	}
	common := floorplan.Common(rows)
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Inside == "" || r.Status != journal.OK:
		case len(list) == maxKernels:
			more++
		default:
			list = append(list, kernel{r.Inside, rowset.Label(r, common...), slices.Contains(chosen, r)})
		}
	}
	return list, more
}

// inside is the record of one kernel.
func (s *Server) inside(r *http.Request) (out any, err error) {
	err = s.look(r, func(b *book, v *view) error {
		file := r.URL.Query().Get("file")
		if !slices.ContainsFunc(v.rows, func(row journal.Row) bool { return row.Inside == file && file != "" }) {
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

// maxFailures is how many failures a page lists.
const maxFailures = 50

// asked reads which run, which rows and which figure a request is about.
func (s *Server) asked(r *http.Request) (*book, viewKey, error) {
	q := r.URL.Query()
	for _, name := range []string{"only", "plot"} {
		if len(q.Get(name)) > maxQuery {
			return nil, viewKey{}, badRequest{fmt.Errorf("%s is longer than %d characters", name, maxQuery)}
		}
	}
	b, id, err := s.store.open(q.Get("run"))
	return b, viewKey{id, strings.TrimSpace(q.Get("only")), strings.TrimSpace(q.Get("plot"))}, err
}

// look calls work with a run as somebody looks at it.
func (s *Server) look(r *http.Request, work func(b *book, v *view) error) error {
	b, key, err := s.asked(r)
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

// view is made once for all requests about the same rows.
func (s *store) view(b *book, j *journal.Journal, key viewKey) (*view, error) {
	if v := b.views[key]; v != nil {
		return v, nil
	}
	r, err := j.Find(key.id)
	if err != nil {
		return nil, notFound{err}
	}
	v := &view{key: key, run: s.bench(r.Header.Bench).View(j, r)}
	v.rows = v.run.Latest()
	if key.only != "" {
		if v.rows, err = plan.FilterRows([]string{key.only}, v.rows); err != nil {
			return nil, badRequest{err}
		}
	}
	v.columns = export.Columns(&v.run.Header, v.rows)
	if len(b.views) >= maxViews {
		clear(b.views)
	}
	b.views[key] = v
	return v, nil
}

func (s *Server) run(r *http.Request) (out any, err error) {
	err = s.look(r, func(b *book, v *view) error {
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

// describe makes the page of a run, once.
func (s *store) describe(b *book, v *view) error {
	if v.page != nil {
		return nil
	}
	h, key := &v.run.Header, v.key
	known := s.bench(h.Bench)
	p := &runPage{Info: newInfo(b.folder, v.run), Facts: append(report.Facts(h), report.EarlierFacts(v.run.Earlier)...),
		Commands: report.CommandLines(v.run), Rows: len(v.rows),
		Only: key.only, Plot: key.plot}
	if key.only == "" {
		p.Summary, p.Remarks = report.Summary(v.run, v.rows), report.Remarks(v.run, v.rows)
	} else {
		p.Summary = fmt.Sprintf("Only the rows where %s: %d.", key.only, len(v.rows))
	}
	in := report.Input{Bench: known, Run: v.run}
	if key.plot != "" {
		plot, err := report.ParsePlot(key.plot)
		if err != nil {
			return badRequest{err}
		}
		in.Bench, in.Plots = nil, []report.Plot{plot}
	}
	var errs []error
	v.figures, p.NoFigure, errs = report.Figures(in, v.rows)
	if key.plot != "" && len(errs) > 0 {
		return badRequest{errors.Join(errs...)}
	}
	sections, _, more := report.Sections(report.Input{Bench: known, Run: v.run}, v.rows)
	p.Sections = lists.Map(sections, func(s bench.Section) section {
		return section{s.Title, report.Markdown(s.Text), s.Table, s.Grid, s.Lead, s.Detail}
	})
	for _, err := range append(errs, more...) {
		if err != nil {
			p.Problems = append(p.Problems, err.Error())
		}
	}
	for i := range v.figures {
		f := &v.figures[i]
		f.AddCaption(v.run.Incomplete())
		if key.only != "" {
			f.AddCaption("Only rows where " + key.only + ".")
		}
		p.Figures = append(p.Figures, shownFigure{thinned(*f), report.AltText(*f)})
	}
	p.Failures, p.Failed = failures(v.rows)
	p.Inside, p.More = kernels(v.rows)
	p.Names, p.Metrics = report.Names(h, v.rows)
	v.page = p
	return nil
}

// failures are the first of the rows that failed, and how many there are.
func failures(rows []journal.Row) (out []failure, n int) {
	for i := range rows {
		r := &rows[i]
		if !r.Status.Bad() {
			continue
		}
		if n++; len(out) < maxFailures {
			out = append(out, newFailure(r))
		}
	}
	return out, n
}

func newFailure(r *journal.Row) failure {
	f := failure{Point: rowset.Label(r), Trial: r.Trial, Status: string(r.Status), Reason: report.Reason(r),
		Output: report.Tail(r.Output),
		Ranks:  report.RankEnds(r.Ranks)}
	if r.Launch != "" {
		f.Logs = "logs/" + r.Launch
	}
	return f
}

// picture draws one panel that is not a chart, or a whole figure.
func (s *Server) picture(w http.ResponseWriter, r *http.Request) {
	var svg bytes.Buffer
	err := s.look(r, func(b *book, v *view) error {
		if err := s.store.describe(b, v); err != nil {
			return err
		}
		name := r.URL.Query().Get("figure")
		i := slices.IndexFunc(v.figures, func(f figure.Figure) bool { return f.Name == name })
		if i < 0 {
			return notFound{fmt.Errorf("the run has no figure %q", name)}
		}
		return figure.SVG(&svg, v.figures[i])
	})
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	w.Write(svg.Bytes()) // the reader who has gone does not miss it
}

// maxPoints is how many points of a series are sent: more than a screen has columns to
// show them in.
const maxPoints = 4000

// thinned is the figure with series short enough to send. Of those that are too long the
// lowest and the highest point of every stretch are kept, so that what stands out stays.
func thinned(f figure.Figure) figure.Figure {
	f.Panels = slices.Clone(f.Panels)
	for i := range f.Panels {
		p := &f.Panels[i]
		p.Series = slices.Clone(p.Series)
		for k := range p.Series {
			if n := len(p.Series[k].Points); n > maxPoints {
				p.Series[k].Points = extremes(p.Series[k].Points)
				if p.Note != "" {
					p.Note += "; "
				}
				p.Note += fmt.Sprintf("of the %d points of %s the extremes of each stretch are drawn", n, p.Series[k].Name)
			}
		}
	}
	return f
}

func extremes(points []figure.Point) []figure.Point {
	const stretches = maxPoints / 2
	var out []figure.Point
	for i := range stretches {
		from, to := i*len(points)/stretches, (i+1)*len(points)/stretches
		lo, hi := from, from
		for k := from; k < to; k++ {
			if points[k].Failed { // never hidden
				out = append(out, points[k])
				continue
			}
			if points[lo].Failed || points[k].Y < points[lo].Y {
				lo = k
			}
			if points[hi].Failed || points[k].Y > points[hi].Y {
				hi = k
			}
		}
		for _, k := range slices.Compact([]int{min(lo, hi), max(lo, hi)}) {
			if !points[k].Failed {
				out = append(out, points[k])
			}
		}
	}
	return out
}
