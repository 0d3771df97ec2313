package decl

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Evidence lists the rows that a generated sentence or table line is based on. The sentence ends in
// the ID, as in "[fastest-1]". A table line has the ID in its last cell.
type Evidence struct {
	ID   string // a kind and a number, such as fastest-1; unique in a report
	Rows []int  // indices into the rows that the sections were made from
}

// evidenceTitle is the title of the section that contains the evidence of all sections.
const evidenceTitle = "Rows behind the sentences"

// EvidenceSection returns the section with the rows behind the sentences of a report. It is a table of
// IDs and row indices, which reports turn into links.
func EvidenceSection(list []Evidence) Section {
	s := Section{Title: evidenceTitle, Detail: true, Table: [][]string{{"sentence", "row"}}}
	for _, e := range list {
		for _, row := range e.Rows {
			s.Table = append(s.Table, []string{e.ID, strconv.Itoa(row)})
		}
	}
	return s
}

// SplitEvidence separates sections made by EvidenceSection from the others, and decodes them.
func SplitEvidence(sections []Section) (others []Section, list []Evidence) {
	for _, s := range sections {
		if s.Title != evidenceTitle {
			others = append(others, s)
			continue
		}
		for _, line := range s.Table[1:] {
			if len(list) == 0 || list[len(list)-1].ID != line[0] {
				list = append(list, Evidence{ID: line[0]})
			}
			if row, err := strconv.Atoi(line[1]); err == nil {
				list[len(list)-1].Rows = append(list[len(list)-1].Rows, row)
			}
		}
	}
	return others, list
}

// Citations numbers the generated sentences of a report and collects the rows behind them.
type Citations struct {
	numbers map[string]int // sentences so far, by kind
	list    []Evidence
}

// ID returns the ID of the next sentence of a kind in brackets, such as "[fastest-1]". rows are the
// indices of the rows behind the sentence. If there are none, ID returns "".
func (c *Citations) ID(kind string, rows []int) string {
	if len(rows) == 0 {
		return ""
	}
	if c.numbers == nil {
		c.numbers = map[string]int{}
	}
	c.numbers[kind]++
	id := fmt.Sprintf("%s-%d", kind, c.numbers[kind])
	c.list = append(c.list, Evidence{ID: id, Rows: slices.Compact(slices.Sorted(slices.Values(rows)))})
	return "[" + id + "]"
}

// Cite returns a sentence with its ID. See ID.
func (c *Citations) Cite(kind, sentence string, rows []int) string {
	if id := c.ID(kind, rows); id != "" {
		return sentence + " " + id
	}
	return sentence
}

// Sections returns the section with the evidence, or nil if there is no evidence.
func (c *Citations) Sections() []Section {
	if len(c.list) == 0 {
		return nil
	}
	return []Section{EvidenceSection(c.list)}
}

// RowsWhere returns the indices of the rows that match.
func RowsWhere(rows []journal.Row, match func(r *journal.Row) bool) []int {
	return lists.Filter(lists.Range[int](len(rows)), func(i int) bool { return match(&rows[i]) })
}
