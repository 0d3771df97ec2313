package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// outputParser extracts all metrics of a sweep from the output of one launch.
type outputParser struct {
	metrics []metric
	table   *table // nil if no metric is a table column
	checks  []check
}

func newOutputParser(metrics []metric, axes []string, checks []check) *outputParser {
	p := &outputParser{metrics: metrics, checks: checks}
	if columns := lists.Filter(metrics, func(m metric) bool { return m.column != nil }); len(columns) > 0 {
		p.table = &table{kind: columns[0].column.table, axes: axes, metrics: columns}
	}
	return p
}

// parse is the decl.ParseOutput of the sweep. A table gives one row per key, and metrics outside
// the table have the same samples in each row. Without a table there is one row.
func (p *outputParser) parse(ranks []decl.RankOutput) ([]decl.ParsedRow, error) {
	if len(ranks) == 0 {
		return nil, errors.New("the program has no output")
	}
	ranks = slices.Clone(ranks)
	slices.SortFunc(ranks, func(a, b decl.RankOutput) int { return a.Rank - b.Rank })
	rows := []decl.ParsedRow{{Samples: map[string][]float64{}}}
	if p.table != nil {
		var err error
		if rows, err = p.tableRows(ranks); err != nil {
			return nil, err
		}
	}
	for _, m := range p.metrics {
		if m.single == nil {
			continue
		}
		samples, err := m.combined(ranks)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", m.info.Name, err)
		}
		for i := range rows {
			rows[i].Samples[m.info.Name] = slices.Clone(samples)
		}
	}
	for i := range rows {
		for _, c := range p.checks {
			rows[i].Wrong = cmp.Or(rows[i].Wrong, c.fault(ranks, rows[i].Samples))
		}
		rows[i].Wrong = cmp.Or(rows[i].Wrong, p.negative(rows[i].Samples))
		rows[i].Doubt = p.doubt(ranks, rows[i].Samples)
	}
	return rows, nil
}

// combined collects a metric's samples from the ranks and combines them.
func (m metric) combined(ranks []decl.RankOutput) ([]float64, error) {
	if m.from == "rank0" {
		ranks = ranks[:1]
	}
	perRank := make([][]float64, len(ranks))
	for i, out := range ranks {
		samples, err := m.single.samples(m.read(out), out)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", out.Rank, err)
		}
		if len(samples) == 0 {
			return nil, fmt.Errorf("rank %d printed nothing that matches %v; %s", out.Rank, m.single, lastLines(out))
		}
		perRank[i] = samples
	}
	return combine(m.from, ranks, perRank)
}

// tableRows reads the table of rank 0, or of every rank if a metric combines ranks.
func (p *outputParser) tableRows(ranks []decl.RankOutput) ([]decl.ParsedRow, error) {
	if !slices.ContainsFunc(p.table.metrics, func(m metric) bool { return m.from != "rank0" }) {
		ranks = ranks[:1]
	}
	tables := make([][]decl.ParsedRow, len(ranks))
	for i, out := range ranks {
		rows, err := p.table.rows(p.table.metrics[0].read(out))
		if err == nil && len(rows) == 0 {
			err = errors.New("the table has a header and no lines")
		}
		if err != nil {
			return nil, p.tableError(out, err)
		}
		tables[i] = rows
	}
	rows := make([]decl.ParsedRow, len(tables[0]))
	for r, first := range tables[0] {
		rows[r] = decl.ParsedRow{Extra: first.Extra, Printed: first.Printed, Samples: map[string][]float64{},
			Wrong: first.Wrong}
		for i, others := range tables[1:] {
			if at := rowOf(others, first); at >= 0 && others[at].Wrong != "" && rows[r].Wrong == "" {
				rows[r].Wrong = fmt.Sprintf("rank %d: %s", ranks[i+1].Rank, others[at].Wrong)
			}
		}
		for _, m := range p.table.metrics {
			samples, err := p.tableSamples(m, ranks, tables, first)
			if err != nil {
				return nil, err
			}
			if len(samples) > 0 {
				rows[r].Samples[m.info.Name] = samples
			}
		}
	}
	for _, m := range p.table.metrics {
		if !slices.ContainsFunc(rows, func(r decl.ParsedRow) bool { return len(r.Samples[m.info.Name]) > 0 }) {
			return nil, fmt.Errorf("metric %s: rank 0 printed N/A for %s on every line; %s",
				m.info.Name, m.column.name, lastLines(ranks[0]))
		}
	}
	return rows, nil
}

// tableSamples returns a metric's samples in one row of rank 0's table, combined with the same row
// of the other ranks if the metric combines ranks.
func (p *outputParser) tableSamples(m metric, ranks []decl.RankOutput, tables [][]decl.ParsedRow,
	first decl.ParsedRow) ([]float64, error) {
	perRank, from := [][]float64{first.Samples[m.info.Name]}, ranks[:1]
	if m.from != "rank0" {
		from = ranks
		for i, rows := range tables[1:] {
			at := rowOf(rows, first)
			if at < 0 || len(rows) != len(tables[0]) {
				return nil, p.tableError(ranks[i+1], fmt.Errorf("its table and rank 0's have different lines (%v)", first.Extra))
			}
			perRank = append(perRank, rows[at].Samples[m.info.Name])
		}
	}
	samples, err := combine(m.from, from, perRank)
	if err != nil {
		return nil, fmt.Errorf("metric %s at %v: %w", m.info.Name, first.Extra, err)
	}
	return samples, nil
}

// rowOf returns the index of the row of the same point in another rank's table, or -1.
func rowOf(rows []decl.ParsedRow, want decl.ParsedRow) int {
	return slices.IndexFunc(rows, func(x decl.ParsedRow) bool { return rowID(x.Extra) == rowID(want.Extra) })
}

// tableError adds the metrics of the table and the end of the rank's output to an error.
func (p *outputParser) tableError(out decl.RankOutput, err error) error {
	names := namesOf(p.table.metrics)
	noun := "metric"
	if len(names) > 1 {
		noun = "metrics"
	}
	return fmt.Errorf("%s %s: rank %d: %w; %s", noun, strings.Join(names, ", "), out.Rank, err, lastLines(out))
}

// combine reduces the samples of all ranks elementwise: the i-th result comes from the i-th sample
// of every rank.
func combine(from string, ranks []decl.RankOutput, perRank [][]float64) ([]float64, error) {
	for i, samples := range perRank {
		if len(samples) != len(perRank[0]) {
			return nil, fmt.Errorf("rank %d has %s but rank %d has %s: %s over ranks needs equally many",
				ranks[0].Rank, unit.Plural(len(perRank[0]), "sample"), ranks[i].Rank, unit.Plural(len(samples), "sample"), from)
		}
	}
	if from == "rank0" {
		return perRank[0], nil
	}
	out := make([]float64, len(perRank[0]))
	for r, samples := range perRank {
		for i, s := range samples {
			switch {
			case from == "mean":
				out[i] += s / float64(len(perRank)) // dividing first avoids overflow
			case r == 0, from == "max" && s > out[i], from == "min" && s < out[i]:
				out[i] = s
			}
		}
	}
	return out, nil
}

// read returns the part of a rank's output to search for the metric.
func (m metric) read(out decl.RankOutput) []byte {
	switch m.stream {
	case "stderr":
		return out.Stderr
	case "both":
		// The order of lines between the streams is unknown. The newline keeps a line from
		// spanning both.
		return slices.Concat(out.Stdout, []byte("\n"), out.Stderr)
	}
	return out.Stdout
}

// lastLines quotes the end of a rank's output, which usually explains why the number is missing.
func lastLines(out decl.RankOutput) string {
	const maxLines = 5
	var b strings.Builder
	for _, s := range []struct {
		name string
		text []byte
	}{{"stdout", out.Stdout}, {"stderr", out.Stderr}} {
		text := strings.TrimRight(strings.ToValidUTF8(string(s.text), "?"), "\r\n\t ")
		if text == "" {
			continue
		}
		lines := strings.Split(text, "\n")
		lines = lines[max(0, len(lines)-maxLines):]
		fmt.Fprintf(&b, "\n  the end of its %s:", s.name)
		for _, l := range lines {
			b.WriteString("\n    " + clip(strings.TrimRight(l, "\r")))
		}
	}
	if b.Len() == 0 {
		return "it printed nothing"
	}
	return strings.TrimPrefix(b.String(), "\n  ")
}

// Launches collects the rows of repeated launches of one point, and decides when to stop.
type Launches struct {
	Count int
	Rows  []LaunchedRow

	until  measure.Stop
	metric string
}

// LaunchedRow is one row of the point over all launches.
type LaunchedRow struct {
	Extra   point.Point
	Samples map[string][][]float64 // by metric, then by launch
	Wrong   string                 // reason given by the first wrong launch
	Doubt   journal.Conditions     // first impossible claim of a launch
}

// NewLaunches returns an empty collection for one point of a command.
func NewLaunches(c *decl.Command) *Launches {
	l := &Launches{until: c.Until, metric: c.UntilMetric}
	l.until.MaxSamples = max(l.until.MaxSamples, 1)
	return l
}

// Add adds the rows of one more launch. All launches must give the same rows.
func (l *Launches) Add(rows []decl.ParsedRow) error {
	l.Count++
	if l.Count == 1 {
		for _, r := range rows {
			l.Rows = append(l.Rows, LaunchedRow{Extra: r.Extra, Samples: map[string][][]float64{}})
		}
	}
	if len(rows) != len(l.Rows) {
		return fmt.Errorf("launch %d of the point gave %d rows, the first one %d", l.Count, len(rows), len(l.Rows))
	}
	for i, r := range rows {
		row := &l.Rows[i]
		if rowID(r.Extra) != rowID(row.Extra) {
			return fmt.Errorf("launch %d of the point gave a row for %v, the first one for %v", l.Count, r.Extra, row.Extra)
		}
		row.Wrong = cmp.Or(row.Wrong, r.Wrong)
		if row.Doubt == nil {
			row.Doubt = r.Doubt
		}
		for name, samples := range r.Samples {
			row.Samples[name] = append(row.Samples[name], samples)
		}
	}
	return nil
}

// Stopped returns why no further launch is needed, or "" if one is.
func (l *Launches) Stopped(spent time.Duration) measure.StopReason {
	var noises []float64
	for _, r := range l.Rows {
		if r.Wrong != "" { // repeating a wrong result is useless
			return measure.MaxSamples
		}
		if len(r.Samples[l.metric]) > 0 { // else the program prints N/A there
			noises = append(noises, l.Noise(r))
		}
	}
	worst := math.NaN()
	if len(noises) > 0 {
		worst = slices.Max(noises) // NaN if any of them is
	}
	return l.until.Reason(l.Count, worst, spent)
}

// Noise returns the relative noise of the stopping metric of a row over the launches, or NaN if
// it is unknown.
func (l *Launches) Noise(r LaunchedRow) float64 {
	if len(r.Samples[l.metric]) < 2 { // one launch does not show the variance between launches
		return math.NaN()
	}
	return measure.Noise(r.Values(l.metric))
}

// Values returns the samples of a metric for its median and spread: the samples of a single
// launch, or the median of each of several launches. Samples within a launch are correlated
// (memory layout, placement), so each launch counts once.
func (r LaunchedRow) Values(metric string) []float64 {
	launches := r.Samples[metric]
	if len(launches) == 1 {
		return launches[0]
	}
	var values []float64
	for _, samples := range launches {
		if len(samples) > 0 {
			sorted := slices.Sorted(slices.Values(samples))
			values = append(values, stats.Percentile(sorted, 0.5))
		}
	}
	return values
}

// until reads the stopping rule of the launches, and the metric that decides.
func (r *reader) until(n yamlfile.Node, what string) {
	if r.metrics == nil {
		return // without the key metrics
	}
	c, stop := r.part.Command, plan.RepeatUntil(0)
	f, clean := r.Struct(n, what,
		field("noise", &stop.RelNoise, r.noise),
		field("min", &stop.MinSamples, r.count),
		field("max", &stop.MaxSamples, r.count),
		field("time", &stop.MaxTime, r.duration),
		r.word(what, "metric", &c.UntilMetric, namesOf(r.metrics)...))
	if clean && f["noise"] == nil {
		r.Fault(n, "until: the key \"noise\" is missing, such as {noise: 1%%}")
	}
	switch {
	case f["max"] == nil:
		stop.MaxSamples = max(stop.MaxSamples, stop.MinSamples)
	case f["min"] == nil:
		stop.MinSamples = min(stop.MaxSamples, stop.MinSamples)
	case stop.MinSamples > stop.MaxSamples && stop.MaxSamples > 0:
		r.Fault(f["max"], "until: max %d is below min %d", stop.MaxSamples, stop.MinSamples)
	}
	if f["max"] != nil && stop.MaxSamples > 0 && stop.MaxSamples < plan.MinLaunches {
		r.Fault(f["max"], "until: the noise of a median is not known from fewer than %d launches, so max %d would never "+
			"be cut short: use trials", plan.MinLaunches, stop.MaxSamples)
	}
	if f["time"] != nil && stop.MaxTime >= measure.NoTimeLimit {
		r.Fault(f["time"], "until: time: want at most a day")
	}
	c.Until = stop
}

// noise reads the relative noise at which the launches of a point may end.
func (r *reader) noise(n yamlfile.Node, what string) float64 {
	s, ok := r.Text(n, what)
	noise, err := plan.ParseNoise(s.Text)
	switch {
	case !ok:
	case err != nil:
		r.Fault(n, "until: %v", err)
	case noise == 0:
		r.Fault(n, "until: want a noise above 0: for a fixed number of launches, use trials")
	}
	return noise
}
