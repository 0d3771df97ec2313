package compare

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/view/verdict"
)

// columns are the table's, by the words of Options.Columns and Options.Sort; the
// order of pairs is that of the run where compare is nil.
var columns = []sortable{
	{"point", func(a, b Pair) int { return strings.Compare(a.Name, b.Name) }},
	{"verdict", func(a, b Pair) int {
		return cmp.Compare(slices.Index(verdicts, a.Verdict), slices.Index(verdicts, b.Verdict))
	}},
	{"old", func(a, b Pair) int { return cmp.Compare(a.Old.value(), b.Old.value()) }},
	{"new", func(a, b Pair) int { return cmp.Compare(a.New.value(), b.New.value()) }},
	{"change", func(a, b Pair) int { return cmp.Compare(a.Effect.ratio(), b.Effect.ratio()) }},
	{"interval", nil},
	{"p", func(a, b Pair) int { return cmp.Compare(a.Effect.p(), b.Effect.p()) }},
	{"notes", nil},
}

type sortable struct {
	name    string
	compare func(a, b Pair) int
}

// column is the place of a column.
func column(name string) (int, error) {
	i := slices.IndexFunc(columns, func(c sortable) bool { return c.name == name })
	if i < 0 {
		return 0, suggest.Unknown("column", name, lists.Map(columns, func(c sortable) string { return c.name }))
	}
	return i, nil
}

func (s *Side) value() float64 {
	if s == nil {
		return 0
	}
	return s.Value
}

// ratio of a pair without an effect is that of no change.
func (e *Effect) ratio() float64 {
	if e == nil {
		return 1
	}
	return e.Ratio
}

func (e *Effect) p() float64 {
	if e == nil || e.P == nil {
		return 1
	}
	return *e.P
}

// sort puts the pairs in order of the named columns, the first one first; a minus
// before a name turns its order round.
func (r *Report) sort(by []string) error {
	orders := make([]func(a, b Pair) int, 0, len(by))
	for _, name := range by {
		i, err := column(strings.TrimPrefix(name, "-"))
		if err != nil {
			return err
		}
		order := columns[i].compare
		if order == nil {
			continue
		}
		if strings.HasPrefix(name, "-") {
			order = func(a, b Pair) int { return columns[i].compare(b, a) }
		}
		orders = append(orders, order)
	}
	slices.SortStableFunc(r.Pairs, func(a, b Pair) int {
		for _, order := range orders {
			if c := order(a, b); c != 0 {
				return c
			}
		}
		return 0
	})
	return nil
}

// chooseColumns keeps the named columns of the table, in their order.
func chooseColumns(v *verdict.Report, names []string) error {
	if len(names) == 0 {
		return nil
	}
	at := make([]int, len(names))
	kept := make([]verdict.Column, len(names))
	for k, name := range names {
		i, err := column(name)
		if err != nil {
			return err
		}
		at[k], kept[k] = i, v.Columns[i]
	}
	v.Columns = kept
	for l := range v.Lines {
		v.Lines[l].Cells = lists.Map(at, func(i int) string { return v.Lines[l].Cells[i] })
	}
	return nil
}
