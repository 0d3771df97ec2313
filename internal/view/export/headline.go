package export

import (
	"slices"
	"strings"
)

// headlines arranges columns as a bench declares them, each as NAME or NAME=HEADING. Columns that
// identify a row stay in front, and its remarks come last. In between are the declared numbers and
// details; other numbers are marked as hidden. Names that are no column are details of the rows.
func headlines(all []Column, declared []string) []Column {
	labels := map[string]string{}
	var names []string
	for _, d := range declared {
		name, label, _ := strings.Cut(d, "=")
		labels[name] = label
		names = append(names, name)
	}
	var front, last, hidden []Column
	found := map[string]Column{}
	for _, c := range all {
		label, named := labels[c.Name]
		switch c.label, c.interval = label, named && c.Role == Metric; c.Role {
		case Metric, Spread, Between, Modes, Limit, Samples, Quality:
			if named {
				found[c.Name] = c
			} else if c.Role == Metric {
				c.hidden = true
				hidden = append(hidden, c)
			}
		case Reason:
			last = append(last, c)
		default:
			front = append(front, c)
		}
	}
	middle := make([]Column, 0, len(names))
	for _, name := range names {
		c, is := found[name]
		if !is && !slices.ContainsFunc(front, func(c Column) bool { return c.Name == name }) {
			c, is = Column{Role: Detail, Name: name, Key: name, label: labels[name]}, true
		}
		if is {
			middle = append(middle, c)
		}
	}
	return slices.Concat(front, middle, last, hidden)
}
