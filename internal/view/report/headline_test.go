package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Only the sections that want it are printed, and a bench that panics while it
// words them is an error.
func TestHeadlines(t *testing.T) {
	b := bench.New("b", nil, bench.Sections(func(rows []journal.Row) []bench.Section {
		if len(rows) > 0 {
			panic("oh")
		}
		return []bench.Section{{Title: "first", Headline: true, Text: "words", Table: [][]string{{"a", "bb"}, {"1", "2"}}}, {Title: "not this", Text: "no"}, {Title: "last", Headline: true}}
	}))
	var out bytes.Buffer
	written, err := Headlines(&out, b, nil, 0)
	if want := "first\na  bb\n1   2\nwords\n\nlast\n"; !written || err != nil || out.String() != want {
		t.Errorf("%v: %q, want %q", err, out.String(), want)
	}
	if written, err := Headlines(&out, nil, nil, 0); written || err != nil {
		t.Errorf("without a bench: %v, %v", written, err)
	}
	if _, err := Headlines(&out, b, make([]journal.Row, 1), 0); err == nil || !strings.Contains(err.Error(), "panic: oh") {
		t.Errorf("a panic gives %v", err)
	}
}

// A report begins with what times of ranks that shared a GPU can show.
func TestSharingIsSaidFirst(t *testing.T) {
	b := bench.New("b", nil, bench.Sections(func([]journal.Row) []bench.Section { return []bench.Section{{Title: "the bench's"}} }))
	rows := []journal.Row{{Details: map[string]string{journal.SharingDetail: "1"}}, {}}
	if list, err := sectionsOf(b, rows); err != nil || len(list) != 1 {
		t.Errorf("with a GPU each: %v, %v", list, err)
	}
	rows[1].Details = map[string]string{journal.SharingDetail: "8"}
	list, err := sectionsOf(b, rows)
	if err != nil || len(list) != 2 || !strings.HasPrefix(list[0].Text, "In 1 of 2 rows the ranks shared one GPU, up to 8 of them.") || list[1].Title != "the bench's" {
		t.Errorf("%v, %v", list, err)
	}
}
