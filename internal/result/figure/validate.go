package figure

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
)

// A stem is used as a file name on any system and inside a URL.
var stem = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// maxColumns bounds the grid: more panels side by side cannot be read.
const maxColumns = 6

// faults collects what is wrong, each with the place it was found.
type faults struct {
	where string
	list  *[]error
}

func (f faults) at(format string, args ...any) faults {
	return faults{where: f.where + fmt.Sprintf(format, args...) + ": ", list: f.list}
}

func (f faults) add(format string, args ...any) {
	*f.list = append(*f.list, fmt.Errorf("%s%s", f.where, fmt.Sprintf(format, args...)))
}

func oneOf[T ~string](f faults, what string, got T, allowed ...T) {
	if got != "" && !slices.Contains(allowed, got) {
		f.add("unknown %s %q, want one of %q", what, got, allowed)
	}
}

// Validate returns every fault of the description, joined, or nil. Odd data
// (no points, NaN, values a log axis cannot show) is not a fault.
func (f Figure) Validate() error {
	var list []error
	root := faults{list: &list}
	if !stem.MatchString(f.Name) {
		root.add("name %q is not a file stem: want letters, digits, '.', '_', '-', the first a letter or digit", f.Name)
	}
	fig := root.at("figure %q", f.Name)
	if f.Columns < 0 || f.Columns > maxColumns {
		fig.add("%d columns, want 0 (automatic) to %d", f.Columns, maxColumns)
	}
	if len(f.Panels) == 0 {
		fig.add("no panels, want at least one")
	}
	for i, p := range f.Panels {
		p.validate(fig.at("panel %d", i+1))
	}
	return errors.Join(list...)
}

func (p Panel) validate(f faults) {
	oneOf(f, "legend place", p.Legend, LegendAuto, LegendRight, LegendBelow, LegendNone)
	switch {
	case p.Diagram != nil:
		if p.Heat != nil || len(p.Series) > 0 || len(p.Lines) > 0 {
			f.add("a diagram shares its panel with a heat map, series or lines; give each its own panel")
		}
		p.Diagram.validate(f.at("diagram"))
	case p.Heat != nil:
		if len(p.Series) > 0 || len(p.Lines) > 0 {
			f.add("a heat map shares its panel with series or lines; give each its own panel")
		}
		p.validateHeat(f)
	default:
		p.validateChart(f)
	}
}

func (p Panel) validateChart(f faults) {
	p.X.validate(f.at("x axis"))
	p.Y.validate(f.at("y axis"))
	if p.Y.Scale == Category {
		f.add("y axis is a category axis, which only a heat map can have")
	}
	if p.X.Break != nil {
		f.add("x axis has a break, which only a linear y axis can have")
	}
	for i, s := range p.Series {
		p.validateSeries(f.at("series %d (%q)", i+1, s.Name), s)
	}
	for i, l := range p.Lines {
		l.validate(f.at("line %d (%q)", i+1, l.Label))
	}
}

func (p Panel) validateSeries(f faults, s Series) {
	oneOf(f, "kind", s.Kind, LineKind, Scatter, Bars, StackedBars)
	if s.Color < 0 {
		f.add("color %d is negative, want 0 (automatic) or a palette entry from 1", s.Color)
	}
	if (s.Kind == Bars || s.Kind == StackedBars) && p.X.Scale != Category {
		f.add("%s need a category x axis, have scale %q", s.Kind, p.X.Scale)
	}
	if s.Kind == StackedBars && p.Y.Scale.log() {
		f.add("stacked bars on a log axis would show wrong proportions; use a linear y axis")
	}
	for i, pt := range s.Points {
		if pt.Low > pt.High {
			f.add("point %d: error bar from %g down to %g, want low <= high", i+1, pt.Low, pt.High)
		}
		if p.X.Scale == Category && (pt.X != math.Trunc(pt.X) || pt.X < 0 || pt.X >= float64(len(p.X.Categories))) {
			f.add("point %d: x = %g is not the index of one of %d categories", i+1, pt.X, len(p.X.Categories))
		}
	}
}

func (l Line) validate(f faults) {
	given := 0
	for _, v := range []*float64{l.X, l.Y} {
		if v != nil {
			given++
		}
	}
	if l.Points != nil {
		given++
	}
	if given != 1 {
		f.add("%d of x, y and points are given, want exactly one", given)
	}
	if l.Points != nil && len(l.Points) < 2 {
		f.add("%d point, a sloped line needs at least two", len(l.Points))
	}
}

func (a Axis) validate(f faults) {
	oneOf(f, "scale", a.Scale, Linear, Log2, Log10, Category)
	oneOf(f, "unit", a.Unit, Plain, Bytes, Micros, Percent, GBps, TFlops)
	if (a.Scale == Category) != (len(a.Categories) > 0) {
		f.add("scale %q with %d categories: a category axis names its categories, no other axis has any", a.Scale, len(a.Categories))
	}
	for _, end := range []struct {
		name  string
		value *float64
	}{{"min", a.Min}, {"max", a.Max}} {
		switch {
		case end.value == nil:
		case a.Scale == Category:
			f.add("%s is set on a category axis, which always shows all its categories", end.name)
		case !showable(*end.value):
			f.add("%s is %g, want a finite number below 1e100", end.name, *end.value)
		case a.Scale.log() && !a.showable(*end.value):
			f.add("%s is %g, want a positive number on a log axis", end.name, *end.value)
		}
	}
	if a.Min != nil && a.Max != nil && *a.Min >= *a.Max {
		f.add("min %g is not below max %g", *a.Min, *a.Max)
	}
	if b := a.Break; b != nil {
		if a.Scale != "" && a.Scale != Linear {
			f.add("break on a %s axis, which only a linear y axis can have", a.Scale)
		}
		if !(b[0] < b[1]) || !showable(b[0]) || !showable(b[1]) {
			f.add("break from %g to %g, want two finite numbers in rising order", b[0], b[1])
		}
	}
}

func (p Panel) validateHeat(f faults) {
	p.X.validate(f.at("x axis"))
	p.Y.validate(f.at("y axis"))
	p.Heat.Value.validate(f.at("heat map value"))
	if p.X.Scale != Category || p.Y.Scale != Category {
		f.add("heat map on scales %q and %q, want category axes", p.X.Scale, p.Y.Scale)
	}
	if p.Heat.Value.Scale == Category || p.Heat.Value.Break != nil {
		f.add("heat map value has categories or a break, want a plain linear or log scale")
	}
	if len(p.Heat.Cells) != len(p.Y.Categories) {
		f.add("heat map has %d rows for %d y categories", len(p.Heat.Cells), len(p.Y.Categories))
	}
	for i, row := range p.Heat.Cells {
		if len(row) != len(p.X.Categories) {
			f.add("heat map row %d has %d cells for %d x categories", i+1, len(row), len(p.X.Categories))
		}
	}
}

func (d Diagram) validate(f faults) {
	for i, s := range d.Shapes {
		s.validate(f.at("shape %d (%s)", i+1, s.Kind))
	}
}

func (s Shape) validate(f faults) {
	for _, v := range []float64{s.X, s.Y, s.W, s.H, s.Bend, s.Trim} {
		if !showable(v) {
			f.add("a coordinate is %g, want a finite number below 1e100", v)
		}
	}
	for _, p := range s.Points {
		if !showable(p[0]) || !showable(p[1]) {
			f.add("a corner is (%g, %g), want finite numbers below 1e100", p[0], p[1])
		}
	}
	if s.Color < 0 || s.Trim < 0 {
		f.add("color %d or trim %g is negative", s.Color, s.Trim)
	}
	switch s.Kind {
	case Box:
		if s.W <= 0 || s.H <= 0 {
			f.add("size %g x %g, want both positive", s.W, s.H)
		}
	case Circle:
		if s.W <= 0 {
			f.add("diameter %g, want w > 0", s.W)
		}
	case Path, Arrow:
		if len(s.Points) < 2 {
			f.add("%d points, want at least two", len(s.Points))
		}
		if s.Bend != 0 && len(s.Points) != 2 {
			f.add("bend with %d points, want exactly two", len(s.Points))
		}
	case Text:
		if s.Text == "" {
			f.add("no text")
		}
	default:
		f.add("unknown shape, want one of %q", []ShapeKind{Box, Circle, Path, Arrow, Text})
	}
}
