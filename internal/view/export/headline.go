package export

import (
	"slices"
	"strings"
)

// AllColumns is the name that chooses every column of a table.
const AllColumns = "all"

// hideByDefault marks the columns that a table leaves out if the bench declares no headlines: the number of
// samples, and limits, because another column shows the share of the limit.
func hideByDefault(all []Column) []Column {
	out := slices.Clone(all)
	for i := range out {
		out[i].hidden = out[i].Role == Limit || out[i].Role == Samples
	}
	return out
}

// headlines arranges columns as a bench declares them, each as NAME or NAME=HEADING. Columns that
// identify a row stay in front, and its remarks come last. In between are the declared numbers and
// details; other numbers are marked as hidden. A number without a heading of its own is followed by its
// spreads, and the quality of its row is shown. Names that are no column are details of the rows.
func headlines(all []Column, declared []string) []Column {
	labels := map[string]string{}
	var names []string
	for _, d := range declared {
		name, label, _ := strings.Cut(d, "=")
		labels[name] = label
		names = append(names, name)
	}
	var front, details, quality, last, hidden []Column
	found := map[string]Column{}
	spreads := map[string][]Column{} // by metric
	for _, c := range all {
		label, named := labels[c.Name]
		c.label, c.interval = label, named && c.Role == Metric
		of, unlabelled := labels[c.Key]
		unlabelled = unlabelled && of == ""
		switch c.Role {
		case Spread, Between:
			if unlabelled {
				spreads[c.Key] = append(spreads[c.Key], c)
			}
		case Quality, Modes:
			quality = append(quality, c)
		case Metric, Limit, Samples, Detail:
			switch {
			case named:
				found[c.Name] = c
			case c.Role == Detail: // how a modelled number was validated
				details = append(details, c)
			default:
				c.hidden = true
				hidden = append(hidden, c)
			}
		case Reason:
			last = append(last, c)
		default:
			front = append(front, c)
		}
	}
	var middle []Column
	for _, name := range names {
		c, is := found[name]
		if !is && !slices.ContainsFunc(front, func(c Column) bool { return c.Name == name }) {
			c, is = Column{Role: Detail, Name: name, Key: name, label: labels[name]}, true
		}
		if is {
			middle = append(append(middle, c), spreads[name]...)
		}
	}
	if len(spreads) > 0 {
		middle = append(middle, quality...)
	}
	return slices.Concat(front, middle, details, last, hidden)
}
