// Package figure describes figures as plain data and draws them as PNG and SVG.
//
// A [Figure] lists panels, axes, series and limit lines. Equal descriptions give equal files. The JSON form is for the
// web page, which draws charts itself. This package decides everything about
// appearance (fonts, colors, ticks, the place of the legend), so that all figures
// of the project look alike.
//
// The package does no statistics: error bars are drawn as given, and nothing is
// fitted or aggregated. A panel shows a chart, or another [Content]: a heat map, a diagram, a tornado.
//
// Drawing goes through package draw. The plotting library behind it supplies
// canvases and fonts; axes, ticks and legends are made here, because its own know
// no byte sizes, wrapped category names, broken axes or shared legends.
package figure

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
)

// Figure is one picture: a grid of panels under a common title.
type Figure struct {
	Name    string  `json:"name"`              // file stem: letters, digits, '.', '_', '-'
	Title   string  `json:"title,omitempty"`   // one line above everything
	Caption string  `json:"caption,omitempty"` // wrapped text below everything
	Panels  []Panel `json:"panels"`            // row by row, left to right
	Columns int     `json:"columns,omitempty"` // panels side by side; 0 chooses
}

// AddCaption appends a sentence to the caption. An empty text changes nothing.
func (f *Figure) AddCaption(text string) {
	if f.Caption != "" && text != "" {
		f.Caption += " "
	}
	f.Caption += text
}

// Panel is one coordinate system. Without Content it is a chart of its Series and Lines.
type Panel struct {
	Title   string   `json:"title,omitempty"`
	X       Axis     `json:"x,omitzero"`
	Y       Axis     `json:"y,omitzero"`
	Series  []Series `json:"series,omitempty"`
	Lines   []Line   `json:"lines,omitempty"`
	Legend  Legend   `json:"legend,omitempty"`
	Content Content  `json:"-"`
	Note    string   `json:"note,omitempty"` // small print under the panel
}

// Legend is the place of the legend.
type Legend string

// The places of a legend. The empty string writes the names beside the ends of the lines, or else beside or below the
// plot. Panels with the same series share one legend below them.
const (
	LegendRight Legend = "right"
	LegendBelow Legend = "below"
	LegendNone  Legend = "none"
)

// Series is a set of points that are drawn alike.
type Series struct {
	Name   string  `json:"name"`
	Kind   Kind    `json:"kind,omitempty"`
	Points []Point `json:"points"`
	// Color is a palette entry, counted from 1; 0 takes the series' position in the
	// panel. Equal numbers show that series belong together, such as a measurement
	// and its model.
	Color    int  `json:"color,omitempty"`
	Dashed   bool `json:"dashed,omitempty"`    // dashed line, hollow markers
	NoMarker bool `json:"no_marker,omitempty"` // a line without markers, as for a fit
}

// Kind is how a series is drawn.
type Kind string

// The kinds of series. The empty string means LineKind. Bars need a Category x axis.
// All StackedBars of a panel make one stack per category; each Bars series has its
// own bar.
const (
	LineKind    Kind = "line"
	Scatter     Kind = "scatter"
	Bars        Kind = "bars"
	StackedBars Kind = "stacked-bars"
)

// Point is one value. Points that are not finite, or not positive on a log axis,
// are omitted, and a note under the panel counts them.
type Point struct {
	X, Y float64
	// Low and High are the ends of an error bar, which is drawn if Low < High.
	Low, High float64
	// Hollow marks a doubtful value: it gets a hollow marker.
	Hollow bool
	// Failed means that there is no value. The line has a gap at X, with a cross at
	// the bottom of the plot.
	Failed bool
}

// Line is a limit or an ideal, which the legend names. Exactly one of X, Y and Points is given.
type Line struct {
	Label  string   `json:"label"`
	X      *float64 `json:"x,omitempty"`      // vertical at X
	Y      *float64 `json:"y,omitempty"`      // horizontal at Y
	Points []Point  `json:"points,omitempty"` // through at least two points
}

// pointJSON is the JSON form of a Point. JSON has no NaN and no infinity, but rows
// may contain them. They are written as null, and not drawn.
type pointJSON struct {
	X    *float64 `json:"x"`
	Y    *float64 `json:"y"`
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`

	Hollow bool `json:"hollow,omitempty"`
	Failed bool `json:"failed,omitempty"`
}

// MarshalJSON writes the point, without low and high if it has no error bar.
func (p Point) MarshalJSON() ([]byte, error) {
	out := pointJSON{X: finiteOrNil(p.X), Y: finiteOrNil(p.Y), Hollow: p.Hollow, Failed: p.Failed}
	if p.Low != 0 || p.High != 0 {
		out.Low, out.High = finiteOrNil(p.Low), finiteOrNil(p.High)
	}
	return json.Marshal(out)
}

func finiteOrNil(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// A stem is safe as a file name on any system and inside a URL.
var (
	stem    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	notStem = regexp.MustCompile(`[^A-Za-z0-9._-]`)
)

// Stem returns text as part of a figure's name: other characters become underscores.
func Stem(text string) string { return notStem.ReplaceAllString(text, "_") }

// maxColumns is the largest number of panels side by side that can still be read.
const maxColumns = 6

// Validate returns all faults of the description, joined, or nil. Unusual data
// (no points, NaN, values that a log axis cannot show) is not a fault.
func (f Figure) Validate() error {
	var list []error
	root := Faults{list: &list}
	if !stem.MatchString(f.Name) {
		root.Add("name %q is not a file stem: want letters, digits, '.', '_', '-', the first a letter or digit", f.Name)
	}
	fig := root.At("figure %q", f.Name)
	if f.Columns < 0 || f.Columns > maxColumns {
		fig.Add("%d columns, want 0 (automatic) to %d", f.Columns, maxColumns)
	}
	if len(f.Panels) == 0 {
		fig.Add("no panels, want at least one")
	}
	for i, p := range f.Panels {
		p.validate(fig.At("panel %d", i+1))
	}
	return errors.Join(list...)
}

func (p Panel) validate(f Faults) {
	oneOf(f, "legend place", p.Legend, LegendRight, LegendBelow, LegendNone)
	if p.Content != nil && (len(p.Series) > 0 || len(p.Lines) > 0) {
		f.Add("%T shares its panel with series or lines; give each its own panel", p.Content)
	}
	p.content().Check(p, f)
}

// Faults collects the faults of a figure, each with its location.
type Faults struct {
	where string
	list  *[]error
}

// At returns a collector for faults in a part of the current location.
func (f Faults) At(format string, args ...any) Faults {
	return Faults{where: f.where + fmt.Sprintf(format, args...) + ": ", list: f.list}
}

// Add records a fault.
func (f Faults) Add(format string, args ...any) {
	*f.list = append(*f.list, fmt.Errorf("%s%s", f.where, fmt.Sprintf(format, args...)))
}

func oneOf[T ~string](f Faults, what string, got T, allowed ...T) {
	if got != "" && !slices.Contains(allowed, got) {
		f.Add("unknown %s %q, want one of %q", what, got, allowed)
	}
}
