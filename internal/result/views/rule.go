package views

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/result/dataset"
)

// Sentence is a generated statement about some rows of a run. A line of a table is one too: its text is the line.
type Sentence struct {
	ID      string      // of the rule that made it, such as fastest
	Number  int         // set by the report: 1 for the first sentence of the rule. 0 if the sentence cites no rows
	Section string      // title of the section that shows it
	Text    string      // Markdown: a paragraph, or an item of a list if it begins with "- " or "1. "
	Rows    dataset.Set // the rows that it rests on
}

// Citation returns what users call the sentence, such as fastest-1, or "" if it cites no rows.
func (s Sentence) Citation() string {
	if s.Number == 0 {
		return ""
	}
	return fmt.Sprintf("%s-%d", s.ID, s.Number)
}

// Rule makes a sentence from the data D of a run, if its condition holds.
type Rule[D any] struct {
	ID      string                // names what the sentence is about: fastest
	Section string                // title of the section that shows it
	When    func(d D) bool        // nil: always
	Rows    func(d D) dataset.Set // nil: the sentence draws no conclusion from rows
	Text    func(d D) string      // see Sentence.Text
	each    func(d D) []Sentence  // set by Each
}

// Each returns a rule that makes a sentence for each of the parts of the data for which the condition of r holds.
func Each[D, E any](parts func(d D) []E, r Rule[E]) Rule[D] {
	return Rule[D]{ID: r.ID, Section: r.Section, each: func(d D) (list []Sentence) {
		for _, part := range parts(d) {
			list = append(list, r.Apply(part)...)
		}
		return list
	}}
}

// Apply returns the sentences of the rule: none or one, or several if Each made the rule.
func (r Rule[D]) Apply(d D) []Sentence {
	if r.each != nil {
		return r.each(d)
	}
	if r.When != nil && !r.When(d) {
		return nil
	}
	s := Sentence{ID: r.ID, Section: r.Section, Text: r.Text(d)}
	if r.Rows != nil {
		s.Rows = r.Rows(d)
	}
	return []Sentence{s}
}
