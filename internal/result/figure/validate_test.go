package figure

import (
	"math"
	"strings"
	"testing"
)

// chartWith returns a valid figure with one chart, modified by change.
func chartWith(change func(*Panel)) Figure {
	p := Panel{
		X: Axis{Scale: Log2}, Y: Axis{Scale: Log10},
		Series: []Series{{Name: "s", Points: []Point{{X: 1, Y: 2}, {X: 2, Y: 3}}}},
	}
	change(&p)
	return Figure{Name: "f", Panels: []Panel{p}}
}

func categories(change func(*Panel)) Figure {
	return chartWith(func(p *Panel) {
		p.X = Axis{Scale: Category, Categories: []string{"a", "b", "c"}}
		p.Y = Axis{}
		change(p)
	})
}

func heatWith(change func(*Panel)) Figure {
	f := heatFigure()
	change(&f.Panels[0])
	return f
}

func diagram(d Diagram) Figure { return Figure{Name: "f", Panels: []Panel{{Content: &d}}} }

func TestValidateNamesEveryFault(t *testing.T) {
	for _, c := range []struct {
		want string
		f    Figure
	}{
		{`not a file stem`, Figure{Name: "../evil", Panels: []Panel{{}}}},
		{`not a file stem`, Figure{Name: "", Panels: []Panel{{}}}},
		{`no panels`, Figure{Name: "f"}},
		{`-1 columns`, Figure{Name: "f", Columns: -1, Panels: []Panel{{}}}},
		{`unknown legend place "inside"`, chartWith(func(p *Panel) { p.Legend = "inside" })},
		{`x axis: unknown scale "log"`, chartWith(func(p *Panel) { p.X.Scale = "log" })},
		{`y axis: unknown unit "ms"`, chartWith(func(p *Panel) { p.Y.Unit = "ms" })},
		{`min 5 is not below max 5`, chartWith(func(p *Panel) { p.Y.Min, p.Y.Max = ref(5), ref(5) })},
		{`min is 0, want a positive number`, chartWith(func(p *Panel) { p.Y.Min = ref(0) })},
		{`max is NaN`, chartWith(func(p *Panel) { p.Y.Max = ref(math.NaN()) })},
		{`break on a log10 axis`, chartWith(func(p *Panel) { p.Y.Break = &[2]float64{1, 2} })},
		{`break from 2 to 1`, categories(func(p *Panel) { p.Y.Break = &[2]float64{2, 1} })},
		{`x axis has a break`, chartWith(func(p *Panel) { p.X = Axis{Break: &[2]float64{1, 2}} })},
		{`y axis is a category axis`, chartWith(func(p *Panel) { p.Y = Axis{Scale: Category, Categories: []string{"a"}} })},
		{`scale "category" with 0 categories`, chartWith(func(p *Panel) { p.X = Axis{Scale: Category} })},
		{`scale "linear" with 1 categories`, chartWith(func(p *Panel) {
			p.X = Axis{Scale: Linear, Categories: []string{"a"}}
		})},
		{`min is set on a category axis`, categories(func(p *Panel) { p.X.Min = ref(0) })},
		{`point 1: x = 3 is not the index`, categories(func(p *Panel) { p.Series[0].Points = []Point{{X: 3, Y: 1}} })},
		{`point 1: x = 0.5 is not the index`, categories(func(p *Panel) { p.Series[0].Points = []Point{{X: 0.5, Y: 1}} })},
		{`point 1: x = NaN is not the index`, categories(func(p *Panel) {
			p.Series[0].Points = []Point{{X: math.NaN(), Y: 1}}
		})},
		{`unknown kind "area"`, chartWith(func(p *Panel) { p.Series[0].Kind = "area" })},
		{`color -1 is negative`, chartWith(func(p *Panel) { p.Series[0].Color = -1 })},
		{`bars need a category x axis`, chartWith(func(p *Panel) { p.Series[0].Kind = Bars })},
		{`stacked bars on a log axis`, categories(func(p *Panel) { p.Y.Scale = Log10; p.Series[0].Kind = StackedBars })},
		{`error bar from 5 down to 4`, chartWith(func(p *Panel) {
			p.Series[0].Points[1].Low, p.Series[0].Points[1].High = 5, 4
		})},
		{`0 of x, y and points`, chartWith(func(p *Panel) { p.Lines = []Line{{Label: "l"}} })},
		{`2 of x, y and points`, chartWith(func(p *Panel) { p.Lines = []Line{{X: ref(1), Y: ref(1)}} })},
		{`a sloped line needs at least two`, chartWith(func(p *Panel) { p.Lines = []Line{{Points: []Point{{X: 1, Y: 1}}}} })},
		{`HeatMap shares its panel`, heatWith(func(p *Panel) { p.Series = []Series{{}} })},
		{`want category axes`, heatWith(func(p *Panel) { p.X = Axis{} })},
		{`5 rows for 6 y categories`, heatWith(func(p *Panel) {
			p.Content.(*HeatMap).Cells = p.Content.(*HeatMap).Cells[:5]
		})},
		{`row 2 has 1 cells for 6`, heatWith(func(p *Panel) {
			p.Content.(*HeatMap).Cells[1] = p.Content.(*HeatMap).Cells[1][:1]
		})},
		{`value has categories or a break`, heatWith(func(p *Panel) {
			p.Content.(*HeatMap).Value.Break = &[2]float64{1, 2}
		})},
		{`Diagram shares its panel`, Figure{Name: "f", Panels: []Panel{{Content: &Diagram{}, Lines: []Line{{Y: ref(1)}}}}}},
		{`node 1: color -1 at (0, 0)`, diagram(Diagram{Nodes: []Node{{Color: -1}}})},
		{`node 1: color 0 at (+Inf, 0)`, diagram(Diagram{Nodes: []Node{{X: math.Inf(1)}}})},
		{`from [NaN 0] to [1 1]`, diagram(Diagram{Links: []Link{{From: [2]float64{math.NaN(), 0}, To: [2]float64{1, 1}}}})},
		{`trimmed by -1`, diagram(Diagram{Links: []Link{{Trim: -1, To: [2]float64{1, 1}}}})},
	} {
		err := c.f.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Validate() = %v, want a fault with %q", err, c.want)
		}
	}
}

func TestValidateReturnsAllFaults(t *testing.T) {
	f := chartWith(func(p *Panel) { p.X.Scale, p.Y.Unit, p.Series[0].Kind = "cubic", "miles", "pie" })
	f.Panels = append(f.Panels, Panel{Legend: "nowhere"})
	err := f.Validate()
	for _, want := range []string{"cubic", "miles", "pie", `figure "f": panel 2: unknown legend place "nowhere"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want also %q", err, want)
		}
	}
}

func TestGalleryIsValid(t *testing.T) {
	for _, f := range gallery() {
		if err := f.Validate(); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}
