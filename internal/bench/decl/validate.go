package decl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Validate returns all faults of the declaration together.
func (b *Bench) Validate() error {
	errs := slices.Clone(b.Faults)
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format, args...))
	}
	if !point.ValidName(b.Name) {
		fault("name %q: want letters, digits, _ . -, starting with a letter", b.Name)
	}
	if len(b.Parts) == 0 {
		fault("it has no part")
	}
	options := map[string]bool{}
	for _, o := range b.Options {
		if !point.ValidName(o.Name) {
			fault("option name %q: want letters, digits, _ . -, starting with a letter", o.Name)
		}
		if options[o.Name] {
			fault("duplicate option %q", o.Name)
		}
		options[o.Name] = true
	}
	for backend, others := range b.OptionsOn {
		for _, o := range others {
			if own, has := b.Option(o.Name); !has || own.Kind != o.Kind {
				fault("on backend %s: no option %q of that kind is declared", backend, o.Name)
			}
		}
	}
	parts := map[string]bool{}
	for _, p := range b.Parts {
		if parts[p.Name] {
			fault("duplicate part %q", p.Name)
		}
		parts[p.Name] = true
		for _, err := range p.faults(options) {
			if p.Name != "" {
				err = fmt.Errorf("part %s: %w", p.Name, err)
			}
			errs = append(errs, err)
		}
	}
	if errs = append(errs, b.viewFaults()...); len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("bench %q: %w", b.Name, errors.Join(errs...))
}

// ViewHeader returns a header with the metrics, axes and variables that rows of the bench may have.
func ViewHeader(b *Bench) *journal.Header {
	h := &journal.Header{Bench: b.Name}
	h.Metrics, _ = b.Metrics()
	h.Metrics = append(h.Metrics, journal.MetricInfo{Name: LimitMetric})
	for _, p := range b.Parts {
		h.Metrics = append(h.Metrics, p.Reports...)
		h.Axes = append(h.Axes, lists.Map(p.Axes, func(a Axis) journal.AxisInfo {
			return journal.AxisInfo{Name: a.Name, Kind: a.Kind}
		})...)
		h.Envs = append(h.Envs, lists.Map(p.Envs, func(e EnvAxis) string { return e.Name })...)
	}
	return h
}

// viewFaults checks that the declared views name coordinates and metrics that rows can have.
func (b *Bench) viewFaults() (errs []error) {
	h := ViewHeader(b)
	options := point.Point(lists.Map(b.Options, func(o Option) point.Coord { return point.Coord{Name: o.Name} }))
	for _, p := range b.Plots {
		errs = append(errs, p.Check(h, options), p.CheckMetric(h, options, h.Metrics))
	}
	for _, p := range b.Pivots {
		errs = append(errs, p.Check(h, options), p.CheckMetric(h, options, h.Metrics))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// faults returns all mistakes in the declaration of a part. options holds the names of the bench's
// options, which axes and variables must not reuse.
func (p *Part) faults(options map[string]bool) (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if (p.Body == nil) == (p.Command == nil) {
		fault("it needs either a body or a command")
	}
	seen := map[string]string{}
	declare := func(what, name string) {
		if old, clash := seen[name]; clash {
			fault("%s %q clashes with the %s of that name", what, name, old)
		}
		if options[name] {
			fault("%s %q clashes with the option of that name", what, name)
		}
		seen[name] = what
	}
	for _, a := range p.Axes {
		if !point.ValidName(a.Name) || a.Name == BackendName {
			fault("axis name %q: want letters, digits, _ . -, starting with a letter, and not %q", a.Name, BackendName)
		}
		declare("axis", a.Name)
		if len(a.Values) == 0 {
			fault("axis %q has no values", a.Name)
		}
		if a.Name == RanksAxis {
			for _, v := range a.Values {
				if v.Int() < 1 {
					fault("axis %s: %v: a launch needs at least one rank", RanksAxis, v)
				}
			}
		}
		if dup, has := firstDuplicate(a.Values); has {
			fault("axis %q: duplicate value %v", a.Name, dup)
		}
	}
	for _, e := range p.Envs {
		if !point.ValidEnvName(e.Name) {
			fault("environment variable %q: want letters, digits and _, not starting with a digit", e.Name)
		}
		declare("environment variable", e.Name)
		if len(e.Values) == 0 {
			fault("environment variable %q has no values", e.Name)
		}
		if dup, has := firstDuplicate(e.Values); has {
			fault("environment variable %q: duplicate value %s", e.Name, dup.Text())
		}
	}
	for _, m := range p.Metrics {
		if named := unit.Contradiction(m.Name, m.Unit); named != "" {
			fault("metric %s: the name says %s and the unit %s: name it after its unit", m.Name, named, m.Unit)
		}
	}
	others := func(where string, axes []Axis) {
		for _, a := range axes {
			if own, has := p.Axis(a.Name); !has || own.Kind != a.Kind || len(a.Values) == 0 {
				fault("%s: no axis %q of that kind is declared before", where, a.Name)
			}
		}
	}
	for backend, axes := range p.On {
		others("on backend "+backend, axes)
	}
	others("over hosts", p.OverHosts)
	errs = append(errs, p.zipFaults(seen)...)
	return errs
}

// zipFaults checks that zipped names exist, are zipped only once and have equally many values.
func (p *Part) zipFaults(known map[string]string) (errs []error) {
	zipped := map[string]bool{}
	for _, z := range p.Zips {
		if len(z) < 2 {
			errs = append(errs, fmt.Errorf("zip of %s: want at least two names", strings.Join(z, ",")))
			continue
		}
		first := -1
		for _, name := range z {
			if _, ok := known[name]; !ok {
				errs = append(errs, fmt.Errorf("zip names %q, which is neither an axis nor an environment variable",
					name))
				continue
			}
			if zipped[name] {
				errs = append(errs, fmt.Errorf("zip: duplicate name %q", name))
			}
			zipped[name] = true
			n := p.valueCount(name)
			if first < 0 {
				first = n
			} else if n != first {
				errs = append(errs, fmt.Errorf("zip of %s: %q has %d values, %q has %d: want equally many",
					strings.Join(z, ","), z[0], first, name, n))
			}
		}
	}
	return errs
}

func (p *Part) valueCount(name string) int {
	for _, a := range p.Axes {
		if a.Name == name {
			return len(a.Values)
		}
	}
	for _, e := range p.Envs {
		if e.Name == name {
			return len(e.Values)
		}
	}
	return 0
}

func firstDuplicate[T comparable](values []T) (dup T, has bool) {
	seen := make(map[T]bool, len(values))
	for _, v := range values {
		if seen[v] {
			return v, true
		}
		seen[v] = true
	}
	return dup, false
}
