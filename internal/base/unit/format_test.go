package unit

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

func TestFormatBytes(t *testing.T) {
	tests := map[int64]string{
		0: "0", 1: "1", 1000: "1000", 1023: "1023", 1024: "1Ki", 1536: "1536",
		65536: "64Ki", 65537: "65537", 1 << 20: "1Mi", 1<<20 + 1024: "1025Ki",
		5 << 30: "5Gi", 1 << 40: "1Ti", 1 << 50: "1024Ti",
		math.MaxInt64: "9223372036854775807", math.MinInt64: "-8388608Ti", -2048: "-2Ki",
	}
	for n, want := range tests {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestFormatBytesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// The shift makes exact multiples as common as other numbers.
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "n") >> 40 << rapid.IntRange(0, 40).Draw(t, "shift")
		text := FormatBytes(n)
		if back, err := ParseBytes(text); err != nil || back != n {
			t.Fatalf("%d written as %q, read back as %d, %v", n, text, back, err)
		}
		if plain := strconv.FormatInt(n, 10); n%1024 != 0 && text != plain {
			t.Fatalf("%d is no multiple and was written as %q", n, text)
		}
	})
}

func TestFormatMetric(t *testing.T) {
	for v, want := range map[float64]string{16384: "16384", 0: "0", -16385: "-16385", 12.3456: "12.35", 16384.5: "16380",
		1e300: FormatSig(1e300, 4)} {
		if got := FormatMetric(v); got != want {
			t.Errorf("FormatMetric(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestFormatSig(t *testing.T) {
	tests := []struct {
		v      float64
		digits int
		want   string
	}{
		{0, 3, "0"}, {math.Copysign(0, -1), 3, "0"}, {0.25, 3, "0.25"}, {12.34, 3, "12.3"}, {12.36, 3, "12.4"},
		{1234, 3, "1230"}, {-1234, 2, "-1200"}, {999.9, 3, "1000"}, {1, 3, "1"}, {0.00012345, 3, "0.000123"},
		{1.0 / 3, 6, "0.333333"}, {5, 0, "5"}, {0.000001234, 3, "1.23e-06"}, {1.5e20, 3, "1.5e+20"},
		{123456789, 9, "123456789"},
		{math.NaN(), 3, "NaN"}, {math.Inf(1), 3, "Inf"}, {math.Inf(-1), 3, "-Inf"},
		{math.MaxFloat64, 1, "1.7976931348623157e+308"},
	}
	for _, tt := range tests {
		if got := FormatSig(tt.v, tt.digits); got != tt.want {
			t.Errorf("FormatSig(%v, %d) = %q, want %q", tt.v, tt.digits, got, tt.want)
		}
	}
}

// TestFormatSigProperties checks that the text is within half a unit of the last digit, has
// no trailing zeros after a point, and that 17 digits reproduce the number.
func TestFormatSigProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(-1e18, 1e18).Draw(t, "v")
		digits := rapid.IntRange(1, 17).Draw(t, "digits")
		text := FormatSig(v, digits)
		back, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("FormatSig(%v) = %q is no number", v, text)
		}
		// Half a unit in the last digit, relative to the smallest leading digit.
		if bound := math.Abs(v) * 0.5 * math.Pow10(1-digits) * (1 + 1e-9); math.Abs(back-v) > bound+1e-15*math.Abs(v) {
			t.Fatalf("FormatSig(%v, %d) = %q is off by more than half a digit", v, digits, text)
		}
		if mantissa, _, _ := strings.Cut(text, "e"); strings.Contains(mantissa, ".") && strings.HasSuffix(mantissa, "0") {
			t.Fatalf("FormatSig(%v, %d) = %q has trailing zeros", v, digits, text)
		}
		if exact := FormatSig(v, 17); mustFloat(t, exact) != v {
			t.Fatalf("FormatSig(%v, 17) = %q lost something", v, exact)
		}
	})
}

func mustFloat(t *rapid.T, text string) float64 {
	return must.Get(strconv.ParseFloat(text, 64))(t)
}

func TestFormatBytesApprox(t *testing.T) {
	tests := map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 999: "999", 1000: "1000", 1023: "1023", 1023.9: "1Ki", 1024: "1Ki", 1536: "1.5Ki",
		1 << 20: "1Mi", 1<<20 - 1: "1Mi", 1000 << 10: "1000Ki", 715827883: "683Mi", 5 << 40: "5Ti", 1 << 50: "1024Ti",
		-2048: "-2Ki",
	}
	for v, want := range tests {
		if got := FormatBytesApprox(v); got != want {
			t.Errorf("FormatBytesApprox(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestFormatMicros(t *testing.T) {
	tests := map[float64]string{
		0: "0 µs", 0.25: "0.25 µs", 0.1: "0.1 µs", 0.0999: "99.9 ns", 0.09999: "0.1 µs", 0.0012: "1.2 ns", 12.345: "12.3 µs",
		999.4: "999 µs", 999.96: "1 ms", 1200: "1.2 ms", 999960: "1 s", 3.4e6: "3.4 s", 3.456789e9: "3457 s",
		-1500:       "-1.5 ms",
		math.Inf(1): "Inf µs",
	}
	for us, want := range tests {
		if got := FormatMicros(us); got != want {
			t.Errorf("FormatMicros(%v) = %q, want %q", us, got, want)
		}
	}
	if got := FormatMicros(math.NaN()); got != "NaN µs" {
		t.Errorf("FormatMicros(NaN) = %q", got)
	}
	if got := FormatDuration(1200 * time.Microsecond); got != "1.2 ms" {
		t.Errorf("FormatDuration(1.2 ms) = %q", got)
	}
}

func TestFormatSI(t *testing.T) {
	tests := []struct {
		v    float64
		want string
	}{
		{12.34e9, "12.3G"}, {1.5e12, "1.5T"}, {0, "0"}, {999.9e6, "1G"}, {999, "999"}, {0.0025, "2.5m"}, {3e-7, "300n"},
		{12345, "12.3k"}, {2e21, "2000E"},
	}
	for _, tt := range tests {
		if got := FormatSI(tt.v); got != tt.want {
			t.Errorf("FormatSI(%v) = %q, want %q", tt.v, got, tt.want)
		}
	}
}

// The unit of a column follows from its middle time; zeros and infinite times do not count.
func TestMicrosIn(t *testing.T) {
	for _, c := range []struct {
		us   []float64
		want string
	}{
		{nil, "µs"}, {[]float64{0, 0}, "µs"}, {[]float64{0.0345}, "ns"}, {[]float64{1e-6}, "ns"},
		{[]float64{2, 20034, 40e6}, "ms"}, {[]float64{0, 0, 0, 1.5e6, math.Inf(1), math.Inf(1)}, "s"},
	} {
		if got := MicrosIn(c.us); got.Name != c.want {
			t.Errorf("%v: %s, want %s", c.us, got.Name, c.want)
		}
	}
	if got := MicrosIn([]float64{3410.01152}).Format(3410.01152, 4); got != "3.41" {
		t.Errorf("3410 µs are %s ms", got)
	}
}
