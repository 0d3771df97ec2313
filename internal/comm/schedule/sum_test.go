package schedule

import (
	"fmt"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
)

// text writes a sum as a formula: (0+1)+2, or [0+1+2] if it is rounded once.
func (s *Sum) text() string {
	if len(s.Terms) == 0 {
		return fmt.Sprint(s.Rank)
	}
	all := ""
	for i, t := range lists.Map(s.Terms, (*Sum).text) {
		if i > 0 {
			all += "+"
		}
		all += t
	}
	if s.Wide {
		return "[" + all + "]"
	}
	return "(" + all + ")"
}

// The additions are read off the steps: their order, and where an algorithm rounds.
func TestSums(t *testing.T) {
	for name, want := range map[string]string{
		"naive":              "0-4 ((0+1)+2)",
		"ring":               "0-2 (0+(2+1)), 2-3 (1+(0+2)), 3-4 (2+(1+0))",
		"one-stage":          "0-4 [0+1+2]",
		"recursive-doubling": "0-4 ((1+0)+2)",
	} {
		s := must.Get(New(AllReduce, name, Params{Ranks: 3, Count: 4}))(t)
		got := ""
		for i, r := range must.Get(Sums(s))(t) {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprintf("%d-%d %s", r.Off, r.Off+r.N, r.Sum.text())
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
