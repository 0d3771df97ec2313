package tuned

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// plain matches the texts that a shell and YAML take as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Files are what to paste: tuned.sh with the environment of each winner, tuned.yaml
// with all it sets. There are none where nothing was gained.
// A bench that makes a table of its own adds it.
func Files(r tune.Result, b *bench.Bench, rows []journal.Row) (out []bench.File, err error) {
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

// Exports are the export statements of the winners that gained. Axes, which are no
// variables of the environment, stand as comments.
func Exports(r tune.Result) string {
	var b strings.Builder
	for _, f := range r.Findings {
		if !Gained(f) {
			continue
		}
		if f.Per != "" {
			fmt.Fprintf(&b, "# %s\n", f.Per)
		}
		each(r, f, func(name, value string, env, unset bool) {
			switch {
			case !env:
				fmt.Fprintf(&b, "# %s=%s\n", name, value)
			case unset:
				fmt.Fprintf(&b, "unset %s\n", name)
			default:
				fmt.Fprintf(&b, "export %s=%s\n", name, ShellWord(value))
			}
		})
	}
	return b.String()
}

// Fragment is the winners as a sweep file has them, with one value each; several
// winners follow one another as comments, since a sweep has one environment.
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
			fmt.Fprintf(&b, "# %s\n", f.Per)
		}
		var envs, axes []string
		each(r, f, func(name, value string, env, unset bool) {
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

// Chosen are the rows of the defaults and of the winners that gained: what a table for
// others may be made of.
func Chosen(r tune.Result, rows []journal.Row) (out []journal.Row) {
	for i := range rows {
		row := &rows[i]
		for _, f := range r.Findings {
			if row.Status != journal.OK || !at(row, strings.Fields(f.Per)) {
				continue
			}
			if is(row, r, f.Levels[f.Default]) || Gained(f) && is(row, r, f.Levels[f.Answer.Best]) {
				out = append(out, *row)
				break
			}
		}
	}
	return out
}

// at tells whether a row has the values of a race.
func at(row *journal.Row, per []string) bool {
	for _, p := range per {
		name, want, _ := strings.Cut(p, "=")
		if have, _ := coordinate(row, name); have != want {
			return false
		}
	}
	return true
}

// is tells whether a row is one of a setting.
func is(row *journal.Row, r tune.Result, levels []int) bool {
	for v, l := range levels {
		x := r.Variables[v]
		for i, n := range x.Names {
			have, unset := coordinate(row, n)
			if unset != x.Unset[l][i] || !unset && have != x.Values[l][i] {
				return false
			}
		}
	}
	return true
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

// each visits the names that the best setting sets.
func each(r tune.Result, f tune.Finding, visit func(name, value string, env, unset bool)) {
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
