package bandwidth

import (
	"fmt"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// series names the operation of a row.
func series(r *journal.Row) string { return rowset.Text(r, "op") }

// where names the machine of a row in titles.
func where(r *journal.Row) string {
	if gpu := r.Details[journal.DeviceDetail]; gpu != "" {
		return gpu
	}
	return r.Host
}

// figures draws bandwidth against size, and the latency of loads.
func figures(rows []journal.Row) (list []figure.Figure) {
	good := rowset.Good(journal.MergeTrials(rows))
	x := figure.Axis{Label: "size of an array", Scale: figure.Log2, Unit: figure.Bytes}
	for _, f := range []struct {
		name, title, label, metric string
		unit                       figure.Unit
	}{
		{"bandwidth", "Bandwidth by size", "bandwidth", "gbps", figure.GBps},
		{"latency", "Time of a dependent load", "nanoseconds", "latency_ns", figure.Plain},
	} {
		fig := figure.Figure{Name: f.name, Title: f.title}
		for _, g := range rowset.GroupBy(good.Where(func(r *journal.Row) bool { return r.Metrics[f.metric] > 0 }), where) {
			fig.Panels = append(fig.Panels, figure.Panel{Title: g.Key, X: x,
				Y: figure.Axis{Label: f.label, Scale: figure.Log10, Unit: f.unit},
				Series: rowset.Series(g.Rows, series, func(r *journal.Row) (figure.Point, bool) {
					return figure.Point{X: rowset.Number(r, "size"), Y: r.Metrics[f.metric]}, true
				})})
		}
		if len(fig.Panels) > 0 {
			list = append(list, fig)
		}
	}
	return list
}

// sections tabulates operations by sizes, for each machine.
func sections(rows []journal.Row) (list []bench.Section) {
	for _, g := range rowset.GroupBy(rowset.Good(journal.MergeTrials(rows)), where) {
		sizes := g.Rows.Distinct("size")
		table := [][]string{{"operation"}}
		for _, size := range sizes {
			table[0] = append(table[0], unit.FormatBytes(int64(rowset.Number(g.Rows.At("size", size)[0], "size"))))
		}
		table[0] = append(table[0], "best", "of the published bandwidth")
		for _, op := range rowset.GroupBy(g.Rows, series) {
			table = append(table, line(op.Key, op.Rows, sizes))
		}
		list = append(list, bench.Section{Title: "Bandwidth and latency of " + g.Key,
			Text: "GB/s by the size of one array, and nanoseconds of a dependent load (chase). Every byte that is read or " +
				"written counts, and a transfer over the bus counts once. Values in parentheses were disturbed.", Table: table})
	}
	return list
}

// line returns the table's line of an operation.
func line(name string, rows rowset.Set, sizes []string) []string {
	cells := []string{name}
	best, share := 0.0, "-"
	for _, size := range sizes {
		at := rows.At("size", size)
		if len(at) == 0 {
			cells = append(cells, "-")
			continue
		}
		r := at[0]
		value, text := r.Metrics["gbps"], ""
		if ns := r.Metrics["latency_ns"]; ns > 0 {
			text = unit.FormatSig(ns, 3) + " ns"
		} else {
			text = unit.FormatSig(value, 4)
		}
		if r.Disturbed() != "" {
			text = "(" + text + ")"
		} else if value > best {
			best = value
			if pct := r.Metrics["pct_of_limit"]; pct > 0 {
				share = fmt.Sprintf("%.0f %%", pct)
			}
		}
		cells = append(cells, text)
	}
	if best == 0 {
		return append(cells, "-", share)
	}
	return append(cells, unit.FormatSig(best, 4), share)
}
