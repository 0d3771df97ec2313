package tune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
)

// Variable is what varies as one: an axis, an environment variable, or several that
// are zipped.
type Variable struct {
	Names  []string   `json:"names"`
	Env    []bool     `json:"env"`    // of each name, whether it is of the environment
	Values [][]string `json:"values"` // of each level, a text for every name
	Unset  [][]bool   `json:"unset"`  // of each level and name, that it is not set
}

func tasksOf(p *plan.Plan) (out []placed) {
	for _, g := range p.Groups {
		for _, t := range g.Tasks {
			if t.Trial == 0 {
				out = append(out, placed{g, t})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b placed) int { return cmp.Compare(a.task.Index, b.task.Index) })
	return out
}

// value is the text of an axis or variable of a task.
func value(t plan.Task, name string) (text string, env, unset, ok bool) {
	if v, has := t.Env.Get(name); has {
		return v.Text(), true, !v.Set, true
	}
	if name == bench.RanksAxis && t.Ranks > 0 {
		return fmt.Sprint(t.Ranks), false, false, true
	}
	v, has := t.Point.Get(name)
	return v.String(), false, false, has
}

// describe names a task by some of its axes.
func describe(t plan.Task, names []string) string {
	var parts []string
	for _, n := range names {
		if text, _, _, ok := value(t, n); ok {
			parts = append(parts, n+"="+text)
		}
	}
	return strings.Join(parts, " ")
}

// variablesOf are the names that have several values, but for those held.
func variablesOf(all []placed, held []string) (out []Variable) {
	first := all[0]
	names := append(lists.Map(first.task.Env, func(e point.EnvVar) string { return e.Name }), bench.RanksAxis)
	names = append(names, lists.Map(first.task.Point, func(c point.Coord) string { return c.Name })...)
	done := slices.Clone(held)
	for _, n := range names {
		if slices.Contains(done, n) {
			continue
		}
		members := []string{n}
		for _, z := range first.group.Part.Zips {
			if slices.Contains(z, n) {
				members = z
			}
		}
		done = append(done, members...)
		v := Variable{Names: members}
		for _, t := range all {
			v.level(t.task)
		}
		if len(v.Values) > 1 {
			out = append(out, v)
		}
	}
	return out
}

// level is the task's, which is added if it is new.
func (v *Variable) level(t plan.Task) int {
	var texts []string
	var unsets, envs []bool
	for _, n := range v.Names {
		text, env, unset, _ := value(t, n)
		texts, envs, unsets = append(texts, text), append(envs, env), append(unsets, unset)
	}
	for i := range v.Values {
		if slices.Equal(v.Values[i], texts) && slices.Equal(v.Unset[i], unsets) {
			return i
		}
	}
	v.Env = envs
	v.Values, v.Unset = append(v.Values, texts), append(v.Unset, unsets)
	return len(v.Values) - 1
}

func levelsOf(t plan.Task, variables []Variable) (out []int) {
	for i := range variables {
		out = append(out, variables[i].level(t))
	}
	return out
}

// SweptName is an axis or variable with several values.
type SweptName struct {
	Name  string
	Env   bool
	First string // its first value, as a SPEC
}

// Swept lists what a plan varies besides the names that are held.
func Swept(p *plan.Plan, held []string) (out []SweptName) {
	all := tasksOf(p)
	for _, v := range variablesOf(all, held) {
		for i, n := range v.Names {
			first := v.Values[0][i]
			if x, has := all[0].task.Point.Get(n); has {
				first = point.FormatSpec([]point.Value{x})
			}
			out = append(out, SweptName{n, v.Env[i], first})
		}
	}
	return out
}
