package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// Plot is a figure asked for in words: x=size,y=time_us,by=dtype. X and By name
// axes, environment variables, options, or num_ranks, backend, part, run, trial,
// kind, bench, machine (simulated or measured, and on what); Y is a metric or a part of its spread such as time_us.p99.
type Plot struct {
	X, Y string
	By   []string
}

// plotForm is what errors say is right.
const plotForm = "want x=AXIS[,y=METRIC][,by=AXIS[+AXIS...]], such as x=size,y=time_us,by=dtype"

// ParsePlot reads the words of --plot. y is time_us if it is not given; by may
// be repeated, or name several joined by +.
func ParsePlot(text string) (Plot, error) {
	p, err := parsePlot(text)
	if err != nil {
		return Plot{}, fmt.Errorf("plot %q: %w: %s", text, err, plotForm)
	}
	return p, nil
}

// ParsePlots reads several.
func ParsePlots(texts []string) ([]Plot, error) { return lists.TryMap(texts, ParsePlot) }

func parsePlot(text string) (p Plot, err error) {
	for _, word := range strings.Split(text, ",") {
		key, names, ok := strings.Cut(word, "=")
		key, names = strings.TrimSpace(key), strings.TrimSpace(names)
		switch {
		case !ok || names == "":
			return p, fmt.Errorf("%q has no name", strings.TrimSpace(word))
		case key == "x" && p.X == "":
			p.X = names
		case key == "y" && p.Y == "":
			p.Y = names
		case key == "by":
			for _, name := range strings.Split(names, "+") {
				if name = strings.TrimSpace(name); name == "" {
					return p, fmt.Errorf("%q has an empty name between two +", word)
				}
				if !slices.Contains(p.By, name) {
					p.By = append(p.By, name)
				}
			}
		case key == "x" || key == "y":
			return p, fmt.Errorf("duplicate %s", key)
		default:
			return p, suggest.Unknown("key", key, []string{"x", "y", "by"})
		}
	}
	if p.X == "" {
		return p, errors.New("missing x")
	}
	p.Y = cmp.Or(p.Y, headline)
	return p, nil
}

// String is the plot as ParsePlot reads it.
func (p Plot) String() string {
	s := "x=" + p.X + ",y=" + p.Y
	if len(p.By) > 0 {
		s += ",by=" + strings.Join(p.By, "+")
	}
	return s
}

// Check reports before a run whether its rows will have the coordinates of the
// plot.
func (p Plot) Check(h *journal.Header, options point.Point) error {
	coords := coordsOf(h, []journal.Row{{Options: options}})
	for _, name := range append([]string{p.X}, p.By...) {
		if _, err := findCoord(coords, name); err != nil {
			return fmt.Errorf("plot %s: %w", p, err)
		}
	}
	return nil
}

// CheckMetric reports whether the plot's metric, or the one whose spread it shows
// a part of, is among those that are known.
func (p Plot) CheckMetric(known []journal.MetricInfo) error {
	names := lists.Map(known, func(m journal.MetricInfo) string { return m.Name })
	metric := p.Y
	if i := strings.LastIndexByte(metric, '.'); i >= 0 && slices.Contains(journal.StatNames, metric[i+1:]) &&
		!slices.Contains(names, metric) {
		metric = metric[:i]
	}
	if slices.Contains(names, metric) {
		return nil
	}
	return fmt.Errorf("plot %s: %w", p, suggest.Unknown("metric", metric, names))
}

// maxStem keeps file names within what every file system takes.
const maxStem = 120

// stem is the file name of the figure without its ending:
// plot_time_us_vs_size_by_dtype.
func (p Plot) stem() string {
	s := "plot_" + p.Y + "_vs_" + p.X
	if len(p.By) > 0 {
		s += "_by_" + strings.Join(p.By, "_")
	}
	s = figure.Stem(s)
	return s[:min(len(s), maxStem)]
}

// AutoPlot is a sensible plot of rows that nobody chose one for: the numeric
// coordinate with most values, or else the text with most, against the time or
// the first metric there is, apart by whatever else varies. There is none when
// no good row has a number or nothing varies.
func AutoPlot(h *journal.Header, rows []journal.Row) (Plot, bool) {
	if h == nil {
		h = &journal.Header{}
	}
	y, ok := autoMetric(h, rows)
	if !ok {
		return Plot{}, false
	}
	good := y.in(rows)
	coords := coordsOf(h, rows)
	best, most, bestNum := coord{}, 1, false
	for _, c := range coords {
		if c.class == fieldClass && c.key != ranksField && c.key != backendField && c.key != partField {
			continue
		}
		n, num := c.count(good)
		if n > 1 && (n > most && num == bestNum || num && !bestNum) {
			best, most, bestNum = c, n, num
		}
	}
	if most < 2 {
		return Plot{}, false
	}
	dots, _ := collect(rows, best, y)
	p := Plot{X: best.name, Y: y.name, By: lists.Map(separate(dots, best, nil, coords), func(c coord) string {
		return c.name
	})}
	return p.honest(good), true
}

// honest has the legend say which curves are simulated and which measured, where both are in
// the figure.
func (p Plot) honest(good []*journal.Row) Plot {
	if slices.ContainsFunc(good, func(r *journal.Row) bool {
		return r.Kind != good[0].Kind
	}) && !slices.Contains(p.By, kindField) {
		p.By = append(p.By, kindField)
	}
	return p
}

// autoMetric is the time if there is one, else the first declared metric that
// a good row has, else any.
func autoMetric(h *journal.Header, rows []journal.Row) (quantity, bool) {
	names := append([]string{headline}, lists.Map(h.Metrics, func(m journal.MetricInfo) string { return m.Name })...)
	for _, name := range names {
		if q, ok := measuredIn(h, rows, name); ok {
			return q, true
		}
	}
	for i := range rows {
		if rows[i].Status != journal.OK {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(rows[i].Metrics)) {
			if slices.Contains(names, name) {
				continue
			}
			names = append(names, name)
			if q, ok := measuredIn(h, rows, name); ok {
				return q, true
			}
		}
	}
	return quantity{}, false
}

// measuredIn is the metric, if a good row has it.
func measuredIn(h *journal.Header, rows []journal.Row, name string) (quantity, bool) {
	q, err := quantityOf(h, rows, name)
	if err != nil || name == "" {
		return q, false
	}
	return q, len(q.in(rows)) > 0
}

// in are the good rows that have the quantity.
func (q quantity) in(rows []journal.Row) []*journal.Row {
	return rowset.Good(rows).Where(func(r *journal.Row) bool { _, _, _, has := q.of(r); return has })
}

// count is how many values the rows have at the coordinate, and whether all
// are numbers.
func (c coord) count(rows []*journal.Row) (n int, numeric bool) {
	seen := map[string]bool{}
	numeric = true
	for _, r := range rows {
		if v := c.of(r); v.has {
			seen[v.id()] = true
			numeric = numeric && v.isNum
		}
	}
	return len(seen), numeric && len(seen) > 0
}

// Names are what a plot of the rows may name: coordinates with more than one value, and metrics.
func Names(h *journal.Header, rows []journal.Row) (coords, metrics []string) {
	if len(rows) > 0 {
		varying := lists.Filter(coordsOf(h, rows), func(c coord) bool { return c.varies(rowset.All(rows)) })
		coords = lists.Map(varying, func(c coord) string { return c.name })
	}
	var others []string
	for i := range rows {
		others = slices.AppendSeq(others, maps.Keys(rows[i].Metrics))
	}
	slices.Sort(others)
	metrics = lists.Map(h.Metrics, func(m journal.MetricInfo) string { return m.Name })
	return coords, lists.Distinct(append(metrics, others...))
}
