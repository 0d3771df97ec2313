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

// benchSections returns the sections of a bench, then the tables that it declares, with the sentences of its rules. A
// section that only has sentences comes first, as one of the main findings.
func benchSections(b *bench.Bench, rows dataset.Set) ([]bench.Section, error) {
	if b == nil {
		return nil, nil
	}
	tables, fault := declaredTables(b, rows)
	sections, err := guarded("sections", b, func(rows dataset.Set) []bench.Section {
		var own, stated []bench.Section
		if b.Sections != nil {
			own = b.Sections(rows)
		}
		own = append(own, tables...)
		add := func(to []bench.Section, s views.Sentence) bool {
			i := slices.IndexFunc(to, func(section bench.Section) bool { return section.Title == s.Section })
			if i >= 0 {
				to[i].Sentences = append(to[i].Sentences, s)
			}
			return i >= 0
		}
		if b.Sentences != nil {
			for _, s := range b.Sentences(rows) {
				if !add(own, s) && !add(stated, s) {
					stated = append(stated, bench.Section{Title: s.Section, Lead: true, Sentences: []views.Sentence{s}})
				}
			}
		}
		return number(append(stated, own...), rows)
	}, rows)
	return sections, errors.Join(err, fault)
}

// declaredTables returns the tables that a bench declares. Tables without a value are left out.
func declaredTables(b *bench.Bench, rows dataset.Set) (sections []bench.Section, err error) {
	for _, p := range b.Pivots {
		t, fault := p.Table(decl.ViewHeader(b), rows)
		if err = errors.Join(err, fault); len(t.Cells) > 0 {
			sections = append(sections, bench.Section{Title: t.Title, Text: t.Text, Table: t.Cells,
				Headline: p.Show == "headline", Detail: p.Show == "detail"})
		}
	}
	return sections, err
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
			lines = append(lines, fmt.Sprintf("and %s (kernbench report RUN --why %s lists all)",
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
		return fmt.Sprintf("%s: %s", what, strings.Join(lists.NonEmpty(string(r.Status), r.Reason), ", "))
	}
	text := fmt.Sprintf("%s: %s", what, unit.FormatMicros(us))
	if s := r.Stats.Get("time_us"); s.CILow != nil && s.CIHigh != nil {
		text += fmt.Sprintf(", 95 %% from %s to %s", unit.FormatMicros(*s.CILow), unit.FormatMicros(*s.CIHigh))
	}
	return text + ", " + cmp.Or(r.Disturbed(), string(r.Quality), string(r.Kind))
}

// Why returns the generated sentence of a report that has the given citation, such as fastest-1, and the rows that it
// is based on.
func Why(in Input, rows dataset.Set, citation string) (views.Sentence, error) {
	sections, _, _ := Sections(in, rows)
	cited := citedSentences(sections)
	if s, found := lists.First(cited, func(s views.Sentence) bool { return s.Citation() == citation }); found {
		return s, nil
	}
	if len(cited) == 0 {
		return views.Sentence{}, fmt.Errorf("the report of run %s has no sentences with IDs", in.Run.ID())
	}
	return views.Sentence{}, suggest.Unknown("sentence", citation, lists.Map(cited, views.Sentence.Citation))
}
