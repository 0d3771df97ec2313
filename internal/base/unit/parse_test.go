package unit

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	tests := []struct {
		text         string
		bytes, count int64 // -1: an error
	}{
		{"0", 0, 0},
		{"3", 3, 3},
		{"007", 7, 7},
		{"64K", 64 << 10, 64000},
		{"64k", 64 << 10, 64000},
		{"64Ki", 64 << 10, 64 << 10},
		{"1Mi", 1 << 20, 1 << 20},
		{"1M", 1 << 20, 1e6},
		{"2g", 2 << 30, 2e9},
		{"1T", 1 << 40, 1e12},
		{"1ti", 1 << 40, 1 << 40},
		{"3B", 3, -1},
		{"4KB", 4 << 10, -1},
		{"8KiB", 8 << 10, -1},
		{"1.5M", 3 << 19, 1500000},
		{"0.5K", 512, 500},
		{"2.0", 2, 2},
		{"0.1K", -1, 100}, // 102.4 bytes
		{"1.5", -1, -1},
		{"9007199254740993", 1<<53 + 1, 1<<53 + 1}, // not a float64
		{"9223372036854775807", math.MaxInt64, math.MaxInt64},
		{"9223372036854775808", -1, -1},
		{"8388607T", 8388607 << 40, 8388607e12},
		{"8388608T", -1, 8388608e12},
		{"9223373T", -1, -1},
		{"", -1, -1},
		{"K", -1, -1},
		{"-1", -1, -1},
		{"+1", -1, -1},
		{" 1", -1, -1},
		{"1 K", -1, -1},
		{"1.K", -1, -1},
		{".5K", -1, -1},
		{"1.2.3", -1, -1},
		{"1e3", -1, -1},
		{"0x10", -1, -1},
		{"1KI", -1, -1},
		{"1KBB", -1, -1},
		{"1BK", -1, -1},
		{"1i", -1, -1},
		{"1iB", -1, -1},
		{"1Q", -1, -1},
		{"١", -1, -1}, // an Arabic digit
	}
	for _, tt := range tests {
		checkParsed(t, "ParseBytes", ParseBytes, tt.text, tt.bytes)
		checkParsed(t, "ParseCount", ParseCount, tt.text, tt.count)
	}
}

func checkParsed(t *testing.T, name string, parse func(string) (int64, error), text string, want int64) {
	t.Helper()
	got, err := parse(text)
	switch {
	case want < 0 && err == nil:
		t.Errorf("%s(%q) = %d, want an error", name, text, got)
	case want >= 0 && (err != nil || got != want):
		t.Errorf("%s(%q) = %d, %v; want %d", name, text, got, err, want)
	}
}

// TestParseErrors checks that errors quote the text and show correct examples.
func TestParseErrors(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"12Q", []string{`size "12Q"`, "64K", "1Mi", "K = Ki = 1024"}},
		{"0.1K", []string{`size "0.1K"`, "not a whole number of bytes"}},
		{"9999999999T", []string{`size "9999999999T"`, "too large", "9223372036854775807"}},
	}
	for _, tt := range tests {
		_, err := ParseBytes(tt.text)
		if err == nil {
			t.Errorf("ParseBytes(%q) accepted", tt.text)
			continue
		}
		for _, part := range tt.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("ParseBytes(%q): error %q does not say %q", tt.text, err, part)
			}
		}
	}
	if _, err := ParseCount("4KB"); err == nil || !strings.Contains(err.Error(), "K = 1000") {
		t.Errorf("ParseCount(4KB): error %v does not say what K means", err)
	}
}

// TestParseAgainstMultiplication compares with big-integer multiplication: the values agree, or
// the product exceeds an int64.
func TestParseAgainstMultiplication(t *testing.T) {
	suffixes := map[string][2]int64{
		"": {1, 1}, "K": {1 << 10, 1e3}, "m": {1 << 20, 1e6}, "Gi": {1 << 30, 1 << 30}, "ti": {1 << 40, 1 << 40},
	}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint64().Draw(t, "number")
		suffix := rapid.SampledFrom([]string{"", "K", "m", "Gi", "ti"}).Draw(t, "suffix")
		text := new(big.Int).SetUint64(number).String() + suffix
		for i, parse := range []func(string) (int64, error){ParseBytes, ParseCount} {
			want := new(big.Int).Mul(new(big.Int).SetUint64(number), big.NewInt(suffixes[suffix][i]))
			got, err := parse(text)
			if want.IsInt64() != (err == nil) || (err == nil && got != want.Int64()) {
				t.Fatalf("%q = %d, %v; want %v", text, got, err, want)
			}
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"64K", "1Mi", "3", "1.5M", "8KiB", "4KB", "9223372036854775807", "1..2", "KiB", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseBytes(text)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("ParseBytes(%q) = %d, negative", text, n)
		}
		if again, err := ParseBytes(FormatBytes(n)); err != nil || again != n {
			t.Fatalf("%q = %d, written as %q, read back as %d, %v", text, n, FormatBytes(n), again, err)
		}
	})
}
