package figure

import (
	"encoding/json"
	"math"
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
	// Hollow: in doubt, drawn with a hollow marker.
	Hollow bool
	// Failed: there is no value. A line leaves a gap at X, and a cross stands at its foot.
	Failed bool
}

// Line is a limit or an ideal: exactly one of X, Y and Points is given.
// A vertical or horizontal line carries its label, a sloped one is in the legend.
type Line struct {
	Label  string   `json:"label"`
	X      *float64 `json:"x,omitempty"`      // vertical at X
	Y      *float64 `json:"y,omitempty"`      // horizontal at Y
	Points []Point  `json:"points,omitempty"` // through at least two points
}

// JSON has no NaN and no infinity, yet a row that failed may well carry one.
// They are written as null and read back as NaN, which is drawn the same way: not at all.

type pointJSON struct {
	X    *float64 `json:"x"`
	Y    *float64 `json:"y"`
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`

	Hollow bool `json:"hollow,omitempty"`
	Failed bool `json:"failed,omitempty"`
}

// MarshalJSON writes the point; without an error bar low and high are left out.
func (p Point) MarshalJSON() ([]byte, error) {
	out := pointJSON{X: finiteOrNil(p.X), Y: finiteOrNil(p.Y), Hollow: p.Hollow, Failed: p.Failed}
	if p.Low != 0 || p.High != 0 {
		out.Low, out.High = finiteOrNil(p.Low), finiteOrNil(p.High)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote. A missing end of an error bar
// leaves the bar out, as NaN would.
func (p *Point) UnmarshalJSON(data []byte) error {
	var in pointJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*p = Point{X: orNaN(in.X), Y: orNaN(in.Y), Hollow: in.Hollow, Failed: in.Failed}
	if in.Low != nil || in.High != nil {
		p.Low, p.High = orNaN(in.Low), orNaN(in.High)
	}
	return nil
}

func finiteOrNil(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
