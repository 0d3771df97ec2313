package draw

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWrapKeepsTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringOf(rapid.SampledFrom([]rune("xyz-_/ 0123<&µ漢\x00\n"))), rapid.String()).Draw(t,
			"text")
		width := rapid.Float64Range(15, 200).Draw(t, "width")
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		lines := (Face{Size: 10.5}).Wrap(text, width, limit)
		if len(lines) > limit {
			t.Fatalf("%d lines, want at most %d", len(lines), limit)
		}
		for _, line := range append(lines, (Face{Size: 10.5}).Shorten(text, width)) {
			if w := (Face{Size: 10.5}).Width(line); w > width {
				t.Fatalf("%q is %g wide, want at most %g", line, w, width)
			}
		}
	})
}

func TestWrapAndShorten(t *testing.T) {
	f := Face{Size: 10}
	if got := f.Wrap("recursive_halving over shared memory", 90, 3); !cmp.Equal(got,
		[]string{"recursive_halving", "over shared", "memory"}) {
		t.Errorf("wrap = %q", got)
	}
	if got := f.Wrap("one two three four five six", 50, 2); len(got) != 2 || !strings.HasSuffix(got[1], Ellipsis) {
		t.Errorf("wrap to two lines = %q, want an ellipsis at the end", got)
	}
	if got := f.Wrap("one two dof-per-rank=1000", 72, 2); !cmp.Equal(got, []string{"one two dof-", "per-rank=1000"}) {
		t.Errorf("wrap within a name = %q", got)
	}
	if got := f.Wrap("one two dof-per-rank=1000-and-more", 72, 2); len(got) != 2 || strings.Contains(got[1], " ") {
		t.Errorf("wrap within a cut name = %q", got)
	}
	if got := f.Shorten("NCCL_ALGO=Ring channels=16", 80); !strings.HasPrefix(got, "NCCL_") ||
		!strings.HasSuffix(got, "=16") {
		t.Errorf("shorten = %q, want both ends kept", got)
	}
}

// ClipPath of one segment keeps exactly the points of the segment inside the rectangle.
func TestClipPath(t *testing.T) {
	r := Rect(0, 0, 10, 5)
	rapid.Check(t, func(t *rapid.T) {
		coordinate := rapid.Float64Range(-15, 20)
		a := Pt(coordinate.Draw(t, "ax"), coordinate.Draw(t, "ay"))
		b := Pt(coordinate.Draw(t, "bx"), coordinate.Draw(t, "by"))
		pieces := r.ClipPath([]Point{a, b})
		inside := func(s Point) bool {
			for _, piece := range pieces {
				p, q := piece[0], piece[len(piece)-1]
				if s.X >= min(p.X, q.X)-1e-6 && s.X <= max(p.X, q.X)+1e-6 {
					return true
				}
			}
			return false
		}
		for _, piece := range pieces {
			for _, p := range piece {
				if !r.Inset(-1e-6).Has(p) {
					t.Fatalf("ClipPath(%v, %v) = %v, which leaves the rectangle", a, b, pieces)
				}
			}
		}
		for i := range 101 {
			s := Pt(a.X+(b.X-a.X)*float64(i)/100, a.Y+(b.Y-a.Y)*float64(i)/100)
			if r.Inset(1e-6).Has(s) && !inside(s) {
				t.Fatalf("ClipPath(%v, %v) = %v loses %v", a, b, pieces, s)
			}
		}
	})
}

func TestClipPathSplits(t *testing.T) {
	r := Rect(0, 0, 10, 10)
	got := r.ClipPath([]Point{{-5, 5}, {5, 5}, {5, 20}, {8, 20}, {8, 5}, {9, 5}})
	want := [][]Point{{{0, 5}, {5, 5}, {5, 10}}, {{8, 10}, {8, 5}, {9, 5}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pieces (-want +got):\n%s", d)
	}
}
