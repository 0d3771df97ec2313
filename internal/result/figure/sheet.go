package figure

import "math"

// sheet is a figure laid out: its size, and how to draw it.
type sheet struct {
	figure  Figure
	w, h    float64
	columns int
	rows    []float64 // height of every row of panels
	charts  []*chart  // beside figure.Panels, nil where it is no chart
	heats   []*heat   // beside figure.Panels, nil where it is no heat map
	common  legend    // drawn once below the panels, if it has entries
	shared  bool
}

// pixel is the length of a CSS pixel in points.
const pixel = 0.75

const (
	sheetMargin = 12.0
	panelGap    = 18.0
)

// panelSize is the usual size of a panel in points, by the number of columns. Many columns
// get smaller panels: the picture is scaled to the width of a page, and its text with it.
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

func newSheet(f Figure) *sheet {
	s := &sheet{figure: f, columns: f.Columns}
	if s.columns == 0 {
		// Up to three abreast, but four as two by two.
		s.columns = min(len(f.Panels), 3)
		if len(f.Panels) == 4 {
			s.columns = 2
		}
	}
	s.columns = min(s.columns, len(f.Panels))
	s.charts = make([]*chart, len(f.Panels))
	s.heats = make([]*heat, len(f.Panels))
	for i, p := range f.Panels {
		switch {
		case p.Diagram != nil:
		case p.Heat != nil:
			s.heats[i] = newHeat(p)
		default:
			s.charts[i] = newChart(p)
		}
	}
	if s.common, s.shared = sharedLegend(s.charts); !s.shared {
		s.common = legend{}
	}
	s.measure()
	return s
}

// measure finds the size of the sheet. One panel alone has its size as the whole
// picture's; a grid grows by its titles.
func (s *sheet) measure() {
	w, h := panelSize(s.columns)
	s.w = float64(s.columns)*w + float64(s.columns-1)*panelGap/2
	s.rows = make([]float64, (len(s.figure.Panels)+s.columns-1)/s.columns)
	for i, p := range s.figure.Panels {
		row := &s.rows[i/s.columns]
		*row = math.Max(*row, panelHeight(p, w, h))
	}
	rest := 2*sheetMargin + s.headHeight() + s.footHeight() + float64(len(s.rows)-1)*panelGap
	if len(s.figure.Panels) == 1 && s.rows[0] == h {
		s.rows[0] = math.Max(h-rest, 0.75*h) // a long caption may not squeeze the plot
	}
	s.h = rest
	for _, row := range s.rows {
		s.h += row
	}
}

// panelHeight lets heat maps grow with their rows and diagrams keep their proportions.
func panelHeight(p Panel, w, h float64) float64 {
	switch {
	case p.Heat != nil:
		return math.Max(h, float64(len(p.Y.Categories))*heatRow+90)
	case p.Diagram != nil && len(p.Diagram.Shapes) > 0:
		b := p.Diagram.bounds()
		if b.w() == 0 {
			return h
		}
		return math.Min(math.Max(w*b.h()/b.w()+40, h*0.5), w*0.9)
	}
	return h
}

func (s *sheet) titleLines() []string {
	return titleFace.wrap(s.figure.Title, s.w-2*sheetMargin, 2)
}

func (s *sheet) captionLines() []string {
	return noteFace.wrap(s.figure.Caption, s.w-2*sheetMargin, 12)
}

func (s *sheet) headHeight() float64 {
	if n := len(s.titleLines()); n > 0 {
		return titleFace.height(n) + 6
	}
	return 0
}

func (s *sheet) footHeight() float64 {
	h := 0.0
	if s.shared {
		_, rows := s.common.grid(s.w - 2*sheetMargin)
		h += s.common.height(rows)
	}
	if n := len(s.captionLines()); n > 0 {
		h += noteFace.height(n) + 8
	}
	return h
}

// draw draws the whole figure.
func (s *sheet) draw(p pen) {
	p.box(rect{0, 0, s.w, s.h}, white, stroke{})
	y := s.h - sheetMargin
	if lines := s.titleLines(); len(lines) > 0 {
		p.lines(titleFace, point{sheetMargin, y}, leftTop, lines)
		y -= s.headHeight()
	}
	w := (s.w - 2*sheetMargin - float64(s.columns-1)*panelGap) / float64(s.columns)
	for i, h := range s.rows {
		var areas []rect
		for k := range min(s.columns, len(s.figure.Panels)-i*s.columns) {
			x := sheetMargin + float64(k)*(w+panelGap)
			areas = append(areas, rect{x, y - h, x + w, y})
		}
		s.drawRow(p, i*s.columns, areas)
		y -= h + panelGap
	}
	y += panelGap
	if s.shared {
		room := s.w - 2*sheetMargin
		_, rows := s.common.grid(room)
		h := s.common.height(rows)
		x := (s.w - s.common.used(room)) / 2
		s.common.draw(p, rect{x, y - h, x + room, y}, false)
		y -= h
	}
	p.lines(noteFace, point{sheetMargin, y - 8}, leftTop, s.captionLines())
}

// panelText wraps the title and the notes of a panel.
func (s *sheet) panelText(i int, width float64) (title, notes []string) {
	panel := s.figure.Panels[i]
	note := panel.Note
	switch {
	case s.charts[i] != nil:
		note = s.charts[i].notes()
	case s.heats[i] != nil:
		note = s.heats[i].notes()
	}
	return panelFace.wrap(panel.Title, width, 2), noteFace.wrap(note, width, 5)
}

// drawRow draws panels side by side. Titles and notes take the same room in
// all of them, so that the plots line up.
func (s *sheet) drawRow(p pen, first int, areas []rect) {
	head, foot := 0.0, 0.0
	for k, area := range areas {
		title, notes := s.panelText(first+k, area.w())
		p.lines(panelFace, point{area.x0, area.y1}, leftTop, title)
		p.lines(noteFace, point{area.x0, area.y0}, leftBottom, notes)
		if n := len(title); n > 0 {
			head = math.Max(head, panelFace.height(n)+4)
		}
		if n := len(notes); n > 0 {
			foot = math.Max(foot, noteFace.height(n)+4)
		}
	}
	for k, area := range areas {
		area.y1 -= head
		area.y0 += foot
		i := first + k
		switch {
		case s.charts[i] != nil:
			s.charts[i].draw(p, area, !s.shared)
		case s.heats[i] != nil:
			s.heats[i].draw(p, area)
		default:
			s.figure.Panels[i].Diagram.draw(p, area)
		}
	}
}
