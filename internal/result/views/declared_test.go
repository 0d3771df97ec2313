package views

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// product is a row of a declared bench: a product in a number of blocks, with a breakdown of its time.
func product(shape, variant string, blocks int64, us float64) journal.Row {
	n := int(blocks)
	return journal.Row{Bench: "b", Status: journal.OK, Kind: journal.Simulated, NumRanks: &n, Key: shape + variant,
		Point: point.Point{{Name: "shape", Value: must1(point.Parse(point.Tuple, shape))},
			{Name: "variant", Value: point.StringValue(variant)}, {Name: "once", Value: point.BoolValue(variant == "b")}},
		Metrics: map[string]float64{dataset.TimeMetric: us, "read_us": us / 4, "work_us": us / 2, "pes": 2 * float64(blocks),
			"busbw": 8 / us},
		Units:   map[string]string{dataset.TimeMetric: "us", "busbw": "GB/s"},
		Limits:  map[string]float64{"link": us / 2, "memory": us / 4},
		Details: map[string]string{journal.TopologyDetail: "built-in", journal.HashDetail: "0123456789abcdef"}}
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func declare(t *testing.T, text string, w Words) Plot {
	p := must.Get(ParsePlot(text))(t)
	p.Words = w
	return p
}

// What a declared figure consists of, in short: panels, and series with their points.
func outline(f figure.Figure) (lines []string) {
	lines = append(lines, f.Name+": "+f.Title+" | "+f.Caption)
	for _, p := range f.Panels {
		lines = append(lines, "panel "+strings.Join(append([]string{p.Title, string(p.X.Scale), p.X.Label, p.Y.Label,
			string(p.Y.Unit)}, p.X.Categories...), ","))
		for _, s := range p.Series {
			line := "  " + string(s.Kind) + " " + s.Name + ":"
			for _, pt := range s.Points {
				line += " " + figure.Plain.Format(pt.X) + "," + figure.Plain.Format(pt.Y)
			}
			lines = append(lines, line)
		}
		for _, l := range p.Lines {
			line := "  line " + l.Label + ":"
			if l.Y != nil {
				line += " " + figure.Plain.Format(*l.Y)
			}
			for _, pt := range l.Points {
				line += " " + figure.Plain.Format(pt.X) + "," + figure.Plain.Format(pt.Y)
			}
			lines = append(lines, line)
		}
		if h, ok := p.Content.(*figure.HeatMap); ok {
			for i, cells := range h.Cells {
				line := "  cells " + p.Y.Categories[i] + ":"
				for _, c := range cells {
					line += " " + figure.Plain.Format(c.Value)
				}
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func TestDeclaredFigures(t *testing.T) {
	const simulated = "Simulated on topology built-in (sha256 0123456789ab)."
	small, large := product("32x32x32", "a", 1, 8), product("64x64x64", "a", 1, 16)
	two, b := product("32x32x32", "a", 2, 4), product("32x32x32", "b", 1, 2)
	failed := product("64x64x64", "b", 1, 1)
	failed.Status, failed.Metrics = journal.Failed, nil
	for _, c := range []struct {
		name, plot string
		words      Words
		rows       []journal.Row
		want       []string
	}{
		{"panels, and values in words", "x=num_ranks,by=once,panel=shape", Words{Name: "n", Title: "T", Caption: "C."},
			[]journal.Row{small, two, large, b}, []string{"n: T | C. " + simulated,
				"panel 32x32x32,,ranks,time,us", "   once=false: 1,8 2,4", "   once: 1,2",
				"   limit: link (once=false): 1,4 2,2", "   limit: link (once): 1,1",
				"   limit: memory (once=false): 1,2 2,1", "   limit: memory (once): 1,0.5",
				"panel 64x64x64,,ranks,time,us", "   once=false: 1,16", "  line limit: link: 8",
				"  line limit: memory: 4"}},
		{"a breakdown", "x=shape,y=read_us+work_us,share=time_us,kind=stack",
			Words{Name: "n", Title: "on {pes} PEs, {shape}", Labels: map[string]string{"read_us": "read", "y": "share"}},
			[]journal.Row{small, large}, []string{"n: on 2 PEs, 32x32x32 and 64x64x64 | " + simulated,
				"panel ,category,shape,share,percent,32x32x32,64x64x64", "  stacked-bars read: 0,25 1,25",
				"  stacked-bars work_us: 0,50 1,50"}},
		{"a metric on x, and the ideal", "x=pes,y=time_us/read_us,ideal=x,xscale=log",
			Words{Name: "n", Labels: map[string]string{"ideal": "best", "x": "PEs"}}, []journal.Row{small, two},
			[]string{"n:  | " + simulated, "panel ,log2,PEs,time_us/read_us,", "   time_us/read_us: 2,4 4,4",
				"  line best: 2,2 4,4"}},
		{"products, and a number of a tuple", "x=2*shape.1,y=pes*busbw/2,by=shape.0,limit=none,where=num_ranks==1",
			Words{Name: "n", Labels: map[string]string{"shape.0": "M = {}"}, Units: map[string]string{"x": "bytes"}},
			[]journal.Row{small, large}, []string{"n:  | " + simulated, "panel ,,2*shape.1 (bytes),pes*busbw/2,",
				"   M = 32: 64,1", "   M = 64: 128,0.5"}},
		{"over the first series", "x=num_ranks,by=variant,over=first,where=shape==\"32x32x32\"",
			Words{Name: "n", Labels: map[string]string{"panel": "over {first}"}}, []journal.Row{small, two, b},
			[]string{"n:  | " + simulated, "panel over a,,ranks,ratio of time_us to the first,", "   a: 1,1 2,1",
				"   b: 1,0.25"}},
		{"a single series has no ratio", "x=num_ranks,over=first", Words{Name: "n"}, []journal.Row{small, two}, nil},
		{"cubes, and a name that no row has", "x=shape.cube,limit=none,where=variant!=\"b\" && shape!=\"1\"", Words{Name: "n"},
			[]journal.Row{small, product("32x64x32", "a", 1, 5), product("x=8x8x8", "a", 1, 3), large, b},
			[]string{"n:  | " + simulated, "panel ,,shape.cube,time,us", "   time_us: 32,8 64,16"}},
		{"first and last values", "x=num_ranks,limit=none,first=shape,last=variant", Words{Name: "n",
			Labels: map[string]string{"panel": "{shape} by {variant}"}}, []journal.Row{small, large, b},
			[]string{"n:  | " + simulated, "panel 32x32x32 by b,,ranks,time,us", "   time_us: 1,2"}},
		{"a stack for each series", "x=shape,y=read_us+work_us,share=time_us,kind=stack,by=variant",
			Words{Name: "n", Labels: map[string]string{"panel": "parts"}}, []journal.Row{small, b},
			[]string{"n:  | " + simulated, "panel parts, a,category,shape,value,percent,32x32x32",
				"  stacked-bars read_us: 0,25",
				"  stacked-bars work_us: 0,50", "panel parts, b,category,shape,value,percent,32x32x32",
				"  stacked-bars read_us: 0,25", "  stacked-bars work_us: 0,50"}},
		{"a level", "x=num_ranks,y=busbw,ideal=3", Words{Name: "n"}, []journal.Row{small, two},
			[]string{"n:  | " + simulated, "panel ,,ranks,busbw,GB/s", "   busbw: 1,1 2,2", "  line ideal: 3"}},
		{"in proportion to the first", "x=num_ranks,y=busbw,ideal=first", Words{Name: "n"}, []journal.Row{small, two},
			[]string{"n:  | " + simulated, "panel ,,ranks,busbw,GB/s", "   busbw: 1,1 2,2", "  line ideal: 1,1 2,2"}},
		{"only what the ideal starts from", "x=num_ranks,y=busbw,ideal=1", Words{Name: "n"}, []journal.Row{small}, nil},
		{"the least limit of a rate", "x=num_ranks,y=busbw,limit=least,by=variant", Words{Name: "n", Labels: map[string]string{"variant": "way {}"}},
			[]journal.Row{small, two, b}, []string{"n:  | " + simulated, "panel ,,ranks,busbw,GB/s", "   way a: 1,1 2,2",
				"   way b: 1,4", "  line limit: 1,8 2,4"}},
		{"cells", "x=shape,y=time_us,by=variant,kind=heat", Words{Name: "n"}, []journal.Row{small, large, b},
			[]string{"n:  | " + simulated, "panel ,category,shape,,,32x32x32,64x64x64", "  cells a: 8 16", "  cells b: 2 NaN"}},
		{"every point", "x=point,kind=bars,limit=none", Words{Name: "n"}, []journal.Row{small, large, two},
			[]string{"n:  | " + simulated, "panel ,category,point,time,us,1 rank, 32x32x32,1 rank, 64x64x64,2 ranks, 32x32x32",
				"  bars time_us: 0,8 1,16 2,4"}},
		{"a figure for each value", "x=num_ranks,limit=none,where=!once && variant!=\",\"", Words{Name: "by_{shape}", Title: "{shape}"}, []journal.Row{small, two, large, b},
			[]string{"by_32x32x32: 32x32x32 | " + simulated, "panel ,,ranks,time,us", "   time_us: 1,8 2,4",
				"by_64x64x64: 64x64x64 | " + simulated, "panel ,,ranks,time,us", "   time_us: 1,16"}},
		{"a failed point", "x=shape,kind=bars,limit=none,by=variant", Words{Name: "n"}, []journal.Row{small, b, failed},
			[]string{"n:  | " + simulated, "panel ,category,shape,time,us,32x32x32,64x64x64", "  bars a: 0,8",
				"  bars b: 0,2 1,NaN"}},
		{"a stack of nothing", "x=shape,y=read_us+work_us,kind=stack", Words{Name: "n"}, []journal.Row{failed}, nil},
		{"nothing to draw", "x=shape,kind=heat", Words{Name: "n"}, []journal.Row{failed}, nil},
	} {
		figs, errs := Figures([]Plot{declare(t, c.plot, c.words)}, &journal.Header{Bench: "b"}, dataset.All(c.rows))
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.name, errs)
		}
		var got []string
		for _, f := range figs {
			must.Do(t, f.Validate())
			got = append(got, outline(f)...)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestPivots(t *testing.T) {
	slow := product("32x32x32", "a", 1, 12)
	slow.Trial = 1
	disturbed := product("64x64x64", "b", 1, 3)
	disturbed.Quality = journal.QualityDisturbed
	failed := product("8x8x8", "b", 1, 3)
	failed.Status = journal.Failed
	rows := []journal.Row{product("32x32x32", "a", 1, 8), slow, disturbed, product("64x64x64", "a", 2, 4), failed}
	for _, c := range []struct {
		text string
		want [][]string
	}{
		{"rows=variant,columns=shape", [][]string{{"how", "32x32x32", "64x64x64"}, {"a", "10 µs", "4 µs"}, {"b", "-", "(3 µs)"}}},
		{"rows=num_ranks,columns=variant,value=time_us+busbw", [][]string{{"num_ranks", "shape", "a", "b"},
			{"1", "32x32x32", "10 µs, 0.8 GB/s", "-"}, {"1", "64x64x64", "-", "(3 µs), (2.667 GB/s)"},
			{"2", "64x64x64", "4 µs, 2 GB/s", "-"}}},
		{"rows=variant,value=time_us+work_us", [][]string{{"how", "num_ranks", "shape", "time_us", "work"},
			{"a", "1", "32x32x32", "10 µs", "5"}, {"a", "2", "64x64x64", "4 µs", "2"}, {"b", "1", "64x64x64", "(3 µs)", "(1.5)"}}},
		{"rows=point,value=pes", [][]string{{"point", "pes"}, {"1 rank, 32x32x32, a", "2"}, {"1 rank, 64x64x64, b, once", "(2)"},
			{"2 ranks, 64x64x64, a", "4"}}},
		{"rows=point,value=time_us+nowhere_us,unit=common", [][]string{{"times in µs", "time_us"},
			{"1 rank, 32x32x32, a", "10"}, {"1 rank, 64x64x64, b, once", "(3)"}, {"2 ranks, 64x64x64, a", "4"}}},
	} {
		p := must.Get(ParsePivot(c.text))(t)
		p.Words = Words{Title: "T of {pes}", Caption: "C", Labels: map[string]string{"variant": "how", "work_us": "work"}}
		got := must.Get(p.Table(nil, dataset.All(rows)))(t)
		const text = "C Values in parentheses were disturbed while measured."
		if d := cmp.Diff(c.want, got.Cells); d != "" || got.Title != "T of 2 and 4" || got.Text != text {
			t.Errorf("%s: %q (-want +got):\n%s", c.text, got.Title, d)
		}
		if again := must.Get(ParsePivot(p.String()))(t); p.String() != again.String() {
			t.Errorf("%s reads back as %s", p, again)
		}
	}
	if got := must.Get(Pivot{Rows: []string{"shape"}}.Table(nil, dataset.All(rows[4:])))(t); len(got.Cells) > 0 {
		t.Errorf("a table of failures: %v", got)
	}
	for text, want := range map[string]string{"columns=a": "missing rows", "rows=a,x=b": "unknown key"} {
		if _, err := ParsePivot(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := (Pivot{Rows: []string{"shap"}}).Table(nil, dataset.All(rows)); err == nil || !strings.Contains(err.Error(), `"shape"`) {
		t.Errorf("an unknown coordinate: %v", err)
	}
}

// A file before and after an edit gives two names.
func TestFilesAreToldApart(t *testing.T) {
	on := func(file, hash string, us float64) journal.Row {
		r := product("32x32x32", "a", 1, us)
		r.Point = r.Point.With("topology", point.FileValue("there/"+file, strings.Repeat(hash, 64)))
		return r
	}
	rows := []journal.Row{on("a.yaml", "a", 1), on("b.yaml", "b", 2), on("b.yaml", "c", 3)}
	figs, errs := Figures([]Plot{declare(t, "x=num_ranks,limit=none", Words{Name: "n"})}, nil, dataset.All(rows))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	got := lists.Map(figs[0].Panels[0].Series, func(s figure.Series) string { return s.Name })
	if d := cmp.Diff([]string{"a.yaml", "b.yaml (bbbbbbbb)", "b.yaml (cccccccc)"}, got); d != "" {
		t.Error(d)
	}
}

func TestExports(t *testing.T) {
	first, second := product("32x64x32", "a", 1, 8.25), product("8", "b", 2, 4)
	first.Details["usage"], first.Details["fabric"] = `{"busy":{"gemm":1}}`, "flits"
	second.Details = map[string]string{"usage": `{"busy":{"gemm":2}}`}
	failed := product("64x64x64", "b", 1, 1)
	failed.Status = journal.Failed
	rows := dataset.All([]journal.Row{first, second, failed})
	columns := []string{"K=shape.1", "variant", "ranks=num_ranks", "ns=1000*time_us %.1f", "fabric=detail.fabric",
		"*=detail.usage"}
	for name, want := range map[string]string{
		"t.csv": "K,variant,ranks,ns,fabric\n64,a,1,8250.0,flits\n8,b,2,4000.0,\n",
		"t.json": `[
  {
    "K": 64,
    "variant": "a",
    "ranks": 1,
    "ns": 8250,
    "fabric": "flits",
    "busy": {
      "gemm": 1
    }
  },
  {
    "K": 8,
    "variant": "b",
    "ranks": 2,
    "ns": 4000,
    "busy": {
      "gemm": 2
    }
  }
]
`} {
		e := Export{Name: name, Columns: columns}
		if got := string(must.Get(e.Encode(rows))(t)); got != want {
			t.Errorf("%s:\n%s", name, got)
		}
		e.Where = `variant=="none"`
		if data := must.Get(e.Encode(rows))(t); data != nil || e.Needed(rows) {
			t.Errorf("%s of no rows: %q", name, data)
		}
		if e.Where = `shape=="64x64x64"`; !e.Needed(rows) {
			t.Errorf("%s is not needed for a failed row", name)
		}
		e = Export{Name: name, Columns: []string{"speed"}}
		if _, err := e.Encode(rows); err == nil || !strings.Contains(err.Error(), `unknown metric "speed"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A color means the same in all panels of heat maps.
func TestCommonColors(t *testing.T) {
	rows := []journal.Row{product("32x32x32", "a", 1, 8), product("64x64x64", "b", 1, 2)}
	figs, errs := Figures([]Plot{declare(t, "x=num_ranks,y=time_us,by=shape,panel=variant,kind=heat",
		Words{Name: "n"})}, nil, dataset.All(rows))
	if len(errs) > 0 || len(figs[0].Panels) != 2 {
		t.Fatalf("%v, %+v", errs, figs)
	}
	for _, p := range figs[0].Panels {
		if v := p.Content.(*figure.HeatMap).Value; v.Min == nil || *v.Min != 0 || *v.Max != 8 {
			t.Errorf("%s: %+v", p.Title, v)
		}
	}
}

// Trials that all have what a bench derived from them keep its interval. The parts of a stack have no error bars.
func TestDerivedTrials(t *testing.T) {
	var rows []journal.Row
	for trial, us := range []float64{8, 12} {
		r := product("32x32x32", "a", 1, us)
		r.Trial, r.Metrics["busbw_low"], r.Metrics["busbw_high"], r.Metrics["busbw"] = trial, 1, 4, 2
		rows = append(rows, r)
	}
	for plot, want := range map[string]figure.Point{"x=shape,y=busbw": {Y: 2, Low: 1, High: 4},
		"x=shape,y=time_us": {Y: 10, Low: 8, High: 12}, "x=shape,y=time_us,kind=stack": {Y: 10}} {
		figs, _ := Figures([]Plot{declare(t, plot+",limit=none", Words{Name: "n"})}, nil, dataset.All(rows))
		p := figs[0].Panels[0]
		if got := p.Series[0].Points[0]; got != want || (p.Note != "") != (plot == "x=shape,y=time_us") {
			t.Errorf("%s: %+v, note %q", plot, got, p.Note)
		}
	}
}
