package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/document"
)

// Headlines prints only the sections marked as headlines, and turns a panic of the bench
// into an error.
func TestHeadlines(t *testing.T) {
	b := bench.New("b", nil, bench.Sections(func(rows []journal.Row) []bench.Section {
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
	if _, err := Headlines(&out, b, make([]journal.Row, 1), 0); err == nil || !strings.Contains(err.Error(), "panic: oh") {
		t.Errorf("a panic gives %v", err)
	}
}

// If ranks shared a GPU, the report says so before the bench's own verdict.
func TestSharingComesFirst(t *testing.T) {
	b := bench.New("b", nil, bench.Sections(func([]journal.Row) []bench.Section {
		return []bench.Section{{Title: "the bench's", Lead: true}}
	}))
	in := Input{Bench: b, Run: &journal.Run{Header: *fixtureHeader()}}
	made := func(rows ...journal.Row) (document.Document, int) {
		doc, errs := Document(in, rows)
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

// The fastest and the slowest row are settled rows with their intervals: rows that are
// disturbed, have a wide interval, or lack an interval that others have are ignored. If
// no row has an interval, the sentence says so.
func TestExtremesHaveSettled(t *testing.T) {
	of := func(us, percent float64, warning ...string) journal.Row {
		r := measuredRow(us)
		low, high := us*(1-percent/100), us*(1+percent/100)
		r.Stats, r.Warnings = journal.NewObject(map[string]journal.Stat{headline: {CILow: &low, CIHigh: &high}}), warning
		if percent == 0 {
			r.Stats = nil
		}
		return r
	}
	stolen := of(1, 1)
	stolen.Quality = journal.QualityDisturbed
	for name, c := range map[string]struct {
		rows []journal.Row
		want string
	}{
		"settled": {[]journal.Row{stolen, of(2, 40), of(3, 0), of(10, 1), of(20, 2), of(99, 60)},
			"The fastest took 10 us (95 % from 9.9 us to 10.1 us, 7 samples), the slowest 20 us (95 % from 19.6 us to 20.4 " +
				"us, 7 samples)."},
		"one alone": {[]journal.Row{of(10, 1), of(20, 40)}, ""},
		"none": {[]journal.Row{of(10, 0), of(20, 0)},
			"The fastest took 10 us, the slowest 20 us: an indication, as no row has an interval."},
	} {
		if got := extremes(&journal.Header{Metrics: []journal.MetricInfo{{Name: headline, Unit: "us"}}},
			c.rows); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func measuredRow(us float64) journal.Row {
	return journal.Row{Status: journal.OK, Kind: journal.Measured, Samples: 7, Metrics: map[string]float64{headline: us}}
}
