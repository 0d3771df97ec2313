package figure

import "testing"

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		v    float64
		want string
	}{
		{Plain, 0, "0"}, {Plain, 1024, "1024"}, {Plain, 12345, "12.35k"}, {Plain, 2.5e6, "2.5M"}, {Plain, -3.25, "-3.25"},
		{Plain, 4.5e-7, "4.5e-7"},
		{Plain, 3e18, "3e6T"}, {Bytes, 1536, "1.5Ki"}, {Bytes, 1 << 30, "1Gi"}, {Bytes, 100, "100"},
		{Micros, 999.9999999999, "1 ms"}, {Micros, 0.0005, "0.5 ns"}, {Micros, 1e6, "1 s"}, {Percent, 12.5, "12.5%"},
		{GBps, 480, "480"},
	} {
		if got := c.unit.Format(c.v); got != c.want {
			t.Errorf("%s: format(%g) = %q, want %q", c.unit, c.v, got, c.want)
		}
	}
}

func TestAxisLabelNamesTheUnit(t *testing.T) {
	for _, c := range []struct{ label, want string }{{"Bandwidth", "Bandwidth (GB/s)"}, {"Rate in GB/s", "Rate in GB/s"},
		{"", "(GB/s)"}} {
		if got := (Axis{Unit: GBps, Label: c.label}).Title(); got != c.want {
			t.Errorf("title of label %q is %q, want %q", c.label, got, c.want)
		}
	}
}
