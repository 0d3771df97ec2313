package tuned

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/tune"
)

// plain matches the texts that a shell and YAML take as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Files are what to paste: tuned.sh with the environment of each winner, tuned.yaml
// with all it sets. There are none where nothing was gained.
func Files(r tune.Result) (out []bench.File) {
	if text := Exports(r); text != "" {
		out = append(out, bench.File{Name: "tuned.sh", Data: []byte(text)})
	}
	if text := Fragment(r); text != "" {
		out = append(out, bench.File{Name: "tuned.yaml", Data: []byte(text)})
	}
	return out
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
				fmt.Fprintf(&b, "export %s=%s\n", name, shellWord(value))
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

// each visits the names that the best setting sets.
func each(r tune.Result, f tune.Finding, visit func(name, value string, env, unset bool)) {
	for v, l := range f.Levels[f.Answer.Best] {
		x := r.Variables[v]
		for i, n := range x.Names {
			visit(n, x.Values[l][i], x.Env[i], x.Unset[l][i])
		}
	}
}

func shellWord(s string) string {
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
