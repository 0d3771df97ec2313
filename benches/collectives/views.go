package collectives

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// text is a coordinate of the row as people write it.
func text(r *journal.Row, axis string) string {
	v, _ := r.Point.Get(axis)
	return v.String()
}

func size(r *journal.Row) float64 {
	v, _ := r.Point.Get("size")
	return v.Float()
}

// panelOf names what rows must share to be drawn in one coordinate system.
func panelOf(r *journal.Row) string {
	name := fmt.Sprintf("%s, %s", text(r, "op"), text(r, "dtype"))
	if red := text(r, "reduction"); red != "sum" {
		name += " " + red
	}
	if r.NumRanks != nil {
		name += fmt.Sprintf(", %d ranks", *r.NumRanks)
	}
	return name
}

// seriesOf names a line: the algorithm and the buffers.
func seriesOf(r *journal.Row) string {
	name := text(r, "algorithm") + ", " + text(r, "buffers")
	if text(r, "inplace") == "true" {
		name += ", in place"
	}
	return name
}

// figures draws time and bus bandwidth against size, a panel for each
// operation, element type and number of ranks, with the limit.
func figures(rows []journal.Row) []figure.Figure {
	times := figure.Figure{Name: "collectives_time", Title: "Time by size"}
	rates := figure.Figure{Name: "collectives_busbw", Title: "Bus bandwidth by size"}
	zero := 0.0
	x := figure.Axis{Label: "size", Scale: figure.Log2, Unit: figure.Bytes}
	for _, title := range distinct(rows, panelOf) {
		var mine []*journal.Row
		for i := range rows {
			if r := &rows[i]; r.Status == journal.OK && panelOf(r) == title && size(r) > 0 {
				mine = append(mine, r)
			}
		}
		if len(mine) == 0 {
			continue
		}
		t := figure.Panel{Title: title, X: x, Y: figure.Axis{Label: "time", Scale: figure.Log10, Unit: figure.Micros}}
		t.Series = series(mine, func(r *journal.Row) (figure.Point, bool) {
			p := figure.Point{X: size(r), Y: r.Metrics["time_us"]}
			if st := r.Stats["time_us"]; st.CILow != nil && st.CIHigh != nil {
				p.Low, p.High = *st.CILow, *st.CIHigh
			}
			return p, true
		})
		t.Lines = limitLine(mine, func(_ *journal.Row, us float64) float64 { return us })
		times.Panels = append(times.Panels, t)

		b := figure.Panel{Title: title, X: x, Y: figure.Axis{Label: "bus bandwidth", Unit: figure.GBps, Min: &zero}}
		b.Series = series(mine, func(r *journal.Row) (figure.Point, bool) {
			bw, ok := r.Metrics["busbw"]
			return figure.Point{X: size(r), Y: bw}, ok
		})
		b.Lines = limitLine(mine, func(r *journal.Row, us float64) float64 {
			return r.Metrics["busbw"] * r.Metrics["time_us"] / us
		})
		if len(b.Series) > 0 {
			rates.Panels = append(rates.Panels, b)
		}
	}
	var out []figure.Figure
	for _, f := range []figure.Figure{times, rates} {
		if len(f.Panels) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// series collects the points by name, in order of size.
func series(rows []*journal.Row, at func(*journal.Row) (figure.Point, bool)) []figure.Series {
	var out []figure.Series
	index := map[string]int{}
	for _, r := range rows {
		p, ok := at(r)
		if !ok {
			continue
		}
		name := seriesOf(r)
		i, has := index[name]
		if !has {
			i = len(out)
			index[name] = i
			out = append(out, figure.Series{Name: name})
		}
		out[i].Points = append(out[i].Points, p)
	}
	for _, s := range out {
		slices.SortStableFunc(s.Points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
	}
	return out
}

// limitLine is the least limit at each size over the rows: what the best of
// the algorithms shown could reach.
func limitLine(rows []*journal.Row, value func(r *journal.Row, us float64) float64) []figure.Line {
	least := map[float64]float64{}
	best := map[float64]*journal.Row{}
	for _, r := range rows {
		us := 0.0
		for _, v := range r.Limits {
			us = max(us, v)
		}
		if old, has := least[size(r)]; us > 0 && (!has || us < old) {
			least[size(r)], best[size(r)] = us, r
		}
	}
	if len(least) < 2 {
		return nil
	}
	line := figure.Line{Label: "limit"}
	for x, us := range least {
		line.Points = append(line.Points, figure.Point{X: x, Y: value(best[x], us)})
	}
	slices.SortFunc(line.Points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
	return []figure.Line{line}
}

func distinct(rows []journal.Row, name func(*journal.Row) string) []string {
	var out []string
	for i := range rows {
		if n := name(&rows[i]); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// regret is how much slower auto was at one point than the best algorithm of
// the same sweep.
type regret struct {
	row    *journal.Row // auto's
	best   string
	factor float64 // auto's time over the best's; 1 when auto is the best
}

// regrets finds them where a sweep has both auto and fixed algorithms; times
// of several trials count by their median.
func regrets(rows []journal.Row) []regret {
	type place struct{ panel, rest string }
	byPlace := map[place]map[string][]*journal.Row{}
	var order []place
	for i := range rows {
		r := &rows[i]
		if r.Status != journal.OK || !(r.Metrics["time_us"] > 0) {
			continue
		}
		at := place{panelOf(r), strings.Join([]string{text(r, "size"), text(r, "buffers"), text(r, "inplace")}, " ")}
		if byPlace[at] == nil {
			byPlace[at] = map[string][]*journal.Row{}
			order = append(order, at)
		}
		a := text(r, "algorithm")
		byPlace[at][a] = append(byPlace[at][a], r)
	}
	var out []regret
	for _, at := range order {
		mine, has := byPlace[at][auto]
		if !has || len(byPlace[at]) < 2 {
			continue
		}
		reg := regret{row: mine[0], best: auto}
		least := medianTime(mine)
		own := least
		for name, rs := range byPlace[at] {
			if us := medianTime(rs); us < least || us == least && name < reg.best {
				least, reg.best = us, name
			}
		}
		reg.factor = own / least
		out = append(out, reg)
	}
	return out
}

func medianTime(rows []*journal.Row) float64 {
	us := make([]float64, len(rows))
	for i, r := range rows {
		us[i] = r.Metrics["time_us"]
	}
	slices.Sort(us)
	return (us[(len(us)-1)/2] + us[len(us)/2]) / 2
}

// sections says in words what auto costs.
func sections(rows []journal.Row) []bench.Section {
	all := regrets(rows)
	if len(all) == 0 {
		return nil
	}
	table := [][]string{{"operation", "size", "buffers", "auto took", "best", "auto slower by"}}
	sum, worst := 0.0, all[0]
	for _, reg := range all {
		sum += math.Log(reg.factor)
		if reg.factor > worst.factor {
			worst = reg
		}
		table = append(table, []string{panelOf(reg.row), unit.FormatBytes(int64(size(reg.row))), text(reg.row, "buffers"),
			reg.row.Details["algorithm"], reg.best, fmt.Sprintf("%.1f %%", 100*(reg.factor-1))})
	}
	return []bench.Section{{
		Title: "Regret of algorithm=auto",
		Text: fmt.Sprintf("How much slower auto is than the fastest algorithm of this sweep: %.1f %% in the geometric mean over %d points, at most %.1f %% (%s, %s). "+
			"A best that is auto's own algorithm under its name shows how well times repeat.",
			100*(math.Exp(sum/float64(len(all)))-1), len(all), 100*(worst.factor-1), panelOf(worst.row), unit.FormatBytes(int64(size(worst.row)))),
		Table: table,
	}}
}
