// Package figure describes figures as plain data and draws them as PNG and SVG.
//
// A [Figure] says what is to be seen: panels, axes, series, limit lines. It holds
// no drawing code, can be stored as JSON, and equal descriptions give equal bytes.
// Everything about looks (fonts, colours, ticks, where the legend goes) is decided
// here, so that all figures of the project read alike.
//
// It is not a statistics package: error bars are drawn as given, nothing is
// fitted or aggregated. It is the only importer of the plotting library.
package figure

// Figure is one picture: a grid of panels under a common title.
type Figure struct {
	Name    string  `json:"name"`              // file stem: letters, digits, '.', '_', '-'
	Title   string  `json:"title,omitempty"`   // one line above everything
	Caption string  `json:"caption,omitempty"` // wrapped text below everything
	Panels  []Panel `json:"panels"`            // row by row, left to right
	Columns int     `json:"columns,omitempty"` // panels side by side; 0 chooses
}

// Panel is one coordinate system. It is a chart unless Heat or Diagram is given.
type Panel struct {
	Title   string   `json:"title,omitempty"`
	X       Axis     `json:"x,omitzero"`
	Y       Axis     `json:"y,omitzero"`
	Series  []Series `json:"series,omitempty"`
	Lines   []Line   `json:"lines,omitempty"`
	Legend  Legend   `json:"legend,omitempty"`
	Heat    *HeatMap `json:"heat,omitempty"`
	Diagram *Diagram `json:"diagram,omitempty"`
	Note    string   `json:"note,omitempty"` // small print under the panel
}

// Axis says how numbers become positions, and how they are written.
type Axis struct {
	Label string `json:"label,omitempty"`
	Scale Scale  `json:"scale,omitempty"`
	Unit  Unit   `json:"unit,omitempty"`
	// Min and Max fix an end; nil fits the data.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// Categories names the slots of a Category axis; slot i is at position i.
	Categories []string `json:"categories,omitempty"`
	// Break leaves out the values between its two ends, so that one tall bar
	// does not flatten the rest. Only for a linear y axis; without data on both
	// sides the axis is drawn whole.
	Break *[2]float64 `json:"break,omitempty"`
}

// Scale is how an axis spreads its values.
type Scale string

// The scales; the empty string is Linear.
const (
	Linear   Scale = "linear"
	Log2     Scale = "log2"
	Log10    Scale = "log10"
	Category Scale = "category"
)

// log reports whether only positive values have a place on the scale.
func (s Scale) log() bool { return s == Log2 || s == Log10 }

// Unit is what an axis's numbers count; it decides the wording of tick labels.
type Unit string

// The units; the empty string is a plain number.
const (
	Plain   Unit = "plain"
	Bytes   Unit = "bytes"   // 512, 4Ki, 1Mi
	Micros  Unit = "us"      // values in microseconds: 500 ns, 10 µs, 1 ms
	Percent Unit = "percent" // values in percent: 85%
	GBps    Unit = "GB/s"    // plain ticks, the unit goes to the axis label
	TFlops  Unit = "TFLOP/s" // plain ticks, the unit goes to the axis label
)

// Legend is where the names of the series stand.
type Legend string

// The places. LegendAuto (or the empty string) puts a short legend into a corner free of data
// and anything else beside or below the plot; panels with the same series share one.
const (
	LegendAuto  Legend = "auto"
	LegendRight Legend = "right"
	LegendBelow Legend = "below"
	LegendNone  Legend = "none"
)

// Series is one set of points, drawn alike.
type Series struct {
	Name   string  `json:"name"`
	Kind   Kind    `json:"kind,omitempty"`
	Points []Point `json:"points"`
	// Color picks a palette entry, counted from 1; 0 takes the series' place in
	// the panel. Equal numbers tie a measurement to its model, or panels together.
	Color    int  `json:"color,omitempty"`
	Dashed   bool `json:"dashed,omitempty"`    // dashed line, hollow markers
	NoMarker bool `json:"no_marker,omitempty"` // a bare line, as for a fit
}

// Kind is how a series is drawn.
type Kind string

// The kinds; the empty string is LineKind. Bars need a Category x axis; all
// StackedBars of a panel make one stack per category, each Bars series has a bar of its own.
const (
	LineKind    Kind = "line"
	Scatter     Kind = "scatter"
	Bars        Kind = "bars"
	StackedBars Kind = "stacked-bars"
)

// Point is one value. Points that are not finite, or not positive on a log axis,
// are left out and counted under the panel.
type Point struct {
	X, Y float64
	// Low and High are the ends of an error bar, drawn when Low < High.
	Low, High float64
}

// Line is a limit or an ideal: exactly one of X, Y and Points is given.
// A vertical or horizontal line carries its label, a sloped one is in the legend.
type Line struct {
	Label  string   `json:"label"`
	X      *float64 `json:"x,omitempty"`      // vertical at X
	Y      *float64 `json:"y,omitempty"`      // horizontal at Y
	Points []Point  `json:"points,omitempty"` // through at least two points
}

// HeatMap fills the panel with a matrix; the panel's axes are both Category.
type HeatMap struct {
	Cells [][]Cell `json:"cells"`          // Cells[row][column], row 0 at the top
	Value Axis     `json:"value,omitzero"` // the colour scale: label, scale, unit, ends
}

// Cell is one entry of a heat map; a Value of NaN is an empty cell.
type Cell struct {
	Value float64
	Text  string // in place of the written value
}

// Diagram is a free drawing in coordinates of its own: x to the right, y upward, the same
// length in both directions, fitted to the panel. Later shapes cover earlier ones.
type Diagram struct {
	Shapes []Shape `json:"shapes"`
}

// Shape is one element of a diagram.
type Shape struct {
	Kind ShapeKind `json:"kind"`
	// X, Y is the centre of a Box, Circle or Text.
	X float64 `json:"x,omitempty"`
	Y float64 `json:"y,omitempty"`
	// W and H are the size of a Box; W is the diameter of a Circle.
	W float64 `json:"w,omitempty"`
	H float64 `json:"h,omitempty"`
	// Points are the corners of a Path or Arrow (head at the last).
	Points [][2]float64 `json:"points,omitempty"`
	// Bend bows a Path or Arrow of two points to its left by this fraction of its length.
	Bend float64 `json:"bend,omitempty"`
	// Trim shortens both ends of a Path or Arrow, so that links between the
	// centres of two nodes stop at their rims.
	Trim float64 `json:"trim,omitempty"`
	// Text stands in a Box or Circle, shrunk to fit, or beside the middle of a Path or Arrow.
	Text   string `json:"text,omitempty"`
	Color  int    `json:"color,omitempty"`  // palette entry from 1; 0 is neutral
	Filled bool   `json:"filled,omitempty"` // solid rather than tinted
	Dashed bool   `json:"dashed,omitempty"`
	Bold   bool   `json:"bold,omitempty"` // bold text, thick line
	Both   bool   `json:"both,omitempty"` // an Arrow with a head at either end
}

// ShapeKind is what a shape is.
type ShapeKind string

// The shapes of a diagram.
const (
	Box    ShapeKind = "box"
	Circle ShapeKind = "circle"
	Path   ShapeKind = "path"
	Arrow  ShapeKind = "arrow"
	Text   ShapeKind = "text"
)
