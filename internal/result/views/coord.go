package views

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

// class is the part of a row that contains a coordinate. If two coordinates have the same name, the later
// one gets its class as a prefix: row.kind.
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

// fields reads the fields of a row by name.
var fields = map[string]func(*journal.Row) value{
	ranksField: func(r *journal.Row) value {
		if r.NumRanks == nil {
			return value{}
		}
		return typed(point.IntValue(int64(*r.NumRanks)), true)
	},
	trialField:   func(r *journal.Row) value { return typed(point.IntValue(int64(r.Trial)), true) },
	partField:    func(r *journal.Row) value { return textual(r.Part) },
	backendField: func(r *journal.Row) value { return textual(r.Backend) },
	kindField:    func(r *journal.Row) value { return textual(string(r.Kind)) },
	benchField:   func(r *journal.Row) value { return textual(r.Bench) },
	runField:     func(r *journal.Row) value { return textual(r.Run) },
	machineField: func(r *journal.Row) value { return textual(machineOf(r)) },
}

// coord is a coordinate of a row: an axis, an environment variable, an option or a field.
type coord struct {
	name  string // unique, as users write it
	class class
	key   string // the name within its class
}

// is reports whether the coordinate is one of the given fields.
func (c coord) is(fields ...string) bool {
	return c.class == fieldClass && slices.Contains(fields, c.key)
}

// value is a row's value of a coordinate.
type value struct {
	has    bool // false if the row does not have the coordinate
	unset  bool // an environment variable that the point removes
	text   string
	kind   point.Kind // 0 if the value has no type
	number float64    // valid if isNum
	isNum  bool
}

// id returns a text that is different for different values. An unset variable differs from one with the
// text "(unset)".
func (v value) id() string {
	switch {
	case !v.has:
		return ""
	case v.unset:
		return "-"
	}
	return "=" + v.text
}

// coordsOf lists the coordinates of the rows in the order in which a legend should name them. It includes
// coordinates that the header declares but no row has.
func coordsOf(h *journal.Header, rows []journal.Row) []coord {
	var list lists.Set[coord]
	add := func(class class, names ...string) {
		for _, name := range names {
			list.Add(coord{name, class, name})
		}
	}
	add(fieldClass, partField, ranksField, backendField)
	for _, a := range h.Axes {
		if a.Name != ranksField && a.Name != backendField { // these are fields of the row
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
	add(fieldClass, kindField, benchField, runField, trialField, machineField)
	makeUnique(list.List)
	return list.List
}

// makeUnique adds the class to names that are already taken. Names of fields are changed rather than names
// of other classes: if there is an axis called kind, the field becomes row.kind.
func makeUnique(coords []coord) {
	used := map[string]bool{}
	for _, fields := range []bool{false, true} {
		for i := range coords {
			c := &coords[i]
			if (c.class == fieldClass) != fields {
				continue
			}
			for used[c.name] {
				c.name = string(c.class) + "." + c.name
			}
			used[c.name] = true
		}
	}
}

// findCoord looks up a name, with or without its class as a prefix.
func findCoord(coords []coord, name string) (coord, error) {
	for _, c := range coords {
		if c.name == name || string(c.class)+"."+c.key == name {
			return c, nil
		}
	}
	return coord{}, suggest.Unknown("coordinate", name, namesOf(coords))
}

func namesOf(coords []coord) []string {
	return lists.Map(coords, func(c coord) string { return c.name })
}

// value returns the row's value of the coordinate.
func (c coord) value(r *journal.Row) value {
	switch c.class {
	case axisClass:
		return typed(r.Point.Get(c.key))
	case optionClass:
		return typed(r.Options.Get(c.key))
	case envClass:
		e, ok := r.Env.Get(c.key)
		v := value{has: ok, unset: !e.Set, text: e.Text()}
		if e.Set && ok {
			// Variables are texts, but most variables of a sweep hold numbers.
			n, err := strconv.ParseFloat(e.Value, 64)
			v.number, v.isNum = n, err == nil
		}
		return v
	}
	return fields[c.key](r)
}

// MachineDetail is the key of the row detail that names the machine. Rows of a GPU
// have journal.DeviceDetail instead.
const MachineDetail = "machine"

// machineOf describes how and on which machine a row was made: "simulated on topology T", "measured on GPU,
// shared by 8 ranks".
func machineOf(r *journal.Row) string {
	on := cmp.Or(r.Details[journal.DeviceDetail], r.Details[MachineDetail])
	switch {
	case on != "":
	case r.Kind == journal.Measured:
		on = r.Host
	case r.Details[journal.TopologyDetail] != "": // the host does not matter for a simulation
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

// label returns a coordinate with its value, "dtype=f32", or "" if the row has none.
func (c coord) label(v value) string {
	switch {
	case !v.has:
		return ""
	case v.text == "" || strings.ContainsAny(v.text, " \t\n"):
		return c.name + "=" + strconv.Quote(v.text)
	}
	return c.name + "=" + v.text
}

// ordered returns the distinct values: first numbers by size, then texts in the order of their first
// appearance, which is the declared order.
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
	return slices.ContainsFunc(rows, func(r *journal.Row) bool { return c.value(r).id() != c.value(rows[0]).id() })
}
