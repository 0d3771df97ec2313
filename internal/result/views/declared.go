package views

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Figures returns the figures that a bench declares, in the order of their first plots. Plots without a value are
// left out.
func Figures(plots []Plot, h *journal.Header, rows dataset.Set) (figs []figure.Figure, errs []error) {
	for _, p := range plots {
		for _, g := range p.named(choose(h, rows, p.Where)) {
			p.Name = figure.Stem(g.Key)
			p := p
			p.Where = "" // these rows are chosen
			f, err := p.Figure(h, g.Items)
			if err != nil {
				errs = append(errs, err)
			}
			f.Panels = slices.DeleteFunc(f.Panels, func(p figure.Panel) bool { return p.Content == nil && len(p.Series) == 0 })
			if len(f.Panels) == 0 {
				continue
			}
			f.AddCaption(Simulated(g.Items))
			if p.Finish != nil {
				p.Finish(&f, g.Items)
			}
			if at := slices.IndexFunc(figs, func(o figure.Figure) bool { return o.Name == f.Name }); at >= 0 {
				figs[at].Panels = append(figs[at].Panels, f.Panels...)
			} else {
				figs = append(figs, f)
			}
		}
	}
	return figs, errs
}

// Needed returns the names of the figures that must be drawn: of those with chosen rows, even if all have failed.
func Needed(h *journal.Header, plots []Plot, rows dataset.Set) []string {
	var names lists.Set[string]
	for _, p := range plots {
		for _, g := range p.named(choose(h, rows, p.Where)) {
			names.Add(figure.Stem(g.Key))
		}
	}
	return names.List
}

// choose returns the rows of a declared view. They may lack a name that the bench declares.
func choose(h *journal.Header, rows dataset.Set, where string) dataset.Set {
	if where == "" {
		return rows
	}
	rows, err := dataset.SelectKnown(h, rows, where)
	if err != nil {
		return nil
	}
	return rows
}

// placeholder is the place of a value in the name, the title or the caption of a view.
var placeholder = regexp.MustCompile(`\{[A-Za-z][A-Za-z0-9_.-]*\}`)

// named returns the rows of each figure of the plot: of one for each value that the name contains.
func (p Plot) named(rows dataset.Set) []lists.Group[string, dataset.Set] {
	if len(rows) == 0 {
		return nil
	}
	if !placeholder.MatchString(p.Name) {
		return []lists.Group[string, dataset.Set]{{Key: p.Name, Items: rows}}
	}
	return lists.GroupBy(rows, func(r *journal.Row) string { return expand(p.Name, dataset.Set{r}) })
}

// expand replaces {NAME} by the values that the rows have at the coordinate, metric or detail of that name.
func expand(text string, rows dataset.Set) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		values := lists.Map(rows, func(r *journal.Row) string { return valueOf(r, name[1:len(name)-1]) })
		return strings.Join(lists.NonEmpty(lists.Distinct(values)...), " and ")
	})
}

// PointNames returns a function that names a row by the coordinates in which the rows differ, besides those to ignore,
// or otherwise if there are none.
func (w Words) PointNames(rows dataset.Set, otherwise string, ignore ...string) func(*journal.Row) string {
	return Plot{Words: w}.pointName(rows, slices.DeleteFunc(rows.Coords(nil), func(c dataset.Coord) bool {
		return slices.Contains(ignore, c.Name)
	}), otherwise)
}

// pointName is PointNames for coordinates. Options and runs are named only where axes do not tell the rows apart, and
// fields such as the ranks only where no axis does.
func (p Plot) pointName(rows dataset.Set, coords []dataset.Coord, otherwise string) func(*journal.Row) string {
	dots := lists.Map(rows, func(r *journal.Row) dot { return dot{row: r} })
	axes := lists.Filter(coords, func(c dataset.Coord) bool {
		return c.Varies(rows) && (c.Class == dataset.Axis || c.Class == dataset.Variable ||
			c.Is(dataset.Part, dataset.NumRanks, dataset.Backend))
	})
	told := func(c dataset.Coord) bool { // by an axis
		return c.Class == dataset.Field && slices.ContainsFunc(axes, func(a dataset.Coord) bool {
			return a.Class != dataset.Field && len(separate(dots, abscissa{}, []dataset.Coord{a}, []dataset.Coord{c})) == 1
		})
	}
	differ := separate(dots, abscissa{}, slices.DeleteFunc(slices.Clone(axes), told), coords)
	return func(r *journal.Row) string {
		words := lists.NonEmpty(lists.Map(differ, func(c dataset.Coord) string { return p.words(c, c.Of(r)) })...)
		return cmp.Or(strings.Join(words, ", "), otherwise)
	}
}

// valueOf returns the row's value of a coordinate, metric or detail as text, or "".
func valueOf(r *journal.Row, name string) string {
	if c, err := dataset.FindCoord(dataset.Identities(dataset.Set{r}), name); err == nil {
		return c.Of(r).String()
	}
	if v, has := r.Metrics[name]; has {
		return fmt.Sprintf("%g", v)
	}
	return r.Details[name]
}

// Simulated returns a sentence for each topology on which rows were simulated, or "".
func Simulated(rows dataset.Set) string {
	var lines lists.Set[string]
	for _, r := range rows {
		d := r.Details
		if r.Status != journal.OK || d[journal.HashDetail] == "" {
			continue
		}
		line := fmt.Sprintf("Simulated on topology %s (sha256 %.12s)", d[journal.TopologyDetail], d[journal.HashDetail])
		if d[journal.FabricDetail] != "" {
			line += ", fabric " + d[journal.FabricDetail]
		}
		lines.Add(line + ".")
	}
	return strings.Join(lines.List, " ")
}
