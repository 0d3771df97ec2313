package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// class is where a row keeps a coordinate. Its text, with a dot, goes before a
// name that a coordinate of an earlier class already has.
type class string

const (
	axisClass   class = "axis"
	envClass    class = "env"
	optionClass class = "option"
	fieldClass  class = "row"
)

// The coordinates that are fields of every row.
const (
	partField    = "part"
	ranksField   = "num_ranks"
	backendField = "backend"
	kindField    = "kind"
	benchField   = "bench"
	runField     = "run"
	trialField   = "trial"
	machineField = "machine"
)

// coord is something that tells rows apart: an axis, an environment variable,
// an option or a field of the row.
type coord struct {
	name  string // as people write it; unique
	class class
	key   string // the name within its class
}

// value is what a row has at a coordinate.
type value struct {
	has    bool // false when the row does not have the coordinate at all
	unset  bool // an environment variable that the point removes
	text   string
	kind   point.Kind // 0 when it is no typed value
	number float64    // when numeric
	isNum  bool
}

// id tells values apart; an unset variable is not the text "(unset)".
func (v value) id() string {
	switch {
	case !v.has:
		return ""
	case v.unset:
		return "-"
	}
	return "=" + v.text
}

// coordsOf lists the coordinates of the rows in the order in which they are
// best read in a legend. What the header declares is known even without rows.
func coordsOf(h *journal.Header, rows []journal.Row) []coord {
	var list lists.Set[coord]
	add := func(class class, names ...string) {
		for _, name := range names {
			list.Add(coord{name, class, name})
		}
	}
	for _, a := range h.Axes {
		if a.Name != ranksField && a.Name != backendField { // fields of the row
			add(axisClass, a.Name)
		}
	}
	for i := range rows {
		for _, c := range rows[i].Point {
			add(axisClass, c.Name)
		}
	}
	add(envClass, h.Envs...)
	for i := range rows {
		for _, e := range rows[i].Env {
			add(envClass, e.Name)
		}
	}
	for i := range rows {
		for _, c := range rows[i].Options {
			add(optionClass, c.Name)
		}
	}
	add(fieldClass, partField, ranksField, backendField, kindField, benchField, runField, trialField, machineField)
	makeUnique(list.List)
	// What a launch is comes before the axes, what a row is after them.
	first := func(c coord) bool {
		return c.class == fieldClass && (c.key == partField || c.key == ranksField || c.key == backendField)
	}
	last := func(c coord) bool { return !first(c) }
	return slices.Concat(lists.Filter(list.List, first), lists.Filter(list.List, last))
}

// makeUnique puts the class before a name that is taken: an axis called kind is
// what people mean by kind, and the field becomes row.kind.
func makeUnique(coords []coord) {
	taken := map[string]bool{}
	for i := range coords {
		c := &coords[i]
		for taken[c.name] {
			c.name = string(c.class) + "." + c.name
		}
		taken[c.name] = true
	}
}

// findCoord looks a name up, with or without its class in front.
func findCoord(coords []coord, name string) (coord, error) {
	for _, c := range coords {
		if c.name == name || string(c.class)+"."+c.key == name {
			return c, nil
		}
	}
	return coord{}, suggest.Unknown("coordinate", name, lists.Map(coords, func(c coord) string { return c.name }))
}

// of is the row's value at the coordinate.
func (c coord) of(r *journal.Row) value {
	switch c.class {
	case axisClass:
		v, ok := r.Point.Get(c.key)
		return typed(v, ok)
	case optionClass:
		v, ok := r.Options.Get(c.key)
		return typed(v, ok)
	case envClass:
		e, ok := r.Env.Get(c.key)
		v := value{has: ok, unset: !e.Set, text: e.Text()}
		if e.Set && ok {
			// Variables are texts, yet most of those swept are numbers.
			n, err := strconv.ParseFloat(e.Value, 64)
			v.number, v.isNum = n, err == nil
		}
		return v
	}
	switch c.key {
	case ranksField:
		if r.NumRanks == nil {
			return value{}
		}
		return typed(point.IntValue(int64(*r.NumRanks)), true)
	case trialField:
		return typed(point.IntValue(int64(r.Trial)), true)
	case partField:
		return textual(r.Part)
	case backendField:
		return textual(r.Backend)
	case kindField:
		return textual(string(r.Kind))
	case benchField:
		return textual(r.Bench)
	case machineField:
		return textual(machineOf(r))
	}
	return textual(r.Run)
}

// MachineDetail is the detail of a row that says on which machine it was made, where that is
// not a GPU, which has a detail of its own.
const MachineDetail = "machine"

// machineOf is how a row came about and on what: simulated or measured, on which machine or
// GPU, by ranks that shared it.
func machineOf(r *journal.Row) string {
	on := cmp.Or(r.Details[journal.DeviceDetail], r.Details[MachineDetail])
	switch {
	case on != "":
	case r.Kind == journal.Measured:
		on = r.Host
	case r.Details[journal.TopologyDetail] != "": // the host says nothing of a simulation
		on = "topology " + r.Details[journal.TopologyDetail]
	}
	if n := r.Sharing(); n > 1 {
		on += fmt.Sprintf(", shared by %d ranks", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%s on %s", r.Kind, on), " on ")
}

func textual(s string) value { return value{has: s != "", text: s} }

func typed(v point.Value, ok bool) value {
	if !ok || v.IsZero() {
		return value{}
	}
	return value{has: true, text: v.Pretty(), kind: v.Kind(), number: v.Float(), isNum: v.Kind().Numeric()}
}

// label is one coordinate in words, "dtype=f32", or "" where the row has none.
func (c coord) label(v value) string {
	switch {
	case !v.has:
		return ""
	case v.text == "" || strings.ContainsAny(v.text, " \t\n"):
		return c.name + "=" + strconv.Quote(v.text)
	}
	return c.name + "=" + v.text
}

// ordered are the distinct values: numbers by size, then texts in the order in
// which they first appear, as they were declared.
func ordered(values []value) []value {
	var ids lists.Set[string]
	out := lists.Filter(values, func(v value) bool { return ids.Add(v.id()) })
	slices.SortStableFunc(out, func(a, b value) int {
		switch {
		case a.isNum && b.isNum:
			return cmp.Compare(a.number, b.number)
		case a.isNum:
			return -1
		case b.isNum:
			return 1
		}
		return 0
	})
	return out
}

// varies reports whether the rows have more than one value at the coordinate.
func (c coord) varies(rows []*journal.Row) bool {
	return slices.ContainsFunc(rows, func(r *journal.Row) bool { return c.of(r).id() != c.of(rows[0]).id() })
}
