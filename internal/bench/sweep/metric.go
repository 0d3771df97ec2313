package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// metric describes how to find one number in a program's output. Exactly one of single and column
// is set.
type metric struct {
	info   journal.MetricInfo
	from   string // combination over ranks: rank0, max, min or mean
	stream string // stdout, stderr or both
	single single // source of samples that belong to the whole launch
	column *column
	// simulated marks times of another machine, and calls is the number of calls behind each
	// sample; see outputParser.doubt.
	simulated bool
	calls     int
}

// single finds the samples of one metric in the output of one rank.
type single interface {
	samples(text []byte, out decl.RankOutput) ([]float64, error)
	String() string // the wanted text, for errors
}

// column is a column of the table that a program prints.
type column struct {
	table string   // csv or nccl_tests
	name  string   // the column
	place string   // nccl_tests only: "out" of place or "in" place
	keys  []string // csv only: the key columns; nil means all that are not metrics
}

var sources = []string{"regex", "json", "csv", "nccl_tests", "wall"}

// metrics reads the mapping of metric names to sources.
func (r *reader) metrics(n yamlfile.Node, names *namespace, ownRanks bool) []metric {
	entries, ok := r.Mapping(n, "metrics")
	if ok && len(entries) == 0 {
		r.Fault(n, "metrics: want at least one")
	}
	var metrics []metric
	for _, e := range entries {
		if !point.ValidName(e.Key) {
			r.Fault(e.At, "metric name %q: %s", e.Key, wantName)
		}
		if old, taken := names.whats[e.Key]; taken {
			r.Fault(e.At, "metric %q clashes with the %s of that name", e.Key, old)
		}
		if m, ok := r.metric(e, ownRanks); ok {
			metrics = append(metrics, m)
		}
	}
	r.checkTable(entries, metrics)
	return metrics
}

// metric reads one metric. It must have exactly one source; unit and direction default to the usual
// ones for its name. ownRanks means that the program starts its own ranks, so that there is a
// single output.
func (r *reader) metric(e yamlfile.Entry, ownRanks bool) (m metric, ok bool) {
	what := "metric " + e.Key
	known := append([]string{"unit", "better", "from", "stream", "keys", "place", "calls", "simulated"}, sources...)
	f, clean := r.Fields(e.Value, what, known...)
	if f == nil {
		return m, false
	}
	source := ""
	for _, s := range sources {
		switch {
		case f[s] == nil:
		case source != "":
			r.Fault(f[s], "%s: %q and %q are two sources: want one", what, source, s)
		default:
			source = s
		}
	}
	if source == "" {
		if clean {
			r.Fault(e.Value, "%s: want a source: one of %s", what, strings.Join(sources, ", "))
		}
		return m, false
	}
	m = metric{info: journal.MetricInfo{Name: e.Key}, from: "rank0", stream: "stdout"}
	m.info.Unit, m.info.Better = defaultUnit(e.Key)
	for _, only := range []struct{ key, source string }{{"keys", "csv"}, {"place", "nccl_tests"}} {
		if n := f[only.key]; n != nil && source != only.source {
			r.Fault(n, "%s: %q goes with %q only", what, only.key, only.source)
		}
	}
	if n := f["stream"]; n != nil {
		m.stream, _ = r.Word(n, what, "stream", "stdout", "stderr", "both")
		if source == "wall" {
			r.Fault(n, "%s: the wall clock has no stream", what)
		}
	}
	if n := f["from"]; n != nil {
		m.from, _ = r.Word(n, what, "from", "rank0", "max", "min", "mean")
		if ownRanks && m.from != "rank0" {
			r.Fault(n, "%s: from %s needs the key \"ranks\": without it there is one output", what, m.from)
		}
	}
	r.readSource(&m, source, f, what)
	usual := m.info.Unit
	r.readUnit(&m, f["unit"], source, what)
	r.checkUnit(m, cmp.Or(f["unit"], e.At), what)
	r.checkLabel(m, f["unit"], f[source], what)
	if n := f["better"]; n != nil {
		m.info.Better, _ = r.Word(n, what, "better", "lower", "higher")
	} else if _, same := unit.Conversion(m.info.Unit, usual); !same {
		m.info.Better = "" // the usual direction belongs to the usual unit
	}
	if n := f["calls"]; n != nil {
		m.calls = r.count(n, what+": calls")
	}
	if n := f["simulated"]; n != nil {
		word, _ := r.Word(n, what, "simulated", "true", "false")
		m.simulated = word == "true"
	}
	return m, m.single != nil || m.column != nil
}

// autoUnit as unit of a metric reads the unit behind each number.
const autoUnit = "auto"

// readUnit reads the unit of the metric. n may be nil.
func (r *reader) readUnit(m *metric, n yamlfile.Node, source, what string) {
	x, isRegex := m.single.(regex)
	if n != nil && source == "nccl_tests" {
		r.Fault(n, "%s: nccl-tests prints this column in %s: leave the unit out", what, cmp.Or(m.info.Unit, "elements"))
	} else if n != nil && source != "wall" {
		if s, ok := r.Text(n, what+": unit"); ok && s.Text == autoUnit {
			switch {
			case source != "regex":
				r.Fault(n, "%s: unit: auto goes with regex only", what)
			case m.info.Unit == "":
				r.Fault(n, "%s: unit: auto converts to the unit that ends the metric's name, such as us in time_us: this name "+
					"has none", what)
			}
			x.auto = true
		} else if ok {
			m.info.Unit = s.Text
		}
	}
	if isRegex {
		x.unit, x.declared = m.info.Unit, n != nil
		m.single = x
	}
}

// checkUnit refuses a time whose name ends in another unit: readers of time_us take it for microseconds.
func (r *reader) checkUnit(m metric, n yamlfile.Node, what string) {
	if named := unit.Contradiction(m.info.Name, m.info.Unit); named != "" {
		r.Fault(n, "%s: the name says %s and the unit %s: name the metric after its unit, or leave the unit out", what, named,
			m.info.Unit)
	}
}

// checkLabel refuses a column or field whose name states another unit of time than the metric has, unless the sweep
// file declares the unit.
func (r *reader) checkLabel(m metric, declared, n yamlfile.Node, what string) {
	source, label := "column", ""
	if m.column != nil {
		label = m.column.name
	} else if path, ok := m.single.(jsonPath); ok {
		source, label = "field", path.text
	}
	if named := unit.Contradiction(label, m.info.Unit); named != "" && declared == nil {
		r.Fault(n, "%s: the %s %s says %s, but the metric is in %s: name the metric after its unit, or declare unit: %s",
			what, source, label, named, m.info.Unit, m.info.Unit)
	}
}

// readSource reads the source of the metric.
func (r *reader) readSource(m *metric, source string, f map[string]yamlfile.Node, what string) {
	s, ok := r.Text(f[source], what+": "+source)
	if !ok {
		return
	}
	var err error
	switch source {
	case "regex":
		var x regex
		if x, err = newRegex(s.Text); err == nil {
			m.single = x
		}
	case "json":
		m.single, err = parseJSONPath(s.Text)
	case "wall":
		if s.Text != "true" {
			r.Fault(s.At, "%s: write wall: true, or leave it out", what)
			return
		}
		m.info.Unit = cmp.Or(m.info.Unit, "us")
		if n := f["unit"]; n != nil {
			if m.info.Unit, ok = r.Word(n, what, "unit of wall time", "ns", "us", "ms", "s"); !ok {
				return
			}
		}
		scale, ok := wallUnits[m.info.Unit]
		if !ok {
			r.Fault(s.At, "%s: wall time is in ns, us, ms or s, not %s: name the metric so, or give its unit", what, m.info.Unit)
			return
		}
		m.info.Better = "lower"
		m.single = wall(scale)
	case "csv":
		m.column = &column{table: "csv", name: s.Text}
		if n := f["keys"]; n != nil {
			items, _ := r.Texts(n, what+": keys")
			m.column.keys = lists.Map(items, func(s yamlfile.Scalar) string { return s.Text })
		}
	case "nccl_tests":
		m.column = &column{table: "nccl_tests", place: "out"}
		if m.column.name, ok = r.Word(f[source], what, "column of nccl-tests", ncclColumns...); !ok {
			return
		}
		if n := f["place"]; n != nil {
			m.column.place, _ = r.Word(n, what, "place", "out", "in")
		}
		m.info.Unit, m.info.Better = ncclUnit(m.column.name)
	}
	if err != nil {
		r.Fault(s.At, "%s: %v", what, err)
	}
}

// checkTable checks that all columns belong to the same table, because a program prints only one.
func (r *reader) checkTable(entries []yamlfile.Entry, metrics []metric) {
	at := map[string]yamlfile.Node{}
	for _, e := range entries {
		at[e.Key] = e.At
	}
	var first *metric
	var keysFrom string
	var keys []string
	for i := range metrics {
		m := &metrics[i]
		if m.column == nil {
			continue
		}
		if first == nil {
			first = m
		}
		n := at[m.info.Name]
		if m.column.table != first.column.table {
			r.Fault(n, "metric %s: %s and %s are two tables: a sweep reads one", m.info.Name, first.column.table, m.column.table)
		}
		if m.stream != first.stream {
			r.Fault(n, "metric %s: the table is on %s for %s: it has one stream", m.info.Name, first.stream, first.info.Name)
		}
		if m.column.keys == nil {
			continue
		}
		if keys != nil && !slices.Equal(keys, m.column.keys) {
			r.Fault(n, "metric %s: other keys than %s has: a table has one set of keys", m.info.Name, keysFrom)
		}
		keys, keysFrom = m.column.keys, m.info.Name
	}
}

// unitOf maps the last word of a metric's name to its usual unit and direction, so that time_us
// needs no declaration of either. After the word per, as in tokens_per_s, a unit of time is part of a rate.
var unitOf = []wordUnit{
	{"ns", "ns", "lower"}, {"us", "us", "lower"}, {"ms", "ms", "lower"}, {"s", "s", "lower"},
	{"gbps", "GB/s", "higher"}, {"algbw", "GB/s", "higher"}, {"busbw", "GB/s", "higher"},
	{"gflops", "GFLOP/s", "higher"}, {"tflops", "TFLOP/s", "higher"},
}

type wordUnit struct{ word, unit, better string }

func defaultUnit(name string) (unit, better string) {
	words := strings.Split(name, "_")
	n := len(words) - 1
	u, _ := lists.First(unitOf, func(u wordUnit) bool { return u.word == words[n] })
	if n > 0 && words[n-1] == "per" && u.better == "lower" {
		counted := "1"
		if n > 1 {
			counted = words[n-2]
		}
		return counted + "/" + u.unit, "higher"
	}
	return u.unit, u.better
}

// check is a condition on a program's output. Rows that do not meet it fail.
type check interface {
	// fault returns the reason for failing the row, or "".
	fault(ranks []decl.RankOutput, samples map[string][]float64) string
}

// condition is an expression over the metrics of a row. It must hold for every sample, because a
// median would hide a single bad iteration.
type condition struct {
	text  string
	names []string
	holds func(values map[string]float64) bool
}

func (c condition) fault(_ []decl.RankOutput, samples map[string][]float64) string {
	count := 1
	for _, name := range c.names {
		if len(samples[name]) == 0 {
			return fmt.Sprintf("check %s: the row has no %s", c.text, name)
		}
		count = max(count, len(samples[name]))
	}
	for i := range count {
		values := map[string]float64{}
		for _, name := range c.names {
			values[name] = samples[name][min(i, len(samples[name])-1)]
		}
		if c.holds(values) {
			continue
		}
		shown := lists.Map(slices.Sorted(maps.Keys(values)), func(name string) string {
			return fmt.Sprintf("%s=%v", name, values[name])
		})
		return fmt.Sprintf("check %s does not hold: %s", c.text, strings.Join(shown, ", "))
	}
	return ""
}

// pattern is a regular expression that the output of some rank must match or, if never is set,
// that no rank's output may match.
type pattern struct {
	re     *regexp.Regexp
	text   string
	stream string
	never  bool
}

func (c pattern) fault(ranks []decl.RankOutput, _ map[string][]float64) string {
	for _, out := range ranks {
		found := c.re.Find(metric{stream: c.stream}.read(out))
		switch {
		case found == nil:
		case c.never:
			return fmt.Sprintf("check no_match %s: rank %d printed %q", c.text, out.Rank, clip(string(found)))
		default:
			return ""
		}
	}
	if c.never {
		return ""
	}
	return fmt.Sprintf("check match %s: no rank printed it", c.text)
}

// checks reads one check or a list of them.
func (r *reader) checks(n yamlfile.Node, metrics []metric) (checks []check) {
	nodes := []yamlfile.Node{n}
	if r.IsList(n) {
		nodes, _ = r.List(n, "check")
	}
	for _, n := range nodes {
		if c := r.check(n, metrics); c != nil {
			checks = append(checks, c)
		}
	}
	return checks
}

// check reads one check: an expression over the metrics, or a pattern that the output must or must
// not match.
func (r *reader) check(n yamlfile.Node, metrics []metric) check {
	if !r.IsMapping(n) {
		s, ok := r.Text(n, "check")
		if !ok {
			return nil
		}
		holds, used, err := dataset.Condition(s.Text, lists.Map(metrics, func(m metric) string { return m.info.Name }))
		if err != nil {
			r.Fault(n, "check: %v", err)
			return nil
		}
		return condition{s.Text, used, holds}
	}
	f, clean := r.Fields(n, "check", "match", "no_match", "stream")
	if f == nil {
		return nil
	}
	c := pattern{stream: "both", never: f["no_match"] != nil}
	text := f["match"]
	if c.never {
		text = f["no_match"]
	}
	if (f["match"] == nil) == (f["no_match"] == nil) {
		if clean {
			r.Fault(n, "check: want one of match and no_match")
		}
		return nil
	}
	s, ok := r.Text(text, "check")
	if !ok {
		return nil
	}
	var err error
	if _, err = regexp.Compile(s.Text); err != nil {
		r.Fault(text, "check: %v", err)
		return nil
	}
	c.re, c.text = regexp.MustCompile("(?m)"+s.Text), s.Text
	if n := f["stream"]; n != nil {
		c.stream, _ = r.Word(n, "check", "stream", "stdout", "stderr", "both")
	}
	return c
}
