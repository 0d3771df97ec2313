package dataset

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

// Class is the part of a row that holds a coordinate. If two coordinates have the same name, the later one
// gets its class as a prefix: row.kind.
type Class string

// The classes of coordinates.
const (
	Axis     Class = "axis"
	Variable Class = "env"
	Option   Class = "option"
	Field    Class = "row"
)

// The coordinates that are fields of every row, as users write them.
const (
	Part     = "part"
	NumRanks = "num_ranks"
	Backend  = "backend"
	Kind     = "kind"
	Bench    = "bench"
	Run      = "run"
	Build    = "build"
	Trial    = "trial"
	Status   = "status"
	Quality  = "quality"
	Machine  = "machine"
	Sharing  = journal.SharingDetail // ranks per GPU, present only if ranks shared one
)

// fields reads the fields of a row.
var fields = map[string]func(*journal.Row) Value{
	NumRanks: func(r *journal.Row) Value {
		if r.NumRanks == nil {
			return Value{}
		}
		return number(*r.NumRanks)
	},
	Sharing: func(r *journal.Row) Value {
		if r.Sharing() == 0 {
			return Value{}
		}
		return number(r.Sharing())
	},
	Trial:   func(r *journal.Row) Value { return number(r.Trial) },
	Part:    func(r *journal.Row) Value { return textual(r.Part) },
	Backend: func(r *journal.Row) Value { return textual(r.Backend) },
	Kind:    func(r *journal.Row) Value { return textual(string(r.Kind)) },
	Bench:   func(r *journal.Row) Value { return textual(r.Bench) },
	Run:     func(r *journal.Row) Value { return textual(r.Run) },
	Build: func(r *journal.Row) Value { // of rows that are shown together with those of other builds, not of other runs
		return typed(point.StringValue(buildOf(r)), buildOf(r) != "" && buildOf(r) != r.Run)
	},
	Status:  func(r *journal.Row) Value { return textual(string(r.Status)) },
	Quality: func(r *journal.Row) Value { return textual(string(r.Quality)) },
	Machine: func(r *journal.Row) Value { return textual(machineOf(r)) },
}

func buildOf(r *journal.Row) string {
	if r.Origin == nil {
		return ""
	}
	return r.Origin.Build
}

// Coord is a coordinate of rows: an axis, an environment variable, an option or a field.
type Coord struct {
	Name  string // unique among the coordinates of a dataset, as users write it
	Class Class
	Key   string // the name within its class
	Item  int    // of a tuple: 1 for its first number. 0 is the whole value, cube the number that all numbers are
}

// Is reports whether the coordinate is one of the given fields.
func (c Coord) Is(fields ...string) bool { return c.Class == Field && slices.Contains(fields, c.Key) }

// Circumstance reports whether the coordinate tells how a row was measured and not what was measured. Rows that
// differ only in circumstances are measurements of the same thing.
func (c Coord) Circumstance() bool { return c.Is(Trial, Machine, Status, Quality, Sharing) }

// Identifies reports whether rows that differ in the coordinate are different points. [Key] covers these coordinates,
// and the bench with its part.
func (c Coord) Identifies() bool { return c.Class != Field || c.Is(NumRanks, Backend, Sharing, Build) }

// Value is a row's value of a coordinate. It is zero if the row does not have the coordinate.
type Value struct {
	Point point.Value // zero if the variable is unset
	Has   bool
	Unset bool // an environment variable that the point removes
}

func number(n int) Value { return Value{Point: point.IntValue(int64(n)), Has: true} }

func textual(s string) Value { return typed(point.StringValue(s), s != "") }

func typed(v point.Value, has bool) Value {
	if !has || v.IsZero() {
		return Value{}
	}
	return Value{Point: v, Has: true}
}

// variable returns the value of an environment variable.
func variable(e point.EnvVar, has bool) Value {
	switch {
	case !has:
		return Value{}
	case !e.Set:
		return Value{Has: true, Unset: true}
	}
	return Value{Point: point.StringValue(e.Value), Has: true}
}

// Text returns the value as people write it, "(unset)" for an unset variable, and "" if there is none.
func (v Value) Text() string {
	switch {
	case v.Unset:
		return point.EnvVar{}.Text()
	case !v.Has:
		return ""
	}
	return v.Point.Pretty()
}

// String is like Text, but writes byte sizes as plain integers, like files and columns do.
func (v Value) String() string {
	if v.Has && !v.Unset {
		return v.Point.String()
	}
	return v.Text()
}

// Number returns the value as a number. Texts that are numbers count too, because most variables of a sweep hold
// numbers.
func (v Value) Number() (n float64, ok bool) {
	switch {
	case !v.Has || v.Unset:
		return 0, false
	case v.Point.Kind().Numeric():
		return v.Point.Float(), true
	case v.Point.Kind() != point.String:
		return 0, false
	}
	n, err := strconv.ParseFloat(v.Point.String(), 64)
	return n, err == nil
}

// ID returns a text that is different for different values. An unset variable differs from one with the text
// "(unset)".
func (v Value) ID() string {
	switch {
	case !v.Has:
		return ""
	case v.Unset:
		return "-"
	}
	return "=" + v.Point.Pretty()
}

// Coords lists the coordinates of the rows in the order in which a legend should name them. It includes
// coordinates that the header declares but no row has. h may be nil.
func (s Set) Coords(h *journal.Header) []Coord {
	if h == nil {
		h = &journal.Header{}
	}
	var list lists.Set[Coord]
	add := func(class Class, names ...string) {
		for _, name := range names {
			list.Add(Coord{Name: name, Class: class, Key: name})
		}
	}
	add(Field, Part, NumRanks, Backend)
	for _, a := range h.Axes {
		if a.Name != NumRanks && a.Name != Backend { // these are fields of the row
			add(Axis, a.Name)
		}
	}
	for _, r := range s {
		for _, c := range r.Point {
			add(Axis, c.Name)
		}
	}
	add(Variable, h.Envs...)
	for _, r := range s {
		for _, e := range r.Env {
			add(Variable, e.Name)
		}
	}
	for _, r := range s {
		for _, c := range r.Options {
			add(Option, c.Name)
		}
	}
	add(Field, Kind, Bench, Run, Build, Trial, Status, Quality, Sharing, Machine)
	makeUnique(list.List)
	return list.List
}

// makeUnique adds the class to names that are already taken. Names of fields are changed rather than names of
// other classes: if there is an axis called kind, the field becomes row.kind.
func makeUnique(coords []Coord) {
	used := map[string]bool{}
	for _, fields := range []bool{false, true} {
		for i := range coords {
			c := &coords[i]
			if (c.Class == Field) != fields {
				continue
			}
			for used[c.Name] {
				c.Name = string(c.Class) + "." + c.Name
			}
			used[c.Name] = true
		}
	}
}

// FindCoord looks up a name, with or without its class as a prefix. shape.0 is the first number of the tuple shape, and
// shape.cube the number that all of its numbers are, if they are equal and the tuple has no label.
func FindCoord(coords []Coord, name string) (Coord, error) {
	for _, c := range coords {
		if c.Name == name || string(c.Class)+"."+c.Key == name {
			return c, nil
		}
	}
	if at := strings.LastIndexByte(name, '.'); at > 0 {
		item, err := strconv.Atoi(name[at+1:])
		if name[at+1:] == "cube" {
			item, err = cube-1, nil
		}
		if c, unknown := FindCoord(coords, name[:at]); err == nil && unknown == nil {
			c.Name, c.Item = name, item+1
			return c, nil
		}
	}
	return Coord{}, suggest.Unknown("coordinate", name, Names(coords))
}

// Identities lists the coordinates that tell the points of the rows apart.
func Identities(rows Set) []Coord { return lists.Filter(rows.Coords(nil), Coord.Identifies) }

// Names returns the names of coordinates.
func Names(coords []Coord) []string {
	return lists.Map(coords, func(c Coord) string { return c.Name })
}

// Of returns the row's value of the coordinate.
func (c Coord) Of(r *journal.Row) Value {
	if c.Item != 0 {
		return c.item(r)
	}
	switch c.Class {
	case Axis:
		return typed(r.Point.Get(c.Key))
	case Option:
		return typed(r.Options.Get(c.Key))
	case Variable:
		return variable(r.Env.Get(c.Key))
	}
	return fields[c.Key](r)
}

// cube is the item of a tuple of equal numbers.
const cube = -1

// item returns a number of a tuple. A single number stands for any: 64 is the shape 64x64x64.
func (c Coord) item(r *journal.Row) Value {
	at := c.Item - 1
	c.Item = 0
	v := c.Of(r).Point
	dims := v.Dims()
	switch {
	case v.Kind() == point.Tuple && at == cube-1:
		if v.Label() != "" || len(slices.Compact(slices.Clone(dims))) != 1 {
			return Value{}
		}
		return number(int(dims[0]))
	case v.Kind() != point.Tuple:
	case len(dims) == 1:
		return number(int(dims[0]))
	case at < len(dims):
		return number(int(dims[at]))
	}
	return Value{}
}

// Label returns the coordinate with a value, "dtype=f32", or "" if there is none.
func (c Coord) Label(v Value) string {
	text := v.Text()
	switch {
	case !v.Has:
		return ""
	case text == "" || strings.ContainsAny(text, " \t\n"):
		return c.Name + "=" + strconv.Quote(text)
	}
	return c.Name + "=" + text
}

// Values returns the distinct values of the coordinate: first numbers by size, then texts in the order of their first
// appearance, which is the declared order.
func (c Coord) Values(rows Set) []Value {
	return Ordered(lists.Map(rows, c.Of))
}

// Known is like Values without the value of rows that do not have the coordinate.
func (c Coord) Known(rows Set) []Value {
	return lists.Filter(c.Values(rows), func(v Value) bool { return v.Has })
}

// Ordered returns the distinct values in the order of Coord.Values.
func Ordered(values []Value) []Value {
	var ids lists.Set[string]
	out := lists.Filter(values, func(v Value) bool { return ids.Add(v.ID()) })
	slices.SortStableFunc(out, func(a, b Value) int {
		x, isX := a.Number()
		y, isY := b.Number()
		switch {
		case isX && isY:
			return cmp.Compare(x, y)
		case isX:
			return -1
		case isY:
			return 1
		}
		return 0
	})
	return out
}

// Varies reports whether the rows have more than one value at the coordinate.
func (c Coord) Varies(rows Set) bool {
	return slices.ContainsFunc(rows, func(r *journal.Row) bool { return c.Of(r).ID() != c.Of(rows[0]).ID() })
}

// MachineDetail is the key of the row detail that names the machine. Rows of a GPU have journal.DeviceDetail
// instead.
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
