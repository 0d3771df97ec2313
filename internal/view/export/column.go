package export

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// headline is the metric that every timed row has. Tables show its spread next to it.
const headline = "time_us"

// Role is the field of a row that a column shows.
type Role uint8

// The roles, in the order of the columns.
const (
	Together Role = iota // run or build, if there are rows of several
	Bench
	Part
	NumRanks
	Backend
	Axis
	Env
	Option
	Kind
	Trial
	Status
	Samples
	Metric
	Spread  // within a launch
	Between // spread between launches
	Unit
	Limit
	Quantile
	Stopped
	Quality
	Modes
	Rank
	Phase
	Reason
	Warnings
	Detail
)

// roles holds the properties that all columns of a role share.
var roles = [...]struct {
	name      string // name of the column if the role has one; other columns are named by their key
	prefix    string // makes a csv name unique that another column has already
	numeric   bool   // aligned to the right in tables
	elsewhere bool   // tables leave it out unless the user names it: a title or the reason shows it, or few need it
	tableOnly bool   // csv has it only if the reader names it
	value     func(c Column, r *journal.Row) string
}{
	Bench: {name: "bench", elsewhere: true, value: func(_ Column, r *journal.Row) string { return r.Bench }},
	Part:  {name: "part", elsewhere: true, value: func(_ Column, r *journal.Row) string { return r.Part }},
	Together: {value: func(c Column, r *journal.Row) string {
		return dataset.Coord{Class: dataset.Field, Key: c.Key}.Of(r).Text()
	}},
	NumRanks: {name: dataset.NumRanks, numeric: true, value: func(_ Column, r *journal.Row) string {
		return optional(r.NumRanks)
	}},
	Backend: {name: dataset.Backend, value: func(_ Column, r *journal.Row) string { return r.Backend }},
	Axis:    {prefix: "axis.", value: func(c Column, r *journal.Row) string { return r.Point.At(c.Key).String() }},
	Env:     {prefix: "env.", value: func(c Column, r *journal.Row) string { return envText(r, c.Key) }},
	Option:  {prefix: "option.", value: func(c Column, r *journal.Row) string { return r.Options.At(c.Key).String() }},
	Kind:    {name: "kind", value: func(_ Column, r *journal.Row) string { return string(r.Kind) }},
	Trial:   {name: "trial", numeric: true, value: func(_ Column, r *journal.Row) string { return strconv.Itoa(r.Trial) }},
	Status:  {name: "status", value: func(_ Column, r *journal.Row) string { return string(r.Status) }},
	Samples: {name: "samples", numeric: true, value: func(_ Column, r *journal.Row) string {
		return strconv.Itoa(r.Samples)
	}},
	Metric: {prefix: "metric.", numeric: true, value: func(c Column, r *journal.Row) string {
		v, ok := r.Metrics[c.Key]
		return known(v, ok)
	}},
	Spread: {prefix: "metric.", numeric: true, value: func(c Column, r *journal.Row) string {
		return known(spreadOf(r, c.Key))
	}},
	Between: {prefix: "metric.", numeric: true, tableOnly: true, value: func(c Column, r *journal.Row) string {
		s := c.launchesOf(r)
		return known(s.spread, s.known)
	}},
	Unit: {prefix: "metric.", elsewhere: true, value: unitText},
	Limit: {prefix: "limit.", numeric: true, value: func(c Column, r *journal.Row) string {
		v, ok := r.Limits[c.Key]
		return known(v, ok)
	}},
	Quantile: {prefix: "metric.", numeric: true, elsewhere: true, value: func(c Column, r *journal.Row) string {
		return known(quantile(r, c.Key, c.Stat))
	}},
	Stopped: {name: "stopped", elsewhere: true, value: func(_ Column, r *journal.Row) string {
		if r.Sampling == nil {
			return ""
		}
		return r.Sampling.Stopped
	}},
	Quality: {name: "quality", value: func(_ Column, r *journal.Row) string { return string(r.Quality) }},
	Modes: {prefix: "metric.", tableOnly: true, value: func(c Column, r *journal.Row) string {
		return c.modes(Line{Rows: dataset.Set{r}})
	}},
	Rank:   {name: "rank", elsewhere: true, value: func(_ Column, r *journal.Row) string { return optional(r.Rank) }},
	Phase:  {name: "phase", elsewhere: true, value: func(_ Column, r *journal.Row) string { return r.Phase }},
	Reason: {name: "reason", value: func(_ Column, r *journal.Row) string { return string(r.Reason) }},
	Warnings: {name: "warnings", elsewhere: true, value: func(_ Column, r *journal.Row) string {
		return strings.Join(r.Conditions.Sentences(), "; ")
	}},
	Detail: {value: func(c Column, r *journal.Row) string { return r.Details[c.Key] }},
}

// Column is one column of a table or csv file.
type Column struct {
	Role    Role
	Name    string // heading in csv: unique and the same in every run of the bench
	Key     string // name of the axis, variable, option, metric or limit
	Unit    string // unit of a metric
	Stat    string // which quantile: min, p50 and so on
	Numeric bool   // aligned to the right in tables

	atDefault bool // axis with one value, its default
	chosen    bool // named by the reader, so it is shown even if it is empty or constant
	aggregate bool // lines are several trials: shows their number

	launches func() map[string]launchStats // by pointOf; see launchesByPoint

	label    string  // heading that the bench declares
	time     string  // name of a column of times without its unit
	scale    string  // unit of a column of times in tables
	factor   float64 // of a value of the row in this unit
	interval bool    // shown with its interval, if the rows have one
	hidden   bool    // has values that the bench does not declare as headlines
}

// Columns returns all columns of the rows: identity first, then numbers, then failures. csv writes all of
// them. Tables leave out empty columns and show constant ones above the table. If there is no header, only
// names that occur in the rows have columns.
func Columns(h *journal.Header, rows dataset.Set) []Column {
	if h == nil {
		h = &journal.Header{}
	}
	found := declaredNames(h)
	declared := len(found.metrics.List)
	for i := range rows {
		found.addRow(rows[i])
	}
	// Metrics that are not declared come from maps, so they are sorted.
	slices.SortFunc(found.metrics.List[declared:], func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == headline:
			return -1
		case b == headline:
			return 1
		}
		return strings.Compare(a, b)
	})
	slices.Sort(found.limits.List)
	columns := found.columns()
	for i := range columns {
		if c := &columns[i]; c.Role == Between || c.Role == Modes {
			c.launches = launchesByPoint(rows, c.Key)
		}
	}
	return columns
}

// columnNames holds the names of a run's columns besides the fixed ones.
type columnNames struct {
	axes, envs, options, metrics, limits lists.Set[string]

	spreads map[string]bool   // metrics with statistics in some row
	numeric map[string]bool   // axes with numbers
	varied  map[string]bool   // axes that are not at their default everywhere
	units   map[string]string // units of metrics

	validated bool   // some row says how its error was measured
	together  string // the field that tells apart the builds or runs whose rows are shown together; "" if there is one
}

// declaredNames returns the names in the header.
func declaredNames(h *journal.Header) columnNames {
	n := columnNames{spreads: map[string]bool{}, numeric: map[string]bool{}, varied: map[string]bool{},
		units: map[string]string{}}
	for _, a := range h.Axes {
		// These two are fields of every row.
		if a.Name != dataset.NumRanks && a.Name != dataset.Backend {
			n.axes.Add(a.Name)
			n.numeric[a.Name] = a.Kind.Numeric()
			n.varied[a.Name] = n.varied[a.Name] || !a.AtDefault
		}
	}
	for _, e := range h.Envs {
		n.envs.Add(e)
	}
	// The time comes first, independent of the order of declarations.
	if slices.ContainsFunc(h.Metrics, func(m journal.MetricInfo) bool { return m.Name == headline }) {
		n.metrics.Add(headline)
	}
	for _, m := range h.Metrics {
		n.metrics.Add(m.Name)
		n.units[m.Name] = m.Unit
	}
	return n
}

// addRow adds the names in a row.
func (n *columnNames) addRow(r *journal.Row) {
	for _, c := range r.Point {
		if n.axes.Add(c.Name) {
			n.numeric[c.Name], n.varied[c.Name] = c.Value.Kind().Numeric(), true
		}
	}
	for _, e := range r.Env {
		n.envs.Add(e.Name)
	}
	for _, c := range r.Options {
		n.options.Add(c.Name)
	}
	for name := range r.Metrics {
		n.metrics.Add(name)
		n.units[name] = cmp.Or(n.units[name], r.Units[name])
	}
	for name := range r.Limits {
		n.limits.Add(name)
	}
	for name := range r.Stats.All() {
		n.spreads[name] = true
	}
	if r.Origin != nil && r.Origin.Build != "" {
		n.together = dataset.Build
		if r.Origin.Build == r.Run {
			n.together = dataset.Run
		}
	}
	n.validated = n.validated || r.Details[journal.ValidatedByDetail] != ""
}

// columns returns the fixed columns and the columns of the names, ordered by role.
func (n *columnNames) columns() []Column {
	b := columnBuilder{taken: map[string]bool{}}
	for role, of := range roles {
		if of.name != "" {
			b.add(Column{Role: Role(role), Name: of.name})
		}
	}
	if n.together != "" {
		b.add(Column{Role: Together, Name: n.together, Key: n.together})
	}
	for _, name := range n.axes.List {
		b.add(Column{Role: Axis, Name: name, Key: name, Numeric: n.numeric[name], atDefault: !n.varied[name]})
	}
	// Environment variables, options and limits always have their prefix, so that a reader
	// without the declaration knows what they are.
	for _, name := range n.envs.List {
		b.add(Column{Role: Env, Name: roles[Env].prefix + name, Key: name})
	}
	for _, name := range n.options.List {
		b.add(Column{Role: Option, Name: roles[Option].prefix + name, Key: name})
	}
	for i, name := range n.metrics.List {
		unit := n.units[name]
		b.add(Column{Role: Metric, Name: name, Key: name, Unit: unit})
		if i == 0 { // the headline, or the first metric if there is none
			b.add(Column{Role: Spread, Name: name + "_spread_pct", Key: name})
			b.add(Column{Role: Between, Name: name + "_trials_pct", Key: name})
			b.add(Column{Role: Modes, Name: name + "_modes", Key: name})
		}
		if unit != "" && !namesUnit(name, unit) {
			b.add(Column{Role: Unit, Name: name + "_unit", Key: name, Unit: unit})
		}
	}
	for i, name := range n.metrics.List {
		for _, stat := range quantiles {
			if i == 0 || n.spreads[name] {
				b.add(Column{Role: Quantile, Name: name + "_" + stat, Key: name, Unit: n.units[name], Stat: stat})
			}
		}
	}
	for _, name := range n.limits.List {
		b.add(Column{Role: Limit, Name: roles[Limit].prefix + name, Key: name})
	}
	if n.validated {
		b.add(Column{Role: Detail, Name: journal.ValidatedByDetail, Key: journal.ValidatedByDetail})
	}
	// Roles are numbered in column order. The sort is stable, so the order within a role
	// stays, and the spread and unit of a metric stay beside it.
	slices.SortStableFunc(b.columns, func(x, y Column) int { return cmp.Compare(x.Role.group(), y.Role.group()) })
	return b.columns
}

// group returns the role that the column is sorted by.
func (r Role) group() Role {
	if r == Spread || r == Between || r == Unit {
		return Metric
	}
	return r
}

// namesUnit reports whether a metric's name ends in its unit, like time_us.
func namesUnit(name, unit string) bool { return strings.HasSuffix(name, "_"+unit) }

// columnBuilder makes names unique. Fixed names are added first, so an axis called status becomes
// axis.status.
type columnBuilder struct {
	columns []Column
	taken   map[string]bool
}

func (b *columnBuilder) add(c Column) {
	for b.taken[c.Name] {
		c.Name = roles[c.Role].prefix + c.Name
	}
	b.taken[c.Name] = true
	c.Numeric = c.Numeric || roles[c.Role].numeric
	b.columns = append(b.columns, c)
}

// Heading returns the heading in tables. The column of reasons also holds the warnings there, so it is called remarks.
func (c Column) Heading() string {
	name := c.Name
	switch {
	case c.Role == Metric && c.scale != "":
		name = c.time + " (" + c.scale + ")"
	case c.label != "":
		return c.label
	case c.Role == Reason:
		return "remarks"
	case c.Role == Env || c.Role == Axis:
		name = c.Key
	case c.Role == Metric:
		name = unit.WithUnit(c.Key, c.Unit)
	case c.Role == Quantile && c.Key == headline:
		return c.Stat
	case c.Role == Trial && c.aggregate:
		return "trials"
	case c.Role == Spread:
		return "±95%"
	case c.Role == Between:
		return "±trials"
	case c.Role == Modes:
		return "two modes"
	}
	return texttab.Plain(name)
}

// Value returns the cell of a single row, with numbers in full precision and sizes in bytes. It is "" if
// there is nothing to show. For a variable that the point removes from the environment it is "(unset)";
// for a variable, "" means that it is set to the empty text or not swept.
func (c Column) Value(r *journal.Row) string { return roles[c.Role].value(c, r) }

// envText returns a swept variable of a row, "" if the point does not sweep it.
func envText(r *journal.Row, name string) string {
	e, swept := r.Env.Get(name)
	if !swept {
		return ""
	}
	return e.Text()
}

// unitText returns the unit of a metric if the row has the metric.
func unitText(c Column, r *journal.Row) string {
	if _, ok := r.Metrics[c.Key]; !ok {
		return ""
	}
	return cmp.Or(r.Units[c.Key], c.Unit)
}

// quantiles are the statistics that have columns: min to max.
var quantiles = journal.StatNames[:5]

// quantile returns a statistic of a row's metric, and whether the row has it.
func quantile(r *journal.Row, metric, name string) (float64, bool) {
	s, ok := r.Stats.Find(metric)
	v, has := s.Part(name)
	return v, ok && has
}

// optional returns a number as text, "" for nil.
func optional(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// coordText returns a coordinate as people write it, "" if the point does not have it.
func coordText(p point.Point, name string) string {
	if v, ok := p.Get(name); ok {
		return visible(v.Pretty())
	}
	return ""
}

// known returns a number in full precision, "" if ok is false.
func known(v float64, ok bool) string {
	if !ok {
		return ""
	}
	return exact(v)
}

// exact returns the shortest text that parses to the same number. Only very small and very
// large numbers have an exponent.
func exact(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e15) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// spreadOf returns half the width of the 95 % interval of a row's metric in percent of the median, and
// whether there is an interval.
func spreadOf(r *journal.Row, metric string) (float64, bool) {
	s, ok := r.Stats.Find(metric)
	if !ok || s.CILow == nil || s.CIHigh == nil || s.P50 == 0 {
		return 0, false
	}
	return 100 * (*s.CIHigh - *s.CILow) / 2 / math.Abs(s.P50), true
}
