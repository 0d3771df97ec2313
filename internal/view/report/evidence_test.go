package report

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// itself returns the rows, as the data of rules.
func itself(rows dataset.Set) dataset.Set { return rows }

// A sentence leads to the rows that it rests on, in the page and by its ID.
func TestWhy(t *testing.T) {
	b := bench.New("cited", nil, bench.Sections(func(rows dataset.Set) []bench.Section {
		table := bench.Section{Title: "Times", Text: "other [none-1]", Table: [][]string{{"algorithm", "time"}}}
		table.AddLine("line", rows[:1], "tree", "12 µs")
		return []bench.Section{table}
	}), bench.Sentences(itself, bench.Rule[dataset.Set]{ID: "fastest", Section: "In short",
		Rows: func(rows dataset.Set) dataset.Set { return rows[1:] },
		Text: func(rows dataset.Set) string { return "- **Fastest:** " + dataset.Text(rows[1], "algorithm") }}))
	row := func(name string) journal.Row {
		return journal.Row{Status: journal.OK, Kind: journal.Measured, Metrics: map[string]float64{"time_us": 12},
			Point: point.Point{{Name: "algorithm", Value: point.StringValue(name)}}}
	}
	in := Input{Bench: b, Data: dataset.Of(&journal.Run{Rows: []journal.Row{row("tree"), row("<ring>")}})}
	rows := in.Data.Rows
	s, err := Why(in, rows, "fastest-1")
	if err != nil || s.Text != "Fastest: <ring>" || len(s.Rows) != 1 || s.Rows[0] != rows[1] {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := Why(in, rows, "line-1"); err != nil || s.Text != "algorithm: tree; time: 12 µs" ||
		s.Rows[0] != rows[0] {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Why(in, rows, "fastest-2"); err == nil || !strings.Contains(err.Error(), "fastest-1") {
		t.Errorf("%v", err)
	}
	page := string(must.Get(Page(in))(t))
	for _, want := range []string{`<a href="#why-fastest-1">[fastest-1]</a>`, `id="why-fastest-1"`,
		`<td><a href="#why-line-1">[line-1]</a></td>`,
		"algorithm=&lt;ring&gt;: 12 µs, measured", "other [none-1]"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "algorithm=tree: 12"); n != 1 {
		t.Errorf("the page lists the other row %d times, want only with the line of the table", n)
	}
}

// A section is numbered anew for each report, the sentences of one rule are counted, and a sentence cannot cite a row
// of elsewhere.
func TestCitations(t *testing.T) {
	rows := make([]journal.Row, 3)
	each := func(rows dataset.Set) []*journal.Row { return rows }
	single := bench.Rule[*journal.Row]{ID: "row", Section: "Each", Text: func(*journal.Row) string { return "one row" },
		When: func(r *journal.Row) bool { return r.Trial != 1 },
		Rows: func(r *journal.Row) dataset.Set { return dataset.Set{r, r} }}
	rows[1].Trial = 1
	b := bench.New("b", nil, bench.Sentences(itself, views.Each(each, single),
		bench.Rule[dataset.Set]{ID: "count", Section: "Each", Text: func(dataset.Set) string { return "no rows" }}))
	sections, err := benchSections(b, dataset.All(rows))
	if err != nil || len(sections) != 1 || !sections[0].Lead || len(sections[0].Sentences) != 3 {
		t.Fatalf("%+v, %v", sections, err)
	}
	for i, want := range []string{"row-1", "row-2", ""} {
		if s := sections[0].Sentences[i]; s.Citation() != want || want != "" && len(s.Rows) != 1 {
			t.Errorf("sentence %d is %s with %d rows, want %s", i, s.Citation(), len(s.Rows), want)
		}
	}
	foreign := bench.New("b", nil, bench.Sentences(itself, bench.Rule[dataset.Set]{ID: "other",
		Rows: func(dataset.Set) dataset.Set { return dataset.Set{{}} }, Text: func(dataset.Set) string { return "" }}))
	if _, err := benchSections(foreign, dataset.All(rows)); err == nil || !strings.Contains(err.Error(),
		"not of the run") {
		t.Errorf("a row of elsewhere: %v", err)
	}
}
