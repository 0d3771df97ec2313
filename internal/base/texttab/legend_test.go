package texttab

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestLegend(t *testing.T) {
	var l Legend
	var got []string
	for _, remarks := range [][]string{
		{"steal: 5.1 %"}, {"crashed", "steal: 6 %"}, {}, {"steal: 5.1 %", "crashed"}, {"cold"}, {"drift -1 %", "drift +2 %"},
	} {
		got = append(got, l.Mark(remarks...))
	}
	if want := []string{"a", "a b", "", "a b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("marks %q, want %q", got, want)
	}
	want := []string{"a: steal: 5.1 % (and 2 more like it)", "b: crashed (2 points)", "c: cold (1 point)",
		"d: drift -1 % (1 point)"}
	if got := l.Lines("point", "points"); !slices.Equal(got, want) {
		t.Errorf("legend %q, want %q", got, want)
	}
	for i, want := range map[int]string{25: "z", 26: "aa", 51: "az", 52: "ba", 701: "zz", 702: "aaa"} {
		if got := mark(i); got != want {
			t.Errorf("mark %d is %q, want %q", i, got, want)
		}
	}
}

// TestKind compares kind with a regular expression.
func TestKind(t *testing.T) {
	numbers := regexp.MustCompile(`[-+]?[0-9]+(\.[0-9]+)?`)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		var text strings.Builder
		for range rng.IntN(12) {
			text.WriteByte("a +-.019"[rng.IntN(8)])
		}
		if got, want := kind(text.String()), numbers.ReplaceAllString(text.String(), "#"); got != want {
			t.Fatalf("%q: %q, want %q", text.String(), got, want)
		}
	}
}
