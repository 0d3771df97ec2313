package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/document"
)

// Headlines prints only the sections marked as headlines, and turns a panic of the bench
// into an error.
func TestHeadlines(t *testing.T) {
	b := bench.New("b", nil, bench.Sections(func(rows dataset.Set) []bench.Section {
		if len(rows) > 0 {
			panic("oh")
		}
		return []bench.Section{{Title: "first", Headline: true, Text: "words", Table: [][]string{{"a", "bb"}, {"1", "2"}}},
			{Title: "not this", Text: "no"}, {Title: "last", Headline: true}}
	}))
	var out bytes.Buffer
	written, err := Headlines(&out, b, nil, 0)
	if want := "first\na  bb\n1   2\nwords\n\nlast\n"; !written || err != nil || out.String() != want {
		t.Errorf("%v: %q, want %q", err, out.String(), want)
	}
	if written, err := Headlines(&out, nil, nil, 0); written || err != nil {
		t.Errorf("without a bench: %v, %v", written, err)
	}
	if _, err := Headlines(&out, b, dataset.All(make([]journal.Row, 1)), 0); err == nil ||
		!strings.Contains(err.Error(), "panic: oh") {
		t.Errorf("a panic gives %v", err)
	}
}

// If ranks shared a GPU, the report says so before the bench's own verdict.
func TestSharingComesFirst(t *testing.T) {
	b := bench.New("b", nil, bench.Sections(func(dataset.Set) []bench.Section {
		return []bench.Section{{Title: "the bench's", Lead: true}}
	}))
	in := Input{Bench: b, Data: dataset.Of(&journal.Run{Header: *fixtureHeader()})}
	made := func(rows ...journal.Row) (document.Document, int) {
		doc, errs := Document(&in, dataset.All(rows))
		must.Do(t, errors.Join(errs...))
		return doc, len(lists.Filter(doc.Sections, func(s document.Section) bool { return s.Lead }))
	}
	alone := journal.Row{Details: map[string]string{journal.SharingDetail: "1"}}
	if p, leads := made(alone); leads != 1 {
		t.Errorf("with a GPU each: %v", p.Sections)
	}
	p, leads := made(alone, journal.Row{Details: map[string]string{journal.SharingDetail: "8"}})
	if text := markdownOf(t, p); leads != 2 ||
		strings.Index(text, "In 1 of 2 rows the ranks shared one GPU, up to 8 of them.") > strings.Index(text,
			"## the bench's") {
		t.Error(text)
	}
}
