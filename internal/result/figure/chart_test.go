package figure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kernbench/kernbench/internal/result/draw"
)

// panelNotes returns the small print under a panel.
func panelNotes(p Panel) string {
	_, notes := newSheet(Figure{Name: "f", Panels: []Panel{p}}).panelText(0, 1e6)
	return strings.Join(notes, "\n")
}

func TestNotesCountHiddenPoints(t *testing.T) {
	for _, c := range []struct {
		name  string
		panel Panel
		want  string
	}{
		{"nothing", Panel{Series: []Series{{Points: []Point{{X: 1, Y: 1}}}}}, ""},
		{"own note first", Panel{Note: "mine", Series: []Series{{Points: []Point{{X: 1, Y: math.NaN()}}}}},
			"mine\n1 point not shown: not finite."},
		{"log axes", Panel{X: Axis{Scale: Log2},
			Series: []Series{{Points: []Point{{X: 0, Y: 1}, {X: -1, Y: 1}, {X: 1, Y: 0}}}}},
			"2 points not shown: not finite, or not positive on a log axis."},
		{"outside", Panel{Y: Axis{Max: ref(5)}, Series: []Series{{Points: []Point{{X: 0, Y: 1}, {X: 1, Y: 9}}}}},
			"1 point not shown: outside the axes."},
		{"in the break", Panel{Y: Axis{Break: &[2]float64{5, 50}},
			Series: []Series{{Points: []Point{{X: 0, Y: 1}, {X: 1, Y: 9}, {X: 2, Y: 90}}}}},
			"1 point not shown: outside the axes or inside the axis break."},
		{"negative part of a stack", Panel{X: Axis{Scale: Category, Categories: []string{"a"}}, Series: []Series{
			{Kind: StackedBars, Points: []Point{{Y: -1}}}, {Kind: StackedBars, Points: []Point{{Y: 2}}}}},
			"1 point not shown: not finite."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, panelNotes(c.panel)); d != "" {
				t.Errorf("notes (-want +got):\n%s", d)
			}
		})
	}
	heat := heatWith(func(p *Panel) {
		m := p.Content.(*HeatMap)
		m.Value.Scale, m.Cells[0][0].Value = Log10, -4
	})
	if got := panelNotes(heat.Panels[0]); got != "1 value not shown: not finite, or not positive on a log scale." {
		t.Errorf("heat map notes = %q", got)
	}
}

func TestNoData(t *testing.T) {
	for _, p := range []Panel{
		{},
		{Series: []Series{{Name: "s", Points: []Point{{X: 1, Y: math.NaN()}}}}, Lines: []Line{{Label: "limit", Y: ref(1)}}},
		{X: Axis{Scale: Category, Categories: []string{"a"}}, Y: Axis{Scale: Category, Categories: []string{"b"}},
			Content: &HeatMap{Cells: [][]Cell{{{Value: math.NaN()}}}}},
		{Content: &Diagram{}},
	} {
		text, err := wellFormed(svgOf(t, Figure{Name: "f", Panels: []Panel{p}}))
		if err != nil || !strings.Contains(text, "no data") {
			t.Errorf("%+v is drawn as %q (%v), want the words no data", p, text, err)
		}
	}
	if text, _ := wellFormed(svgOf(t, chartWith(func(*Panel) {}))); strings.Contains(text, "no data") {
		t.Error("a chart with data says that there is none")
	}
}

func TestStackAndGroupPlaces(t *testing.T) {
	p := Panel{
		X: Axis{Scale: Category, Categories: []string{"a", "b"}},
		Series: []Series{
			{Kind: StackedBars, Points: []Point{{X: 0, Y: 3}, {X: 1, Y: 1}}},
			{Kind: Bars, Points: []Point{{X: 0, Y: 5}}},
			{Kind: StackedBars, Points: []Point{{X: 1, Y: 2}, {X: 0, Y: 4}}},
		},
	}
	type place struct {
		series         int
		slot, base, to float64
	}
	var got []place
	for _, b := range newChart(p).bars {
		got = append(got, place{b.series, math.Round((b.left+b.right)/2*1000) / 1000, b.base, b.top})
	}
	// Each slot has two places: the stack on the left, the single bar on the right.
	want := []place{{0, -0.195, 0, 3}, {0, 0.805, 0, 1}, {1, 0.195, 0, 5}, {2, 0.805, 1, 3}, {2, -0.195, 3, 7}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(place{})); d != "" {
		t.Errorf("bars (-want +got):\n%s", d)
	}
}

func TestErrorBarStopsAtTheFrame(t *testing.T) {
	c := newChart(Panel{Y: Axis{Scale: Log10, Min: ref(1), Max: ref(100)},
		Series: []Series{{Points: []Point{{X: 1, Y: 10}}}}})
	c.yAxis.from, c.yAxis.to = 0, 200
	for _, e := range []struct {
		low, high      float64
		wantLo, wantHi float64
		ok             bool
	}{
		{1, 100, 0, 200, true}, {10, 10, 0, 0, false}, {-5, 10, 0, 100, true}, {0, 10, 0, 100, true},
		{10, 1e9, 100, 200, true},
		{math.NaN(), 10, 0, 0, false}, {1, math.Inf(1), 0, 0, false}, {0, 0, 0, 0, false}, {math.Inf(-1), 10, 0, 100, true},
	} {
		lo, hi, ok := c.errorBar(Point{X: 1, Y: 10, Low: e.low, High: e.high})
		if ok != e.ok || ok && (math.Abs(lo-e.wantLo) > 1e-9 || math.Abs(hi-e.wantHi) > 1e-9) {
			t.Errorf("bar from %g to %g is drawn %v from %g to %g, want %v from %g to %g", e.low, e.high, ok, lo, hi, e.ok,
				e.wantLo, e.wantHi)
		}
	}
}

func TestLegendPlace(t *testing.T) {
	with := func(n int) legend {
		var l legend
		for i := range n {
			l.entries = append(l.entries, look{name: fmt.Sprintf("a name of some length %d", i), mark: mark{line: true}})
		}
		return l
	}
	wide, narrow := draw.Rect(0, 0, 650, 380), draw.Rect(0, 0, 330, 270)
	for _, c := range []struct {
		n    int
		area draw.Rectangle
		want Legend
	}{{3, wide, LegendBelow}, {7, wide, LegendBelow}, {12, wide, LegendRight}, {12, narrow, LegendBelow},
		{60, wide, LegendBelow}} {
		if got := with(c.n).choose(c.area); got != c.want {
			t.Errorf("%d entries on %g x %g go %q, want %q", c.n, c.area.W(), c.area.H(), got, c.want)
		}
	}
}

func TestLegendCountsHiddenEntries(t *testing.T) {
	f := crowdedFigure()
	for i := range 80 {
		f.Panels[0].Series = append(f.Panels[0].Series,
			Series{Name: fmt.Sprintf("more %d", i), Points: []Point{{X: 1 << 20, Y: 1}}})
	}
	f.Panels[0].Legend = LegendRight
	text, _ := wellFormed(svgOf(t, f))
	shown := strings.Count(text, "\nmore ") + strings.Count(text, "\nalgorithm ")
	if want := fmt.Sprintf("\nand %d more\n", 91-shown); shown == 0 || !strings.Contains(text, want) {
		t.Errorf("%d of 91 entries are shown, and nothing says %q", shown, want)
	}
}

func TestSharedLegend(t *testing.T) {
	panel := func(names ...string) *chart {
		var p Panel
		for _, n := range names {
			p.Series = append(p.Series, Series{Name: n, Points: []Point{{X: 1, Y: 1}}})
		}
		return newChart(p)
	}
	own := panel("a", "b")
	own.panel.Legend = LegendRight
	for _, c := range []struct {
		name   string
		charts []*chart
		want   int // entries, 0 for not shared
	}{
		{"same series", []*chart{panel("a", "b"), panel("a", "b")}, 2},
		{"a series less", []*chart{panel("a", "b"), panel("a")}, 2},
		{"same name, other look", []*chart{panel("a", "b"), panel("b", "a")}, 0},
		{"same look, other name", []*chart{panel("a"), panel("b")}, 0},
		{"one panel only", []*chart{panel("a", "b"), panel()}, 0},
		{"a panel wants its own", []*chart{panel("a", "b"), own}, 0},
	} {
		l, ok := sharedLegend(c.charts)
		if ok != (c.want > 0) || ok && len(l.entries) != c.want {
			t.Errorf("%s: shared %v with %d entries, want %d", c.name, ok, len(l.entries), c.want)
		}
	}
}

// In greyscale, series differ by marker or line style while there are enough markers. With
// color, 40 series all look different.
func TestLooksDiffer(t *testing.T) {
	var p Panel
	for i := range 40 {
		p.Series = append(p.Series, Series{Color: i%3 + 1, Dashed: i%2 == 1})
	}
	type grey struct {
		marker int
		dashed bool
	}
	seen := map[grey]bool{}
	for _, l := range p.looks()[:2*len(markers)] {
		if seen[grey{l.marker, l.dashed}] {
			t.Errorf("two series share marker %d, dashed %v", l.marker, l.dashed)
		}
		seen[grey{l.marker, l.dashed}] = true
	}
	for i := range p.Series {
		p.Series[i].Color, p.Series[i].Dashed = 0, false
	}
	all := map[look]bool{}
	for _, l := range p.looks() {
		all[l] = true
	}
	if len(all) != 40 {
		t.Errorf("40 series have %d looks", len(all))
	}
}

func TestTrimAndBend(t *testing.T) {
	straight := Link{To: [2]float64{10, 0}, Trim: 2}
	if got := straight.curve(); !cmp.Equal(got, []draw.Point{draw.Pt(2, 0), draw.Pt(8, 0)}) {
		t.Errorf("trimmed path = %v", got)
	}
	straight.Trim = 6 // more than half of the length: the path is not trimmed
	if got := straight.curve(); len(got) != 2 || got[0].X != 0 {
		t.Errorf("path trimmed beyond its length = %v, want it whole", got)
	}
	bent := Link{To: [2]float64{10, 0}, Bend: 0.2}
	if top := bent.curve()[16]; math.Abs(top.X-5) > 1e-9 || math.Abs(top.Y-2) > 1e-9 {
		t.Errorf("top of the bend is at %v, want (5, 2): to the left, a fifth of the length", top)
	}
}

// Text in narrow cells is turned upright. Text in cells that are small in both directions
// is omitted.
func TestNarrowCells(t *testing.T) {
	for _, c := range []struct {
		columns, rows int
		want          bool
	}{{3, 3, true}, {20, 3, true}, {60, 3, false}, {20, 40, false}} {
		f := Figure{Name: "f", Panels: []Panel{{X: Axis{Scale: Category}, Y: Axis{Scale: Category}, Content: &HeatMap{}}}}
		p := &f.Panels[0]
		for k := range c.columns {
			p.X.Categories = append(p.X.Categories, strconv.Itoa(k))
		}
		for i := range c.rows {
			p.Y.Categories = append(p.Y.Categories, strconv.Itoa(i))
			row := make([]Cell, c.columns)
			for k := range row {
				row[k] = Cell{Value: float64(i + k), Text: "two-stage"}
			}
			p.Content.(*HeatMap).Cells = append(p.Content.(*HeatMap).Cells, row)
		}
		if got := strings.Contains(svgOf(t, f), "two-stage"); got != c.want {
			t.Errorf("%d columns, %d rows: words shown %v, want %v", c.columns, c.rows, got, c.want)
		}
	}
}

// A long curve is thinned to a bounded number of points, and keeps its extremes, its failed points and their order.
func TestThinned(t *testing.T) {
	const most = 1000
	points := make([]Point, 100_000)
	for i := range points {
		points[i] = Point{X: float64(i), Y: 10}
	}
	points[31_234].Y, points[77_777].Y, points[50_000].Failed = 99, 1, true
	f := Figure{Panels: []Panel{{Series: []Series{{Name: "s", Points: points}}}}}.Thinned(most)
	got := f.Panels[0].Series[0].Points
	lo, hi, failed := 10.0, 10.0, 0
	for i, p := range got {
		if p.Failed {
			failed++
			continue
		}
		lo, hi = min(lo, p.Y), max(hi, p.Y)
		if i > 0 && p.X < got[i-1].X {
			t.Fatalf("point %d goes back", i)
		}
	}
	if len(got) > most+1 || lo != 1 || hi != 99 || failed != 1 ||
		!strings.Contains(f.Panels[0].Note, "s has 100000 points") {
		t.Errorf("%d points from %v to %v, %d failed: %s", len(got), lo, hi, failed, f.Panels[0].Note)
	}
	bars := Figure{Panels: []Panel{{X: Axis{Scale: Category}, Series: []Series{{Points: points}}}}}.Thinned(most)
	if len(bars.Panels[0].Series[0].Points) != len(points) {
		t.Error("bars are left out")
	}
	path := make([]draw.Point, 1234)
	for i, parts := 0, strokes(path); i < len(parts); i++ {
		if part := parts[i]; len(part) > 100 || i > 0 && !slices.Equal(parts[i-1][len(parts[i-1])-2:], part[:2]) {
			t.Errorf("part %d has %d points, or does not continue the one before it", i, len(part))
		}
	}
}
