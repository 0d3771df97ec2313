package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/document"
)

// maxEvidence limits the rows that a page lists for one sentence.
const maxEvidence = 40

// benchSections returns the sections of a bench with numbered sentences.
func benchSections(b *bench.Bench, rows dataset.Set) ([]bench.Section, error) {
	if b == nil {
		return nil, nil
	}
	var fault error
	sections, err := guarded("sections", b, func(rows dataset.Set) []bench.Section {
		var list []bench.Section
		list, fault = decl.Describe(b, rows)
		return number(list, rows)
	}, rows)
	return sections, errors.Join(err, fault)
}

// number numbers the sentences and table lines that cite rows, and sorts the cited rows. It panics if one is not a row
// of the run.
func number(sections []bench.Section, rows dataset.Set) []bench.Section {
	index, numbers := map[*journal.Row]int{}, map[string]int{}
	for i := range rows {
		index[rows[i]] = i
	}
	cite := func(s views.Sentence) views.Sentence {
		if len(s.Rows) == 0 {
			return s
		}
		cited := lists.Map(s.Rows, func(r *journal.Row) int {
			if _, known := index[r]; !known {
				panic(fmt.Sprintf("the sentence %q cites a row that is not of the run: %s", s.ID, describeRow(r)))
			}
			return index[r]
		})
		slices.Sort(cited)
		numbers[s.ID]++
		s.Number = numbers[s.ID]
		s.Rows = lists.Map(slices.Compact(cited), func(i int) *journal.Row { return rows[i] })
		return s
	}
	for i, s := range sections {
		sections[i].Sentences, sections[i].Lines = lists.Map(s.Sentences, cite), lists.Map(s.Lines, cite)
	}
	return sections
}

// citedSentences returns the sentences and table lines that cite rows, as plain text.
func citedSentences(sections []bench.Section) []views.Sentence {
	var all []views.Sentence
	for _, s := range sections {
		for _, sentence := range s.Sentences {
			sentence.Text = document.Plain(sentence.Text)
			all = append(all, sentence)
		}
		for i, line := range s.Lines {
			line.Text = describeLine(s.Table[0], s.Table[i+1])
			all = append(all, line)
		}
	}
	return lists.Filter(all, func(s views.Sentence) bool { return s.Number > 0 })
}

// describeLine returns a line of a table as text, with the names of its columns.
func describeLine(head, line []string) string {
	var parts []string
	for i, text := range line {
		if text != "" {
			parts = append(parts, head[i]+": "+text)
		}
	}
	return strings.Join(parts, "; ")
}

// describeEvidence describes the rows behind generated sentences.
func describeEvidence(cited []views.Sentence) []document.Evidence {
	return lists.Map(cited, func(s views.Sentence) document.Evidence {
		shown := s.Rows[:min(len(s.Rows), maxEvidence)]
		lines := lists.Map(shown, describeRow)
		if n := len(s.Rows) - len(shown); n > 0 {
			lines = append(lines, fmt.Sprintf("and %s (kernbench why RUN %s lists all)",
				unit.Plural(n, "more row"), s.Citation()))
		}
		return document.Evidence{ID: s.Citation(), Rows: lines}
	})
}

// describeRow returns a row as one line: its point, time, interval and quality.
func describeRow(r *journal.Row) string {
	what := strings.TrimSpace(r.Part + " " + r.Point.String())
	if r.NumRanks != nil {
		what += fmt.Sprintf(" ranks=%d", *r.NumRanks)
	}
	if r.Trial > 0 {
		what += fmt.Sprintf(" trial=%d", r.Trial)
	}
	us, timed := r.Metrics["time_us"]
	if r.Status != journal.OK || !timed {
		return fmt.Sprintf("%s: %s", what, strings.Join(lists.NonEmpty(string(r.Status), string(r.Reason)), ", "))
	}
	text := fmt.Sprintf("%s: %s", what, unit.FormatMicros(us))
	if s := r.Stats.Get("time_us"); s.CILow != nil && s.CIHigh != nil {
		text += fmt.Sprintf(", 95 %% from %s to %s", unit.FormatMicros(*s.CILow), unit.FormatMicros(*s.CIHigh))
	}
	if r.Disturbed() {
		return text + ", " + r.Conditions.Strongest().Sentence()
	}
	return text + ", " + cmp.Or(string(r.Quality), string(r.Kind))
}

// Why returns the generated sentence of a report that has the given citation, such as fastest-1, and the rows that it
// is based on.
func Why(in Input, rows dataset.Set, citation string) (views.Sentence, error) {
	sections, _ := Sections(in, rows)
	cited := citedSentences(sections)
	if s, found := lists.First(cited, func(s views.Sentence) bool { return s.Citation() == citation }); found {
		return s, nil
	}
	if len(cited) == 0 {
		return views.Sentence{}, fmt.Errorf("the report of run %s has no sentences with IDs", in.Data.ID())
	}
	return views.Sentence{}, suggest.Unknown("sentence", citation, lists.Map(cited, views.Sentence.Citation))
}
