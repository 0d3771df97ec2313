// Package fastjson decodes JSON that this program wrote, such as the lines of a large
// journal. It accepts only ordinary text: it declines unknown or repeated members, numbers
// that do not fit, and broken syntax, and the caller decodes such text with encoding/json.
// Whatever it accepts, it decodes as encoding/json would.
//
// The package exists for speed. A row of a journal takes 3.4 µs (CPU time, the best of five
// runs over 20,000 rows), 9.2 µs with github.com/go-json-experiment/json and hand-written
// functions for points and statistics, and 17.8 µs with encoding/json. Large journals have
// some 100,000 rows and every view reads them: show takes 3.2 s of CPU time for them, and 4.9 s with
// the encoding/json of GOEXPERIMENT=jsonv2.
//
// A type is described by a list of Members, each with the function that reads it:
//
//	fields := []fastjson.Member[Stat]{
//		fastjson.Field("min", fastjson.Float, func(s *Stat) *float64 { return &s.Min }),
//	}
//
// A reader returns false if it declines the text. The content of the target is then undefined, and the
// Decoder must be Reset.
package fastjson

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// maxDepth limits recursion, so that a line of a million brackets cannot exhaust the stack.
const maxDepth = 64

// Decoder reads one text after another. Strings that occur repeatedly are stored once. It
// must not be used by several goroutines at once.
type Decoder struct {
	text  []byte
	at    int // position in text
	depth int // of brackets around it

	seed maphash.Seed
	seen []string // the latest string with each hash
}

// Reader reads the next value into p, which is zero before.
type Reader[T any] func(d *Decoder, p *T) bool

// NewDecoder returns a Decoder without text.
func NewDecoder() *Decoder {
	return &Decoder{seed: maphash.MakeSeed(), seen: make([]string, 1<<12)}
}

// Reset makes the decoder read data from its beginning.
func (d *Decoder) Reset(data []byte) { d.text, d.at, d.depth = data, 0, 0 }

// AtEnd reports whether only white space is left.
func (d *Decoder) AtEnd() bool { return d.peek() == 0 && d.at == len(d.text) }

// Intern returns text as a string, without allocating if it has seen the text lately.
func (d *Decoder) Intern(text []byte) string {
	at := &d.seen[maphash.Bytes(d.seed, text)%uint64(len(d.seen))]
	if *at != string(text) {
		*at = string(text)
	}
	return *at
}

// Member reads one member of an object into a T.
type Member[T any] struct {
	quoted string // the name as it is written: "name":
	read   Reader[T]
}

// Field returns the Member that reads a field of T.
func Field[T, V any](name string, read Reader[V], field func(*T) *V) Member[T] {
	return Member[T]{strconv.Quote(name) + ":", func(d *Decoder, p *T) bool { return read(d, field(p)) }}
}

// Struct returns a reader of objects with these members, at most 64.
// Members in the given order are read fastest.
func Struct[T any](members []Member[T]) Reader[T] {
	rest := StructRest(members)
	return func(d *Decoder, p *T) bool { return d.take('{') && rest(d, p) }
}

// StructRest is Struct for text in which the opening brace was already read.
func StructRest[T any](members []Member[T]) Reader[T] {
	byName := map[string]int{}
	for i, m := range members {
		byName[m.quoted] = i
	}
	return func(d *Decoder, p *T) bool {
		next, have := 0, uint64(0)
		return d.items('}', func() bool {
			i := next
			for i < len(members) && !d.word(members[i].quoted) {
				i++
			}
			if i == len(members) {
				name, ok := d.str()
				if !ok || !d.take(':') {
					return false
				}
				// encoding/json also accepts names that differ in case.
				if i, ok = byName[`"`+string(name)+`":`]; !ok {
					return false
				}
			}
			if have&(1<<i) != 0 {
				return false
			}
			have |= 1 << i
			next = i + 1
			return members[i].read(d, p)
		})
	}
}

// Text reads a string; null leaves it empty.
func Text[S ~string](d *Decoder, p *S) bool {
	if d.Null() {
		return true
	}
	text, ok := d.str()
	if ok {
		*p = S(d.Intern(text))
	}
	return ok
}

// Float reads a number; null leaves it 0.
func Float(d *Decoder, p *float64) (ok bool) {
	if d.Null() {
		return true
	}
	text, ok := d.number()
	if ok {
		*p, ok = parsed(strconv.ParseFloat(text, 64))
	}
	return ok
}

// Int reads an integer; null leaves it 0.
func Int(d *Decoder, p *int) bool {
	if d.Null() {
		return true
	}
	text, ok := d.number()
	if ok {
		*p, ok = parsed(strconv.Atoi(text))
	}
	return ok
}

func parsed[T any](v T, err error) (T, bool) { return v, err == nil }

// Bool reads true or false; null leaves it false.
func Bool(d *Decoder, p *bool) bool {
	*p = d.peek() == 't'
	return d.word("true") || d.word("false") || d.word("null")
}

// JSON reads a value of a type with its own UnmarshalJSON.
func JSON[T any, P interface {
	*T
	json.Unmarshaler
}](d *Decoder, p *T) bool {
	raw, ok := d.raw()
	return ok && P(p).UnmarshalJSON(raw) == nil
}

// Interned reads a value of a type that decodes itself and takes repeated strings from a
// function.
func Interned[T any, P interface {
	*T
	UnmarshalStrings(data []byte, intern func([]byte) string) error
}](d *Decoder, p *T) bool {
	raw, ok := d.raw()
	return ok && P(p).UnmarshalStrings(raw, d.Intern) == nil
}

// Pointer returns a reader that allocates the value, or leaves the pointer nil for null.
func Pointer[T any](read Reader[T]) Reader[*T] {
	return func(d *Decoder, p **T) bool {
		if d.Null() {
			return true
		}
		*p = new(T)
		return read(d, *p)
	}
}

// List returns a reader of arrays. It allocates as many elements as the last array had.
func List[T any](read Reader[T]) Reader[[]T] {
	room := 0
	return func(d *Decoder, p *[]T) bool {
		if d.Null() {
			return true
		}
		list := make([]T, 0, room)
		ok := d.take('[') && d.items(']', func() bool {
			var zero T
			list = append(list, zero)
			return read(d, &list[len(list)-1])
		})
		*p, room = list, len(list)
		return ok
	}
}

// Map returns a reader of objects as maps.
func Map[V any](read Reader[V]) Reader[map[string]V] {
	room := 0
	return func(d *Decoder, p *map[string]V) bool {
		if d.Null() {
			return true
		}
		m := make(map[string]V, room)
		ok := d.Object(func(name []byte) bool {
			key := d.Intern(name)
			var value V
			ok := read(d, &value)
			m[key] = value
			return ok
		})
		*p, room = m, len(m)
		return ok
	}
}

// Shared returns a reader that yields the same value again while its text stays the same.
// Values must therefore not be changed in place.
func Shared[T any](read Reader[T]) Reader[T] {
	var text []byte
	var last T
	return func(d *Decoder, p *T) bool {
		d.space()
		if len(text) > 0 && bytes.HasPrefix(d.text[d.at:], text) {
			d.at += len(text)
			*p = last
			return true
		}
		start := d.at
		if !read(d, p) {
			return false
		}
		last = *p
		text = append(text[:0], d.text[start:d.at]...)
		if c := text[0]; c != '{' && c != '[' && c != '"' {
			text = text[:0] // one number may be the beginning of another
		}
		return true
	}
}

func (d *Decoder) space() {
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, 0 at the end.
func (d *Decoder) peek() byte {
	d.space()
	if d.at == len(d.text) {
		return 0
	}
	return d.text[d.at]
}

func (d *Decoder) take(c byte) bool {
	if d.peek() != c {
		return false
	}
	d.at++
	return true
}

func (d *Decoder) word(w string) bool {
	if len(d.text)-d.at < len(w) || string(d.text[d.at:d.at+len(w)]) != w {
		return false
	}
	d.at += len(w)
	return true
}

// Null reads null, if it comes next.
func (d *Decoder) Null() bool { return d.peek() == 'n' && d.word("null") }

// str reads a string. Strings with escapes or beyond ASCII are left to encoding/json.
func (d *Decoder) str() ([]byte, bool) {
	if !d.take('"') {
		return nil, false
	}
	start, plain := d.at, true
	for ; d.at < len(d.text); d.at++ {
		switch c := d.text[d.at]; {
		case c == '"':
			d.at++
			if plain {
				return d.text[start : d.at-1], true
			}
			var text string
			err := json.Unmarshal(d.text[start-1:d.at], &text)
			return []byte(text), err == nil
		case c == '\\':
			plain = false
			d.at++
		case c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return nil, false
}

// number reads a number by JSON's grammar, which is narrower than strconv's. The text is only
// valid until the next Reset.
func (d *Decoder) number() (string, bool) {
	d.space()
	start := d.at
	d.word("-")
	ok := d.word("0") || d.digits()
	if d.word(".") {
		ok = ok && d.digits()
	}
	if d.word("e") || d.word("E") {
		_ = d.word("+") || d.word("-")
		ok = ok && d.digits()
	}
	text := d.text[start:d.at]
	return unsafe.String(unsafe.SliceData(text), len(text)), ok
}

func (d *Decoder) digits() bool {
	start := d.at
	for d.at < len(d.text) && d.text[d.at] >= '0' && d.text[d.at] <= '9' {
		d.at++
	}
	return d.at > start
}

// Object reads an object. It calls member for each name, to read the value.
func (d *Decoder) Object(member func(name []byte) bool) bool {
	return d.take('{') && d.items('}', func() bool {
		name, ok := d.str()
		return ok && d.take(':') && member(name)
	})
}

// items reads comma-separated items up to the closing bracket.
func (d *Decoder) items(closing byte, item func() bool) bool {
	if d.depth++; d.depth > maxDepth {
		return false
	}
	defer func() { d.depth-- }()
	if d.take(closing) {
		return true
	}
	for item() {
		if d.take(closing) {
			return true
		}
		if !d.take(',') {
			return false
		}
	}
	return false
}

// raw returns the text of the next value.
func (d *Decoder) raw() ([]byte, bool) {
	d.space()
	start := d.at
	ok := d.skip()
	return d.text[start:d.at], ok
}

func (d *Decoder) skip() (ok bool) {
	switch d.peek() {
	case '{':
		return d.Object(func([]byte) bool { return d.skip() })
	case '[':
		return d.take('[') && d.items(']', d.skip)
	case '"':
		_, ok = d.str()
		return ok
	case 't', 'f', 'n':
		return d.word("true") || d.word("false") || d.word("null")
	}
	_, ok = d.number()
	return ok
}

// Duplicate returns a name that an object in the text has twice, or "" if there is none. encoding/json takes the last
// one without an error.
func Duplicate(text []byte) (name string) {
	d := Decoder{text: text}
	var value func() bool
	value = func() bool {
		switch d.peek() {
		case '{':
			seen := map[string]bool{}
			return d.Object(func(key []byte) bool {
				if seen[string(key)] {
					name = string(key)
					return false
				}
				seen[string(key)] = true
				return value()
			})
		case '[':
			return d.take('[') && d.items(']', value)
		}
		return d.skip()
	}
	value()
	return name
}

// Members calls member for each member of the object in data, in order, and reports
// whether data is an object. It gets the names as strings from intern.
func Members(data []byte, intern func([]byte) string, member func(name string, value []byte) error) (bool, error) {
	d := Decoder{text: data}
	var err error
	ok := d.Object(func(name []byte) bool {
		key := intern(name)
		value, ok := d.raw()
		if ok {
			err = member(key, value)
		}
		return ok && err == nil
	})
	return ok && d.AtEnd(), err
}
