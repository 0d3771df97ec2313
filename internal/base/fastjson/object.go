package fastjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"
	"unsafe"
)

// Object is what a map from names is in JSON, with few members: a list in order of their
// names, which takes a fraction of a map's memory.
type Object[V any] []Member[V]

// Member is one of an Object.
type Member[V any] struct {
	Name  string
	Value V
}

// ObjectOf has the members of a map.
func ObjectOf[V any](m map[string]V) Object[V] {
	if m == nil {
		return nil
	}
	o := make(Object[V], 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		o = append(o, Member[V]{name, m[name]})
	}
	return o
}

// Get is the value of a name, the zero value where there is none.
func (o Object[V]) Get(name string) V {
	v, _ := o.Find(name)
	return v
}

// Find is the value of a name, and whether there is one.
func (o Object[V]) Find(name string) (v V, has bool) {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value, true
		}
	}
	return v, false
}

// All are the members in order of their names.
func (o Object[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for i := range o {
			if !yield(o[i].Name, o[i].Value) {
				return
			}
		}
	}
}

func (o Object[V]) search(name string) (int, bool) {
	return slices.BinarySearchFunc(o, name, func(m Member[V], name string) int { return cmp.Compare(m.Name, name) })
}

// With is a copy in which a name has the value.
func (o Object[V]) With(name string, v V) Object[V] {
	at, has := o.search(name)
	o = slices.Clone(o)
	if has {
		o[at].Value = v
		return o
	}
	return slices.Insert(o, at, Member[V]{name, v})
}

// Without is a copy that lacks a name.
func (o Object[V]) Without(name string) Object[V] {
	return slices.DeleteFunc(slices.Clone(o), func(m Member[V]) bool { return m.Name == name })
}

// MarshalJSON writes what encoding/json writes for a map, except that one without members is null.
func (o Object[V]) MarshalJSON() ([]byte, error) {
	if o == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // who embeds it escapes
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(m.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(m.Value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil // line ends within it go where it is embedded
}

// UnmarshalJSON reads what encoding/json would read into a map.
func (o *Object[V]) UnmarshalJSON(data []byte) error {
	var m map[string]V
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	*o = ObjectOf(m)
	return nil
}

func (*Object[V]) decoder(d *Decoder) decodeFunc {
	decode := d.decoder(reflect.TypeFor[V]())
	room := 0
	return func(s *scanner, p unsafe.Pointer) bool {
		if s.null() {
			return true
		}
		o := make(Object[V], 0, room)
		ok := s.object(func(name []byte) bool {
			o = append(o, Member[V]{Name: d.intern(name)})
			n := len(o)
			// In order each name is above the last; what is not is left to others.
			return (n == 1 || o[n-2].Name < o[n-1].Name) && decode(s, unsafe.Pointer(&o[n-1].Value))
		})
		*(*Object[V])(p) = o
		room = len(o)
		return ok
	}
}
