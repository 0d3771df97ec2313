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
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// headline is the metric every timed row has; its spread is shown beside it.
const headline = "time_us"

// Role is what a column shows of a row.
type Role uint8

// The roles, in the order of the columns.
const (
	Bench Role = iota
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
	Spread
	Unit
	Limit
	Quantile
	Stopped
	Quality
	Rank
	Phase
	Reason
	Warnings
	Detail
)

// roles are what the columns of each role have in common.
var roles = [...]struct {
	name      string // of the one column of the role; others are named after what they show
	prefix    string // goes before a csv name that another column already has
	numeric   bool   // aligned to the right for people
	elsewhere bool   // people find what it says in the title, the heading or the reason, or want it by choice only
	value     func(c Column, r *journal.Row) string
}{
	Bench: {name: "bench", elsewhere: true, value: func(_ Column, r *journal.Row) string { return r.Bench }},
	Part:  {name: "part", elsewhere: true, value: func(_ Column, r *journal.Row) string { return r.Part }},
	NumRanks: {name: rowset.NumRanks, numeric: true, value: func(_ Column, r *journal.Row) string {
		return optional(r.NumRanks)
	}},
	Backend: {name: rowset.Backend, value: func(_ Column, r *journal.Row) string { return r.Backend }},
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
	Rank:    {name: "rank", elsewhere: true, value: func(_ Column, r *journal.Row) string { return optional(r.Rank) }},
	Phase:   {name: "phase", elsewhere: true, value: func(_ Column, r *journal.Row) string { return r.Phase }},
	Reason:  {name: "reason", value: func(_ Column, r *journal.Row) string { return r.Reason }},
	Warnings: {name: "warnings", elsewhere: true, value: func(_ Column, r *journal.Row) string {
		return strings.Join(r.Warnings, "; ")
	}},
	Detail: {value: func(c Column, r *journal.Row) string { return r.Details[c.Key] }},
}

// Elsewhere tells whether people find what the column says in the title, the heading or the reason, or want
// it by choice only.
func (r Role) Elsewhere() bool { return roles[r].elsewhere }

// Column is one column of the formats that are tables.
type Column struct {
	Role Role
	Name string // the heading in csv: unique and the same in every run of the bench
	Key  string // the axis, variable, option, metric or limit shown
	Unit string // of a metric
	Stat string // of a quantile: min, p50 and so on

	numeric   bool // aligned to the right for people
	asked     bool // by the reader, so it is shown whatever it holds
	aggregate bool // a line is several trials: shows their number and the spread between them
}

// Columns are all the columns of the rows: identity first, then numbers, then
// what went wrong. It is the full list, which csv writes; the formats for
// people leave out what is empty and lift out what never changes. A nil header
// leaves only what the rows themselves show.
func Columns(h *journal.Header, rows []journal.Row) []Column {
	if h == nil {
		h = &journal.Header{}
	}
	found := declaredNames(h)
	declared := len(found.metrics.List)
	for i := range rows {
		found.addRow(&rows[i])
	}
	// Maps come in no order; what nobody declared is sorted.
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
	return found.columns()
}

// columnNames are the names of the columns that a run has besides the fixed ones.
type columnNames struct {
	axes, envs, options, metrics, limits lists.Set[string]

	spreads map[string]bool   // metrics that a row has a spread of
	numeric map[string]bool   // axes
	units   map[string]string // of metrics
}

// declaredNames are those of the header.
func declaredNames(h *journal.Header) columnNames {
	n := columnNames{spreads: map[string]bool{}, numeric: map[string]bool{}, units: map[string]string{}}
	for _, a := range h.Axes {
		// Two axes that every row has in a field of its own.
		if a.Name != rowset.NumRanks && a.Name != rowset.Backend {
			n.axes.Add(a.Name)
			n.numeric[a.Name] = a.Kind.Numeric()
		}
	}
	for _, e := range h.Envs {
		n.envs.Add(e)
	}
	// The time of a timed bench comes first, wherever it was declared.
	if slices.ContainsFunc(h.Metrics, func(m journal.MetricInfo) bool { return m.Name == headline }) {
		n.metrics.Add(headline)
	}
	for _, m := range h.Metrics {
		n.metrics.Add(m.Name)
		n.units[m.Name] = m.Unit
	}
	return n
}

// addRow adds the names that only the row has.
func (n *columnNames) addRow(r *journal.Row) {
	for _, c := range r.Point {
		if n.axes.Add(c.Name) {
			n.numeric[c.Name] = c.Value.Kind().Numeric()
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
}

// columns are the fixed columns and those of the names, in order of their roles.
func (n *columnNames) columns() []Column {
	b := columnBuilder{taken: map[string]bool{}}
	for role, of := range roles {
		if of.name != "" {
			b.add(Column{Role: Role(role), Name: of.name})
		}
	}
	for _, name := range n.axes.List {
		b.add(Column{Role: Axis, Name: name, Key: name, numeric: n.numeric[name]})
	}
	// Environment variables, options and limits always carry their prefix, so that a
	// heading says what it is without the declaration.
	for _, name := range n.envs.List {
		b.add(Column{Role: Env, Name: roles[Env].prefix + name, Key: name})
	}
	for _, name := range n.options.List {
		b.add(Column{Role: Option, Name: roles[Option].prefix + name, Key: name})
	}
	for i, name := range n.metrics.List {
		unit := n.units[name]
		b.add(Column{Role: Metric, Name: name, Key: name, Unit: unit})
		if i == 0 { // the headline, or what stands in for it
			b.add(Column{Role: Spread, Name: name + "_spread_pct", Key: name})
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
	// Roles are numbered in column order; within one, the order above stays,
	// but each metric keeps its spread and unit beside it.
	slices.SortStableFunc(b.columns, func(x, y Column) int { return cmp.Compare(x.Role.group(), y.Role.group()) })
	return b.columns
}

// group is the role whose columns stand together with those of this one.
func (r Role) group() Role {
	if r == Spread || r == Unit {
		return Metric
	}
	return r
}

// namesUnit reports whether a metric's name already says its unit, as time_us
// does.
func namesUnit(name, unit string) bool { return strings.HasSuffix(name, "_"+unit) }

// columnBuilder keeps names unique: an axis called status becomes axis.status,
// since the fixed names are taken first.
type columnBuilder struct {
	columns []Column
	taken   map[string]bool
}

func (b *columnBuilder) add(c Column) {
	for b.taken[c.Name] {
		c.Name = roles[c.Role].prefix + c.Name
	}
	b.taken[c.Name] = true
	c.numeric = c.numeric || roles[c.Role].numeric
	b.columns = append(b.columns, c)
}

// heading is the title in the formats for people, where one column holds both
// why a point failed and what else there is to say.
func (c Column) heading() string {
	if c.Role == Reason {
		return "remarks"
	}
	return texttab.Plain(c.Title())
}

// Title is the heading for people.
func (c Column) Title() string {
	switch c.Role {
	case Env, Axis:
		return c.Key
	case Metric:
		if c.Unit != "" && !namesUnit(c.Key, c.Unit) {
			return c.Key + " (" + c.Unit + ")"
		}
		return c.Key
	case Quantile:
		if c.Key == headline {
			return c.Stat
		}
	case Trial:
		if c.aggregate {
			return "trials"
		}
	case Spread:
		if c.aggregate {
			return "±trials"
		}
		return "±95%"
	}
	return c.Name
}

// Value is the cell of a single row, exact: numbers in full precision, sizes
// in bytes. Nothing to show is "", except for a variable that the point
// removes from the environment, which is "(unset)": an empty cell is one that
// is set to the empty text, or that the point does not sweep.
func (c Column) Value(r *journal.Row) string { return roles[c.Role].value(c, r) }

// envText is a swept variable of a row, "" if the point does not sweep it.
func envText(r *journal.Row, name string) string {
	e, swept := r.Env.Get(name)
	if !swept {
		return ""
	}
	return e.Text()
}

// unitText is the unit of a metric where the row has the metric.
func unitText(c Column, r *journal.Row) string {
	if _, ok := r.Metrics[c.Key]; !ok {
		return ""
	}
	return cmp.Or(r.Units[c.Key], c.Unit)
}

// quantiles are what a row's spread tells of its samples.
var quantiles = journal.StatNames[:5]

// quantile is one of a row's metric, if it has a spread.
func quantile(r *journal.Row, metric, name string) (float64, bool) {
	s, ok := r.Stats.Find(metric)
	v, has := s.Part(name)
	return v, ok && has
}

func optional(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func coordText(p point.Point, name string) string {
	if v, ok := p.Get(name); ok {
		return visible(v.Pretty())
	}
	return ""
}

// known is a number in full precision where there is one.
func known(v float64, ok bool) string {
	if !ok {
		return ""
	}
	return exact(v)
}

// exact is the shortest text that reads back as the same number, with an
// exponent only where the digits would not be readable without.
func exact(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e15) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// spreadOf is the half-width of the 95 % interval of a row's metric, in per
// cent of its median.
func spreadOf(r *journal.Row, metric string) (float64, bool) {
	s, ok := r.Stats.Find(metric)
	if !ok || s.CILow == nil || s.CIHigh == nil || s.P50 == 0 {
		return 0, false
	}
	return 100 * (*s.CIHigh - *s.CILow) / 2 / math.Abs(s.P50), true
}
