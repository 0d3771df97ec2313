package kernbench_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/registry"
)

const guide = "docs/extending.md"

// block is an example of the guide: "```go PATH" and the text of the file PATH.
var block = regexp.MustCompile("(?s)```go (\\S+)\n(.*?)```")

// TestExtendingShowsItsExamples compares the examples of the guide with the files that they
// show, which are compiled and tested in their packages. With -update it copies the files
// into the guide.
func TestExtendingShowsItsExamples(t *testing.T) {
	text := string(must.Get(os.ReadFile(guide))(t))
	shown := block.ReplaceAllStringFunc(text, func(example string) string {
		path := block.FindStringSubmatch(example)[1]
		return "```go " + path + "\n" + string(must.Get(os.ReadFile(path))(t)) + "```"
	})
	golden.CheckFile(t, guide, shown)
}

// TestEveryKindIsExplained demands a section with an example for each registry of the program,
// and one line of help for each registered value.
func TestEveryKindIsExplained(t *testing.T) {
	sections := map[string]string{} // by title: "partitioner"
	for _, section := range strings.Split(string(must.Get(os.ReadFile(guide))(t)), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[strings.TrimPrefix(strings.TrimPrefix(title, "An "), "A ")] = text
	}
	kinds := registry.Kinds()
	if len(kinds) == 0 {
		t.Fatal("the catalogue of registries is empty")
	}
	for _, kind := range kinds {
		title := kind.Noun
		if strings.HasSuffix(title, " algorithm") { // one registry for each collective
			title = "algorithm"
		}
		if !block.MatchString(sections[title]) {
			t.Errorf("%s has no section with an example for the kind %q", guide, title)
		}
		for _, e := range kind.Entries() {
			if e.Help == "" || strings.Contains(e.Help, "\n") || strings.HasSuffix(e.Help, ".") {
				t.Errorf("%s %s: help %q, want one line without a full stop", kind.Noun, e.Name, e.Help)
			}
		}
	}
}

// TestExampleViews draws the figure and states the sentence of the guide.
func TestExampleViews(t *testing.T) {
	b := sorting(func(context.Context, *bench.State) error { return nil })
	must.Do(t, b.Validate())
	var rows bench.Rows
	for i, order := range []string{"random", "sorted"} {
		for _, count := range []int64{1000, 8000} {
			rows = append(rows, &bench.Row{Status: bench.StatusOK,
				Metrics: map[string]float64{"time_us": float64(count) / float64(1+i)},
				Point: bench.Point{{Name: "count", Value: point.IntValue(count)},
					{Name: "order", Value: point.StringValue(order)}}})
		}
	}
	figs := benchtest.Figures(t, b, rows)
	if len(figs) != 1 || figs[0].Name != "sorting_time" || len(figs[0].Panels[0].Series) != 2 {
		t.Errorf("figures: %+v", figs)
	}
	s := benchtest.Sections(t, b, rows)
	if len(s) != 1 || s[0].Sentences[0].Text != "Sorting 8000 numbers in order random takes longest: 8 ms." ||
		!slices.Equal(s[0].Sentences[0].Rows, bench.Rows{rows[1]}) {
		t.Errorf("sentences: %+v", s)
	}
	if s := benchtest.Sections(t, b, nil); len(s) != 0 {
		t.Errorf("sentences about nothing: %+v", s)
	}
}
