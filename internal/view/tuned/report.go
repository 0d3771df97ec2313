package tuned

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Sections returns the sections of a report: the winners first, then the effect of each variable. rows are the rows of
// the study.
func Sections(r tune.Result, rows dataset.Set) []bench.Section {
	lead := bench.Section{Title: "Tuning: the best setting", Lead: true}
	if len(r.Findings) == 1 {
		s := story{r, r.Findings[0], rows}
		first, rest := s.lines()[0], s.lines()[1:]
		lead.Text = "**" + first + "**\n"
		for _, line := range rest {
			lead.Text += "\n- " + strings.TrimSpace(line)
		}
		lead.Table = s.settingsTable()
	} else {
		lead.Text = fmt.Sprintf("A winner for each of %s.", strings.Join(r.Per, ", "))
		lead.Table = winners(r)
	}
	out := []bench.Section{lead}
	for _, f := range r.Findings {
		if effects := (story{r, f, rows}).effects(); len(effects) > 0 && len(r.Findings) > 1 {
			out = append(out, bench.Section{Title: "What each variable does at " + f.Per,
				Text: "- " + strings.Join(effects, "\n- ")})
		}
	}
	if found := lists.Map(statements(r), texttab.Plain); len(found) > 0 {
		out = append(out, bench.Section{Title: "To use it", Text: "- `" + strings.Join(found, "`\n- `") + "`"})
	}
	return out
}

// settingsTable returns a table of the best setting and the default, with a line for every variable. Their
// names are often too long for a sentence.
func (s story) settingsTable() [][]string {
	best := s.f.Answer.Best
	if best < 0 || best == s.f.Default || s.singleLaunch() {
		return nil
	}
	table := [][]string{{"variable", "best", "default"}}
	for v, x := range s.r.Variables {
		table = append(table, []string{strings.Join(x.Names, ","), levelText(x, s.f.Levels[best][v]),
			levelText(x, s.f.Levels[s.f.Default][v])})
	}
	return table
}

// levelText formats a level without the name of its variable.
func levelText(v tune.Variable, level int) string {
	if v.Unset[level][0] {
		return "unset"
	}
	return strings.Join(v.Values[level], ",")
}

// winners returns a table with a line for every finding.
func winners(r tune.Result) [][]string {
	table := [][]string{{strings.Join(r.Per, " "), "best", r.Metric + " against the default", "verdict", "launches"}}
	for _, f := range r.Findings {
		s, a := story{r: r, f: f}, f.Answer
		best, gain, verdict := "none works", "", ""
		if a.Best >= 0 {
			best = s.name(a.Best)
		}
		switch c := a.Confirmed; {
		case a.Best < 0:
		case a.Best == f.Default:
			verdict = "keep the default"
		case s.singleLaunch():
			best, verdict = "not resolved", "one launch does not show how launches differ"
		case c == nil || !a.Done:
			verdict = "not confirmed"
		default:
			gain, verdict = s.change(*c), "no gain confirmed"
			if Gained(f) {
				verdict = "gain confirmed"
			}
		}
		if len(a.Modes) == 2 {
			verdict = strings.TrimPrefix(verdict+"; "+s.modes(), "; ")
		}
		table = append(table, []string{f.Per, best, gain, verdict, fmt.Sprint(a.Launches)})
	}
	return table
}

// maxPanels is the largest number of races in a figure.
const maxPanels = 6

// Figures returns the figure of convergence, and the table of the two variables that interact most. rows are the rows
// of the study.
func Figures(r tune.Result, rows dataset.Set) []figure.Figure {
	findings := r.Findings[:min(len(r.Findings), maxPanels)]
	figures := []figure.Figure{
		{Name: "tune_convergence", Title: "Best setting found, by launches"},
		{Name: "tune_interactions", Title: "Two variables together: the pair whose effects add up least",
			Caption: "This describes the launches and judges nothing. A cell shows the median of its settings, which differ " +
				"in the other variables, and the number of launches in parentheses. A dash: no launch, or none that works. " +
				"If most cells have one launch, the pair may be due to chance."}}
	for i, panel := range []func(story) (figure.Panel, bool){story.convergence, story.interaction} {
		if more := len(r.Findings) - len(findings); more > 0 {
			figures[i].AddCaption(fmt.Sprintf("The first %d of %d races.", len(findings), len(r.Findings)))
		}
		for _, f := range findings {
			if p, ok := panel(story{r, f, rows}); ok {
				figures[i].Panels = append(figures[i].Panels, p)
			}
		}
	}
	return lists.Filter(figures, func(f figure.Figure) bool { return len(f.Panels) > 0 })
}

// convergence shows the leader relative to the default after each round.
func (s story) convergence() (figure.Panel, bool) {
	p := figure.Panel{Title: s.f.Per, X: figure.Axis{Label: "launches"},
		Y: figure.Axis{Label: s.r.Metric + " against the default", Unit: figure.Percent},
		Note: "estimates from the launches up to then, which also chose the setting and so favour it; only the " +
			"confirmation has no such bias"}
	if len(s.f.Answer.Modes) == 2 {
		p.Note += "; " + s.modes()
	}
	zero := 0.0
	p.Lines = []figure.Line{{Label: "the default", Y: &zero}}
	for i, phase := range []tune.Phase{tune.Explore, tune.Contend} {
		series := figure.Series{Name: map[tune.Phase]string{tune.Explore: "explored", tune.Contend: "raced"}[phase],
			Color: i + 1}
		for _, t := range s.f.Answer.Trace {
			if t.Phase == phase {
				series.Points = append(series.Points, figure.Point{X: float64(t.Launches), Y: s.percent(t.Log)})
			}
		}
		if len(series.Points) > 0 {
			p.Series = append(p.Series, series)
		}
	}
	path := len(p.Series) > 0
	if c := s.f.Answer.Confirmed; c != nil {
		name := "fresh pairs, too few for an interval"
		point := figure.Point{X: float64(s.f.Answer.Launches), Y: s.percent(c.Mid)}
		if c.Known {
			name = "confirmation, 95 % interval"
			low, high := s.percent(c.Low), s.percent(c.High)
			point.Low, point.High = min(low, high), max(low, high)
		}
		p.Series = append(p.Series, figure.Series{Name: name, Kind: figure.Scatter, Points: []figure.Point{point}, Color: 3})
	}
	return p, path
}

// plain matches texts that need no quotes in a shell or in YAML.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Files returns configuration files: tuned.sh with the environment of each winner, tuned.yaml with
// all its settings, and the files that the bench makes itself. Winners without a confirmed gain are
// left out.
func Files(r tune.Result, b *bench.Bench, rows dataset.Set) (out []bench.File, err error) {
	if b != nil && b.Tuning != nil && b.Tuning.Files != nil {
		if out, err = b.Tuning.Files(Chosen(r, rows)); err != nil {
			return nil, err
		}
	}
	if text := Exports(r); text != "" {
		out = append(out, bench.File{Name: "tuned.sh", Data: []byte(text)})
	}
	if text := Fragment(r); text != "" {
		out = append(out, bench.File{Name: "tuned.yaml", Data: []byte(text)})
	}
	return out, nil
}

// Exports returns a shell script that exports the variables of the winners with a confirmed gain. Axes, which are
// not environment variables, become comments.
func Exports(r tune.Result) string {
	if found := statements(r); len(found) > 0 {
		return strings.Join(found, "\n") + "\n"
	}
	return ""
}

// variableName matches the names that a shell can export.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// statements returns the statements of Exports. The journal may come from somebody else, so no name or value may
// become a command.
func statements(r tune.Result) (out []string) {
	for _, f := range r.Findings {
		if !Gained(f) {
			continue
		}
		if f.Per != "" {
			out = append(out, "# "+texttab.Plain(f.Per))
		}
		visitBest(r, f, func(name, value string, env, unset bool) {
			switch {
			case !env || !variableName.MatchString(name):
				out = append(out, "# "+texttab.Plain(name+"="+value))
			case unset:
				out = append(out, "unset "+name)
			default:
				out = append(out, "export "+name+"="+ShellWord(value))
			}
		})
	}
	return out
}

// Fragment returns the winners in the format of a sweep file, with one value each. All but the first
// are commented out, because a sweep has one environment.
func Fragment(r tune.Result) string {
	var b strings.Builder
	for i, f := range r.Findings {
		if !Gained(f) {
			continue
		}
		prefix := ""
		if len(r.Findings) > 1 && i > 0 {
			prefix = "# "
		}
		if f.Per != "" {
			fmt.Fprintf(&b, "# %s\n", texttab.Plain(f.Per))
		}
		var envs, axes []string
		visitBest(r, f, func(name, value string, env, unset bool) {
			name = yamlWord(name)
			text := fmt.Sprintf("  %s: [%q]", name, value)
			if unset {
				text = fmt.Sprintf("  %s: [null]", name)
			}
			if env {
				envs = append(envs, text)
			} else {
				axes = append(axes, fmt.Sprintf("  %s: [%s]", name, yamlWord(value)))
			}
		})
		for _, block := range []struct {
			name  string
			lines []string
		}{{"env", envs}, {"axes", axes}} {
			if len(block.lines) > 0 {
				fmt.Fprintf(&b, "%s%s:\n%s%s\n", prefix, block.name, prefix, strings.Join(block.lines, "\n"+prefix))
			}
		}
	}
	return b.String()
}

// Chosen returns the rows of the defaults and of the winners with a confirmed gain, for
// TuningDefaults.Files.
func Chosen(r tune.Result, rows dataset.Set) (out dataset.Set) {
	for _, row := range rows {
		for _, f := range r.Findings {
			if row.Status != journal.OK || raceOf(row, r) != f.Per {
				continue
			}
			levels := levelsOf(row, r.Variables)
			if slices.Equal(levels, f.Levels[f.Default]) || Gained(f) && slices.Equal(levels, f.Levels[f.Answer.Best]) {
				out = append(out, row)
				break
			}
		}
	}
	return out
}

// raceOf returns the name of the race of a row, as Finding.Per has it.
func raceOf(row *journal.Row, r tune.Result) string {
	return strings.Join(lists.Map(r.Per, func(name string) string {
		text, _ := coordinate(row, name)
		return name + "=" + text
	}), " ")
}

// levelsOf returns the levels of a row by variable. A value that the study does not have is -1.
func levelsOf(row *journal.Row, variables []tune.Variable) []int {
	return lists.Map(variables, func(x tune.Variable) int {
		return slices.IndexFunc(lists.Range[int](len(x.Values)), func(level int) bool {
			for i, n := range x.Names {
				have, unset := coordinate(row, n)
				if unset != x.Unset[level][i] || !unset && have != x.Values[level][i] {
					return false
				}
			}
			return true
		})
	})
}

func coordinate(row *journal.Row, name string) (text string, unset bool) {
	if e, ok := row.Env.Get(name); ok {
		return e.Text(), !e.Set
	}
	if name == bench.RanksAxis && row.NumRanks != nil {
		return fmt.Sprint(*row.NumRanks), false
	}
	return row.Point.At(name).String(), false
}

// visitBest calls visit for every axis and variable that the best setting sets.
func visitBest(r tune.Result, f tune.Finding, visit func(name, value string, env, unset bool)) {
	for v, l := range f.Levels[f.Answer.Best] {
		x := r.Variables[v]
		for i, n := range x.Names {
			visit(n, x.Values[l][i], x.Env[i], x.Unset[l][i])
		}
	}
}

// ShellWord quotes a word for a POSIX shell.
func ShellWord(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func yamlWord(s string) string {
	if plain.MatchString(s) && !strings.ContainsAny(s, ":,@%") {
		return s
	}
	return fmt.Sprintf("%q", s)
}
