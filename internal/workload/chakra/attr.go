package chakra

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Attr is a named value. Only its message is written again, so that values of any kind stay what they were.
type Attr struct {
	Name    string
	value   any    // a float64, int64, uint64, bool, string, []byte or []bool; nil for other lists
	message []byte // as on the wire
}

// Integer returns an attribute of kind Int64.
func Integer(name string, v int64) Attr { return varint(name, Int64, v, uint64(v)) }

// varint returns an attribute that is a varint.
func varint(name string, kind Kind, value any, bits uint64) Attr {
	message := protowire.AppendTag(appendString(nil, 1, name), protowire.Number(kind), protowire.VarintType)
	return Attr{name, value, protowire.AppendVarint(message, bits)}
}

// textual returns an attribute of kind String.
func textual(name, value string) Attr {
	message := protowire.AppendTag(appendString(nil, 1, name), protowire.Number(String), protowire.BytesType)
	return Attr{name, value, protowire.AppendString(message, value)}
}

// Kind is the type of an attribute's value. It equals the number of the value's field in the schema. The kind of
// a list is one more than the kind of its elements.
type Kind int32

// The kinds of single values.
const (
	Double   Kind = 3
	Float    Kind = 5
	Int32    Kind = 7
	Int64    Kind = 9
	Uint32   Kind = 11
	Uint64   Kind = 13
	Sint32   Kind = 15
	Sint64   Kind = 17
	Fixed32  Kind = 19
	Fixed64  Kind = 21
	Sfixed32 Kind = 23
	Sfixed64 Kind = 25
	Bool     Kind = 27
	String   Kind = 29
	Bytes    Kind = 31
)

// List returns the kind of a list of values of kind k.
func (k Kind) List() Kind { return k + 1 }

func (k Kind) valid() bool  { return k >= Double && k <= Bytes.List() }
func (k Kind) isList() bool { return k%2 == 0 }

// wire returns the wire type of a value.
func (k Kind) wire() protowire.Type {
	if k.isList() {
		return protowire.BytesType
	}
	switch k {
	case Double, Fixed64, Sfixed64:
		return protowire.Fixed64Type
	case Float, Fixed32, Sfixed32:
		return protowire.Fixed32Type
	case String, Bytes:
		return protowire.BytesType
	}
	return protowire.VarintType
}

// fromBits converts the bits of a number on the wire to its value.
func (k Kind) fromBits(v uint64) any {
	switch k {
	case Double:
		return math.Float64frombits(v)
	case Float:
		return float64(math.Float32frombits(uint32(v)))
	case Int32:
		return int64(int32(v))
	case Int64, Sfixed64:
		return int64(v)
	case Sint32, Sint64:
		return protowire.DecodeZigZag(v)
	case Sfixed32:
		return int64(int32(v))
	case Bool:
		return v != 0
	}
	return v
}

// clone returns the attribute with a message of its own, so that it does not keep the whole file in memory.
func (a *Attr) clone() Attr { return Attr{a.Name, a.value, bytes.Clone(a.message)} }

// integer returns the value as an integer, if it is one.
func (a *Attr) integer() (int64, bool) {
	switch v := a.value.(type) {
	case int64:
		return v, true
	case uint64:
		return int64(min(v, math.MaxInt64)), true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<62
	case string: // some tools write numbers as text
		i, err := strconv.ParseInt(v, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// text returns the value as text.
func (a *Attr) text() string {
	switch v := a.value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	}
	return fmt.Sprint(a.value)
}
