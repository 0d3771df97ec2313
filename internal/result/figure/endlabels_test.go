package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/result/draw"
)

// TestSpread checks that labels at line ends do not overlap, stay inside, keep the order of the lines, and move only if
// they have to.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const low, high = 100.0, 300.0
		ys := rapid.SliceOfN(rapid.Float64Range(low, high), 1, 20).Draw(t, "ends")
		ends := make([]endLabel, len(ys))
		for i, y := range ys {
			ends[i] = endLabel{look: look{name: fmt.Sprint(i)}, end: draw.Pt(0, y), y: y}
		}
		if !spread(ends, low, high) {
			if len(ys) == 1 {
				t.Fatal("a single label has no place")
			}
			return
		}
		if !slices.IsSortedFunc(ends, func(a, b endLabel) int { return cmp.Compare(a.end.Y, b.end.Y) }) {
			t.Fatalf("the order is lost: %+v", ends)
		}
		for i, e := range ends {
			if e.y < low+endRow/2-1e-9 || e.y > high-endRow/2+1e-9 || math.Abs(e.y-e.end.Y) > endShift+1e-9 {
				t.Fatalf("label %d of %+v", i, ends)
			}
			if i > 0 && e.y-ends[i-1].y < endRow-1e-9 {
				t.Fatalf("labels %d and %d of %+v overlap", i-1, i, ends)
			}
			free := (i == 0 || e.end.Y-ends[i-1].y >= endRow) && (i == len(ends)-1 || ends[i+1].y-e.end.Y >= endRow) &&
				e.end.Y >= low+endRow/2 && e.end.Y <= high-endRow/2
			if free && e.y != e.end.Y {
				t.Fatalf("label %d of %+v has moved although it had room", i, ends)
			}
		}
	})
}

// TestEndLabels checks which charts have names beside the ends of their lines, and which have a legend.
func TestEndLabels(t *testing.T) {
	line := func(name string, to, y float64) Series {
		return Series{Name: name, Points: []Point{{X: 0, Y: 1}, {X: to, Y: y}}}
	}
	for name, tt := range map[string]struct {
		series []Series
		lines  []Line
		want   bool
	}{
		"two lines": {[]Series{line("a", 10, 5), line("b", 10, 9)}, nil, true},
		"a sloped limit": {[]Series{line("a", 10, 5)},
			[]Line{{Label: "limit", Points: []Point{{X: 0}, {X: 10, Y: 9}}}}, true},
		"an early end":    {[]Series{line("a", 10, 5), line("b", 5, 9)}, nil, false},
		"a long name":     {[]Series{line(strings.Repeat("long ", 30), 10, 5)}, nil, false},
		"only points":     {[]Series{{Name: "a", Kind: Scatter, Points: []Point{{X: 1, Y: 1}, {X: 2, Y: 2}}}}, nil, false},
		"nine equal ends": {slices.Repeat([]Series{line("a", 10, 5)}, 9), nil, false},
	} {
		c := newChart(Panel{Series: tt.series, Lines: tt.lines})
		page := draw.Page{W: 600, H: 400, Draw: func(p draw.Pen) {
			if got := c.drawWithEndLabels(p, draw.Rect(0, 0, 600, 400), c.legend()); got != tt.want {
				t.Errorf("%s: %v, want %v", name, got, tt.want)
			}
		}}
		if err := page.SVG(new(strings.Builder)); err != nil {
			t.Error(err)
		}
	}
}
