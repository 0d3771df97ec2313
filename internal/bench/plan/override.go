package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	process "github.com/kernbench/kernbench/internal/process/launch"
)

// override applies the request to copies of the bench's parts. The declaration itself is never
// changed. All mistakes in the request are reported together.
func (p *Plan) override(req Request) ([]*decl.Part, error) {
	b := p.Bench
	parts := make([]*decl.Part, len(b.Parts))
	for i, part := range b.Parts {
		parts[i] = completePart(part, req)
		parts[i].Axes = append(slices.Clip(p.resolved.axes), parts[i].Axes...)
	}
	p.setMachineRanks(parts, req)
	if w := req.World; w != nil && !dist.Describe(req.Backend).InProcess {
		setRanks(parts, w.Ranks)
	}
	errs := lists.Map(req.Axes, func(a Assign) error { return overrideAxis(b, parts, a, req.Backend) })
	for _, e := range req.Envs {
		// A name that differs from a declared one by one letter is taken for a typing mistake. Other
		// undeclared variables are set.
		if near := suggest.Typo(e.Name, envNames(b.Parts)); near != "" && slices.Contains(undeclared(b, req), e.Name) {
			errs = append(errs, suggest.Unknown("environment variable", e.Name, envNames(b.Parts)))
			continue
		}
		errs = append(errs, overrideEnv(parts, e))
	}
	for _, z := range req.Zips {
		errs = append(errs, addZip(parts, z))
	}
	for _, s := range req.Skips {
		if !slices.ContainsFunc(parts, func(p *decl.Part) bool { return hasName(p, s.Name) }) {
			errs = append(errs, suggest.Unknown("axis in --skip", s.Name, names(parts)))
		}
	}
	errs = append(errs, req.Sampling.applyTo(b.Name, parts))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	// Validate the overridden declaration like a written one, to find clashes, unequal zips and
	// duplicate values.
	check := *b
	check.Parts, check.OptionsOn = parts, nil // option values are resolved already
	// The views are checked already. They may name axes that this backend lacks.
	check.Plots, check.Pivots = nil, nil
	check.Options = slices.DeleteFunc(slices.Clone(b.Options), func(o decl.Option) bool {
		return slices.ContainsFunc(p.resolved.axes, func(a decl.Axis) bool { return a.Name == o.Name })
	})
	return parts, errors.Join(check.Validate(), reservedVars(parts))
}

// reservedVars returns an error for swept variables that kernbench itself sets for every rank. A program
// that starts its own ranks may sweep them, because kernbench does not set them for it.
func reservedVars(parts []*decl.Part) error {
	var errs []error
	for _, p := range parts {
		for _, e := range p.Envs {
			if process.IsReserved(e.Name) && (p.Command == nil || !p.Command.OwnRanks) {
				errs = append(errs, fmt.Errorf("environment variable %s cannot be swept: kernbench sets it for every rank "+
					"(--ranks sets the number of ranks)", e.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// completePart returns a copy of a part with defaults filled in and with the axis values for the
// backend and the hosts of the request.
func completePart(p *decl.Part, req Request) *decl.Part {
	c := *p
	c.Axes, c.Envs, c.Zips = slices.Clone(p.Axes), slices.Clone(p.Envs), slices.Clone(p.Zips)
	c.Measure = withDefaults(p.Measure)
	if _, has := c.Axis(bench.RanksAxis); !has && (c.Command == nil || !c.Command.OwnRanks) {
		one := decl.Axis{Name: bench.RanksAxis, Kind: point.Int, Values: []point.Value{point.IntValue(1)}}
		c.Axes = append([]decl.Axis{one}, c.Axes...)
	}
	c.Axes = slices.DeleteFunc(c.Axes, func(a decl.Axis) bool { return !appliesTo(a.Only, req.Backend) })
	others := c.On[req.Backend]
	if req.overHosts() {
		others = slices.Concat(others, c.OverHosts)
	}
	for _, a := range others {
		at := slices.IndexFunc(c.Axes, func(x decl.Axis) bool { return x.Name == a.Name })
		c.Axes[at].Values = a.Values
	}
	return &c
}

// appliesTo reports whether an axis or option that exists only on some backends exists on this
// one. An empty list means all backends.
func appliesTo(only []string, backend string) bool {
	return len(only) == 0 || slices.Contains(only, backend)
}

// otherBackendError is the error for an axis or option that exists only on other backends.
func otherBackendError(what, name string, only []string, backend string) error {
	return fmt.Errorf("--%s is %s of backend %s, not of %s", name, what, strings.Join(only, ", "), backend)
}

// overHosts reports whether the ranks are processes on several hosts.
func (r Request) overHosts() bool { return r.Hosts != "" && !dist.Describe(r.Backend).InProcess }

// checkOneHost returns an error if the ranks are on several hosts but the bench needs one host.
func checkOneHost(b *bench.Bench, req Request) error {
	if b.OneHost == "" || !req.overHosts() || dist.Describe(req.Backend).Launcher != nil {
		return nil
	}
	return fmt.Errorf("bench %s on backend %s: its ranks must be on one host: %s; %s", b.Name, req.Backend, b.OneHost,
		req.Hosts)
}

// hostNotes lists the axis values that were chosen because the ranks are on several hosts.
func hostNotes(b *bench.Bench, req Request) (notes []string) {
	if !req.overHosts() {
		return nil
	}
	for _, p := range b.Parts {
		for _, a := range p.OverHosts {
			note := fmt.Sprintf("%s=%s, because %s", a.Name, point.FormatSpec(a.Values), req.Hosts)
			given := slices.ContainsFunc(req.Axes, func(x Assign) bool { return x.Name == a.Name })
			if !given && !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// overrideAxis sets the values of an axis in every part that has it. The kind of the axis decides
// how the text is parsed.
func overrideAxis(b *bench.Bench, parts []*decl.Part, a Assign, backend string) error {
	found := false
	for _, p := range parts {
		i := slices.IndexFunc(p.Axes, func(x decl.Axis) bool { return x.Name == a.Name })
		if i < 0 {
			continue
		}
		found = true
		values, err := p.Axes[i].Parse(a.Text)
		if err != nil {
			return fmt.Errorf("axis %s: %w", a.Name, err)
		}
		p.Axes[i].Values = lists.Distinct(values) // ranges may overlap: 1,2,4:8:x2,8
	}
	switch {
	case found:
		return nil
	case a.Name == bench.RanksAxis:
		return fmt.Errorf("%s: the program of %s starts its own ranks, so kernbench cannot set their number",
			a.Name, b.Name)
	}
	for _, p := range b.Parts {
		if x, declared := p.Axis(a.Name); declared {
			return otherBackendError("an axis", a.Name, x.Only, backend)
		}
	}
	return suggest.Unknown("axis", a.Name, axisNames(parts))
}

// undeclared returns the requested variables that the bench does not declare. They are set, but
// nothing shows whether the bench reads them.
func undeclared(b *bench.Bench, req Request) []string {
	declared := envNames(b.Parts)
	asked := lists.Map(req.Envs, func(e Assign) string { return e.Name })
	return lists.Filter(asked, func(name string) bool { return !slices.Contains(declared, name) })
}

// overrideEnv sets the values of a variable, declared or not.
func overrideEnv(parts []*decl.Part, e Assign) error {
	values, err := point.ParseEnvSpec(e.Name, e.Text)
	if err != nil {
		return fmt.Errorf("environment variable %s: %w", e.Name, err)
	}
	for _, p := range parts {
		i := slices.IndexFunc(p.Envs, func(x decl.EnvAxis) bool { return x.Name == e.Name })
		if i < 0 {
			p.Envs = append(p.Envs, decl.EnvAxis{Name: e.Name})
			i = len(p.Envs) - 1
		}
		p.Envs[i].Values = lists.Distinct(values)
	}
	return nil
}

// addZip adds a zip to the parts that have any of its names.
func addZip(parts []*decl.Part, zip []string) error {
	used := false
	for _, p := range parts {
		if slices.ContainsFunc(zip, func(n string) bool { return hasName(p, n) }) {
			p.Zips = append(p.Zips, zip)
			used = true
		}
	}
	if !used {
		return suggest.Unknown("name in --zip", zip[0], names(parts))
	}
	return nil
}

// setRanks sets num_ranks of the parts to the number of ranks that the job has. It keeps zipped axes, whose length must
// not change.
func setRanks(parts []*decl.Part, ranks int) {
	for _, p := range parts {
		for i, a := range p.Axes {
			zipped := slices.ContainsFunc(p.Zips, func(z []string) bool { return slices.Contains(z, a.Name) })
			if a.Name == bench.RanksAxis && !zipped {
				p.Axes[i].Values = []point.Value{point.IntValue(int64(ranks))}
			}
		}
	}
}

// withDefaults fills in the fields that a declaration leaves at zero.
func withDefaults(c measure.Config) measure.Config {
	d := measure.Default()
	c.Cadence = cmp.Or(c.Cadence, d.Cadence)
	c.Cache = cmp.Or(c.Cache, d.Cache)
	c.Stop = cmp.Or(c.Stop, d.Stop)
	c.Warmup = cmp.Or(c.Warmup, d.Warmup)
	return c
}

// skips holds the texts of the values that --skip leaves out, by axis or variable.
type skips map[string]map[string]bool

// skipSets parses --skip for one part. It is an error if a skip matches none of the part's values.
func skipSets(part *decl.Part, given []Assign) (skips, error) {
	out := skips{}
	for _, s := range given {
		var want, have []string
		if axis, ok := part.Axis(s.Name); ok {
			values, err := axis.Parse(s.Text)
			if err != nil {
				return nil, fmt.Errorf("--skip %s: %w", s.Name, err)
			}
			want, have = lists.Map(values, point.Value.String), lists.Map(axis.Values, point.Value.String)
		} else if i := slices.IndexFunc(part.Envs, func(e decl.EnvAxis) bool { return e.Name == s.Name }); i >= 0 {
			values, err := point.ParseEnvSpec(s.Name, s.Text)
			if err != nil {
				return nil, fmt.Errorf("--skip %s: %w", s.Name, err)
			}
			want, have = lists.Map(values, point.EnvVar.Text), lists.Map(part.Envs[i].Values, point.EnvVar.Text)
		} else {
			continue // the axis belongs to another part
		}
		if !slices.ContainsFunc(want, func(w string) bool { return slices.Contains(have, w) }) {
			return nil, fmt.Errorf("--skip %s=%s drops nothing: the values are %s",
				s.Name, s.Text, strings.Join(have, ","))
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

func hasName(p *decl.Part, name string) bool {
	if _, ok := p.Axis(name); ok {
		return true
	}
	return slices.ContainsFunc(p.Envs, func(e decl.EnvAxis) bool { return e.Name == name })
}

// names returns the names of all axes and environment variables.
func names(parts []*decl.Part) []string {
	return slices.Concat(axisNames(parts), envNames(parts))
}

func axisNames(parts []*decl.Part) (names []string) {
	for _, p := range parts {
		names = append(names, lists.Map(p.Axes, func(a decl.Axis) string { return a.Name })...)
	}
	return names
}

func envNames(parts []*decl.Part) (names []string) {
	for _, p := range parts {
		names = append(names, lists.Map(p.Envs, func(e decl.EnvAxis) string { return e.Name })...)
	}
	return names
}
