package plan

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// override applies the request to copies of the bench's parts; the declaration
// itself is never changed.
func override(b *bench.Bench, req Request) ([]*bench.DeclaredPart, error) {
	var errs []error
	fault := func(err error) { errs = append(errs, err) }

	parts := make([]*bench.DeclaredPart, len(b.Parts))
	for i, p := range b.Parts {
		c := *p
		c.Axes, c.Envs, c.Zips = slices.Clone(p.Axes), slices.Clone(p.Envs), slices.Clone(p.Zips)
		c.Measure = withDefaults(p.Measure)
		if _, has := c.Axis(bench.RanksAxis); !has && (c.Command == nil || !c.Command.OwnRanks) {
			one := bench.Axis{Name: bench.RanksAxis, Kind: point.Int, Values: []point.Value{point.IntValue(1)}}
			c.Axes = append([]bench.Axis{one}, c.Axes...)
		}
		for _, a := range c.On[req.Backend] {
			at := slices.IndexFunc(c.Axes, func(x bench.Axis) bool { return x.Name == a.Name })
			c.Axes[at].Values = a.Values
		}
		parts[i] = &c
	}
	if w := req.World; w != nil && !dist.ShapeOf(req.Backend).InProcess {
		settle(parts, w.Ranks)
	}
	for _, a := range req.Axes {
		found := false
		for _, p := range parts {
			for i := range p.Axes {
				if p.Axes[i].Name != a.Name {
					continue
				}
				found = true
				values, err := point.ParseSpec(p.Axes[i].Kind, a.Text)
				if err != nil {
					fault(fmt.Errorf("axis %s: %w", a.Name, err))
					break
				}
				p.Axes[i].Values = dedupe(values)
			}
		}
		switch {
		case found:
		case a.Name == bench.RanksAxis:
			fault(fmt.Errorf("%s: the program of %s starts its own ranks, so kernbench cannot set their number", a.Name, b.Name))
		default:
			fault(suggest.Unknown("axis", a.Name, axisNames(parts)))
		}
	}
	for _, e := range req.Envs {
		values, err := point.ParseEnvSpec(e.Name, e.Text)
		if err != nil {
			fault(fmt.Errorf("environment variable %s: %w", e.Name, err))
			continue
		}
		for _, p := range parts {
			i := slices.IndexFunc(p.Envs, func(x bench.EnvAxis) bool { return x.Name == e.Name })
			if i < 0 {
				p.Envs = append(p.Envs, bench.EnvAxis{Name: e.Name})
				i = len(p.Envs) - 1
			}
			p.Envs[i].Values = dedupe(values)
		}
	}
	for _, z := range req.Zips {
		used := false
		for _, p := range parts {
			if slices.ContainsFunc(z, func(n string) bool { return hasName(p, n) }) {
				p.Zips = append(p.Zips, z)
				used = true
			}
		}
		if !used {
			fault(suggest.Unknown("name in --zip", z[0], append(axisNames(parts), envNames(parts)...)))
		}
	}
	for _, s := range req.Skips {
		if !slices.ContainsFunc(parts, func(p *bench.DeclaredPart) bool { return hasName(p, s.Name) }) {
			fault(suggest.Unknown("axis in --skip", s.Name, append(axisNames(parts), envNames(parts)...)))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	// The overridden declaration must be as sound as a written one: clashes,
	// unequal zips and values that occur twice are found by the same rules.
	check := *b
	check.Parts = parts
	return parts, check.Validate()
}

// settle gives the parts the number of ranks that there is, unless they want it
// anyway, among others.
func settle(parts []*bench.DeclaredPart, ranks int) {
	there := point.IntValue(int64(ranks))
	for _, p := range parts {
		for i, a := range p.Axes {
			zipped := slices.ContainsFunc(p.Zips, func(z []string) bool { return slices.Contains(z, a.Name) })
			if a.Name == bench.RanksAxis && !slices.Contains(a.Values, there) && !zipped {
				p.Axes[i].Values = []point.Value{there}
			}
		}
	}
}

// withDefaults fills what a declaration left open.
func withDefaults(c measure.Config) measure.Config {
	d := measure.Default()
	if c.Cadence == "" {
		c.Cadence = d.Cadence
	}
	if c.Cache == "" {
		c.Cache = d.Cache
	}
	if c.Stop == (measure.Stop{}) {
		c.Stop = d.Stop
	}
	if c.Warmup == (measure.Warmup{}) {
		c.Warmup = d.Warmup
	}
	return c
}

func options(b *bench.Bench, given []Assign) (point.Point, error) {
	var out point.Point
	for _, o := range b.Options {
		out = append(out, point.Coord{Name: o.Name, Value: o.Default})
	}
	var errs []error
	for _, a := range given {
		o, ok := b.Option(a.Name)
		if !ok {
			var names []string
			for _, o := range b.Options {
				names = append(names, o.Name)
			}
			errs = append(errs, suggest.Unknown("option", a.Name, names))
			continue
		}
		v, err := point.Parse(o.Kind, a.Text)
		if err != nil {
			errs = append(errs, fmt.Errorf("option %s: %w", a.Name, err))
			continue
		}
		if len(o.Choices) > 0 && !slices.Contains(o.Choices, v.String()) {
			errs = append(errs, fmt.Errorf("option %s: %w", a.Name, suggest.Unknown("choice", v.String(), o.Choices)))
			continue
		}
		if o.Above0 && !(v.Float() > 0) {
			errs = append(errs, fmt.Errorf("option %s: %s: want a number above 0", a.Name, a.Text))
			continue
		}
		out = out.With(a.Name, v)
	}
	return out, errors.Join(errs...)
}

// skips holds, by name, the texts of the values to leave out.
type skips map[string]map[string]bool

func skipSets(part *bench.DeclaredPart, given []Assign) (skips, error) {
	out := skips{}
	for _, s := range given {
		var want, have []string
		if axis, ok := part.Axis(s.Name); ok {
			values, err := point.ParseSpec(axis.Kind, s.Text)
			if err != nil {
				return nil, fmt.Errorf("--skip %s: %w", s.Name, err)
			}
			for _, v := range values {
				want = append(want, v.String())
			}
			for _, v := range axis.Values {
				have = append(have, v.String())
			}
		} else if i := slices.IndexFunc(part.Envs, func(e bench.EnvAxis) bool { return e.Name == s.Name }); i >= 0 {
			values, err := point.ParseEnvSpec(s.Name, s.Text)
			if err != nil {
				return nil, fmt.Errorf("--skip %s: %w", s.Name, err)
			}
			for _, v := range values {
				want = append(want, v.Text())
			}
			for _, v := range part.Envs[i].Values {
				have = append(have, v.Text())
			}
		} else {
			continue // the axis belongs to another part
		}
		if !slices.ContainsFunc(want, func(w string) bool { return slices.Contains(have, w) }) {
			return nil, fmt.Errorf("--skip %s=%s drops nothing: the values are %s", s.Name, s.Text, strings.Join(have, ","))
		}
		if out[s.Name] == nil {
			out[s.Name] = map[string]bool{}
		}
		for _, w := range want {
			out[s.Name][w] = true
		}
	}
	return out, nil
}

func (s skips) has(t Task) bool {
	if len(s) == 0 {
		return false
	}
	for _, c := range t.Point {
		if s[c.Name][c.Value.String()] {
			return true
		}
	}
	for _, e := range t.Env {
		if s[e.Name][e.Text()] {
			return true
		}
	}
	return s[bench.RanksAxis][fmt.Sprint(t.Ranks)]
}

func hasName(p *bench.DeclaredPart, name string) bool {
	if _, ok := p.Axis(name); ok {
		return true
	}
	return slices.ContainsFunc(p.Envs, func(e bench.EnvAxis) bool { return e.Name == name })
}

func axisNames(parts []*bench.DeclaredPart) []string {
	return collect(parts, func(p *bench.DeclaredPart) (names []string) {
		for _, a := range p.Axes {
			names = append(names, a.Name)
		}
		return names
	})
}

func envNames(parts []*bench.DeclaredPart) []string {
	return collect(parts, func(p *bench.DeclaredPart) (names []string) {
		for _, e := range p.Envs {
			names = append(names, e.Name)
		}
		return names
	})
}

func collect(parts []*bench.DeclaredPart, names func(*bench.DeclaredPart) []string) []string {
	var out []string
	for _, p := range parts {
		out = append(out, names(p)...)
	}
	sort.Strings(out)
	return slices.Compact(out)
}

// dedupe keeps the first of equal values, so that 1,2,4:8:x2,8 is no error.
func dedupe[T comparable](values []T) []T {
	seen := make(map[T]bool, len(values))
	out := values[:0:0]
	for _, v := range values {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}
