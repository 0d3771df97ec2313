// Package unit reads and writes quantities as text:
// sizes in bytes, counts, microseconds, rates.
//
// It is pure text handling. It does not know what an axis or a metric is, and
// it never decides which unit something has; its callers do.
package unit

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// prefixes are the accepted multiples in ascending order; the n-th (from 1)
// stands for the n-th power of the base. They stop at T because 8388608T
// already fills an int64.
const prefixes = "KMGT"

// quantity is one way of reading a number with a suffix.
type quantity struct {
	noun     string // what the number is, for errors
	units    string // what it is a whole number of, for errors
	base     int64  // what a bare K means; Ki is always 1024
	byteSign bool   // whether a final B is allowed
	accepted string // what would be right, for errors
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

// ParseBytes reads a size in bytes. K, Ki, KB and KiB all mean 1024, as in
// nccl-tests, because a size sweep in powers of two is what is nearly always meant.
// A fraction is accepted when it comes to a whole number of bytes.
func ParseBytes(text string) (int64, error) { return byteSize.parse(text) }

// ParseCount reads a number of things other than bytes: K means 1000 and Ki
// means 1024.
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
	// Exact arithmetic: a float would quietly round sizes above 2^53 and
	// would call 0.1K whole or not by accident.
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

// factor gives the multiple a suffix stands for, and whether it is a suffix.
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

// isDecimal reports whether text is digits, optionally followed by a point and
// more digits.
func isDecimal(text string) bool {
	whole, fraction, pointed := strings.Cut(text, ".")
	return allDigits(whole) && (!pointed || allDigits(fraction))
}

func allDigits(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !isDigit(r) })
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }
