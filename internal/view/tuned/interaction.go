package tuned

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// interaction shows a table of the two variables whose effects add up least. It describes the launches of the study;
// whether a variable has an effect is for verdict.EffectsOf to say.
func (s story) interaction() (figure.Panel, bool) {
	settings, variables := s.measured(), s.r.Variables
	rest := withoutMainEffects(settings, len(variables))
	most, x, y := 0.0, -1, -1
	for b := range variables {
		for a := range b {
			if d := nonadditivity(cellsOf(rest, a, b)); d > most || len(variables) == 2 {
				most, x, y = d, b, a
			}
		}
	}
	if x < 0 || len(settings) == 0 {
		return figure.Panel{}, false
	}
	heat := &figure.HeatMap{Value: figure.Axis{Label: s.r.Metric + " against the best cell", Unit: figure.Percent}}
	for range variables[y].Values {
		heat.Cells = append(heat.Cells, slices.Repeat([]figure.Cell{{Value: math.NaN()}}, len(variables[x].Values)))
	}
	cells := cellsOf(settings, y, x)
	best := slices.Min(lists.Map(cells, median))
	for _, c := range cells {
		change, text := s.percent(median(c)-best), "best"
		if median(c) > best {
			text = fmt.Sprintf("%+.1f %%", change)
		}
		launches := lists.Sum(lists.Map(c.Items, func(m measured) int { return m.launches }))
		heat.Cells[c.Key[0]][c.Key[1]] = figure.Cell{Value: change, Text: fmt.Sprintf("%s (%d)", text, launches)}
	}
	return figure.Panel{Title: s.f.Per, X: levelAxis(variables[x]), Y: levelAxis(variables[y]), Content: heat}, true
}

// levelAxis returns an axis with the levels of a variable.
func levelAxis(v tune.Variable) figure.Axis {
	names := lists.Map(lists.Range[int](len(v.Values)), func(l int) string { return levelText(v, l) })
	return figure.Axis{Label: strings.Join(v.Names, ","), Scale: figure.Category, Categories: names}
}

// measured is a setting with its value: the logarithm of the objective, by the medians of its points.
type measured struct {
	levels   []int
	launches int
	log      float64
}

// measured returns the settings of the race, without failed and interrupted ones.
func (s story) measured() (out []measured) {
	setting := func(r *journal.Row) string { return fmt.Sprint(levelsOf(r, s.r.Variables)) }
	for _, g := range lists.GroupBy(s.race(), setting) {
		m := measured{levels: levelsOf(g.Items[0], s.r.Variables)}
		points := g.Items.Points()
		for _, p := range points {
			m.launches = max(m.launches, len(p))
			m.log += math.Log(p.Median(s.r.Metric)) / float64(len(points))
		}
		if s.r.Maximise {
			m.log = -m.log
		}
		failed := len(g.Items.Good()) < len(g.Items) || math.IsInf(m.log, 0)
		if !failed && len(points) == s.f.Cells && !slices.Contains(m.levels, -1) {
			out = append(out, m)
		}
	}
	return out
}

// withoutMainEffects returns the settings without the mean of each of their levels. In a study that launches few of
// many settings, the main effects of the other variables would hide how two variables act together.
func withoutMainEffects(settings []measured, variables int) []measured {
	rest := slices.Clone(settings)
	for v := range variables {
		sums, counts := map[int]float64{}, map[int]float64{}
		for _, m := range settings {
			sums[m.levels[v]] += m.log
			counts[m.levels[v]]++
		}
		for i, m := range settings {
			rest[i].log -= sums[m.levels[v]] / counts[m.levels[v]]
		}
	}
	return rest
}

// cell is the settings with one level of each of two variables.
type cell = lists.Group[[2]int, []measured]

func cellsOf(settings []measured, a, b int) []cell {
	return lists.GroupBy(settings, func(m measured) [2]int { return [2]int{m.levels[a], m.levels[b]} })
}

func median(c cell) float64 {
	return stats.Median(lists.Map(c.Items, func(m measured) float64 { return m.log }))
}

// nonadditivity returns how far the effects of two variables are from adding up: the mean square of the contrasts of
// the four cells in two lines and two columns.
func nonadditivity(cells []cell) float64 {
	medians := map[[2]int]float64{}
	for _, c := range cells {
		medians[c.Key] = median(c)
	}
	sum, count := 0.0, 0.0
	for _, c := range cells {
		for _, d := range cells {
			e, hasE := medians[[2]int{d.Key[0], c.Key[1]}]
			f, hasF := medians[[2]int{c.Key[0], d.Key[1]}]
			if hasE && hasF && c.Key[0] < d.Key[0] && c.Key[1] < d.Key[1] {
				sum += math.Pow(medians[c.Key]+medians[d.Key]-e-f, 2)
				count++
			}
		}
	}
	return sum / max(count, 1)
}
