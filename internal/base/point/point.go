package point

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/fastjson"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// Coord is one coordinate of a point.
type Coord struct {
	Name  string
	Value Value
}

// Point is a list of coordinates in the order in which the axes were declared. Its JSON is an
// object that keeps this order.
type Point []Coord

// Get returns the value of an axis, and whether the point has that axis.
func (p Point) Get(name string) (Value, bool) {
	for _, c := range p {
		if c.Name == name {
			return c.Value, true
		}
	}
	return Value{}, false
}

// At returns the value of an axis. If the point does not have that axis, it returns the zero
// Value, whose text is empty and whose number is 0.
func (p Point) At(name string) Value {
	v, _ := p.Get(name)
	return v
}

// ValueOf returns the value of an option, which is in the point if it is swept, and else in options.
func ValueOf(p, options Point, name string) Value {
	if v, swept := p.Get(name); swept {
		return v
	}
	return options.At(name)
}

// With returns a copy in which the coordinate is replaced, or appended if it is new.
func (p Point) With(name string, v Value) Point {
	q := append(make(Point, 0, len(p)+1), p...)
	if i := slices.IndexFunc(q, func(c Coord) bool { return c.Name == name }); i >= 0 {
		q[i].Value = v
		return q
	}
	return append(q, Coord{name, v})
}

// Without returns a copy without the named coordinates.
func (p Point) Without(names ...string) Point {
	return slices.DeleteFunc(slices.Clone(p), func(c Coord) bool { return slices.Contains(names, c.Name) })
}

// String returns the point as text, such as "size=64Ki dtype=f32".
func (p Point) String() string {
	words := lists.Map(p, func(c Coord) string { return c.Name + "=" + quoteIfNeeded(c.Value.Pretty()) })
	return strings.Join(words, " ")
}

func quoteIfNeeded(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n\"") {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// MarshalJSON writes an object with the axes in their order.
func (p Point) MarshalJSON() ([]byte, error) {
	return marshalObject(len(p), func(i int) (string, any) { return p[i].Name, p[i].Value })
}

// UnmarshalJSON reads an object and keeps its order.
func (p *Point) UnmarshalJSON(b []byte) error { return p.UnmarshalStrings(b, newString) }

// UnmarshalStrings is UnmarshalJSON for reading many points: intern converts texts to strings and
// may return the same string for the same text.
func (p *Point) UnmarshalStrings(b []byte, intern func([]byte) string) error {
	*p = nil
	room := bytes.Count(b, []byte{':'}) // at least the number of coordinates
	return unmarshalObject(b, intern, func(name string, value []byte) error {
		var v Value
		if err := v.unmarshal(value, intern); err != nil {
			return fmt.Errorf("axis %q: %w", name, err)
		}
		if *p == nil {
			*p = make(Point, 0, room)
		}
		*p = append(*p, Coord{name, v})
		return nil
	})
}

// newString converts without interning.
func newString(text []byte) string { return string(text) }

// EnvVar is an environment variable of a point. If Set is false, the variable is removed from the
// environment of the workers, even if kernbench inherited it.
type EnvVar struct {
	Name  string
	Value string
	Set   bool
}

// Text returns the value, or "(unset)" for a variable that is removed.
func (e EnvVar) Text() string {
	if !e.Set {
		return "(unset)"
	}
	return e.Value
}

// Env is the swept part of the environment of the workers, in declared order. Its JSON is an
// object with a string, or null for an unset variable, under each name.
type Env []EnvVar

// Get returns the variable, and whether it is part of the sweep.
func (e Env) Get(name string) (EnvVar, bool) {
	for _, v := range e {
		if v.Name == name {
			return v, true
		}
	}
	return EnvVar{}, false
}

func (e Env) String() string {
	return strings.Join(lists.Map(e, func(v EnvVar) string { return v.Name + "=" + quoteIfNeeded(v.Text()) }), " ")
}

// MarshalJSON writes an object in the order of the variables.
func (e Env) MarshalJSON() ([]byte, error) {
	return marshalObject(len(e), func(i int) (string, any) {
		if !e[i].Set {
			return e[i].Name, nil
		}
		return e[i].Name, e[i].Value
	})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (e *Env) UnmarshalJSON(b []byte) error {
	*e = nil
	return unmarshalObject(b, newString, func(name string, value []byte) error {
		var s *string
		if err := json.Unmarshal(value, &s); err != nil {
			return fmt.Errorf("environment variable %q: %w", name, err)
		}
		v := EnvVar{Name: name}
		if s != nil {
			v.Value, v.Set = *s, true
		}
		*e = append(*e, v)
		return nil
	})
}

// marshalObject writes an object of n members, which field returns.
func marshalObject(n int, field func(int) (string, any)) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		name, value := field(i)
		k, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// unmarshalObject calls field for each member of an object, in order. null is an empty object.
func unmarshalObject(b []byte, intern func([]byte) string, field func(name string, value []byte) error) error {
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil
	}
	ok, err := fastjson.Members(b, intern, field)
	if err == nil && !ok {
		err = fmt.Errorf("want an object, have %s", b)
	}
	return err
}
