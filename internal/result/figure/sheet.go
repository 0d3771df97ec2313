package figure

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"path/filepath"

	"github.com/kernbench/kernbench/internal/result/draw"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// sheet is the layout of a figure on a page.
type sheet struct {
	figure  Figure
	w, h    float64
	columns int
	title   []string  // wrapped
	caption []string  // wrapped
	rows    []float64 // height of each row of panels
	panels  []Drawing // one per element of figure.Panels
	common  legend    // below all panels, if shared
	shared  bool
}

// pixel is the length of a CSS pixel in points.
const pixel = 0.75

const (
	sheetMargin = 12.0
	panelGap    = 18.0
)

// panelSize returns the usual size of a panel in points. With more columns panels
// are smaller, because the figure is scaled to the width of a page, text included.
func panelSize(columns int) (w, h float64) {
	switch columns {
	case 1:
		return 900 * pixel, 560 * pixel
	case 2:
		return 600 * pixel, 420 * pixel
	case 3:
		return 450 * pixel, 370 * pixel
	default:
		return 400 * pixel, 340 * pixel
	}
}

// newSheet prepares the panels of a valid figure and computes the size of the page.
func newSheet(f Figure) *sheet {
	const most = 1000 // points of a curve whose markers do not all cover each other
	f = f.Thinned(most)
	s := &sheet{figure: f, columns: f.Columns}
	if s.columns == 0 {
		// Up to three panels side by side, but four as two by two.
		s.columns = min(len(f.Panels), 3)
		if len(f.Panels) == 4 {
			s.columns = 2
		}
	}
	s.columns = min(s.columns, len(f.Panels))
	var charts []*chart
	for _, p := range f.Panels {
		d := p.content().Prepare(p)
		s.panels = append(s.panels, d)
		if c, ok := d.(*chart); ok {
			charts = append(charts, c)
		}
	}
	if common, ok := sharedLegend(charts); ok {
		s.common, s.shared = common, true
		for _, c := range charts {
			c.shared = true
		}
	}
	s.measure()
	return s
}

// measure computes the size of the sheet. For a single panel the usual panel size is
// the size of the whole figure; a grid of panels grows by its titles.
func (s *sheet) measure() {
	w, h := panelSize(s.columns)
	s.w = float64(s.columns)*w + float64(s.columns-1)*panelGap/2
	s.rows = make([]float64, (len(s.figure.Panels)+s.columns-1)/s.columns)
	for i, p := range s.panels {
		row := &s.rows[i/s.columns]
		*row = max(*row, p.Height(w, h))
	}
	width := s.w - 2*sheetMargin
	s.title = titleFace.Wrap(s.figure.Title, width, 2)
	s.caption = noteFace.Wrap(s.figure.Caption, width, 12)
	rest := 2*sheetMargin + heightOf(titleFace, s.title, 6) + heightOf(noteFace, s.caption, 8) +
		float64(len(s.rows)-1)*panelGap
	if s.shared {
		_, rows := s.common.grid(width)
		rest += s.common.height(rows)
	}
	if len(s.figure.Panels) == 1 && s.rows[0] == h {
		s.rows[0] = max(h-rest, 0.75*h) // a long caption must not squeeze the plot
	}
	s.h = rest
	for _, row := range s.rows {
		s.h += row
	}
}

// heightOf returns the height of lines with a gap, or 0 without lines.
func heightOf(f draw.Face, lines []string, gap float64) float64 {
	if len(lines) == 0 {
		return 0
	}
	return f.Height(len(lines)) + gap
}

// draw draws the whole figure.
func (s *sheet) draw(p draw.Pen) {
	y := s.h - sheetMargin
	p.Lines(titleFace, draw.Pt(sheetMargin, y), draw.LeftTop, s.title)
	y -= heightOf(titleFace, s.title, 6)
	w := (s.w - 2*sheetMargin - float64(s.columns-1)*panelGap) / float64(s.columns)
	for i, h := range s.rows {
		var areas []draw.Rectangle
		for k := range min(s.columns, len(s.figure.Panels)-i*s.columns) {
			x := sheetMargin + float64(k)*(w+panelGap)
			areas = append(areas, draw.Rect(x, y-h, x+w, y))
		}
		s.drawRow(p, i*s.columns, areas)
		y -= h + panelGap
	}
	y += panelGap
	if s.shared {
		width := s.w - 2*sheetMargin
		_, rows := s.common.grid(width)
		h := s.common.height(rows)
		x := (s.w - s.common.used(width)) / 2
		s.common.draw(p, draw.Rect(x, y-h, x+width, y))
		y -= h
	}
	p.Lines(noteFace, draw.Pt(sheetMargin, y-8), draw.LeftTop, s.caption)
}

// panelText returns the wrapped title and notes of a panel.
func (s *sheet) panelText(i int, width float64) (title, notes []string) {
	panel := s.figure.Panels[i]
	note := panel.Note + "\n" + s.panels[i].Notes() // Wrap drops empty lines
	return panelFace.Wrap(panel.Title, width, 2), noteFace.Wrap(note, width, 5)
}

// drawRow draws panels side by side. Their titles and notes get the same height, so
// that the plots line up.
func (s *sheet) drawRow(p draw.Pen, first int, areas []draw.Rectangle) {
	head, foot := 0.0, 0.0
	for k, area := range areas {
		title, notes := s.panelText(first+k, area.W())
		p.Lines(panelFace, draw.Pt(area.X0, area.Y1), draw.LeftTop, title)
		p.Lines(noteFace, draw.Pt(area.X0, area.Y0), draw.LeftBottom, notes)
		head = max(head, heightOf(panelFace, title, 4))
		foot = max(foot, heightOf(noteFace, notes, 4))
	}
	for k, area := range areas {
		area.Y1 -= head
		area.Y0 += foot
		s.panels[first+k].Draw(p, area)
	}
}

// Density is the resolution of PNG files in dots per inch: two dots per CSS pixel, for sharp
// text on any screen. Tests of whole runs lower it, because they do not look at the pixels.
var Density = 2 * 96

// Write draws the figure to folder/NAME.png and folder/NAME.svg in the RUN folder dir and returns
// their paths. Files are replaced atomically.
func Write(dir, folder string, f Figure) (files []string, err error) {
	for _, format := range []struct {
		ending string
		render func(io.Writer, Figure) error
	}{{".png", PNG}, {".svg", SVG}} {
		var b bytes.Buffer
		if err := format.render(&b, f); err != nil {
			return files, err
		}
		name := path.Join(folder, f.Name+format.ending)
		err := journal.WriteIn(dir, name, func(w io.Writer) error { _, err := w.Write(b.Bytes()); return err })
		if err != nil {
			return files, err
		}
		files = append(files, filepath.Join(dir, filepath.FromSlash(name)))
	}
	return files, nil
}

// PNG draws the figure as an image with two dots per CSS pixel.
func PNG(w io.Writer, f Figure) error { return writePNG(w, f, Density) }

func writePNG(w io.Writer, f Figure, dpi int) error {
	return f.write(func(p draw.Page) error { return p.PNG(w, dpi) })
}

// SVG draws the figure as scalable graphics. Text stays text.
func SVG(w io.Writer, f Figure) error { return f.write(func(p draw.Page) error { return p.SVG(w) }) }

// write validates the figure, lays it out and calls as with the page.
func (f Figure) write(as func(draw.Page) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s := newSheet(f)
	if err := as(draw.Page{W: s.w, H: s.h, Title: f.Title, Description: f.Caption, Draw: s.draw}); err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	return nil
}
