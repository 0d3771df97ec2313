package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/document"
)

// maxEvidence limits the rows that a page lists for one sentence.
const maxEvidence = 40

// describeEvidence describes the rows behind generated sentences.
func describeEvidence(list []decl.Evidence, rows []journal.Row) []document.Evidence {
	return lists.Map(list, func(e decl.Evidence) document.Evidence {
		shown := e.Rows[:min(len(e.Rows), maxEvidence)]
		lines := lists.Map(shown, func(i int) string { return describeRow(&rows[i]) })
		if n := len(e.Rows) - len(shown); n > 0 {
			lines = append(lines, fmt.Sprintf("and %s (kernbench report RUN --why %s lists all)",
				unit.Plural(n, "more row"), e.ID))
		}
		return document.Evidence{ID: e.ID, Rows: lines}
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

// Why returns the generated sentence of a report that has the given ID, and the rows that it is based on.
func Why(in Input, rows []journal.Row, id string) (sentence string, behind []journal.Row, err error) {
	all, _, _ := Sections(in, rows)
	sections, cited := decl.SplitEvidence(all)
	ids := lists.Map(cited, func(e decl.Evidence) string { return e.ID })
	e, found := lists.First(cited, func(e decl.Evidence) bool { return e.ID == id })
	behind = lists.Map(e.Rows, func(i int) journal.Row { return rows[i] })
	for _, s := range sections {
		for line := range strings.SplitSeq(s.Text, "\n") {
			if strings.HasSuffix(line, "["+id+"]") && sentence == "" {
				sentence = strings.TrimLeft(strings.ReplaceAll(line, "**", ""), "- 0123456789.")
			}
		}
		for _, line := range s.Table {
			if last := len(line) - 1; last > 0 && line[last] == "["+id+"]" && sentence == "" {
				sentence = describeLine(s.Table[0], line)
			}
		}
	}
	if !found && len(ids) == 0 {
		return "", nil, fmt.Errorf("the report of run %s has no sentences with IDs", in.Run.ID())
	}
	if !found {
		return "", nil, suggest.Unknown("sentence", id, ids)
	}
	return sentence, behind, nil
}

// describeLine returns a line of a table as text, with the names of its columns.
func describeLine(head, line []string) string {
	var parts []string
	for i, text := range line[:len(line)-1] {
		if text != "" {
			parts = append(parts, head[i]+": "+text)
		}
	}
	return strings.Join(parts, "; ") + " " + line[len(line)-1]
}
