package unit

import (
	"math"
	"testing"
)

func TestConversion(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     float64 // 0 if they cannot be converted
	}{
		{"us", "us", 1}, {"ms", "us", 1000}, {"µs", "us", 1}, {"μs", "ns", 1000}, {"s", "ms", 1000}, {"min", "s", 60},
		{"GB/s", "MB/s", 1000}, {"GiB/s", "MiB/s", 1024}, {"GB/s", "B/ns", 1}, {"Gbit/s", "GB/s", 0.125},
		{"GBps", "GB/s", 1}, {"Gb/s", "MB/s", 125}, {"GFLOPS", "TFLOPS", 1e-3}, {"GFLOP/s", "GFLOPS", 1}, {"kHz", "1/s", 1000},
		{"%", "1", 0.01}, {"widgets", "widgets", 1}, {"", "", 1},
		{"milliseconds", "us", 1000}, {"minutes", "s", 60}, {"hrs", "min", 60}, {"secs", "ms", 1000}, {"nanos", "us", 1e-3},

		{"MSEC", "us", 1000}, {"Milliseconds", "us", 1000}, {"uSec", "us", 1}, {"Min", "s", 0}, {"MS", "us", 0},
		{"mb/s", "MB/s", 0}, {"mbps", "Mbps", 0}, {"mbps", "mbps", 1}, {"gflops", "GFLOPS", 0}, {"mW", "W", 1e-3},
		{"us", "GB/s", 0}, {"us", "", 0}, {"widgets", "gadgets", 0}, {"us", "us/op", 0}, {"B", "b/s", 0}, {"m", "ms", 0},
	} {
		got, ok := Conversion(c.from, c.to)
		if ok != (c.want != 0) || ok && math.Abs(got/c.want-1) > 1e-12 {
			t.Errorf("Conversion(%q, %q) = %v, %v, want %v", c.from, c.to, got, ok, c.want)
		}
	}
}

// TestConversionIsExact checks that decimal prefixes do not leave rounding errors in converted numbers.
func TestConversionIsExact(t *testing.T) {
	for pair, want := range map[[2]string]float64{{"ms", "us"}: 1000, {"s", "ns"}: 1e9, {"ns", "us"}: 1 / 1e3,
		{"us", "s"}: 1 / 1e6, {"GB/s", "MB/s"}: 1000, {"Gb/s", "MB/s"}: 125, {"h", "min"}: 60, {"MB/s", "MiB/s"}: 1e6 / (1 << 20)} {
		if got, _ := Conversion(pair[0], pair[1]); got != want {
			t.Errorf("%v: %v, want %v", pair, got, want)
		}
	}
}

// TestPrefixesAreUnambiguous checks that no text can be read as two units, since the order in
// which prefixes are tried is random.
func TestPrefixesAreUnambiguous(t *testing.T) {
	meaning := map[string]measure{}
	for name := range fixed {
		meaning[name] = fixed[name]
	}
	for prefix, scale := range unitPrefixes {
		for base, m := range bases {
			text := prefix + base
			one := measure{m.dimension, m.scale * scale}
			if other, twice := meaning[text]; twice && other != one {
				t.Errorf("%q means %v and %v", text, one, other)
			}
			meaning[text] = one
		}
	}
}
