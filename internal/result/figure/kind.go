package figure

import "github.com/kernbench/kernbench/internal/result/draw"

// Content fills a panel that is not a chart. A kind of content is one type, whose exported fields are the description.
type Content interface {
	// Check adds the faults of the panel that holds the content.
	Check(p Panel, f Faults)
	// Prepare makes a drawing of a panel that has no faults.
	Prepare(p Panel) Drawing
}

// Drawing is a panel that is ready to be drawn anywhere on a page.
type Drawing interface {
	// Height returns the height that the panel needs at a width; usual is the height
	// of a chart.
	Height(w, usual float64) float64
	// Notes returns lines for the small print about data that is not visible, or "".
	Notes() string
	// Draw fills the area.
	Draw(p draw.Pen, area draw.Rectangle)
}

// content returns the panel's content, a chart by default.
func (p Panel) content() Content {
	if p.Content == nil {
		return chartContent{}
	}
	return p.Content
}
