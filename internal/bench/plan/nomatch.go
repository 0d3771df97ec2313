package plan

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// nameOrQuoted matches a name or a quoted value. Quoted values are matched so that the words in them
// are not taken for names.
var nameOrQuoted = regexp.MustCompile(`"[^"]*"|'[^']*'|[A-Za-z_][A-Za-z0-9_.]*`)

// NoMatch returns the error for --only expressions that no stored row satisfies. The error lists the stored values of
// the names in the expressions.
func NoMatch(only []string, rows []journal.Row) error {
	values := map[string][]point.Value{}
	for i := range rows {
		for name, o := range rowValues(&rows[i]) {
			if !o.unset && !slices.Contains(values[name], o.value) {
				values[name] = append(values[name], o.value)
			}
		}
	}
	named := lists.Distinct(nameOrQuoted.FindAllString(strings.Join(only, " "), -1))
	named = lists.Filter(named, func(name string) bool { return len(values[name]) > 0 })
	if len(named) == 0 {
		named = slices.Sorted(maps.Keys(values))
	}
	const maxListed = 12
	available := lists.Map(named, func(name string) string {
		list := values[name]
		text := name + "=" + point.FormatSpec(list[:min(len(list), maxListed)])
		if len(list) > maxListed {
			text += fmt.Sprintf(" and %d more", len(list)-maxListed)
		}
		return text
	})
	flags := lists.Map(only, func(o string) string { return fmt.Sprintf("--only %q", o) })
	return fmt.Errorf("no row matches %s (stored: %s)", strings.Join(flags, " "), strings.Join(available, "; "))
}
