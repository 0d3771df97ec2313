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

// compareNamed calls differs for each name whose distinct texts are not the same on both sides. of returns the texts of
// an origin by name, or nil if it has not recorded them; an origin that lacks a name has the text absent.
func compareNamed(old, new []origin, absent string, of func(origin) map[string]string,
	differs func(name string, x, y []string)) {
	recorded := func(o origin) bool { return of(o) != nil }
	old, new = lists.Filter(old, recorded), lists.Filter(new, recorded)
	if len(old) == 0 || len(new) == 0 {
		return
	}
	names := map[string]bool{}
	for _, o := range slices.Concat(old, new) {
		for name := range of(o) {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		texts := func(side []origin) []string {
			list := lists.Distinct(lists.Map(side, func(o origin) string {
				if text, has := of(o)[name]; has {
					return text
				}
				return absent
			}))
			slices.Sort(list)
			return list
		}
		if x, y := texts(old), texts(new); !slices.Equal(x, y) {
			differs(name, x, y)
		}
	}
}

// environDifferences compares the recorded variables that neither run sweeps.
func environDifferences(old, new []origin) (out []Difference) {
	var swept []string
	for _, o := range slices.Concat(old, new) {
		swept = append(swept, o.header.Envs...)
	}
	compareNamed(old, new, "unset", func(o origin) map[string]string { return o.header.Environ },
		func(name string, x, y []string) {
			if !slices.Contains(swept, name) {
				out = append(out, Difference{Name: name, Old: joinTexts(x), New: joinTexts(y)})
			}
		})
	return out
}

// inputDifferences compares the inputs of the rows of a point, except for units and variables: ofMetric
// and environDifferences compare their values.
func inputDifferences(old, new []origin) []Difference {
	var texts [2][]string
	compareNamed(old, new, "", func(o origin) map[string]string { return o.contents() }, func(name string, x, y []string) {
		if strings.HasPrefix(name, "unit ") || strings.HasPrefix(name, "variable ") {
			return
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
	})
	if len(texts[0])+len(texts[1]) == 0 {
		return nil
	}
	return []Difference{{Name: inputsProperty, Old: cmp.Or(joinTexts(texts[0]), "none"),
		New: cmp.Or(joinTexts(texts[1]), "none")}}
}
