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

// unknownWords refuses values of the request that the bench's own conditions know
// at no point: a typing mistake, which would otherwise only drop its points. A word
// that some point can use is none.
func (p *Plan) unknownWords(parts []*decl.Part, req Request) error {
	faults := map[Assign]error{}
	var order []Assign
	for t := range p.AllDropped() {
		var unknown *suggest.Error
		if !errors.As(refused(parts, t), &unknown) {
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

// refused is why the task's part drops it, nil if that was for another reason.
func refused(parts []*decl.Part, t Task) error {
	for _, p := range parts {
		if p.Name == t.Part {
			return dropped(p, t)
		}
	}
	return nil
}

// emptySelection explains why nothing is left to run.
func (p *Plan) emptySelection(parts []*decl.Part, req Request) error {
	why, name := "nothing is left to run", p.Bench.Name
	if dropped := slices.Collect(p.AllDropped()); len(dropped) > 0 {
		why = dropReasons(req, dropped)
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

// dropReasons says why every point was dropped, by the first few reasons.
func dropReasons(req Request, dropped []Task) string {
	reasons := lists.Distinct(lists.Map(dropped, func(t Task) string { return t.Reason }))
	const most = 3
	if len(reasons) > most {
		reasons = append(reasons[:most], fmt.Sprintf("and %d more reasons", len(reasons)-most))
	}
	who := "the bench's own conditions drop all %d points: %s"
	if req.World != nil {
		who = "all %d points are dropped: %s"
	}
	return fmt.Sprintf(who, len(dropped), strings.Join(reasons, "; "))
}

// Words are the values that the axes of a part may have whose values are words, as far as the
// part's own conditions know them. These are asked: they refuse a word that there is not by
// naming those that there are.
func Words(b *bench.Bench, part *decl.Part) map[string][]string {
	const nobodys = "?"
	p := *part
	p.Axes, p.Zips, p.Envs = slices.Clone(part.Axes), nil, nil
	for i, a := range p.Axes {
		if a.Kind != point.String && len(a.Values) > 0 {
			p.Axes[i].Values = a.Values[:1] // one is enough to ask with
		}
	}
	words := map[string][]string{}
	for i, a := range p.Axes {
		var known []string
		switch a.Kind {
		case point.String:
			p.Axes[i].Values = []point.Value{point.StringValue(nobodys)}
			for _, err := range conditions(b, &p) {
				if unknown, is := errors.AsType[*suggest.Error](err); is && unknown.Name == nobodys {
					known = append(known, unknown.Names...)
				}
			}
		case point.DType:
			for _, d := range dtype.All() {
				if v, err := point.Parse(point.DType, d.String()); err == nil {
					p.Axes[i].Values = []point.Value{v}
					if slices.Contains(conditions(b, &p), nil) {
						known = append(known, d.String())
					}
				}
			}
		}
		p.Axes[i].Values = part.Axes[i].Values
		if len(known) == 0 {
			continue
		}
		// Such as auto, which stands for one of the others.
		known = append(known, lists.Map(part.Axes[i].Values, point.Value.String)...)
		slices.Sort(known)
		words[a.Name] = slices.Compact(known)
		if a.Kind == point.String { // what the other axes may have can depend on it
			p.Axes[i].Values = lists.Map(words[a.Name], point.StringValue)
		}
	}
	return words
}

// conditions is what the part says to each of its points, nil for one that it takes.
func conditions(b *bench.Bench, part *decl.Part) (errs []error) {
	const most = 10_000
	product, err := newProduct(part)
	if err != nil {
		return nil
	}
	plain, _ := settle(b, Request{}) // of none given, none is wrong
	for n := range min(product.total, most) {
		t := product.task(n)
		var fault error
		for _, mistake := range part.Refusals {
			fault = cmp.Or(fault, mistake(t.whole(), plain.options))
		}
		errs = append(errs, cmp.Or(fault, dropped(part, t)))
	}
	return errs
}
