package accelwhatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// visible is the smallest effect that is drawn, in per cent; maxBars is the number of bars that stay readable.
const visible, maxBars = 0.1, 16

// study holds the results for one all-reduce or product.
type study struct {
	title   string
	part    string
	base    float64     // ns
	percent string      // size of the changes
	effects dataset.Set // parameters with a visible effect, the largest first
	small   dataset.Set // parameters with an effect that is not visible
	none    dataset.Set // parameters without effect
	stuck   dataset.Set // parameters that could not be changed
	failed  dataset.Set
}

// title returns the name of a row's all-reduce or product.
func title(r *journal.Row) string {
	if r.Part == allReducePart {
		return fmt.Sprintf("All-reduce of %s bytes per cube", unit.FormatBytes(2*int64(dataset.Number(r, "n_elem"))))
	}
	return fmt.Sprintf("Product of %s, %s", dataset.Text(r, "shapes"), dataset.Text(r, "variant"))
}

// studies groups the rows.
func studies(rows dataset.Set) (all []*study) {
	on := machine.Names(rows, dataset.Part, parameterAxis, "n_elem", "shapes", "variant")
	for _, g := range lists.GroupBy(rows, func(r *journal.Row) string {
		return strings.Join(lists.NonEmpty(title(r), on(r)), ", ")
	}) {
		s := &study{title: g.Key, part: g.Items[0].Part, percent: dataset.Text(g.Items[0], "percent")}
		parameter := func(r *journal.Row) string { return dataset.Text(r, parameterAxis) }
		for _, trials := range lists.GroupBy(g.Items, parameter) {
			r := trials.Items[0] // further trials give the same numbers
			effect := r.Metrics["effect_pct"]
			switch {
			case r.Status == journal.Skipped:
				s.stuck = append(s.stuck, r)
				continue
			case r.Status != journal.OK:
				s.failed = append(s.failed, r)
				continue
			case effect >= visible:
				s.effects = append(s.effects, r)
			case effect > 0:
				s.small = append(s.small, r)
			default:
				s.none = append(s.none, r)
			}
			s.base = r.Metrics["base_ns"]
		}
		slices.SortStableFunc(s.effects, func(a, b *journal.Row) int {
			return cmp.Compare(b.Metrics["effect_pct"], a.Metrics["effect_pct"])
		})
		all = append(all, s)
	}
	return all
}

// figures draws a panel for each all-reduce and product.
func figures(rows dataset.Set) (figs []figure.Figure) {
	for _, part := range []struct{ part, name, title string }{
		{allReducePart, "whatif_allreduce", "What the all-reduce depends on (simulated)"},
		{gemmPart, "whatif_gemm", "What the matrix product depends on (simulated)"}} {
		f := figure.Figure{Name: part.name, Title: part.title}
		for _, s := range studies(rows) {
			if s.part == part.part && s.base > 0 {
				f.Panels = append(f.Panels, s.panel())
			}
		}
		if len(f.Panels) > 0 {
			f.Columns = min(len(f.Panels), 2)
			f.Caption = "By how much the time of the slowest PE changes when one number of the topology file does. " +
				views.Simulated(rows)
			figs = append(figs, f)
		}
	}
	return figs
}

// panel draws one bar for each direction of each visible parameter, the largest effect first.
func (s *study) panel() figure.Panel {
	t := &figure.Tornado{Lowered: s.percent + " % less", Raised: s.percent + " % more"}
	shown := s.effects[:min(len(s.effects), maxBars)]
	for _, r := range shown {
		bar := figure.TornadoBar{Name: dataset.Text(r, parameterAxis), Value: r.Details[valueDetail]}
		for metric, into := range map[string]**float64{"lower_pct": &bar.Lower, "higher_pct": &bar.Higher} {
			if v, has := r.Metrics[metric]; has {
				*into = &v
			}
		}
		t.Bars = append(t.Bars, bar)
	}
	p := figure.Panel{Title: fmt.Sprintf("%s: %s", s.title, unit.FormatMicros(s.base/1e3)), Content: t,
		X: figure.Axis{Label: "change of the time", Unit: figure.Percent}}
	if more := len(s.effects) - len(shown); more > 0 {
		p.Note = fmt.Sprintf("%d more with at least %g %% are in the table. ", more, visible)
	}
	if len(s.small)+len(s.none) > 0 {
		p.Note += fmt.Sprintf("%s without visible effect, %d that cannot change by %s %%: see the report.",
			unit.Plural(len(s.small)+len(s.none), "parameter"), len(s.stuck), s.percent)
	}
	return p
}

// sections returns the tables and lists the parameters that are not in them.
func sections(rows dataset.Set) (out []bench.Section) {
	var stuck dataset.Set
	percent := ""
	for _, s := range studies(rows) {
		table := [][]string{{"parameter", "value", s.percent + " % less", s.percent + " % more"}}
		for _, r := range s.effects {
			table = append(table, []string{dataset.Text(r, parameterAxis), r.Details[valueDetail], side(r, lowerDetail),
				side(r, higherDetail)})
		}
		if len(table) == 1 {
			table = nil
		}
		out = append(out, bench.Section{Title: s.title, Headline: true, Table: table, Text: s.words()})
		stuck = append(stuck, s.stuck...)
		percent = s.percent
	}
	if len(stuck) > 0 {
		why := func(r *journal.Row) string { return string(r.Reason) }
		out = append(out, bench.Section{Title: fmt.Sprintf("What cannot change by %s %%", percent), Headline: true,
			Text: named(stuck, why) + "."})
	}
	if len(out) > 0 {
		out[len(out)-1].Text += "\n\n" + views.Simulated(rows)
	}
	return out
}

// side returns one change of a parameter as text.
func side(r *journal.Row, detail string) string {
	if v, has := r.Metrics[detail+"_pct"]; has {
		return fmt.Sprintf("%+.2f %% (%s)", v, r.Details[detail])
	}
	return "not possible"
}

// words lists the changed parameters that are not in the table, and the reasons for missing sides in it.
func (s *study) words() string {
	var paragraphs []string
	if s.base > 0 {
		paragraphs = append(paragraphs, fmt.Sprintf("%s as the file is.", unit.FormatMicros(s.base/1e3)))
	}
	if exceptions := named(slices.Concat(s.effects, s.small), exception); s.base > 0 && exceptions == "" {
		paragraphs = append(paragraphs, "No change has the opposite of the expected effect.")
	}
	for _, group := range []struct{ what, names string }{
		{"Slower where it should be faster, or the other way round", named(slices.Concat(s.effects, s.small), exception)},
		{"On one side only", named(s.effects, oneSide)},
		{fmt.Sprintf("Without visible effect, less than %g %%", visible),
			named(s.small, func(r *journal.Row) string { return fmt.Sprintf("%.2g %%", r.Metrics["effect_pct"]) })},
		{"Without any effect", named(s.none, func(*journal.Row) string { return "0" })},
		{"Failed", named(s.failed, func(*journal.Row) string { return "see the rows" })},
	} {
		if group.names != "" {
			paragraphs = append(paragraphs, fmt.Sprintf("%s: %s.", group.what, group.names))
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// named lists the parameters of rows, grouped by reason. Rows without a reason are omitted.
func named(rows dataset.Set, why func(*journal.Row) string) string {
	var names []string
	for _, g := range lists.GroupBy(rows, why) {
		if g.Key != "" {
			names = append(names, fmt.Sprintf("%s (%s)", strings.Join(g.Items.Distinct(parameterAxis), ", "), g.Key))
		}
	}
	return strings.Join(names, "; ")
}

// exception returns why a parameter has the opposite of the expected effect, or "".
func exception(r *journal.Row) string {
	var parts []string
	for _, detail := range []string{lowerDetail, higherDetail} {
		if why := r.Details[detail+oppositeDetail]; why != "" {
			parts = append(parts, fmt.Sprintf("%s: %s", side(r, detail), why))
		}
	}
	return strings.Join(parts, "; ")
}

// oneSide returns why a parameter could be changed in one direction only, or "".
func oneSide(r *journal.Row) string {
	for _, detail := range []string{lowerDetail, higherDetail} {
		if _, has := r.Metrics[detail+"_pct"]; !has {
			return detail + ": " + r.Details[detail]
		}
	}
	return ""
}
