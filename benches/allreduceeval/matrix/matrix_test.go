package matrix

import (
	"strings"
	"testing"
)

// Cells are written and read again.
func TestOutcomesRoundTrip(t *testing.T) {
	list := []Outcome{{"0", "ok"}, {"8Ki+1", "failed"}, {"1 element", "not-executed"}}
	got := ParseOutcomes(FormatOutcomes(list))
	if len(got) != 3 || got[1] != list[1] || got[2] != list[2] {
		t.Errorf("%v", got)
	}
	if ParseOutcomes("") != nil {
		t.Error("nothing is read from nothing")
	}
}

// Sizes are as the profiles promise.
func TestSizes(t *testing.T) {
	quick, _ := Sizes(Quick)
	var names []string
	for _, s := range quick {
		names = append(names, s.String())
	}
	if got := strings.Join(names, " "); got != "0 1 element 8Ki 8Ki+1 1Mi-1 1Mi-1 streamed" {
		t.Errorf("quick: %s", got)
	}
	full, _ := Sizes(Full)
	if last := full[len(full)-1]; len(full) != 2+14*4 || last.String() != "64Mi+24" || last.Count(2) != 32<<20+24 {
		t.Errorf("full: %d sizes, the last %v", len(full), last)
	}
	if _, err := Sizes("quik"); err == nil || !strings.Contains(err.Error(), "quick") {
		t.Errorf("an unknown set: %v", err)
	}
}
