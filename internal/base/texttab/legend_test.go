package texttab

import (
	"slices"
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
	if want := []string{"a", "b c", "", "a b", "d", "e f"}; !slices.Equal(got, want) {
		t.Errorf("marks %q, want %q", got, want)
	}
	want := []string{"a: steal: 5.1 % (2 points)", "b: crashed (2 points)", "c: steal: 6 % (1 point)", "d: cold (1 point)",
		"e: drift -1 % (1 point)", "f: drift +2 % (1 point)"}
	if got := l.Lines("point", "points"); !slices.Equal(got, want) {
		t.Errorf("legend %q, want %q", got, want)
	}
	for i, want := range map[int]string{25: "z", 26: "aa", 51: "az", 52: "ba", 701: "zz", 702: "aaa"} {
		if got := mark(i); got != want {
			t.Errorf("mark %d is %q, want %q", i, got, want)
		}
	}
}
