package export

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// choose finds the columns that the reader names, in that order; without a name it
// is all of them.
func choose(all []Column, wanted []string) ([]Column, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	var out []Column
	for _, name := range wanted {
		i := slices.IndexFunc(all, func(c Column) bool { return c.Name == name })
		if i < 0 {
			i = slices.IndexFunc(all, func(c Column) bool { return c.Key == name || c.headed(name) })
		}
		if i < 0 {
			return nil, suggest.Unknown("column", name, lists.Map(all, func(c Column) string { return c.Name }))
		}
		c := all[i]
		c.asked = true
		out = append(out, c)
	}
	return out, nil
}

// headed tells whether the column may stand in a table under that heading, whether its
// lines are single trials or several.
func (c Column) headed(name string) bool {
	single := c.heading() == name
	c.aggregate = true
	return single || c.heading() == name
}

// Sort puts rows in order of the named columns, the first one first; a minus before
// a name turns its order round. What is empty comes last.
func Sort(h *journal.Header, rows []journal.Row, by []string) ([]journal.Row, error) {
	names := lists.Map(by, func(name string) string { return strings.TrimPrefix(name, "-") })
	if len(by) == 0 {
		return rows, nil
	}
	columns, err := choose(Columns(h, rows), names)
	if err != nil {
		return rows, err
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b journal.Row) int {
		for i, c := range columns {
			if order := compareCells(c.Value(&a), c.Value(&b), strings.HasPrefix(by[i], "-")); order != 0 {
				return order
			}
		}
		return 0
	})
	return rows, nil
}

func compareCells(a, b string, descending bool) int {
	if a == "" || b == "" {
		return cmp.Compare(len(b), len(a)) // the empty one last, either way
	}
	order := strings.Compare(a, b)
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX == nil && errY == nil {
		order = cmp.Compare(x, y)
	}
	if descending {
		return -order
	}
	return order
}
