package verdict

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// origin identifies the run and the inputs of a row.
type origin struct {
	header *journal.Header
	inputs string // fingerprint
}

// origins returns the distinct origins of rows, without rows whose run has no header.
func (r Run) origins(rows dataset.Set) (out []origin) {
	for _, row := range rows {
		if o := (origin{r.headerOf(row), row.Inputs}); o.header != nil && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// ofOrigins compares the recorded variables and the inputs of the rows of a point. Nearly all points of a
// side have the same single origin, so the differences between single origins are computed only once.
func (d *differ) ofOrigins(old, new []origin) []Difference {
	if len(old) == 0 || len(new) == 0 {
		return nil
	}
	both, single := [2]origin{old[0], new[0]}, len(old) == 1 && len(new) == 1
	if known, has := d.ofSingle[both]; has && single {
		return known
	}
	out := lists.Filter(append(environDifferences(old, new), inputDifferences(old, new)...),
		func(one Difference) bool { return !slices.Contains(d.opts.compared, one.Name) })
	if single {
		d.ofSingle[both] = out
	}
	return out
}

// environDifferences compares the recorded variables that neither run sweeps.
func environDifferences(old, new []origin) (out []Difference) {
	recorded := func(side []origin) []origin {
		return lists.Filter(side, func(o origin) bool { return o.header.Environ != nil })
	}
	old, new = recorded(old), recorded(new)
	if len(old) == 0 || len(new) == 0 {
		return nil
	}
	var names, swept []string
	for _, o := range slices.Concat(old, new) {
		names = append(names, slices.Sorted(maps.Keys(o.header.Environ))...)
		swept = append(swept, o.header.Envs...)
	}
	for _, name := range lists.Distinct(names) {
		text := func(o origin) string {
			if v, set := o.header.Environ[name]; set {
				return v
			}
			return "unset"
		}
		x, y := distinctTexts(old, text), distinctTexts(new, text)
		if !slices.Contains(swept, name) && !slices.Equal(x, y) {
			out = append(out, Difference{Name: name, Old: joinTexts(x), New: joinTexts(y)})
		}
	}
	return out
}

// distinctTexts returns the distinct texts of origins, sorted.
func distinctTexts(side []origin, text func(origin) string) []string {
	list := lists.Distinct(lists.Map(side, text))
	slices.Sort(list)
	return list
}

// inputsProperty is the name of a difference between input files.
const inputsProperty = "inputs"

// contents returns the programs, files and declarations that produced the rows. For older journals, only
// the files of the run are known.
func (o origin) contents() journal.Inputs {
	if in := o.header.Fingerprints[o.inputs]; in != nil {
		return in
	}
	return o.header.Inputs
}

// inputDifferences compares the inputs of the rows of a point, except for units and variables: ofMetric
// and environDifferences compare their values.
func inputDifferences(old, new []origin) []Difference {
	recorded := func(side []origin) []origin {
		return lists.Filter(side, func(o origin) bool { return o.contents() != nil })
	}
	old, new = recorded(old), recorded(new)
	if len(old) == 0 || len(new) == 0 {
		return nil
	}
	var names []string
	for _, o := range slices.Concat(old, new) {
		names = append(names, slices.Collect(maps.Keys(o.contents()))...)
	}
	slices.Sort(names)
	var texts [2][]string
	for _, name := range slices.Compact(names) {
		if strings.HasPrefix(name, "unit ") || strings.HasPrefix(name, "variable ") {
			continue
		}
		sum := func(o origin) string { return o.contents()[name] } // "" if it has no such input
		x, y := distinctTexts(old, sum), distinctTexts(new, sum)
		if slices.Equal(x, y) {
			continue
		}
		for side, sums := range [][]string{x, y} {
			for _, sum := range sums {
				switch {
				case sum != "":
					texts[side] = append(texts[side], name+" "+shortHash(sum))
				case len(sums) > 1: // some rows have it
					texts[side] = append(texts[side], name+" absent")
				}
			}
		}
	}
	if len(texts[0])+len(texts[1]) == 0 {
		return nil
	}
	return []Difference{{Name: inputsProperty, Old: cmp.Or(joinTexts(texts[0]), "none"),
		New: cmp.Or(joinTexts(texts[1]), "none")}}
}
