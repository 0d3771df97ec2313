package plan

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Rows keeps the stored rows for which all the expressions of --only hold. Beside
// the names of a run they may have status, trial, kind and the metrics.
func Rows(only []string, rows []journal.Row) ([]journal.Row, error) {
	if len(only) == 0 {
		return rows, nil
	}
	names := scope{"status": point.String, "trial": point.Int, "kind": point.String, bench.BackendName: point.String,
		"part": point.String, bench.RanksAxis: point.Int}
	for i := range rows {
		for name, o := range rowValues(&rows[i]) {
			if _, known := names[name]; !known {
				names[name] = o.value.Kind()
			}
		}
	}
	tests, err := compileAll(only, names)
	if err != nil {
		return nil, err
	}
	return lists.Filter(rows, func(r journal.Row) bool { return all(tests, rowValues(&r)) }), nil
}

// rowValues are the names of one row. A coordinate goes before a metric.
func rowValues(r *journal.Row) map[string]operand {
	m := map[string]operand{}
	for name, v := range r.Metrics {
		m[name] = operand{value: point.FloatValue(v)}
	}
	for _, p := range []point.Point{r.Options, r.Point} {
		for _, c := range p {
			m[c.Name] = operand{value: c.Value}
		}
	}
	for _, e := range r.Env {
		m[e.Name] = operand{value: point.StringValue(e.Value), unset: !e.Set}
	}
	if r.NumRanks != nil {
		m[bench.RanksAxis] = operand{value: point.IntValue(int64(*r.NumRanks))}
	}
	for name, text := range map[string]string{bench.BackendName: r.Backend, "part": r.Part, "status": string(r.Status),
		"kind": string(r.Kind)} {
		m[name] = operand{value: point.StringValue(text)}
	}
	m["trial"] = operand{value: point.IntValue(int64(r.Trial))}
	return m
}
