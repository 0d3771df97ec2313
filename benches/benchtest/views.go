package benchtest

import (
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Text returns the text of a section with its sentences.
func Text(s bench.Section) string {
	sentences := lists.Map(s.Sentences, func(s views.Sentence) string { return s.Text })
	return strings.Join(append(lists.NonEmpty(s.Text), sentences...), "\n")
}
