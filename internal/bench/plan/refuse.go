package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// unknownWords refuses values of the request that the bench's own conditions know
// at no point: a typing mistake, which would otherwise only drop its points. A word
// that some point can use is none.
func unknownWords(parts []*bench.DeclaredPart, req Request, dropped []Task, groups []*Group) error {
	faults := map[Assign]error{}
	var order []Assign
	for _, t := range dropped {
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
	for _, g := range groups {
		for _, t := range g.Tasks {
			if len(faults) == 0 {
				return nil
			}
			for _, c := range t.Point {
				delete(faults, Assign{c.Name, c.Value.String()})
			}
		}
	}
	var errs []error
	for _, word := range order {
		errs = append(errs, faults[word])
	}
	return errors.Join(errs...)
}

// refused is why the task's part drops it, nil if that was for another reason.
func refused(parts []*bench.DeclaredPart, t Task) error {
	for _, p := range parts {
		if p.Name == t.Part {
			return dropped(p, t)
		}
	}
	return nil
}

// emptySelection explains why nothing is left to run.
func emptySelection(bench string, parts []*bench.DeclaredPart, req Request, dropped []Task) error {
	why := "nothing is left to run"
	if len(dropped) > 0 {
		why = dropReasons(req, dropped)
	}
	var flags []string
	for _, o := range req.Only {
		flags = append(flags, fmt.Sprintf("--only %q", o))
	}
	for _, s := range req.Skips {
		flags = append(flags, fmt.Sprintf("--skip %s=%s", s.Name, s.Text))
	}
	if len(flags) == 0 { // the reasons are enough
		return fmt.Errorf("bench %s: empty selection: %s", bench, why)
	}
	var axes []string
	for _, p := range parts {
		for _, a := range p.Axes {
			axes = append(axes, fmt.Sprintf("%s=%s", a.Name, point.FormatSpec(a.Values)))
		}
	}
	return fmt.Errorf("bench %s: empty selection: %s after %s (axes: %s)",
		bench, why, strings.Join(flags, " "), strings.Join(axes, " "))
}

// dropReasons says why every point was dropped, by the first few reasons.
func dropReasons(req Request, dropped []Task) string {
	var reasons []string
	for _, t := range dropped {
		if !slices.Contains(reasons, t.Reason) {
			reasons = append(reasons, t.Reason)
		}
	}
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
