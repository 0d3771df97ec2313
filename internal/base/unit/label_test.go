package unit

import "testing"

func TestContradiction(t *testing.T) {
	for _, c := range [][3]string{
		{"time_ms", "us", "ms"}, {"time_ms", "ms", ""}, {"time_us", "µs", ""}, {"time_s", "", ""},
		{"s", "GB/s", ""}, {"x", "us", ""}, {"msec", "ms", ""},
	} {
		if got := Contradiction(c[0], c[1]); got != c[2] {
			t.Errorf("%s in %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestTimeIn(t *testing.T) {
	for _, c := range []struct {
		label, want string
		last        bool
	}{
		{"time_ms", "ms", true}, {"Time (ms)", "ms", true}, {"ms_mean", "ms", false}, {"time [µs]", "us", true}, {"s", "s", true},
		{"Time (MS)", "ms", true}, {"Milliseconds", "milliseconds", true}, {"ms of each rank in us", "us", true},
		{"us_per_call", "us", false}, {"tokens_per_s", "", false}, {"GB/s", "", false}, {"time_min", "", false},
		{"items", "", false}, {"S", "", false}, {"the rank's time", "", false}, {"", "", false},
	} {
		if got, last := TimeIn(c.label); got != c.want || last != c.last {
			t.Errorf("%q states %q, at its end: %v; want %q, %v", c.label, got, last, c.want, c.last)
		}
	}
}
