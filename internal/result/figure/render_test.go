package figure

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
)

func svgOf(t testing.TB, f Figure) string {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, f); err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return b.String()
}

// The golden SVG files pin layout and text. After an intended change look at every PNG,
// then run the test with -update.
func TestGolden(t *testing.T) {
	for _, f := range gallery() {
		t.Run(f.Name, func(t *testing.T) {
			golden.Check(t, f.Name+".svg", svgOf(t, f))
		})
	}
}

// Equal descriptions give equal bytes.
func TestDeterministic(t *testing.T) {
	for _, f := range []Figure{latencyFigure(), oddFigure(), heatFigure(), topologyFigure()} {
		if once, again := svgOf(t, f), svgOf(t, f); once != again {
			t.Errorf("%s: SVG differs between two drawings", f.Name)
		}
		var a, b bytes.Buffer
		if err := errors.Join(writePNG(&a, f, 72), writePNG(&b, f, 72)); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: PNG differs between two drawings", f.Name)
		}
	}
}

// JSON has no NaN and no infinity.
func TestPointJSON(t *testing.T) {
	in := []Point{{X: 1, Y: math.NaN()}, {X: 2, Y: 3, Low: 2, High: 4}, {X: 3, Y: math.Inf(1)},
		{X: 4, Y: 1, Low: math.NaN(), High: 2, Hollow: true}, {X: 5, Failed: true}}
	want := `[{"x":1,"y":null},{"x":2,"y":3,"low":2,"high":4},{"x":3,"y":null},` +
		`{"x":4,"y":1,"high":2,"hollow":true},{"x":5,"y":0,"failed":true}]`
	if got := string(must.Get(json.Marshal(in))(t)); got != want {
		t.Errorf("JSON is %s, want %s", got, want)
	}
}

func TestPNGSize(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, PNG(&b, latencyFigure()))
	c, err := png.DecodeConfig(&b)
	if err != nil || c.Width != 1800 || c.Height != 1120 {
		t.Errorf("PNG is %d x %d (%v), want 900 x 560 pixels at double density", c.Width, c.Height, err)
	}
}

// wellFormed parses the whole SVG and returns its text.
func wellFormed(svg string) (string, error) {
	var text strings.Builder
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		if chars, ok := token.(xml.CharData); ok {
			text.Write(chars)
			text.WriteByte('\n')
		}
	}
}

func TestSVGText(t *testing.T) {
	nasty := "a<b> & \"c\"\x00\x1b\xff style=\"font-family:Liberation Sans;"
	f := chartWith(func(p *Panel) { p.Title, p.X.Label, p.Series[0].Name = nasty, nasty, nasty })
	f.Title, f.Caption = nasty, nasty
	svg := svgOf(t, f)
	text, err := wellFormed(svg)
	if err != nil {
		t.Fatalf("SVG is not well-formed: %v", err)
	}
	if !strings.Contains(text, `a<b> & "c"`) || strings.Contains(text, "Arial") {
		t.Errorf("text is not as given: %q", text)
	}
	for _, want := range []string{"<title>a&lt;b", "<desc>a&lt;b", "'Liberation Sans',Arimo,Arial,Helvetica,sans-serif"} {
		if !strings.Contains(svg, want) {
			t.Errorf("SVG lacks %q", want)
		}
	}
	if strings.Contains(svg, `style="font-family:Liberation Sans;`) {
		t.Error("SVG names a font without stand-ins")
	}
}

func TestWrite(t *testing.T) {
	run := filepath.Join(t.TempDir(), "new")
	dir := filepath.Join(run, "figures")
	f := chartWith(func(*Panel) {})
	for range 2 { // the second pass replaces existing files
		files := must.Get(Write(run, "figures", f))(t)
		want := []string{filepath.Join(dir, "f.png"), filepath.Join(dir, "f.svg")}
		if d := cmp.Diff(want, files); d != "" {
			t.Errorf("files (-want +got):\n%s", d)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("folder holds %v (%v), want just the two figures", entries, err)
	}
}

func TestWriteLeavesNothingBehindOnFailure(t *testing.T) {
	dir := t.TempDir()
	if _, err := Write(dir, ".", Figure{Name: "f"}); err == nil {
		t.Error("a figure without panels was written")
	}
	// The rename fails because a folder has the name of the target.
	must.Do(t, os.MkdirAll(filepath.Join(dir, "f.png", "x"), 0o755))
	_, err := Write(dir, ".", chartWith(func(*Panel) {}))
	if err == nil || !strings.Contains(err.Error(), "f.png: file exists") {
		t.Errorf("Write over a folder: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v (%v), want only what was there", entries, err)
	}
}

// Random descriptions with any numbers: invalid ones are refused, valid ones are drawn in
// both formats.
func TestAnyFigureIsDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFigure(t)
		var b bytes.Buffer
		err := writePNG(&b, f, 24)
		if invalid := f.Validate(); (err == nil) != (invalid == nil) {
			t.Fatalf("drawing gives %v, validation %v", err, invalid)
		}
		if err != nil {
			return
		}
		if _, err := png.Decode(&b); err != nil {
			t.Fatalf("PNG does not decode: %v", err)
		}
		b.Reset()
		must.Do(t, SVG(&b, f))
		if _, err := wellFormed(b.String()); err != nil {
			t.Fatalf("SVG is not well-formed: %v", err)
		}
		for _, bad := range []string{"NaN", "Inf"} {
			if i := strings.Index(strings.ReplaceAll(b.String(), bad+"<", ""), bad); i >= 0 {
				t.Fatalf("a coordinate is %s: %.80s", bad, b.String()[i:])
			}
		}
	})
}

func anyFigure(t *rapid.T) Figure {
	f := Figure{
		Name: "any", Columns: rapid.IntRange(0, 4).Draw(t, "columns"),
		Title:   rapid.StringN(0, 30, 200).Draw(t, "title"),
		Caption: rapid.SampledFrom([]string{"", strings.Repeat("a long caption ", 60)}).Draw(t, "caption"),
	}
	for range rapid.IntRange(1, 3).Draw(t, "panels") {
		switch rapid.IntRange(0, 5).Draw(t, "sort") {
		case 0:
			f.Panels = append(f.Panels, anyHeat(t))
		case 1:
			f.Panels = append(f.Panels, anyDiagram(t))
		default:
			f.Panels = append(f.Panels, anyChart(t))
		}
	}
	return f
}

// anyNumber favours values that are hard to plot.
var anyNumber = rapid.OneOf(rapid.Float64Range(-10, 1e6), rapid.Float64(),
	rapid.SampledFrom([]float64{0, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-320, 1e308, 1e-100, 1e100}))

// anyName has no letters, so that NaN and Inf in the output can only be numbers.
var anyName = rapid.StringOf(rapid.SampledFrom([]rune("xyz-_/ 0123<&µ漢\x00\n")))

func anyChart(t *rapid.T) Panel {
	x, y := anyAxis(t), anyAxis(t)
	names := rapid.SliceOfN(anyName, 1, 30).Draw(t, "names")
	if rapid.Bool().Draw(t, "categories") {
		x = Axis{Scale: Category, Categories: names}
	}
	if rapid.Bool().Draw(t, "fixed") {
		y.Min = ref(rapid.Float64Range(0.1, 1e4).Draw(t, "min"))
	}
	if rapid.IntRange(0, 4).Draw(t, "break") == 0 {
		y = Axis{Break: &[2]float64{10, 1000}}
	}
	p := Panel{
		Title: anyName.Draw(t, "title"), X: x, Y: y, Note: anyName.Draw(t, "note"),
		Legend: rapid.SampledFrom([]Legend{"", LegendRight, LegendBelow, LegendNone}).Draw(t, "legend"),
		Lines: []Line{{Label: anyName.Draw(t, "limit"), Y: ref(anyNumber.Draw(t, "limit y"))},
			{Label: "x", X: ref(anyNumber.Draw(t, "limit x"))}},
	}
	kinds := []Kind{"", LineKind, Scatter}
	if x.Scale == Category {
		kinds = append(kinds, Bars, StackedBars)
	}
	for range rapid.IntRange(0, 12).Draw(t, "series") {
		s := Series{
			Name: anyName.Draw(t, "name"), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			Color: rapid.IntRange(0, 20).Draw(t, "color"), Dashed: rapid.Bool().Draw(t, "dashed"),
			NoMarker: rapid.Bool().Draw(t, "bare"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "points") {
			pt := Point{X: anyNumber.Draw(t, "x"), Y: anyNumber.Draw(t, "y"), Low: anyNumber.Draw(t, "low"),
				High: anyNumber.Draw(t, "high")}
			if x.Scale == Category {
				pt.X = float64(rapid.IntRange(0, len(names)-1).Draw(t, "slot"))
			}
			if pt.Low > pt.High {
				pt.Low, pt.High = pt.High, pt.Low
			}
			s.Points = append(s.Points, pt)
		}
		p.Series = append(p.Series, s)
	}
	return p
}

func anyHeat(t *rapid.T) Panel {
	x := rapid.SliceOfN(anyName, 1, 8).Draw(t, "x names")
	y := rapid.SliceOfN(anyName, 1, 40).Draw(t, "y names")
	p := Panel{
		X: Axis{Scale: Category, Categories: x, Label: "x"}, Y: Axis{Scale: Category, Categories: y, Label: "y"},
		Content: &HeatMap{Value: anyAxis(t)},
	}
	if rapid.Bool().Draw(t, "fixed") {
		p.Content.(*HeatMap).Value.Max = ref(rapid.Float64Range(0.1, 10).Draw(t, "max"))
	}
	for range y {
		row := make([]Cell, len(x))
		for i := range row {
			row[i].Value = anyNumber.Draw(t, "cell")
		}
		p.Content.(*HeatMap).Cells = append(p.Content.(*HeatMap).Cells, row)
	}
	return p
}

func anyDiagram(t *rapid.T) Panel {
	number := rapid.Float64Range(-1e3, 1e3)
	d := &Diagram{}
	for range rapid.IntRange(0, 6).Draw(t, "nodes") {
		d.Nodes = append(d.Nodes, Node{X: number.Draw(t, "x"), Y: number.Draw(t, "y"), Text: anyName.Draw(t, "text"),
			Color: rapid.IntRange(0, 12).Draw(t, "color"), Filled: rapid.Bool().Draw(t, "filled")})
	}
	for range rapid.IntRange(0, 6).Draw(t, "links") {
		l := Link{From: [2]float64{number.Draw(t, "x"), number.Draw(t, "y")}, Both: rapid.Bool().Draw(t, "both"),
			Color: rapid.IntRange(0, 12).Draw(t, "color"),
			Bend:  rapid.SampledFrom([]float64{0, 0.3, -2}).Draw(t, "bend"), Trim: rapid.Float64Range(0, 50).Draw(t, "trim")}
		if l.To = l.From; !rapid.Bool().Draw(t, "same point") {
			l.To = [2]float64{number.Draw(t, "x"), number.Draw(t, "y")}
		}
		d.Links = append(d.Links, l)
	}
	return Panel{Content: d}
}
