// Package point defines the coordinates of a measurement: typed axis values, the point they
// form, and the environment variables of its processes. It also reads the SPEC grammar for
// lists and ranges of values. The meaning of a point is defined by the declaration (package
// bench) and the planner (package plan).
package point

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Kind is the type of an axis or option and of its values.
type Kind uint8

// The kinds of values.
const (
	Int    Kind = iota + 1 // whole numbers; K = 1000
	Bytes                  // byte sizes; K = Ki = 1024
	Float                  // real numbers
	String                 // any text
	Bool                   // true or false
	DType                  // element types such as f32
	Tuple                  // whole numbers joined by x, with an optional label: qkv=4096x6144x4096
)

var kindNames = [...]string{Int: "int", Bytes: "bytes", Float: "float", String: "string", Bool: "bool", DType: "dtype",
	Tuple: "tuple"}

func (k Kind) String() string {
	if int(k) < len(kindNames) && k > 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ParseKind is the inverse of String.
func ParseKind(name string) (Kind, error) {
	if k := slices.Index(kindNames[:], name); k > 0 {
		return Kind(k), nil
	}
	return 0, fmt.Errorf("unknown kind %q (int, bytes, float, string, bool, dtype or tuple)", name)
}

// MarshalText returns the name of the kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the name of a kind.
func (k *Kind) UnmarshalText(b []byte) (err error) {
	*k, err = ParseKind(string(b))
	return err
}

// Numeric reports whether values of the kind are numbers, which may be given as ranges.
func (k Kind) Numeric() bool { return k == Int || k == Bytes || k == Float }

// Value is one value of an axis or option. Values can be compared with == and used as map
// keys. The zero Value means that there is no value.
type Value struct {
	kind Kind
	n    int64   // Int, Bytes, Bool (0 or 1)
	f    float64 // Float
	s    string  // String, DType (canonical), Tuple (canonical)
}

// Constructors of values, one for each kind.
func IntValue(n int64) Value         { return Value{kind: Int, n: n} }
func BytesValue(n int64) Value       { return Value{kind: Bytes, n: n} }
func FloatValue(f float64) Value     { return Value{kind: Float, f: f} }
func StringValue(s string) Value     { return Value{kind: String, s: s} }
func DTypeValue(d dtype.DType) Value { return Value{kind: DType, s: d.String()} }
func TupleValue(label string, dims ...int64) Value {
	return Value{kind: Tuple, s: formatTuple(label, dims)}
}

// BoolValue returns a Bool.
func BoolValue(b bool) Value {
	v := Value{kind: Bool}
	if b {
		v.n = 1
	}
	return v
}

// Kind returns the kind of the value, or 0 for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// IsZero reports whether v is the zero Value.
func (v Value) IsZero() bool { return v.kind == 0 }

// Int returns the number of an Int or Bytes, and 0 or 1 for a Bool.
func (v Value) Int() int64 { return v.n }

// Bool returns the truth value of a Bool.
func (v Value) Bool() bool { return v.n != 0 }

// Float returns the number of any numeric value.
func (v Value) Float() float64 {
	if v.kind == Float {
		return v.f
	}
	return float64(v.n)
}

// Dims returns the numbers of a Tuple.
func (v Value) Dims() []int64 {
	_, body := splitLabel(v.s)
	if body == "" {
		return nil
	}
	parts := strings.Split(body, "x")
	dims := make([]int64, len(parts))
	for i, p := range parts {
		dims[i], _ = strconv.ParseInt(p, 10, 64)
	}
	return dims
}

// Label returns the label of a Tuple, or "".
func (v Value) Label() string {
	label, _ := splitLabel(v.s)
	return label
}

// String returns the canonical text, which Parse reads back and which files and columns
// contain. Byte sizes are plain integers; Pretty shortens them.
func (v Value) String() string {
	switch v.kind {
	case Int, Bytes:
		return strconv.FormatInt(v.n, 10)
	case Float:
		return strconv.FormatFloat(v.f, 'g', -1, 64)
	case Bool:
		return strconv.FormatBool(v.n != 0)
	}
	return v.s
}

// Pretty returns a shorter text: 65536 bytes are 64Ki.
func (v Value) Pretty() string {
	if v.kind == Bytes {
		return unit.FormatBytes(v.n)
	}
	return v.String()
}

// Parse reads a value of a kind.
func Parse(kind Kind, text string) (Value, error) {
	switch kind {
	case Int:
		digits, negative := strings.CutPrefix(text, "-")
		n, err := unit.ParseCount(digits)
		if err != nil {
			_, err = unit.ParseCount(text) // for an error that quotes the whole text
			return Value{}, err
		}
		if negative {
			n = -n
		}
		return IntValue(n), nil
	case Bytes:
		n, err := unit.ParseBytes(text)
		return BytesValue(n), err
	case Float:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return Value{}, fmt.Errorf("%q is not a number", text)
		}
		return FloatValue(f + 0), nil // -0 becomes 0, because equal values must have the same text
	case Bool:
		switch strings.ToLower(text) {
		case "true", "yes", "on", "1":
			return BoolValue(true), nil
		case "false", "no", "off", "0":
			return BoolValue(false), nil
		}
		return Value{}, fmt.Errorf("%q is neither true nor false", text)
	case DType:
		d, err := dtype.Parse(text)
		if err != nil {
			return Value{}, err
		}
		return DTypeValue(d), nil
	case Tuple:
		return parseTuple(text)
	case String:
		return StringValue(text), nil
	}
	return Value{}, fmt.Errorf("unknown kind of value: %v", kind)
}

func parseTuple(text string) (Value, error) {
	label, body := splitLabel(text)
	parts := strings.Split(strings.ToLower(body), "x")
	dims := make([]int64, len(parts))
	for i, p := range parts {
		n, err := strconv.ParseInt(strings.TrimSpace(p), 10, 64)
		if err != nil || n < 0 {
			return Value{}, fmt.Errorf("%q is not a shape: want whole numbers joined by x, such as 4096x6144x4096 or "+
				"qkv=4096x6144x4096", text)
		}
		dims[i] = n
	}
	return TupleValue(label, dims...), nil
}

func splitLabel(text string) (label, body string) {
	if i := strings.LastIndexByte(text, '='); i >= 0 {
		return text[:i], text[i+1:]
	}
	return "", text
}

func formatTuple(label string, dims []int64) string {
	if label != "" {
		label += "="
	}
	return label + strings.Join(lists.Map(dims, func(d int64) string { return strconv.FormatInt(d, 10) }), "x")
}

// Less orders values: numbers by size, all others by their text.
func (v Value) Less(w Value) bool {
	if v.kind.Numeric() && w.kind.Numeric() {
		return v.Float() < w.Float()
	}
	if v.kind == Bool && w.kind == Bool {
		return v.n < w.n
	}
	return v.String() < w.String()
}

// MarshalJSON writes numbers and booleans as such, and all other values as strings.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case 0:
		return []byte("null"), nil
	case Int, Bytes, Bool:
		return []byte(v.String()), nil
	case Float:
		return json.Marshal(v.f)
	}
	return json.Marshal(v.s)
}

// UnmarshalJSON reads the output of MarshalJSON. JSON does not distinguish all kinds: a byte size
// becomes an Int, a shape a String. Retype restores the declared kind. Integers beyond 2^53
// stay exact.
func (v *Value) UnmarshalJSON(b []byte) error { return v.unmarshal(b, newString) }

// unmarshal reads a JSON value. Ordinary strings and integers take a fast path, because large
// journals have hundreds of thousands of them.
func (v *Value) unmarshal(b []byte, intern func([]byte) string) error {
	b = bytes.TrimSpace(b)
	switch {
	case len(b) == 0:
		return fmt.Errorf("reading a value: it is empty")
	case bytes.Equal(b, []byte("null")):
		*v = Value{}
		return nil
	case plainString(b):
		*v = StringValue(intern(b[1 : len(b)-1]))
		return nil
	case b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*v = StringValue(s)
		return nil
	case string(b) == "true" || string(b) == "false":
		*v = BoolValue(b[0] == 't')
		return nil
	}
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		*v = IntValue(n)
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return fmt.Errorf("reading a value: %s is not a number, string or boolean", b)
	}
	*v = FloatValue(f)
	return nil
}

// plainString reports whether b is a JSON string of ASCII characters without escapes.
func plainString(b []byte) bool {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return false
	}
	for _, c := range b[1 : len(b)-1] {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}

// Retype returns a value read from JSON with the declared kind of its axis. A value that does not
// fit the kind is returned unchanged.
func (v Value) Retype(kind Kind) Value {
	if v.kind == kind || v.kind == 0 {
		return v
	}
	switch {
	case v.kind == Int && kind == Bytes:
		return BytesValue(v.n)
	case v.kind == Int && kind == Float:
		return FloatValue(float64(v.n))
	case v.kind == String && (kind == DType || kind == Tuple):
		if w, err := Parse(kind, v.s); err == nil {
			return w
		}
	}
	return v
}
