package unit

import (
	"math"
	"slices"
	"strings"
)

// measure is the meaning of a unit: scale times the base unit of its dimension.
type measure struct {
	dimension string
	scale     float64
}

// bases are the units that take a prefix, with their dimension. A bit is an eighth of a byte.
var bases = map[string]measure{
	"s": {"time", 1}, "sec": {"time", 1}, "secs": {"time", 1}, "second": {"time", 1}, "seconds": {"time", 1},
	"B": {"bytes", 1}, "byte": {"bytes", 1}, "bytes": {"bytes", 1}, "b": {"bytes", 0.125}, "bit": {"bytes", 0.125},
	"bits": {"bytes", 0.125}, "Bps": {"bytes/time", 1}, "bps": {"bytes/time", 0.125},
	"FLOP": {"flop", 1}, "flop": {"flop", 1}, "FLOPS": {"flop/time", 1}, "FLOPs": {"flop/time", 1},
	"flops": {"flop/time", 1}, "Flops": {"flop/time", 1}, "Flop": {"flop", 1}, "Hz": {"1/time", 1},
	"op": {"op", 1}, "ops": {"op", 1}, "J": {"energy", 1}, "W": {"power", 1}, "m": {"length", 1},
}

// fixed are the units that take no prefix.
var fixed = map[string]measure{
	"min": {"time", 60}, "mins": {"time", 60}, "minute": {"time", 60}, "minutes": {"time", 60},
	"h": {"time", 3600}, "hr": {"time", 3600}, "hrs": {"time", 3600}, "hour": {"time", 3600}, "hours": {"time", 3600},
	"millisecond": {"time", 1e-3}, "milliseconds": {"time", 1e-3}, "millis": {"time", 1e-3},
	"microsecond": {"time", 1e-6}, "microseconds": {"time", 1e-6}, "micros": {"time", 1e-6},
	"nanosecond": {"time", 1e-9}, "nanoseconds": {"time", 1e-9}, "nanos": {"time", 1e-9},
	"1": {"1", 1}, "%": {"1", 0.01},
}

var unitPrefixes = map[string]float64{"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3,
	"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
	"Ti": 1 << 40}

// wholes are the dimensions that are counted. Nobody measures millibits: mbps is a misspelt Mbps. Such units convert
// to no others.
var wholes = map[string]bool{"bytes": true, "bytes/time": true, "flop": true, "flop/time": true, "op": true}

// Conversion returns the factor that converts a number of one unit to another: 1000 from "ms"
// to "us". ok is false if the units measure different things, or if one of them is unknown and
// they are not spelled alike.
func Conversion(from, to string) (factor float64, ok bool) {
	if from == to { // the usual case
		return 1, true
	}
	if from, to = plainUnit(from), plainUnit(to); from == to {
		return 1, true
	}
	a, known := parseUnit(from)
	b, alsoKnown := parseUnit(to)
	if !known || !alsoKnown || a.dimension != b.dimension {
		return 0, false
	}
	return exactFactor(a.scale / b.scale), true
}

// exactFactor returns the whole number, or the fraction of one, that a factor is but for rounding: 1e-3/1e-6 is not
// quite 1000.
func exactFactor(f float64) float64 {
	const rounding = 1e-14
	if whole := math.Round(f); math.Abs(f-whole) <= rounding*f {
		return whole
	}
	if whole := math.Round(1 / f); math.Abs(1/f-whole) <= rounding/f {
		return 1 / whole
	}
	return f
}

// Known returns the dimension of a unit, such as "time" or "bytes/time", and whether it is known.
func Known(unit string) (dimension string, known bool) {
	m, known := parseUnit(plainUnit(unit))
	return m.dimension, known
}

var micro = strings.NewReplacer("µ", "u", "μ", "u")

// plainUnit replaces both letters that mean micro by u.
func plainUnit(unit string) string { return micro.Replace(strings.TrimSpace(unit)) }

// parseUnit reads a unit such as us, GB/s or GFLOPS.
func parseUnit(text string) (m measure, known bool) {
	above, below, rate := strings.Cut(text, "/")
	if m, known = simpleUnit(above); !known || !rate {
		return m, known
	}
	per, known := simpleUnit(below)
	if !known {
		return m, false
	}
	return measure{m.dimension + "/" + per.dimension, m.scale / per.scale}, true
}

func simpleUnit(text string) (measure, bool) {
	if m, known := fixed[text]; known {
		return m, true
	}
	for prefix, scale := range unitPrefixes {
		rest, has := strings.CutPrefix(text, prefix)
		if m, known := bases[rest]; has && known {
			if scale < 1 && wholes[m.dimension] {
				m.dimension = "parts of " + m.dimension
			}
			return measure{m.dimension, m.scale * scale}, true
		}
	}
	// MSEC and Milliseconds: only spelled-out units of time mean the same in capitals.
	if lower := strings.ToLower(text); lower != text && len(text) > 2 && slices.Contains(timeWords, lower) {
		return simpleUnit(lower)
	}
	return measure{}, false
}
