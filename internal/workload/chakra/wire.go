package chakra

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// errWire is the error for bytes that are not a protobuf message.
var errWire = errors.New("not a protobuf message")

// field is one field of a message. num is the value of a number, data the content of a string or message.
type field struct {
	number protowire.Number
	wire   protowire.Type
	num    uint64
	data   []byte
}

// fields calls f for each field of a message.
func fields(b []byte, f func(field) error) error {
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		item := field{number: number, wire: wire}
		switch wire {
		case protowire.VarintType:
			item.num, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			item.num, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			item.num = uint64(v)
		case protowire.BytesType:
			item.data, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, wire, b)
		}
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if err := f(item); err != nil {
			return err
		}
	}
	return nil
}

// appendIDs adds the ids of a repeated field, which are packed into one field or stand alone.
func appendIDs(ids []uint64, f field) ([]uint64, error) {
	if f.wire == protowire.VarintType {
		return append(ids, f.num), nil
	}
	for b := f.data; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return ids, errWire
		}
		ids, b = append(ids, v), b[n:]
	}
	return ids, nil
}

// attr reads an attribute. Kind is 0 if it has no value of a known kind.
func (r *reader) attr(b []byte) (a Attr, err error) {
	err = fields(b, func(f field) error {
		switch kind := Kind(f.number); {
		case f.number == 1 && f.wire == protowire.BytesType:
			a.Name = r.intern(f.data)
		case f.number == 2 && f.wire == protowire.BytesType:
			a.Doc = string(f.data)
		case !kind.valid():
			return nil
		case kind.isList() && f.wire == protowire.BytesType:
			a.Kind = kind
			a.Value, err = listValue(kind-1, f.data)
			return err
		case kind.isList() || kind.wire() != f.wire:
			return errWire
		case kind == String:
			a.Kind, a.Value = kind, r.intern(f.data)
		case kind == Bytes:
			a.Kind, a.Value = kind, append([]byte{}, f.data...)
		default:
			a.Kind, a.Value = kind, kind.fromBits(f.num)
		}
		return nil
	})
	return a, err
}

// listValue reads the message of a list whose elements have kind k, packed or not.
func listValue(k Kind, b []byte) (any, error) {
	var values []any
	err := fields(b, func(f field) error {
		switch {
		case f.number != 1:
			return nil
		case f.wire == k.wire() && k == String:
			values = append(values, string(f.data))
		case f.wire == k.wire() && k == Bytes:
			values = append(values, append([]byte{}, f.data...))
		case f.wire == k.wire():
			values = append(values, k.fromBits(f.num))
		case f.wire == protowire.BytesType:
			for b := f.data; len(b) > 0; {
				v, n := k.consume(b)
				if n < 0 {
					return errWire
				}
				values, b = append(values, v), b[n:]
			}
		default:
			return errWire
		}
		return nil
	})
	return values, err
}

// append writes the fields of an attribute.
func (a *Attr) append(b []byte) ([]byte, error) {
	b = appendString(b, 1, a.Name)
	b = appendString(b, 2, a.Doc)
	if !a.Kind.valid() {
		return b, fmt.Errorf("attribute %s has no kind", a.Name)
	}
	if !a.Kind.isList() {
		b = protowire.AppendTag(b, protowire.Number(a.Kind), a.Kind.wire())
		return a.Kind.append(b, a.Value)
	}
	values, ok := a.Value.([]any)
	if !ok {
		return b, fmt.Errorf("attribute %s is a list, but its value has type %T", a.Name, a.Value)
	}
	b = protowire.AppendTag(b, protowire.Number(a.Kind), protowire.BytesType)
	list, err := appendList(nil, a.Kind-1, values)
	return protowire.AppendBytes(b, list), err
}

// appendList writes the message of a list. Numbers are packed, as proto3 does.
func appendList(b []byte, k Kind, values []any) (_ []byte, err error) {
	if k.wire() == protowire.BytesType {
		for _, v := range values {
			b = protowire.AppendTag(b, 1, protowire.BytesType)
			if b, err = k.append(b, v); err != nil {
				return b, err
			}
		}
		return b, nil
	}
	var packed []byte
	for _, v := range values {
		if packed, err = k.append(packed, v); err != nil {
			return b, err
		}
	}
	if len(packed) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), packed)
	}
	return b, nil
}

// appendString, appendUint and appendMessage write a field, unless it has the default value.
func appendString(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

func appendUint(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

func appendMessage(b []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), message)
}
