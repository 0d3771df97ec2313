// Package fastjson reads JSON of known Go types, such as the lines of a large journal,
// many times faster than encoding/json and into less memory. It reads nothing
// differently: what is out of the ordinary in any way it declines, and the caller has
// encoding/json read that.
package fastjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"hash/maphash"
	"reflect"
	"strconv"
	"strings"
	"unsafe"
)

// Decoder reads values. Strings that occur again and again are held in memory once, and so
// is the value of a field that is tagged `fastjson:"shared"` while its text stays the same:
// who changes such a value copies it first. It is not for use by several goroutines at once.
type Decoder struct {
	types map[reflect.Type]decodeFunc
	seed  maphash.Seed
	seen  []string // the latest string of each hash
}

// decodeFunc reads the value that comes next to where p points, which is zero.
type decodeFunc func(s *scanner, p unsafe.Pointer) bool

// NewDecoder returns a Decoder.
func NewDecoder() *Decoder {
	return &Decoder{types: map[reflect.Type]decodeFunc{}, seed: maphash.MakeSeed(), seen: make([]string, 1<<12)}
}

// Decode reads data into the zero value that v points at, and reports whether it is there
// as encoding/json would have left it. It declines members that are no field or appear
// twice, and numbers that do not fit; then v holds anything.
func (d *Decoder) Decode(data []byte, v any) bool {
	s := scanner{text: data}
	to := reflect.ValueOf(v)
	return d.decoder(to.Type().Elem())(&s, to.UnsafePointer()) && s.peek() == 0 && s.at == len(data)
}

// Unmarshaler is a type that reads itself as UnmarshalJSON does, with strings that repeat
// held once.
type Unmarshaler interface {
	UnmarshalStrings(data []byte, intern func([]byte) string) error
}

// selfDecoder is a type of this package that knows how it is read.
type selfDecoder interface{ decoder(*Decoder) decodeFunc }

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// decoder is what reads values of the type.
func (d *Decoder) decoder(t reflect.Type) decodeFunc {
	f := d.types[t]
	if f == nil {
		d.types[t] = func(s *scanner, p unsafe.Pointer) bool { return d.types[t](s, p) } // a type that has itself within
		f = d.newDecoder(t)
		d.types[t] = f
	}
	return f
}

func (d *Decoder) newDecoder(t reflect.Type) decodeFunc {
	switch v := reflect.New(t).Interface().(type) {
	case selfDecoder:
		return v.decoder(d)
	case Unmarshaler:
		intern := d.intern
		return func(s *scanner, p unsafe.Pointer) bool {
			raw, ok := s.raw()
			return ok && reflect.NewAt(t, p).Interface().(Unmarshaler).UnmarshalStrings(raw, intern) == nil
		}
	case json.Unmarshaler:
		return func(s *scanner, p unsafe.Pointer) bool {
			raw, ok := s.raw()
			return ok && reflect.NewAt(t, p).Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil
		}
	case encoding.TextUnmarshaler:
		return declined
	case *map[string]float64:
		return mapDecoder(d, (*scanner).float)
	case *map[string]string:
		return mapDecoder(d, d.string)
	case *[]string:
		return d.stringsDecoder()
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.structDecoder(t)
	case reflect.Pointer:
		return d.pointerDecoder(t.Elem())
	case reflect.Slice:
		return d.sliceDecoder(t)
	case reflect.Map:
		return d.mapDecoder(t)
	case reflect.String:
		return d.lastString()
	case reflect.Bool:
		return scalar((*scanner).bool)
	case reflect.Float64:
		return scalar((*scanner).float)
	case reflect.Int:
		return scalar((*scanner).int)
	}
	return declined
}

func declined(*scanner, unsafe.Pointer) bool { return false }

// scalar is a value that null leaves as it is. T is how the type is held in memory.
func scalar[T any](read func(*scanner) (T, bool)) decodeFunc {
	return func(s *scanner, p unsafe.Pointer) (ok bool) {
		if s.null() {
			return true
		}
		*(*T)(p), ok = read(s)
		return ok
	}
}

// field is a member of a struct.
type field struct {
	name   string // as it is written: "name":
	offset uintptr
	decode decodeFunc
}

func (d *Decoder) structDecoder(t reflect.Type) decodeFunc {
	fields, ok := d.fields(t)
	if !ok || len(fields) > 64 {
		return declined
	}
	byName := map[string]int{}
	for i, f := range fields {
		byName[f.name] = i
	}
	return func(s *scanner, p unsafe.Pointer) bool {
		next, have := 0, uint64(0)
		return s.list('{', '}', func() bool {
			i := next // as it was written by us: the fields in their order, without some
			for i < len(fields) && !s.word(fields[i].name) {
				i++
			}
			if i == len(fields) {
				name, ok := s.str()
				if !ok || !s.take(':') {
					return false
				}
				if i, ok = byName[`"`+string(name)+`":`]; !ok {
					return false // encoding/json also takes names that differ in case
				}
			}
			if have&(1<<i) != 0 {
				return false
			}
			have |= 1 << i
			next = i + 1
			return fields[i].decode(s, unsafe.Add(p, fields[i].offset))
		})
	}
}

// fields are those of a struct and of the structs that are embedded in it.
func (d *Decoder) fields(t reflect.Type) (list []field, ok bool) {
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct:
			continue // its fields are among the visible ones
		case !f.IsExported() || f.Anonymous || name == "" || name == "-" || strings.Contains(options, "string"):
			return nil, false
		}
		offset := uintptr(0)
		for n := range f.Index {
			offset += t.FieldByIndex(f.Index[:n+1]).Offset
		}
		decode := d.decoder(f.Type)
		switch {
		case f.Tag.Get("fastjson") == "shared":
			decode = shared(f.Type, decode)
		case f.Type.Kind() == reflect.String:
			decode = d.lastString() // each field has its own
		}
		list = append(list, field{strconv.Quote(name) + ":", offset, decode})
	}
	return list, true
}

// maxRemembered is how long a text is that is compared with the next one.
const maxRemembered = 256

// lastString reads a string that is often the same as the last one.
func (d *Decoder) lastString() decodeFunc {
	var text []byte // the last one as it was written, which nothing else begins with
	var last string
	return func(s *scanner, p unsafe.Pointer) (ok bool) {
		if s.null() {
			return true
		}
		if len(text) > 0 && bytes.HasPrefix(s.text[s.at:], text) {
			s.at += len(text)
			*(*string)(p) = last
			return true
		}
		start := s.at
		if last, ok = d.string(s); !ok {
			text = nil
			return false
		}
		*(*string)(p) = last
		if text = text[:0]; s.at-start <= maxRemembered {
			text = append(text, s.text[start:s.at]...)
		}
		return true
	}
}

// shared reads a value of any type that is often the same as the last one.
func shared(t reflect.Type, decode decodeFunc) decodeFunc {
	var text []byte
	last := reflect.New(t).Elem()
	return func(s *scanner, p unsafe.Pointer) bool {
		s.space()
		to := reflect.NewAt(t, p).Elem()
		if len(text) > 0 && bytes.HasPrefix(s.text[s.at:], text) {
			s.at += len(text)
			to.Set(last)
			return true
		}
		start := s.at
		if !decode(s, p) {
			return false
		}
		last.Set(to)
		text = append(text[:0], s.text[start:s.at]...)
		if c := text[0]; c != '{' && c != '[' && c != '"' {
			text = text[:0] // a number may begin another one
		}
		return true
	}
}

func (d *Decoder) pointerDecoder(elem reflect.Type) decodeFunc {
	decode := d.decoder(elem)
	return func(s *scanner, p unsafe.Pointer) bool {
		if s.null() {
			return true
		}
		to := reflect.New(elem).UnsafePointer()
		*(*unsafe.Pointer)(p) = to
		return decode(s, to)
	}
}

// Lists and maps have room for as many items as the last one of their kind had.

func (d *Decoder) sliceDecoder(t reflect.Type) decodeFunc {
	if t.Elem().Kind() == reflect.Uint8 {
		return declined // it is written in base64
	}
	decode := d.decoder(t.Elem())
	room := 0
	return func(s *scanner, p unsafe.Pointer) bool {
		if s.null() {
			return true
		}
		v := reflect.NewAt(t, p).Elem()
		v.Set(reflect.MakeSlice(t, 0, room))
		n := 0
		ok := s.list('[', ']', func() bool {
			if n == v.Cap() {
				v.Grow(max(n, 1))
			}
			n++
			v.SetLen(n)
			return decode(s, v.Index(n-1).Addr().UnsafePointer())
		})
		room = n
		return ok
	}
}

func (d *Decoder) stringsDecoder() decodeFunc {
	room := 0
	return func(s *scanner, p unsafe.Pointer) bool {
		if s.null() {
			return true
		}
		list := make([]string, 0, room)
		ok := s.list('[', ']', func() bool {
			text, ok := "", s.null()
			if !ok {
				text, ok = d.string(s)
			}
			list = append(list, text)
			return ok
		})
		*(*[]string)(p) = list
		room = len(list)
		return ok
	}
}

func (d *Decoder) mapDecoder(t reflect.Type) decodeFunc {
	if t.Key().Kind() != reflect.String || t.Key().Implements(textUnmarshaler) ||
		reflect.PointerTo(t.Key()).Implements(textUnmarshaler) {
		return declined
	}
	decode := d.decoder(t.Elem())
	return func(s *scanner, p unsafe.Pointer) bool {
		if s.null() {
			return true
		}
		v := reflect.NewAt(t, p).Elem()
		v.Set(reflect.MakeMap(t))
		return s.object(func(name []byte) bool {
			key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem())
			key.SetString(d.intern(name))
			ok := decode(s, value.UnsafePointer())
			v.SetMapIndex(key, value.Elem())
			return ok
		})
	}
}

// mapDecoder is for the maps that every row has, without reflection.
func mapDecoder[T any](d *Decoder, read func(*scanner) (T, bool)) decodeFunc {
	room := 0
	return func(s *scanner, p unsafe.Pointer) bool {
		if s.null() {
			return true
		}
		m := make(map[string]T, room)
		ok := s.object(func(name []byte) bool {
			key := d.intern(name)
			var value T
			ok := s.null()
			if !ok {
				value, ok = read(s)
			}
			m[key] = value
			return ok
		})
		*(*map[string]T)(p) = m
		room = len(m)
		return ok
	}
}

func (d *Decoder) string(s *scanner) (string, bool) {
	text, ok := s.str()
	if !ok {
		return "", false
	}
	return d.intern(text), true
}

// intern is the text, from the latest time that it was seen.
func (d *Decoder) intern(text []byte) string {
	at := &d.seen[maphash.Bytes(d.seed, text)%uint64(len(d.seen))]
	if *at != string(text) {
		*at = string(text)
	}
	return *at
}

func (s *scanner) float() (float64, bool) {
	text, ok := s.number()
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	return f, err == nil
}

func (s *scanner) int() (int, bool) {
	text, ok := s.number()
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(unsafe.String(unsafe.SliceData(text), len(text)))
	return n, err == nil
}

func (s *scanner) bool() (bool, bool) {
	if s.peek() == 't' {
		return true, s.word("true")
	}
	return false, s.word("false")
}
