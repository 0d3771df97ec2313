package views

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestParsePlot(t *testing.T) {
	for _, c := range []struct {
		text string
		want Plot
	}{
		{"x=size", Plot{X: "size"}},
		{"x=size,y=busbw,by=dtype", Plot{X: "size", Y: []string{"busbw"}, By: []string{"dtype"}}},
		{"by=dtype, y=time_us.p99 ,x=num_ranks,by=op", Plot{X: "num_ranks", Y: []string{"time_us.p99"}, By: []string{"dtype", "op"}}},
		{"x=shape,y=a_us+b_us,panel=op+dtype,kind=bars,share=time_us,columns=2", Plot{X: "shape", Y: []string{"a_us", "b_us"},
			Panel: []string{"op", "dtype"}, Kind: "bars", Share: dataset.TimeMetric, Columns: "2"}},
		{"x=np,over=first,xscale=log,yscale=linear,limit=least,ideal=x", Plot{X: "np", Over: "first",
			XScale: "log", YScale: "linear", Limit: "least", Ideal: "x"}},
		{"x=size,by=a+b+a,by=b", Plot{X: "size", By: []string{"a", "b"}}},
	} {
		got, err := ParsePlot(c.text)
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"":                        "has no name",
		"size":                    "has no name",
		"x=":                      "has no name",
		"y=time_us":               "missing x",
		"x=a,x=b":                 "duplicate x",
		"x=a,kind=b,kind=bars":    `unknown kind "b"`,
		"x=a,kind=bars,kind=heat": "duplicate kind",
		"x=a,by=b++c":             "an empty name between",
		"x=a,color=dtype":         `unknown key "color"`,
	} {
		_, err := ParsePlot(text)
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "such as x=size,y=time_us,by=dtype") {
			t.Errorf("%q: error %v, want one with %q and an example", text, err, want)
		}
	}
}

func TestCheckMetric(t *testing.T) {
	known := []journal.MetricInfo{{Name: "time_us"}, {Name: "a.min"}}
	for y, want := range map[string]string{
		"time_us": "", "time_us.p99": "", "a.min": "", "a.min.max": "",
		"time_us.p98": `plot x=i,y=time_us.p98: unknown metric "time_us.p98", did you mean "time_us"? (known: a.min, time_us)`,
		"a.max":       `plot x=i,y=a.max: unknown metric "a" (known: a.min, time_us)`,
	} {
		got := ""
		if err := (Plot{X: "i", Y: []string{y}}).CheckMetric(nil, nil, known); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", y, got, want)
		}
	}
}

// ParsePlot reads what String writes.
func TestPlotRoundTrip(t *testing.T) {
	name := rapid.StringMatching(`[A-Za-z][A-Za-z0-9_.-]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		p := Plot{X: name.Draw(t, "x"), Y: rapid.SliceOfNDistinct(name, 1, 3, rapid.ID[string]).Draw(t, "y"),
			By: rapid.SliceOfNDistinct(name, 0, 4, rapid.ID[string]).Draw(t, "by")}
		got, err := ParsePlot(p.String())
		if err != nil || got.X != p.X || !slices.Equal(got.Y, p.Y) || !slices.Equal(got.By, p.By) {
			t.Fatalf("%s: got %+v, %v", p, got, err)
		}
	})
}

func FuzzParsePlot(f *testing.F) {
	f.Add("x=size,y=time_us,by=dtype+op")
	f.Add("by=,x")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePlot(text)
		if err != nil {
			return
		}
		if p.X == "" || len(p.Y) == 0 {
			t.Fatalf("%q gave %+v", text, p)
		}
		if again, err := ParsePlot(p.String()); err != nil || !cmp.Equal(again, p) {
			t.Fatalf("%q: %s reads back as %+v, %v", text, p, again, err)
		}
	})
}

func TestAutoPlot(t *testing.T) {
	h := fixtureHeader()
	text := func(name string) journal.Row {
		r := fixtureRow(coords{1024, "f32", 2, "", 0})
		r.Point = point.Point{{Name: "op", Value: point.StringValue(name)}}
		return r
	}
	only := func(rows []journal.Row, metric string) []journal.Row {
		for i := range rows {
			rows[i].Metrics = map[string]float64{metric: 1}
			rows[i].Stats = nil
		}
		return rows
	}
	two := sizes[:2]
	for _, c := range []struct {
		name string
		rows []journal.Row
		want string
	}{
		{"most values", sweep(sizes, []string{"f32"}, []int{2, 4}, []string{"Ring"}, 1), "x=size,y=time_us,by=num_ranks"},
		{"most values, whatever comes later", sweep(two, []string{"f32"}, []int{1, 2, 4, 8}, []string{"Ring"}, 1),
			"x=num_ranks,y=time_us,by=size"},
		{"nothing else varies", sweep(sizes, []string{"f32"}, []int{2}, []string{"Ring"}, 2), "x=size,y=time_us"},
		{"numbers before texts", sweep(two, []string{"f32", "f16", "bf16"}, []int{2}, []string{"Ring"}, 1),
			"x=size,y=time_us,by=dtype"},
		{"ranks", sweep(two[:1], []string{"f32"}, []int{2, 4, 8}, []string{"", "Tree"}, 1),
			"x=num_ranks,y=time_us,by=NCCL_ALGO"},
		{"texts only", []journal.Row{text("copy"), text("read")}, "x=op,y=time_us"},
		{"a metric of its own", only(sweep(two, []string{"f32"}, []int{2}, []string{""}, 1), "misses"), "x=size,y=misses"},
		{"a declared metric first", only(sweep(two, []string{"f32"}, []int{2}, []string{""}, 1), "busbw"), "x=size,y=busbw"},
		{"one point", sweep(two[:1], []string{"f32"}, []int{2}, []string{""}, 3), ""},
		{"no row", nil, ""},
		{"no good row", []journal.Row{notOK(text("copy"), journal.Failed, ""), notOK(text("read"), journal.Failed, "")}, ""},
	} {
		p, ok := AutoPlot(h, dataset.All(c.rows))
		got := p.String()
		if !ok {
			got = ""
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestStem(t *testing.T) {
	for want, p := range map[string]Plot{
		"plot_time_us_vs_size_by_dtype":       {X: "size", Y: []string{dataset.TimeMetric}, By: []string{"dtype"}},
		"plot_time_us.p99_vs_a_b_by_n_num___": {X: "a/b", Y: []string{"time_us.p99"}, By: []string{"n", "num<>ß"}},
	} {
		if got := p.stem(); got != want {
			t.Errorf("%s: got %s, want %s", p, got, want)
		}
	}
	if n := len(Plot{X: strings.Repeat("x", 500)}.stem()); n > 200 {
		t.Errorf("a stem of %d bytes", n)
	}
}
