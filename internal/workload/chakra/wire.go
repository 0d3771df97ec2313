package chakra

import (
	"bytes"
	"errors"

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

// attr reads an attribute, and whether it has a value of a known kind.
func (r *reader) attr(b []byte) (a Attr, valued bool, err error) {
	a.message = b
	err = fields(b, func(f field) (err error) {
		switch kind := Kind(f.number); {
		case f.number == 1 && f.wire == protowire.BytesType:
			a.Name = r.intern(f.data)
			return nil
		case !kind.valid():
			return nil
		case kind.wire() != f.wire:
			return errWire
		case kind == Bool.List():
			a.value, err = bools(f.data)
		case kind == String:
			a.value = r.intern(f.data)
		case kind == Bytes:
			a.value = bytes.Clone(f.data)
		case !kind.isList():
			a.value = kind.fromBits(f.num)
		}
		valued = true
		return err
	})
	return a, valued, err
}

// bools reads the message of a list of truth values, packed or not.
func bools(b []byte) (values []bool, err error) {
	err = fields(b, func(f field) error {
		if f.number != 1 {
			return nil
		}
		bits, err := appendIDs(nil, f)
		for _, v := range bits {
			values = append(values, v != 0)
		}
		return err
	})
	return values, err
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
