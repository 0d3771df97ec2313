package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// outputParser finds all metrics of a sweep in the output of one run.
type outputParser struct {
	metrics []metric
	table   *table // nil when the program prints none
	checks  []check
}

func newOutputParser(metrics []metric, axes []string, checks []check) *outputParser {
	p := &outputParser{metrics: metrics, checks: checks}
	for _, m := range metrics {
		if m.column == nil {
			continue
		}
		if p.table == nil {
			p.table = &table{kind: m.column.table, axes: axes}
		}
		p.table.metrics = append(p.table.metrics, m)
	}
	return p
}

// parse is the decl.ParseOutput of the sweep. A table gives one row per key;
// other metrics have the same samples in each of them. Without a table there
// is one row.
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
	}
	return rows, nil
}

// combined gathers a metric's samples from the ranks it comes from.
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

// tableRows reads rank 0's table, and that of every rank for metrics over all ranks.
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
		rows[r] = decl.ParsedRow{Extra: first.Extra, Samples: map[string][]float64{}, Wrong: first.Wrong}
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

// tableSamples are a metric's samples in one row of rank 0's table, combined with
// those of the same row on the other ranks if the metric is over all.
func (p *outputParser) tableSamples(m metric, ranks []decl.RankOutput, tables [][]decl.ParsedRow,
	first decl.ParsedRow) ([]float64, error) {
	perRank, from := [][]float64{first.Samples[m.info.Name]}, ranks[:1]
	if m.from != "rank0" {
		from = ranks
		for i, rows := range tables[1:] {
			at := rowOf(rows, first)
			if at < 0 || len(rows) != len(tables[0]) {
				return nil, p.tableError(ranks[i+1], fmt.Errorf("its table has other lines than that of rank 0 (%v)", first.Extra))
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

// rowOf finds the row of the same point in another rank's table, -1 if it has none.
func rowOf(rows []decl.ParsedRow, want decl.ParsedRow) int {
	return slices.IndexFunc(rows, func(x decl.ParsedRow) bool { return rowID(x.Extra) == rowID(want.Extra) })
}

// tableError names all metrics of the table, and shows what the rank printed.
func (p *outputParser) tableError(out decl.RankOutput, err error) error {
	names := lists.Map(p.table.metrics, func(m metric) string { return m.info.Name })
	noun := "metric"
	if len(names) > 1 {
		noun = "metrics"
	}
	return fmt.Errorf("%s %s: rank %d: %w; %s", noun, strings.Join(names, ", "), out.Rank, err, lastLines(out))
}

// combine reduces the ranks' samples one by one: the i-th sample of a metric
// over all ranks comes from the i-th of every rank.
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
				out[i] += s / float64(len(perRank)) // a sum of all might overflow
			case r == 0, from == "max" && s > out[i], from == "min" && s < out[i]:
				out[i] = s
			}
		}
	}
	return out, nil
}

// read is the part of a rank's output the metric is looked for in.
func (m metric) read(out decl.RankOutput) []byte {
	switch m.stream {
	case "stderr":
		return out.Stderr
	case "both":
		// Two streams have no common order; a line never spans both.
		return slices.Concat(out.Stdout, []byte("\n"), out.Stderr)
	}
	return out.Stdout
}

// lastLines shows the end of what a rank printed, which usually says why the
// wanted number is missing.
func lastLines(out decl.RankOutput) string {
	const most = 5
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
		lines = lines[max(0, len(lines)-most):]
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
