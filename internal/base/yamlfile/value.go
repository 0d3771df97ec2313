package yamlfile

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Field is a known key of a mapping and the function that reads its value. The argument what is
// the path of the key, for faults. Read may be nil for a value that the caller takes from the result of Struct.
type Field struct {
	Key      string
	Optional bool
	Read     func(n Node, what string)
}

// Opt returns the field as one that may be missing.
func (f Field) Opt() Field {
	f.Optional = true
	return f
}

// Group returns a field that is a mapping with fields of its own.
func (r *Reader) Group(key string, fields ...Field) Field {
	return Field{Key: key, Read: func(n Node, what string) { r.Struct(n, what, fields...) }}
}

// IntField returns a field for a whole number from low to high.
func (r *Reader) IntField(key string, into *int, low, high int) Field {
	return Field{Key: key, Read: func(n Node, what string) { *into, _ = r.Int(n, what, low, high) }}
}

// DecimalField returns a field for a number with at most digits decimals, from low to high. All are in units of the
// last digit.
func DecimalField[T ~int64](r *Reader, key string, into *T, digits int, low, high int64) Field {
	return Field{Key: key, Read: func(n Node, what string) {
		v, _ := r.Decimal(n, what, digits, low, high)
		*into = T(v)
	}}
}

// WordField returns a field for one of some words, which noun describes.
func WordField[S ~string](r *Reader, key, noun string, into *S, words ...string) Field {
	return Field{Key: key, Read: func(n Node, what string) {
		word, _ := r.Word(n, what, noun, words...)
		*into = S(word)
	}}
}

// Struct reads a mapping with the given fields, in their order. Unknown keys and missing keys that are not
// optional are faults. It returns what Fields does.
func (r *Reader) Struct(n Node, what string, fields ...Field) (values map[string]Node, clean bool) {
	values, clean = r.Fields(n, what, lists.Map(fields, func(f Field) string { return f.Key })...)
	if values == nil {
		return nil, false
	}
	for _, f := range fields {
		value := values[f.Key]
		switch {
		case value != nil && f.Read != nil:
			f.Read(value, r.within(what, f.Key))
		case value == nil && !f.Optional && clean:
			r.Fault(n, "%s: the key %q is missing", what, f.Key)
		case value == nil && f.Optional && r.Absent != nil:
			r.Absent(r.within(what, f.Key))
		}
	}
	return values, clean
}

// within returns the path of a key, such as cube.hbm.burst_bytes. The root ("the topology") is no
// part of it.
func (r *Reader) within(what, key string) string {
	if strings.HasPrefix(what, "the ") {
		return key
	}
	return what + cmp.Or(r.Separator, ".") + key
}

// Int reads a whole number between two bounds, inclusive.
func (r *Reader) Int(n Node, what string, low, high int) (int, bool) {
	v, ok := r.Decimal(n, what, 0, int64(low), int64(high))
	return int(v), ok
}

// Decimal reads a decimal number exactly and returns it in units of 10^-digits: 0.25 with 3
// digits is 250. The bounds are in the same unit.
func (r *Reader) Decimal(n Node, what string, digits int, low, high int64) (int64, bool) {
	s, ok := r.Text(n, what)
	if !ok {
		return 0, false
	}
	if r.Number != nil {
		s.Text = r.Number(what, s.Text, digits)
	}
	v, good := fixed(s.Text, digits)
	if s.Quoted || !good || v < low || v > high {
		kind := "a whole number"
		if digits > 0 {
			kind = "a number with at most " + strconv.Itoa(digits) + " decimals"
		}
		r.Fault(n, "%s: want %s from %s to %s, have %q", what, kind, unfixed(low, digits), unfixed(high, digits), s.Text)
		return 0, false
	}
	return v, true
}

// fixed parses a decimal number such as -12.5 in units of 10^-digits.
func fixed(text string, digits int) (int64, bool) {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if whole == "" || len(fraction) > digits || strings.HasSuffix(text, ".") ||
		strings.ContainsAny(whole+fraction, "+-_eExXoObB") {
		return 0, false
	}
	v, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", digits-len(fraction)), 10, 64)
	if err != nil || v == math.MinInt64 {
		return 0, false
	}
	if strings.HasPrefix(text, "-") {
		v = -v
	}
	return v, true
}

// unfixed is the inverse of fixed.
func unfixed(v int64, digits int) string {
	f := float64(v) / math.Pow10(digits)
	return strconv.FormatFloat(f, 'f', -1, 64)
}
