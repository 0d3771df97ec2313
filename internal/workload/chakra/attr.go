package chakra

import (
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Attr is a named value.
type Attr struct {
	Name, Doc string
	Kind      Kind
	// Value is a float64, int64, uint64, bool, string or []byte, or for a list an []any of them.
	Value any
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

// wire returns the wire type of a single value.
func (k Kind) wire() protowire.Type {
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

// toBits is the inverse of fromBits. It returns an error if the value does not have the type of its kind.
func (k Kind) toBits(value any) (uint64, error) {
	switch v := value.(type) {
	case float64:
		switch k {
		case Double:
			return math.Float64bits(v), nil
		case Float:
			return uint64(math.Float32bits(float32(v))), nil
		}
	case int64:
		switch k {
		case Int32, Int64, Sfixed64:
			return uint64(v), nil
		case Sfixed32:
			return uint64(uint32(v)), nil
		case Sint32, Sint64:
			return protowire.EncodeZigZag(v), nil
		}
	case uint64:
		switch k {
		case Uint32, Uint64, Fixed32, Fixed64:
			return v, nil
		}
	case bool:
		if k == Bool {
			return protowire.EncodeBool(v), nil
		}
	}
	return 0, fmt.Errorf("attribute value %v of kind %d has type %T", value, k, value)
}

// consume reads one number. The length is negative if the data is malformed.
func (k Kind) consume(b []byte) (any, int) {
	switch k.wire() {
	case protowire.Fixed64Type:
		v, n := protowire.ConsumeFixed64(b)
		return k.fromBits(v), n
	case protowire.Fixed32Type:
		v, n := protowire.ConsumeFixed32(b)
		return k.fromBits(uint64(v)), n
	}
	v, n := protowire.ConsumeVarint(b)
	return k.fromBits(v), n
}

// append writes one value.
func (k Kind) append(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		if k == String {
			return protowire.AppendString(b, v), nil
		}
	case []byte:
		if k == Bytes {
			return protowire.AppendBytes(b, v), nil
		}
	}
	bits, err := k.toBits(value)
	if err != nil {
		return b, err
	}
	switch k.wire() {
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(b, bits), nil
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(b, uint32(bits)), nil
	}
	return protowire.AppendVarint(b, bits), nil
}

// integer returns the value as an integer, if it is one.
func (a *Attr) integer() (int64, bool) {
	switch v := a.Value.(type) {
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
	switch v := a.Value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	}
	return fmt.Sprint(a.Value)
}
