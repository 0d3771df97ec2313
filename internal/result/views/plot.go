// Package views makes figures, tables and sentences of rows. A [Plot] describes a figure: which coordinate is on x,
// which metric on y, and what separates series and panels. The command line parses one from --plot, a bench declares
// one for each of its figures, and [AutoPlot] chooses one for runs that have neither.
//
// All views are pure functions of the header and the rows. The package draws nothing: a figure is a description that
// package figure draws.
package views

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Plot is a request for a figure, such as x=size,y=time_us,by=dtype. X, By and Panel name axes, environment
// variables, options, or one of num_ranks, backend, part, run, trial, kind, bench and machine. X may also be a metric,
// or Points. Y names metrics or parts of their spread such as time_us.p99. Each metric is a series of its own. Both may
// be products, such as 2*count or time_us/bound_us. shape.0 is the first number of a coordinate that is a tuple.
type Plot struct {
	X              string
	Y              []string // empty means the main metric
	By             []string // coordinates that separate series
	Panel          []string // coordinates that separate panels
	Where          string   // chooses rows, in the language of --only
	First          []string // coordinates of which only the first value is drawn
	Last           []string // coordinates of which only the last value is drawn
	Kind           string   // lines, points, bars, stack or heat; "" chooses
	Share          string   // shows y as percent of another metric of the row
	Over           string   // first: y is divided by the y of the first series at the same x
	XScale, YScale string   // linear or log; "" chooses
	// Limit chooses the lines of limits: each limit, the least of all series, or none. "" draws each limit of times.
	Limit   string
	Ideal   string // a number for a level line, x for y = x, or first for y in proportion to x
	Columns string // panels side by side; "" chooses
	Words          // not part of the text form
}

// Points is the x of a plot in which each point of the sweep has its own slot, named by the coordinates in which the
// points differ.
const Points = "point"

// Words are the texts of a view that a bench declares.
type Words struct {
	// Name is the name of the figure's file. Plots of the same name are panels of one figure.
	Name string
	// Title and Caption may contain the value that the rows have at a coordinate, metric or detail, as {dtype}.
	// If the name contains one, there is a figure for each value.
	Title, Caption string
	// Labels are texts for the names of coordinates and metrics, for the axes x and y, for the line ideal, and for
	// panel, the title of a panel. The text for a coordinate may have a place for its value: K = {}.
	Labels map[string]string
	Units  map[string]string // units of the axes x and y, if they are not the metric's
	// Finish adds to a figure what no plot can describe. nil adds nothing.
	Finish func(f *figure.Figure, rows dataset.Set)
}

// label returns the text for a name.
func (w Words) label(name string) string {
	text, has := w.Labels[name]
	switch {
	case has:
		return text
	case name == dataset.NumRanks && w.Name != "":
		return "ranks"
	}
	return name
}

// plotForm is the correct form, for error messages.
const plotForm = "want x=AXIS[,y=METRIC][,by=AXIS[+AXIS...]], such as x=size,y=time_us,by=dtype"

// ParsePlot parses the value of --plot. Without y it plots the main metric. y, by and panel may be
// repeated, or name several coordinates joined by +.
func ParsePlot(text string) (Plot, error) {
	var p Plot
	if err := parse(text, p.keys()); err != nil {
		return Plot{}, fmt.Errorf("plot %q: %w: %s", text, err, plotForm)
	}
	return p, nil
}

// ParsePlots parses several plots.
func ParsePlots(texts []string) ([]Plot, error) { return lists.TryMap(texts, ParsePlot) }

// key is a key of the text form, with the field that holds its value.
type key struct {
	name    string
	list    *[]string // names joined by +
	text    *string
	choices []string
	needed  bool
}

// keys lists the keys of a plot in the order in which String writes them.
func (p *Plot) keys() []key {
	scales := []string{"linear", "log"}
	return []key{
		{name: "x", text: &p.X, needed: true},
		{name: "y", list: &p.Y},
		{name: "by", list: &p.By},
		{name: "panel", list: &p.Panel},
		{name: "where", text: &p.Where},
		{name: "first", list: &p.First},
		{name: "last", list: &p.Last},
		{name: "kind", text: &p.Kind, choices: []string{"lines", "points", "bars", "stack", "heat"}},
		{name: "share", text: &p.Share},
		{name: "over", text: &p.Over, choices: []string{"first"}},
		{name: "xscale", text: &p.XScale, choices: scales},
		{name: "yscale", text: &p.YScale, choices: scales},
		{name: "limit", text: &p.Limit, choices: []string{"each", "least", "none"}},
		{name: "ideal", text: &p.Ideal},
		{name: "columns", text: &p.Columns, choices: []string{"1", "2", "3"}},
	}
}

// parse fills the fields of keys from NAME=VALUE words that are joined by commas.
func parse(text string, keys []key) error {
	for _, word := range words.FindAllString(text+",", -1) {
		name, value, ok := strings.Cut(strings.TrimSuffix(word, ","), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		at := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		switch {
		case !ok || value == "":
			return fmt.Errorf("%q has no name", strings.TrimSpace(strings.TrimSuffix(word, ",")))
		case at < 0:
			return suggest.Unknown("key", name, lists.Map(keys, func(k key) string { return k.name }))
		}
		if err := keys[at].set(value); err != nil {
			return err
		}
	}
	for _, k := range keys {
		if k.needed && k.value() == "" {
			return errors.New("missing " + k.name)
		}
	}
	return nil
}

// words matches a word up to the next comma that is not quoted.
var words = regexp.MustCompile(`(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^,])*,`)

// set sets the field of a key. It adds to a list.
func (k key) set(value string) error {
	switch {
	case k.list != nil:
		for _, name := range strings.Split(value, "+") {
			if name = strings.TrimSpace(name); name == "" {
				return fmt.Errorf("%q has an empty name between two +", k.name+"="+value)
			}
			if !slices.Contains(*k.list, name) {
				*k.list = append(*k.list, name)
			}
		}
		return nil
	case *k.text != "":
		return fmt.Errorf("duplicate %s", k.name)
	case len(k.choices) > 0 && !slices.Contains(k.choices, value):
		return suggest.Unknown(k.name, value, k.choices)
	}
	*k.text = value
	return nil
}

// value returns the text of the key's field.
func (k key) value() string {
	if k.list != nil {
		return strings.Join(*k.list, "+")
	}
	return *k.text
}

// String returns the plot in the form that ParsePlot reads.
func (p Plot) String() string { return format(p.keys()) }

func format(keys []key) string {
	set := lists.Filter(keys, func(k key) bool { return k.value() != "" })
	return strings.Join(lists.Map(set, func(k key) string { return k.name + "=" + k.value() }), ",")
}

// Check returns an error if the rows of a planned run will not have the coordinates of the plot.
func (p Plot) Check(h *journal.Header, options point.Point) error {
	coords := dataset.Set{{Options: options}}.Coords(h)
	names := slices.Concat(p.By, p.Panel, p.First, p.Last)
	for _, f := range factorsOf(p.X) {
		isMetric := slices.ContainsFunc(h.Metrics, func(m journal.MetricInfo) bool { return m.Name == f.name })
		if f.name != Points && f.name != "" && !isMetric {
			names = append([]string{f.name}, names...)
		}
	}
	for _, name := range names {
		if _, err := dataset.FindCoord(coords, name); err != nil {
			return fmt.Errorf("plot %s: %w", p, err)
		}
	}
	if p.Where == "" {
		return nil
	}
	scope := dataset.Scope{}
	for _, m := range h.Metrics {
		scope[m.Name] = point.Float
	}
	for _, c := range coords {
		scope[c.Name] = point.String
	}
	scope[dataset.NumRanks], scope[dataset.Trial] = point.Int, point.Int
	for _, a := range h.Axes {
		scope[a.Name] = a.Kind
	}
	if _, err := dataset.Compile(p.Where, scope); err != nil {
		return fmt.Errorf("plot %s: %w", p, err)
	}
	return nil
}

// CheckMetric returns an error if a metric of the plot is not one of the known metrics. A factor of a product may also
// be a coordinate.
func (p Plot) CheckMetric(h *journal.Header, options point.Point, known []journal.MetricInfo) error {
	names := lists.Map(known, func(m journal.MetricInfo) string { return m.Name })
	coords := dataset.Set{{Options: options}}.Coords(h)
	for _, y := range slices.Concat(p.Y, lists.NonEmpty(p.Share)) {
		factors := factorsOf(y)
		for _, f := range factors {
			_, err := dataset.FindCoord(coords, f.name)
			metric, _ := splitStat(f.name)
			if f.name != "" && (err != nil || len(factors) == 1) && !isNamed(names, f.name) && !isNamed(names, metric) {
				return fmt.Errorf("plot %s: %w", p, suggest.Unknown("metric", metric, names))
			}
		}
	}
	return nil
}

// isNamed reports whether a metric is in a list of names, in which capitals stand for any text: exposed_KIND_us.
func isNamed(names []string, metric string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		pattern := capitals.ReplaceAllString(regexp.QuoteMeta(name), ".+")
		return name == metric || pattern != regexp.QuoteMeta(name) && regexp.MustCompile("^"+pattern+"$").MatchString(metric)
	})
}

var capitals = regexp.MustCompile("[A-Z]{2,}")

// maxStem is the longest name of a figure, in bytes. With its ending, every file system accepts it.
const maxStem = 120

// stem returns the name of the figure: plot_time_us_vs_size_by_dtype.
func (p Plot) stem() string {
	s := "plot_" + strings.Join(p.Y, "_") + "_vs_" + p.X
	if len(p.By) > 0 {
		s += "_by_" + strings.Join(p.By, "_")
	}
	s = figure.Stem(s)
	return s[:min(len(s), maxStem)]
}
