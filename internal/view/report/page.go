package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

var (
	//go:embed page.html
	pageSource string
	//go:embed page.css
	pageStyle string
	//go:embed sort.js
	pageScript string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"cellClass": cellClass}).Parse(pageSource))
)

// page is what the template shows. All texts are plain and escaped by it; only
// the style, the script and the pictures, which are made here, go in as they are.
type page struct {
	Policy string // what the browser may load and run: nothing but the below
	Style  template.CSS
	Script template.JS

	Title, Subtitle string
	Counts          []count
	Summary         string
	Remarks         []string
	Contents        []entry
	Short           bool      // so few rows that they are open, and printed
	Lead            []section // before all else
	Sections        []section
	Pictures        []picture
	NoFigure        string // why there is no picture
	Alone           bool   // no files lie beside it
	Tables          []table
	Cut             string
	Facts           []Fact
	Environ         []Fact
	Inputs          []Fact
	Commands        []string // of the runs whose rows these are
	Redraw          string
}

// entry is a line of the contents.
type entry struct{ Title, Anchor string }

type count struct {
	N     int
	Text  string
	Class string
}

type section struct {
	Title  string
	Anchor string
	Detail bool // shown when it is opened, and not printed
	Blocks []Block
	Head   []string
	Rows   [][]string
	Grid   *bench.Grid
}

type picture struct {
	Name, Alt string
	Source    template.URL
}

// drawn is a figure with its picture.
type drawn struct {
	fig figure.Figure
	svg []byte
}

// newPage puts the content of the page together.
func newPage(run *journal.Run, rows []journal.Row, sections []bench.Section, figures []drawn, noFigure string) page {
	h := &run.Header
	p := page{
		Policy: fmt.Sprintf("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src '%s'", scriptHash()),
		Style:  template.CSS(pageStyle), Script: template.JS(pageScript),
		Title: h.Bench, Subtitle: subtitle(h),
		Summary: Summary(run, rows), Remarks: Remarks(run, rows), NoFigure: noFigure,
		Facts: append(Facts(h), EarlierFacts(run.Earlier)...), Environ: pairs(h.Environ), Inputs: pairs(h.Inputs),
		Commands: CommandLines(run), Redraw: redrawLine(h),
	}
	p.Title = cmp.Or(p.Title, "kernbench run")
	counts := countStatus(rows)
	for _, s := range statusesIn(counts) {
		p.Counts = append(p.Counts, count{counts[s], string(s), StatusClass(s)})
	}
	for i, s := range sections {
		out := section{Title: s.Title, Anchor: fmt.Sprintf("s%d", i+1), Detail: s.Detail && !s.Lead,
			Blocks: Markdown(s.Text), Grid: s.Grid}
		if len(s.Table) > 0 {
			out.Head, out.Rows = s.Table[0], s.Table[1:]
		}
		if s.Lead {
			p.Lead = append(p.Lead, out)
		} else {
			p.Sections = append(p.Sections, out)
		}
	}
	for _, d := range figures {
		p.Pictures = append(p.Pictures, picture{Name: d.fig.Name, Alt: AltText(d.fig),
			Source: template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(d.svg))})
	}
	p.Tables, p.Cut = tables(h, rows)
	p.Contents = p.contents()
	p.Short = len(rows) <= shortRows && len(p.Lead)+len(p.Sections) < 4
	return p
}

// shortRows is how many rows a page shows without being asked.
const shortRows = 50

// contents lists the sections in their order on the page.
func (p page) contents() (out []entry) {
	entryOf := func(s section) entry { return entry{s.Title, s.Anchor} }
	out = append(lists.Map(p.Lead, entryOf), entry{"Summary", "summary"})
	if len(p.Pictures) > 0 || p.NoFigure != "" {
		out = append(out, entry{"Figures", "figures"})
	}
	out = append(out, lists.Map(p.Sections, entryOf)...)
	return append(out, entry{"Rows", "rows"}, entry{"Provenance", "provenance"}, entry{"How to reproduce", "reproduce"})
}

// cellClass is how the page colours a cell of a grid.
func cellClass(s journal.Status) string {
	switch s {
	case "":
		return "empty"
	case journal.NotExecuted: // which is not the same as left out on purpose
		return "missing"
	}
	return StatusClass(s)
}

// scriptHash lets the browser run the sorting script and no other, should any
// text ever find its way into the page unescaped.
func scriptHash() string {
	sum := sha256.Sum256([]byte(pageScript))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// html is the finished page.
func (p page) html() ([]byte, error) {
	var b bytes.Buffer
	err := p.write(&b)
	return b.Bytes(), err
}

// write writes the finished page.
func (p page) write(w io.Writer) error {
	if err := pageTemplate.Execute(textWriter{w}, p); err != nil {
		return fmt.Errorf("making the page: %w", err)
	}
	return nil
}

// textWriter leaves out what is not text: outputs of programs hold any bytes. Each write is of
// whole characters.
type textWriter struct{ w io.Writer }

func (t textWriter) Write(b []byte) (int, error) {
	n := len(b)
	drop := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !utf8.Valid(b) || bytes.ContainsFunc(b, drop) {
		b = bytes.Map(func(r rune) rune {
			if drop(r) {
				return -1
			}
			return r
		}, bytes.ToValidUTF8(b, []byte("\uFFFD")))
	}
	_, err := t.w.Write(b)
	return n, err
}

// AltText is a figure for those who do not see it.
func AltText(f figure.Figure) string {
	parts := []string{f.Title}
	for _, p := range f.Panels {
		over, series := "", ""
		if p.Y.Label != "" && p.X.Label != "" {
			over = p.Y.Label + " over " + p.X.Label
		}
		if len(p.Series) > 0 {
			series = "series " + strings.Join(lists.Map(p.Series, func(s figure.Series) string { return s.Name }), ", ")
		}
		parts = append(parts, strings.Join(lists.NonEmpty(p.Title, over, series), ": "))
	}
	return cmp.Or(strings.Join(lists.NonEmpty(append(parts, f.Caption)...), ". "), f.Name)
}
