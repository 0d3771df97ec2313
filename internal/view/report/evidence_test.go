package report

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// A sentence leads to the rows that it rests on, in the page and by its ID.
func TestWhy(t *testing.T) {
	b := bench.New("cited", nil, bench.Sections(func([]journal.Row) []bench.Section {
		return []bench.Section{{Title: "In short", Lead: true, Text: "- **Fastest:** ring [fastest-1]\n- other [none-1]"},
			decl.EvidenceSection([]decl.Evidence{{ID: "fastest-1", Rows: []int{1}}})}
	}))
	row := func(name string) journal.Row {
		return journal.Row{Status: journal.OK, Kind: journal.Measured, Metrics: map[string]float64{"time_us": 12},
			Point: point.Point{{Name: "algorithm", Value: point.StringValue(name)}}}
	}
	in := Input{Bench: b, Run: &journal.Run{Rows: []journal.Row{row("tree"), row("<ring>")}}}
	rows := in.Run.Rows
	sentence, behind, err := Why(in, rows, "fastest-1")
	if err != nil || sentence != "Fastest: ring [fastest-1]" || len(behind) != 1 ||
		behind[0].Point.At("algorithm").String() != "<ring>" {
		t.Errorf("%q, %+v, %v", sentence, behind, err)
	}
	if _, _, err := Why(in, rows, "fastest-2"); err == nil || !strings.Contains(err.Error(), "fastest-1") {
		t.Errorf("%v", err)
	}
	page := string(must.Get(Page(in))(t))
	for _, want := range []string{`<a href="#why-fastest-1">[fastest-1]</a>`, `id="why-fastest-1"`,
		"algorithm=&lt;ring&gt;: 12 µs, measured", "other [none-1]"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "algorithm=tree: 12") {
		t.Error("the page lists a row that the sentence does not rest on")
	}
}
