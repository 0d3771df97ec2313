// Package figure describes figures as plain data and draws them as PNG and SVG.
//
// A [Figure] says what is to be seen: panels, axes, series, limit lines. It holds
// no drawing code, can be stored as JSON, and equal descriptions give equal bytes.
// Everything about looks (fonts, colours, ticks, where the legend goes) is decided
// here, so that all figures of the project read alike.
//
// It is not a statistics package: error bars are drawn as given, nothing is
// fitted or aggregated. A kind of panel other than a chart is one type, see [Register].
package figure

import (
	"errors"
	"fmt"
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

// AddCaption puts a sentence behind the caption; an empty one changes nothing.
func (f *Figure) AddCaption(text string) {
	if f.Caption != "" && text != "" {
		f.Caption += " "
	}
	f.Caption += text
}

// Panel is one coordinate system. It is a chart of its Series and Lines unless Content is given.
type Panel struct {
	Title   string   `json:"title,omitempty"`
	X       Axis     `json:"x,omitzero"`
	Y       Axis     `json:"y,omitzero"`
	Series  []Series `json:"series,omitempty"`
	Lines   []Line   `json:"lines,omitempty"`
	Legend  Legend   `json:"legend,omitempty"`
	Content Content  `json:"-"`              // in JSON under the name of its kind
	Note    string   `json:"note,omitempty"` // small print under the panel
}

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

// A stem is used as a file name on any system and inside a URL.
var (
	stem    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	notStem = regexp.MustCompile(`[^A-Za-z0-9._-]`)
)

// Stem is text as a part of a figure's name: what may not stand there is an underscore.
func Stem(text string) string { return notStem.ReplaceAllString(text, "_") }

// maxColumns bounds the grid: more panels side by side cannot be read.
const maxColumns = 6

// Validate returns every fault of the description, joined, or nil. Odd data
// (no points, NaN, values a log axis cannot show) is not a fault.
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
	oneOf(f, "legend place", p.Legend, LegendAuto, LegendRight, LegendBelow, LegendNone)
	if p.Content != nil && (len(p.Series) > 0 || len(p.Lines) > 0) {
		name, _ := kindOf(p.Content)
		f.Add("%s shares its panel with series or lines; give each its own panel", name)
	}
	p.content().Check(p, f)
}

// Faults collects what is wrong, each with the place it was found.
type Faults struct {
	where string
	list  *[]error
}

// At names a part; faults added to the result are found there.
func (f Faults) At(format string, args ...any) Faults {
	return Faults{where: f.where + fmt.Sprintf(format, args...) + ": ", list: f.list}
}

// Add notes a fault.
func (f Faults) Add(format string, args ...any) {
	*f.list = append(*f.list, fmt.Errorf("%s%s", f.where, fmt.Sprintf(format, args...)))
}

func oneOf[T ~string](f Faults, what string, got T, allowed ...T) {
	if got != "" && !slices.Contains(allowed, got) {
		f.Add("unknown %s %q, want one of %q", what, got, allowed)
	}
}
