package benchtest

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Text returns the text of a section with its sentences.
func Text(s bench.Section) string {
	sentences := lists.Map(s.Sentences, func(s views.Sentence) string { return s.Text })
	return strings.Join(append(lists.NonEmpty(s.Text), sentences...), "\n")
}

// Figures returns the figures of a bench: its own, and the declared ones.
func Figures(t testing.TB, b *bench.Bench, rows dataset.Set) (figs []figure.Figure) {
	t.Helper()
	if b.Figures != nil {
		figs = b.Figures(rows)
	}
	declared, errs := views.Figures(b.Plots, decl.ViewHeader(b), rows)
	for _, err := range errs {
		t.Error(err)
	}
	return append(figs, declared...)
}

// Sections returns the sections of a bench: its own, the declared tables, and those of its sentences.
func Sections(t testing.TB, b *bench.Bench, rows dataset.Set) []bench.Section {
	t.Helper()
	sections, err := decl.Describe(b, rows)
	if err != nil {
		t.Error(err)
	}
	return sections
}
