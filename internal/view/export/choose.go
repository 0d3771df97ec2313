package export

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// choose returns the columns that the user names, in that order. It returns all columns if there are no
// names or a name is "all". A name may also be a key or the heading of a column.
func choose(all []Column, names []string) ([]Column, error) {
	if len(names) == 0 || len(names) == 1 && names[0] == AllColumns {
		return all, nil
	}
	return named(all, names)
}

// named returns the columns with the given names.
func named(all []Column, names []string) ([]Column, error) {
	var out []Column
	for _, name := range names {
		i := slices.IndexFunc(all, func(c Column) bool { return c.Name == name })
		if i < 0 {
			i = slices.IndexFunc(all, func(c Column) bool { return c.Key == name || c.hasHeading(name) })
		}
		if i < 0 {
			return nil, suggest.Unknown("column", name, lists.Map(all, func(c Column) string { return c.Name }))
		}
		c := all[i]
		c.chosen = true
		out = append(out, c)
	}
	return out, nil
}

// hasHeading reports whether a table may show the column under that heading. The heading
// depends on whether the lines of the table are single trials or several.
func (c Column) hasHeading(name string) bool {
	single := c.Heading() == name
	c.aggregate = true
	return single || c.Heading() == name
}

// Sort returns the rows sorted by the named columns. The first name is the most significant. A minus
// before a name reverses its order. Empty cells come last in either order.
func Sort(h *journal.Header, rows dataset.Set, by []string) (dataset.Set, error) {
	names := lists.Map(by, func(name string) string { return strings.TrimPrefix(name, "-") })
	if len(by) == 0 {
		return rows, nil
	}
	columns, err := named(Columns(h, rows), names)
	if err != nil {
		return rows, err
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *journal.Row) int {
		for i, c := range columns {
			if order := compareCells(c.Value(a), c.Value(b), strings.HasPrefix(by[i], "-")); order != 0 {
				return order
			}
		}
		return 0
	})
	return rows, nil
}

// compareCells orders two cells. Numbers come before other texts. Comparing a number and a text as texts
// would not be transitive: 2 < 10 and 10 < 1a, but 1a < 2.
func compareCells(a, b string, descending bool) int {
	if a == "" || b == "" {
		return cmp.Compare(len(b), len(a))
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	order := 0
	switch {
	case errX == nil && errY == nil:
		order = cmp.Compare(x, y)
	case errX == nil:
		order = -1
	case errY == nil:
		order = 1
	default:
		order = strings.Compare(a, b)
	}
	if descending {
		return -order
	}
	return order
}
