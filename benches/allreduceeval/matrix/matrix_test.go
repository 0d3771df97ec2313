package matrix

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
)

func TestOutcomesRoundTrip(t *testing.T) {
	list := []Outcome{{"0", "ok"}, {"8Ki+1", "failed"}, {"1 element", "not-executed"}}
	got := ParseOutcomes(FormatOutcomes(list))
	if len(got) != 3 || got[1] != list[1] || got[2] != list[2] {
		t.Errorf("got %v, want %v", got, list)
	}
	if got := ParseOutcomes(""); got != nil {
		t.Errorf("an empty text gives %v, want nil", got)
	}
}

// The sets have the sizes that docs/correctness.md lists.
func TestSizes(t *testing.T) {
	quick, _ := Sizes(Quick)
	names := lists.Map(quick, Size.String)
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
