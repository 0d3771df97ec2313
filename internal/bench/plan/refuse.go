package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// unknownValues returns an error for requested values that the bench's Drop functions reject as
// unknown at every point. Most likely they are typing mistakes, which would otherwise silently
// drop points. A value that some point can use is fine.
func (p *Plan) unknownValues(req Request) error {
	faults := map[Assign]error{}
	var order []Assign
	for t, reason := range p.refused(false) {
		unknown, is := errors.AsType[*suggest.Error](reason)
		if !is {
			continue
		}
		for _, c := range t.Point {
			asked := slices.ContainsFunc(req.Axes, func(a Assign) bool { return a.Name == c.Name })
			word := Assign{c.Name, c.Value.String()}
			if asked && word.Text == unknown.Name && faults[word] == nil {
				faults[word] = fmt.Errorf("axis %s: %w", c.Name, unknown)
				order = append(order, word)
			}
		}
	}
	for _, tasks := range p.All() {
		for t := range tasks {
			if len(faults) == 0 {
				return nil
			}
			for _, c := range t.Point {
				delete(faults, Assign{c.Name, c.Value.String()})
			}
		}
	}
	return errors.Join(lists.Map(order, func(word Assign) error { return faults[word] })...)
}

// emptySelection explains why nothing is left to run.
func (p *Plan) emptySelection(parts []*decl.Part, req Request) error {
	why, name := "nothing is left to run", p.Bench.Name
	if dropped := slices.Collect(p.AllDropped()); len(dropped) > 0 {
		why = dropReasons(dropped)
	}
	flags := lists.Map(req.Only, func(o string) string { return fmt.Sprintf("--only %q", o) })
	skips := lists.Map(req.Skips, func(s Assign) string { return fmt.Sprintf("--skip %s=%s", s.Name, s.Text) })
	flags = append(flags, skips...)
	if len(flags) == 0 { // the reasons are enough
		return fmt.Errorf("bench %s: empty selection: %s", name, why)
	}
	axes := lists.Map(parts, func(p *decl.Part) string {
		words := lists.Map(p.Axes, func(a decl.Axis) string {
			return fmt.Sprintf("%s=%s", a.Name, point.FormatSpec(a.Values))
		})
		if p.Name != "" {
			words = append([]string{"part=" + p.Name}, words...)
		}
		return strings.Join(words, " ")
	})
	return fmt.Errorf("bench %s: empty selection: %s after %s (axes: %s)",
		name, why, strings.Join(flags, " "), strings.Join(axes, "; "))
}

// dropReasons explains why all points were dropped, with the first few reasons.
func dropReasons(dropped []Task) string {
	reasons := lists.Distinct(lists.Map(dropped, func(t Task) string { return t.Reason }))
	const maxListed = 3
	if len(reasons) > maxListed {
		reasons = append(reasons[:maxListed], fmt.Sprintf("and %d more reasons", len(reasons)-maxListed))
	}
	count := fmt.Sprintf("all %d points are dropped", len(dropped))
	if len(dropped) == 1 {
		count = "the only point is dropped"
	}
	return count + ": " + strings.Join(reasons, "; ")
}

// KnownValues returns the accepted values of the text and dtype axes of a part, by axis. A
// declaration does not list them, so they are found by probing the part's Drop and Refuse
// functions with an impossible value: the error lists the known ones.
func KnownValues(b *bench.Bench, part *decl.Part) map[string][]string {
	const impossible = "?"
	p := *part
	p.Axes, p.Zips, p.Envs = slices.Clone(part.Axes), nil, nil
	for i, a := range p.Axes {
		if a.Kind != point.String && len(a.Values) > 0 {
			p.Axes[i].Values = a.Values[:1] // one value is enough for probing
		}
	}
	words := map[string][]string{}
	for i, a := range p.Axes {
		var known []string
		switch a.Kind {
		case point.String:
			p.Axes[i].Values = []point.Value{point.StringValue(impossible)}
			for _, err := range verdicts(b, &p) {
				if unknown, is := errors.AsType[*suggest.Error](err); is && unknown.Name == impossible {
					known = append(known, unknown.Names...)
				}
			}
		case point.DType:
			for _, d := range dtype.All() {
				if v, err := point.Parse(point.DType, d.String()); err == nil {
					p.Axes[i].Values = []point.Value{v}
					if slices.Contains(verdicts(b, &p), nil) {
						known = append(known, d.String())
					}
				}
			}
		}
		p.Axes[i].Values = part.Axes[i].Values
		if len(known) == 0 {
			continue
		}
		// The declared values include words such as auto, which the functions replace first.
		known = append(known, lists.Map(part.Axes[i].Values, point.Value.String)...)
		slices.Sort(known)
		words[a.Name] = slices.Compact(known)
		if a.Kind == point.String { // the values of later axes can depend on it
			p.Axes[i].Values = lists.Map(words[a.Name], point.StringValue)
		}
	}
	return words
}

// verdicts returns, for each point of the part, the error with which the part rejects it, or nil if it
// accepts the point. It covers only the first 10,000 points.
func verdicts(b *bench.Bench, part *decl.Part) (errs []error) {
	const maxProbed = 10_000
	product, err := newProduct(part)
	if err != nil {
		return nil
	}
	plain, _ := resolveOptions(b, Request{}) // defaults only: it cannot fail
	for n := range min(product.total, maxProbed) {
		t := product.task(n)
		var fault error
		for _, mistake := range part.Refusals {
			fault = cmp.Or(fault, mistake(t.withRanks(), plain.options))
		}
		errs = append(errs, cmp.Or(fault, dropError(part, t, "")))
	}
	return errs
}
