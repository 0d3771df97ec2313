package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/fastjson"
)

// Object holds the members of a small JSON object as a list sorted by name. It uses much less memory than
// a map, which matters for journals of 100,000 rows.
type Object[V any] []Member[V]

// Member is one member of an Object.
type Member[V any] struct {
	Name  string
	Value V
}

// NewObject returns the members of a map, or nil for a nil map.
func NewObject[V any](m map[string]V) Object[V] {
	if m == nil {
		return nil
	}
	o := make(Object[V], 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		o = append(o, Member[V]{name, m[name]})
	}
	return o
}

// Get returns the value of a name, or the zero value if there is none.
func (o Object[V]) Get(name string) V {
	v, _ := o.Find(name)
	return v
}

// Find returns the value of a name and whether there is one.
func (o Object[V]) Find(name string) (v V, has bool) {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value, true
		}
	}
	return v, false
}

// All iterates over the members in order of their names.
func (o Object[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for i := range o {
			if !yield(o[i].Name, o[i].Value) {
				return
			}
		}
	}
}

// With returns a copy in which name has the value v.
func (o Object[V]) With(name string, v V) Object[V] {
	at, has := slices.BinarySearchFunc(o, name, func(m Member[V], name string) int { return cmp.Compare(m.Name, name) })
	o = slices.Clone(o)
	if has {
		o[at].Value = v
		return o
	}
	return slices.Insert(o, at, Member[V]{name, v})
}

// Without returns a copy without name.
func (o Object[V]) Without(name string) Object[V] {
	return slices.DeleteFunc(slices.Clone(o), func(m Member[V]) bool { return m.Name == name })
}

// MarshalJSON writes what encoding/json writes for a map; a nil Object is null.
func (o Object[V]) MarshalJSON() ([]byte, error) {
	if o == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the encoder that embeds the object escapes if it is asked to
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		_ = enc.Encode(m.Name) // a text is always encoded
		b.WriteByte(':')
		if err := enc.Encode(m.Value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil // the embedding encoder removes the line ends that Encode adds
}

// UnmarshalJSON reads what encoding/json would read into a map.
func (o *Object[V]) UnmarshalJSON(data []byte) error {
	var m map[string]V
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	*o = NewObject(m)
	return nil
}

// readObject returns a reader of objects whose members are sorted by name, as MarshalJSON writes them.
// It rejects other objects, which are then read by encoding/json.
func readObject[V any](read fastjson.Reader[V]) fastjson.Reader[Object[V]] {
	capacity := 0 // number of members of the last object: most objects of a journal have equally many
	return func(d *fastjson.Decoder, p *Object[V]) bool {
		if d.Null() {
			return true
		}
		o := make(Object[V], 0, capacity)
		ok := d.Object(func(name []byte) bool {
			o = append(o, Member[V]{Name: d.Intern(name)})
			n := len(o)
			return (n == 1 || o[n-2].Name < o[n-1].Name) && read(d, &o[n-1].Value)
		})
		*p, capacity = o, len(o)
		return ok
	}
}
