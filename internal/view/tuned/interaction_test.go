package tuned

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// slower is the time of a value without an interaction, relative to the first value. E has an unset and a set value.
var slower = map[string][]float64{"E": {1, 2}, "A": {1, 1.1, 1.2}, "B": {1, 1.3}}

// launchRows returns two launches of a setting (e, a, b), each of a point n=0 and a point n=1 that takes 1000 times as
// long. The second launch has the given status. If not whole, there is no point n=1.
func launchRows(e, a, b int, us float64, status journal.Status, whole bool) (rows dataset.Set) {
	env := point.Env{{Name: "E", Value: "1", Set: e == 1}}
	for i := range 4 {
		n, trial := i%2, i/2
		if n == 1 && !whole {
			continue
		}
		at := point.Point{{Name: "A", Value: point.IntValue(int64(a))}, {Name: "B", Value: point.IntValue(int64(b))},
			{Name: "n", Value: point.IntValue(int64(n))}}
		time := us * math.Pow(1000, float64(n))
		row := &journal.Row{Point: at, Env: env, Trial: trial, Status: journal.OK, Key: fmt.Sprint(e, a, b, n),
			Metrics: map[string]float64{"time_us": time, "rate": 1 / time}}
		if trial == 1 {
			row.Status = status
		}
		rows = append(rows, row)
	}
	return rows
}

// TestInteraction plants an interaction and expects the figure to show its pair, with the median of each cell relative
// to the best one.
func TestInteraction(t *testing.T) {
	factor := func(x bool) float64 {
		if x {
			return 1.5
		}
		return 1
	}
	both := func(e, a, b int) float64 { return factor(a == 2 && b == 1) }
	all := []string{"E", "A", "B"}
	const whole = "A by B: best (4), +30.0 % (4) / +10.0 % (4), +43.0 % (4) / +20.0 % (4), +134.0 % (4)"
	for name, c := range map[string]struct {
		plant       func(e, a, b int) float64
		omit        func(e, a, b int) bool
		fail        func(e, a, b int) bool
		interrupted func(e, a, b int) bool
		result      tune.Result
		variables   []string
		want        string
	}{
		"two axes": {plant: both, variables: all, want: whole},
		"a variable and an axis": {plant: func(e, a, b int) float64 { return factor(e == 1 && b == 0) }, variables: all,
			want: "E by B: best (6), +30.0 % (6) / +200.0 % (6), +160.0 % (6)"},
		"more is better": {plant: both, variables: all, result: tune.Result{Metric: "rate", Maximise: true},
			want: "A by B: best (4), -23.1 % (4) / -9.1 % (4), -30.1 % (4) / -16.7 % (4), -57.3 % (4)"},
		"judged over n": {plant: both, variables: all, result: tune.Result{Over: []string{"n"}}, want: whole},
		"a cell was interrupted": {plant: both, variables: all, result: tune.Result{Over: []string{"n"}},
			interrupted: func(e, a, b int) bool { return a == 1 && b == 0 },
			want:        "A by B: best (4), +30.0 % (4) / empty, +43.0 % (4) / +20.0 % (4), +134.0 % (4)"},
		"a cell was never launched": {plant: both, variables: all,
			omit: func(e, a, b int) bool { return a == 1 && b == 0 },
			want: "A by B: best (4), +30.0 % (4) / empty, +43.0 % (4) / +20.0 % (4), +134.0 % (4)"},
		"a launch fails": {plant: both, variables: all,
			fail: func(e, a, b int) bool { return a == 0 && b == 0 },
			want: "A by B: empty, +18.2 % (4) / best (4), +30.0 % (4) / +9.1 % (4), +112.7 % (4)"},
		"one pair is shown even if its effects add up": {plant: func(e, a, b int) float64 { return 1 },
			variables: []string{"E", "B"}, omit: func(e, a, b int) bool { return a > 0 },
			want: "E by B: best (2), +30.0 % (2) / +100.0 % (2), +160.0 % (2)"},
		"one variable": {plant: both, variables: []string{"A"}, omit: func(e, a, b int) bool { return e+b > 0 }},
		"no four cells to compare": {plant: both, variables: all,
			omit: func(e, a, b int) bool { return e != b || a != b }},
		"nothing works": {plant: both, variables: all[:2], fail: func(e, a, b int) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			var rows dataset.Set
			for i := range 2 * 3 * 2 {
				e, a, b := i/6, i/2%3, i%2
				status := journal.OK
				if c.fail != nil && c.fail(e, a, b) {
					status = journal.Failed
				}
				whole := c.interrupted == nil || !c.interrupted(e, a, b)
				if c.omit == nil || !c.omit(e, a, b) {
					us := 100 * slower["E"][e] * slower["A"][a] * slower["B"][b] * c.plant(e, a, b)
					rows = append(rows, launchRows(e, a, b, us, status, whole)...)
				}
			}
			r := c.result
			if r.Metric == "" {
				r.Metric = "time_us"
			}
			finding := tune.Finding{Cells: 2}
			if len(r.Over) == 0 {
				r.Per, finding = []string{"n"}, tune.Finding{Per: "n=0", Cells: 1}
			}
			r.Findings = []tune.Finding{finding}
			for _, name := range c.variables {
				v := tune.Variable{Names: []string{name}, Env: []bool{name == "E"}}
				for l := range slower[name] {
					v.Values = append(v.Values, []string{fmt.Sprint(l)})
					v.Unset = append(v.Unset, []bool{name == "E" && l == 0})
				}
				r.Variables = append(r.Variables, v)
			}
			got := ""
			for _, f := range Figures(r, rows) {
				must.Do(t, f.Validate())
				got += heatText(f.Panels[0])
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// heatText describes a heat map in a line.
func heatText(p figure.Panel) string {
	lines := lists.Map(p.Content.(*figure.HeatMap).Cells, func(line []figure.Cell) string {
		return strings.Join(lists.Map(line, func(c figure.Cell) string {
			if math.IsNaN(c.Value) && c.Text == "" {
				return "empty"
			}
			return c.Text
		}), ", ")
	})
	return p.Y.Label + " by " + p.X.Label + ": " + strings.Join(lines, " / ")
}
