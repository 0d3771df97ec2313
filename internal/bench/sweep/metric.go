package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
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
	at     yamlfile.Node // the name in the file
	from   string        // combination over ranks: rank0, max, min or mean
	stream string        // stdout, stderr or both
	single single        // source of samples that belong to the whole launch
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

// readMetrics reads the mapping of metric names to sources.
func (r *reader) readMetrics(n yamlfile.Node, what string) {
	entries, ok := r.Mapping(n, what)
	if ok && len(entries) == 0 {
		r.Fault(n, "metrics: want at least one")
	}
	r.metrics = []metric{}
	for _, e := range entries {
		if !point.ValidName(e.Key) {
			r.Fault(e.At, "metric name %q: %s", e.Key, wantName)
		}
		if old, taken := r.names[e.Key]; taken {
			r.Fault(e.At, "metric %q clashes with the %s of that name", e.Key, old.what)
		}
		if m, ok := r.metric(e); ok {
			r.metrics = append(r.metrics, m)
		}
	}
	if len(r.metrics) > 0 {
		r.part.Command.UntilMetric = r.metrics[0].info.Name
	}
	r.checkTable()
}

func namesOf(metrics []metric) []string {
	return lists.Map(metrics, func(m metric) string { return m.info.Name })
}

// metric reads one metric. It must have exactly one source; unit and direction default to the usual
// ones for its name.
func (r *reader) metric(e yamlfile.Entry) (m metric, ok bool) {
	what := "metric " + e.Key
	m = metric{info: journal.MetricInfo{Name: e.Key}, at: e.At, from: "rank0", stream: "stdout"}
	var better, simulated string
	col := &column{place: "out"}
	bySource := lists.Map(append([]string{"unit"}, sources...), func(s string) yamlfile.Field { return optional(s, nil) })
	f, clean := r.Struct(e.Value, what, append(bySource,
		field("keys", &col.keys, r.texts),
		field("calls", &m.calls, r.count),
		r.word(what, "stream", &m.stream, "stdout", "stderr", "both"),
		r.word(what, "from", &m.from, "rank0", "max", "min", "mean"),
		r.word(what, "place", &col.place, "out", "in"),
		r.word(what, "better", &better, "lower", "higher"),
		r.word(what, "simulated", &simulated, "true", "false"))...)
	given := lists.Filter(sources, func(s string) bool { return f[s] != nil })
	if len(given) == 0 {
		if clean {
			r.Fault(e.Value, "%s: want a source: one of %s", what, strings.Join(sources, ", "))
		}
		return m, false
	}
	source := given[0]
	for _, s := range given[1:] {
		r.Fault(f[s], "%s: %q and %q are two sources: want one", what, source, s)
	}
	for key, only := range map[string]string{"keys": "csv", "place": "nccl_tests"} {
		if f[key] != nil && source != only {
			r.Fault(f[key], "%s: %q goes with %q only", what, key, only)
		}
	}
	if f["stream"] != nil && source == "wall" {
		r.Fault(f["stream"], "%s: the wall clock has no stream", what)
	}
	if r.names[bench.RanksAxis].what == "" && m.from != "rank0" {
		r.Fault(f["from"], "%s: from %s needs the key \"ranks\": without it there is one output", what, m.from)
	}
	usual := usualUnit(e.Key)
	m.info.Unit, m.info.Better, m.simulated = usual.unit, usual.better, simulated == "true"
	r.readSource(&m, source, f[source], col, what)
	r.readUnit(&m, source, f, what)
	m.info.Better = cmp.Or(better, m.info.Better)
	return m, m.single != nil || m.column != nil
}

// readSource reads the source of the metric, and the usual unit of this source.
func (r *reader) readSource(m *metric, source string, n yamlfile.Node, col *column, what string) {
	s, ok := r.Text(n, what+": "+source)
	if !ok {
		return
	}
	var err error
	switch source {
	case "regex":
		m.single, err = newRegex(s.Text)
	case "json":
		m.single, err = parseJSONPath(s.Text)
	case "wall":
		if s.Text != "true" {
			err = errors.New("write wall: true, or leave it out")
			break
		}
		m.info.Unit, m.info.Better = cmp.Or(m.info.Unit, "us"), "lower"
		m.single = wall(m.info.Unit)
	case "csv":
		m.column, col.table, col.name = col, source, s.Text
	case "nccl_tests":
		m.column, col.table, col.name = col, source, s.Text
		usual, known := ncclColumns[s.Text]
		if !known {
			err = suggest.Unknown("column of nccl-tests", s.Text, slices.Collect(maps.Keys(ncclColumns)))
		}
		m.info.Unit, m.info.Better = usual.unit, usual.better
	}
	if err != nil {
		r.Fault(s.At, "%s: %v", what, err)
	}
}

// autoUnit as unit of a metric reads the unit behind each number.
const autoUnit = "auto"

// readUnit reads the unit of the metric, and checks that no name contradicts it.
func (r *reader) readUnit(m *metric, source string, f map[string]yamlfile.Node, what string) {
	n, usual := f["unit"], m.info.Unit
	x, isRegex := m.single.(*regex)
	_, isWall := m.single.(wall)
	switch {
	case n == nil && isWall && wallUnits[usual] == 0:
		r.Fault(f["wall"], "%s: wall time is in ns, us, ms or s, not %s: name the metric so, or give its unit", what, usual)
	case n == nil:
	case source == "nccl_tests":
		r.Fault(n, "%s: nccl-tests prints this column in %s: leave the unit out", what, cmp.Or(usual, "elements"))
	case source == "wall":
		m.info.Unit, _ = r.Word(n, what, "unit of wall time", slices.Collect(maps.Keys(wallUnits))...)
		m.single, usual = wall(m.info.Unit), m.info.Unit
	default:
		switch text := r.text(n, what+": unit"); {
		case text != autoUnit:
			m.info.Unit = text
		case source != "regex":
			r.Fault(n, "%s: unit: auto goes with regex only", what)
		case usual == "":
			r.Fault(n, "%s: unit: auto converts to the unit that ends the metric's name, such as us in time_us: this name "+
				"has none", what)
		case isRegex:
			x.auto = true
		}
	}
	if isRegex {
		x.unit, x.declared = m.info.Unit, n != nil
	}
	if _, same := unit.Conversion(m.info.Unit, usual); !same {
		m.info.Better = "" // the usual direction belongs to the usual unit
	}
	// Readers of time_us take it for microseconds.
	if named := unit.Contradiction(m.info.Name, m.info.Unit); named != "" {
		r.Fault(cmp.Or(n, m.at), "%s: the name says %s and the unit %s: name the metric after its unit, or leave the unit "+
			"out", what, named, m.info.Unit)
	}
	kind, label := "column", ""
	if m.column != nil {
		label = m.column.name
	} else if path, ok := m.single.(jsonPath); ok {
		kind, label = "field", path.text
	}
	if named := unit.Contradiction(label, m.info.Unit); named != "" && n == nil {
		r.Fault(f[source], "%s: the %s %s says %s, but the metric is in %s: name the metric after its unit, or declare "+
			"unit: %s", what, kind, label, named, m.info.Unit, m.info.Unit)
	}
}

// checkTable checks that all columns belong to the same table, because a program prints only one.
func (r *reader) checkTable() {
	columns := lists.Filter(r.metrics, func(m metric) bool { return m.column != nil })
	keyed, _ := lists.First(columns, func(m metric) bool { return m.column.keys != nil })
	for _, m := range columns {
		first, name := columns[0], m.info.Name
		if m.column.table != first.column.table {
			r.Fault(m.at, "metric %s: %s and %s are two tables: a sweep reads one", name, first.column.table, m.column.table)
		}
		if m.stream != first.stream {
			r.Fault(m.at, "metric %s: the table is on %s for %s: it has one stream", name, first.stream, first.info.Name)
		}
		if m.column.keys != nil && !slices.Equal(keyed.column.keys, m.column.keys) {
			r.Fault(m.at, "metric %s: other keys than %s has: a table has one set of keys", name, keyed.info.Name)
		}
	}
}

// usual is the unit of a number and the better direction.
type usual struct{ unit, better string }

// usualUnits maps the last word of a metric's name to its unit and direction. A metric called time_us needs no other
// declaration.
var usualUnits = map[string]usual{
	"ns": {"ns", "lower"}, "us": {"us", "lower"}, "ms": {"ms", "lower"}, "s": {"s", "lower"},
	"gbps": {"GB/s", "higher"}, "algbw": {"GB/s", "higher"}, "busbw": {"GB/s", "higher"},
	"gflops": {"GFLOP/s", "higher"}, "tflops": {"TFLOP/s", "higher"},
}

// usualUnit returns what the last word of a metric's name means. After the word per, as in tokens_per_s, a unit of time
// is part of a rate.
func usualUnit(name string) usual {
	words := append([]string{"1"}, strings.Split(name, "_")...)
	n := len(words) - 1
	u := usualUnits[words[n]]
	if n > 1 && words[n-1] == "per" && u.better == "lower" {
		return usual{words[n-2] + "/" + u.unit, "higher"}
	}
	return u
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

// readChecks reads one check or a list of them.
func (r *reader) readChecks(n yamlfile.Node, what string) {
	if r.metrics == nil {
		return // without the key metrics: the names in the checks would be faults, too
	}
	nodes := []yamlfile.Node{n}
	if r.IsList(n) {
		nodes, _ = r.List(n, what)
	}
	for _, n := range nodes {
		if c := r.check(n, what); c != nil {
			r.checks = append(r.checks, c)
		}
	}
}

// check reads one check: an expression over the metrics, or a pattern that the output must or must
// not match.
func (r *reader) check(n yamlfile.Node, what string) check {
	if !r.IsMapping(n) {
		s, ok := r.Text(n, what)
		if !ok {
			return nil
		}
		holds, used, err := dataset.Condition(s.Text, namesOf(r.metrics))
		if err != nil {
			r.Fault(n, "check: %v", err)
		}
		return condition{s.Text, used, holds}
	}
	c := pattern{stream: "both"}
	f, clean := r.Struct(n, what, optional("match", nil), optional("no_match", nil),
		r.word(what, "stream", &c.stream, "stdout", "stderr", "both"))
	if (f["match"] == nil) == (f["no_match"] == nil) {
		if clean {
			r.Fault(n, "check: want one of match and no_match")
		}
		return nil
	}
	text := cmp.Or(f["match"], f["no_match"])
	s, ok := r.Text(text, what)
	if !ok {
		return nil
	}
	if _, err := regexp.Compile(s.Text); err != nil {
		r.Fault(text, "check: %v", err)
		return nil
	}
	c.re, c.text, c.never = regexp.MustCompile("(?m)"+s.Text), s.Text, f["match"] == nil
	return c
}
