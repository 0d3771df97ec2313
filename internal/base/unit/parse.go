// Package unit parses and formats quantities: sizes in bytes, counts, microseconds, rates. The
// callers decide which unit a number has.
package unit

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// prefixes lists the prefixes; the n-th, counted from 1, stands for the n-th power of the
// base. T is the last because 8388608T already exceeds an int64.
const prefixes = "KMGT"

// quantity is a kind of number with a suffix.
type quantity struct {
	noun     string // of the number, for errors
	units    string // that it counts, for errors
	base     int64  // the value of K; Ki is always 1024
	byteSign bool   // a final B is allowed
	accepted string // examples of correct texts, for errors
}

var (
	byteSize = quantity{
		noun: "size", units: "bytes", base: 1024, byteSign: true,
		accepted: "want a number of bytes such as 3, 64K, 1Mi, 4KB, 8KiB or 1.5M (suffix K, M, G or T; K = Ki = 1024)",
	}
	count = quantity{
		noun: "count", units: "units", base: 1000,
		accepted: "want a number such as 3, 64K, 1.5M or 4Ki (suffix K, M, G or T; K = 1000, Ki = 1024)",
	}
)

// ParseBytes reads a size in bytes. K, Ki, KB and KiB all mean 1024, as in nccl-tests, because
// sizes are nearly always swept in powers of two. Fractions are accepted if the result is a
// whole number of bytes.
func ParseBytes(text string) (int64, error) { return byteSize.parse(text) }

// ParseCount reads a number of anything but bytes: K means 1000 and Ki means 1024.
func ParseCount(text string) (int64, error) { return count.parse(text) }

func (q quantity) parse(text string) (int64, error) {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '.' && !isDigit(r) })
	if end < 0 {
		end = len(text)
	}
	factor, ok := q.factor(text[end:])
	if !ok || !isDecimal(text[:end]) {
		return 0, fmt.Errorf("%s %q: %s", q.noun, text, q.accepted)
	}
	// The arithmetic is exact: a float would round sizes above 2^53, and whether 0.1K counts as
	// whole would depend on its rounding.
	value, _ := new(big.Rat).SetString(text[:end])
	value.Mul(value, new(big.Rat).SetInt64(factor))
	if !value.IsInt() {
		return 0, fmt.Errorf("%s %q: not a whole number of %s", q.noun, text, q.units)
	}
	if !value.Num().IsInt64() {
		return 0, fmt.Errorf("%s %q: too large, the most is %d %s", q.noun, text, int64(math.MaxInt64), q.units)
	}
	return value.Num().Int64(), nil
}

// factor returns the value of a suffix, and whether the suffix is valid.
func (q quantity) factor(suffix string) (int64, bool) {
	if q.byteSign {
		suffix = strings.TrimSuffix(suffix, "B")
	}
	if suffix == "" {
		return 1, true
	}
	base := q.base
	power := 1 + strings.Index(prefixes, strings.ToUpper(suffix[:1]))
	switch suffix[1:] {
	case "":
	case "i":
		base = 1024
	default:
		return 0, false
	}
	factor := int64(1)
	for range power {
		factor *= base
	}
	return factor, power > 0
}

// isDecimal reports whether text consists of digits, optionally followed by a point and more
// digits.
func isDecimal(text string) bool {
	whole, fraction, pointed := strings.Cut(text, ".")
	return allDigits(whole) && (!pointed || allDigits(fraction))
}

func allDigits(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !isDigit(r) })
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }
