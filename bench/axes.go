package bench

import (
	"strings"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Unset among the values of [Env] removes the variable from the worker's
// environment. Its NUL byte cannot occur in a real value.
const Unset = "\x00unset"

// Ints declares an axis of whole numbers by a SPEC, such as "1,2,8" or
// "1K:64M:x4", where K = 1000.
func Ints(name, spec string) Clause { return specAxis(name, point.Int, spec) }

// Bytes declares an axis of byte sizes by a SPEC, where K = Ki = 1024.
func Bytes(name, spec string) Clause { return specAxis(name, point.Bytes, spec) }

// Floats declares an axis of real numbers by a SPEC.
func Floats(name, spec string) Clause { return specAxis(name, point.Float, spec) }

// Ranks declares the rank counts that the benchmark is launched with, by a SPEC.
// Without it, a bench has one rank.
func Ranks(spec string) Clause { return specAxis(RanksAxis, point.Int, spec) }

// Strings declares an axis of texts.
func Strings(name string, values ...string) Clause { return textAxis(name, point.String, values) }

// DTypes declares an axis of element types, such as "f32" and "bf16".
func DTypes(name string, values ...string) Clause { return textAxis(name, point.DType, values) }

// AllDTypes are the names of the element types, for a DTypes axis over all.
func AllDTypes() []string {
	return lists.Map(dtype.All(), func(d dtype.DType) string { return d.String() })
}

// Tuples declares an axis of shapes, such as "4096x6144x4096", or with a label
// "qkv=4096x6144x4096".
func Tuples(name string, values ...string) Clause { return textAxis(name, point.Tuple, values) }

// Bools declares an axis of truth values.
func Bools(name string, values ...bool) Clause {
	a := Axis{Name: name, Kind: point.Bool, Values: lists.Map(values, point.BoolValue)}
	return func(d *declaration) { d.part.Axes = append(d.part.Axes, a) }
}

// On gives axes, declared before, other values on one backend, and options other
// defaults: what that backend cannot do is left out of a plain run there.
func On(backend string, clauses ...Clause) Clause {
	return func(d *declaration) {
		if d.part.On == nil {
			d.part.On = map[string][]Axis{}
		}
		if d.bench.OptionsOn == nil {
			d.bench.OptionsOn = map[string][]DeclaredOption{}
		}
		other := d.others(clauses)
		d.part.On[backend] = append(d.part.On[backend], other.part.Axes...)
		d.bench.OptionsOn[backend] = append(d.bench.OptionsOn[backend], other.bench.Options...)
	}
}

// OnlyOn declares axes and options that only some backends have: points of others are without
// them, and naming them there is an error.
func OnlyOn(backends []string, clauses ...Clause) Clause {
	return func(d *declaration) {
		other := d.others(clauses)
		for _, a := range other.part.Axes {
			a.Only = backends
			d.part.Axes = append(d.part.Axes, a)
		}
		for _, o := range other.bench.Options {
			o.Only = backends
			d.bench.Options = append(d.bench.Options, o)
		}
	}
}

// OverHosts gives axes, declared before, other values where the ranks are on several
// hosts. The run says so.
func OverHosts(axes ...Clause) Clause {
	return func(d *declaration) { d.part.OverHosts = append(d.part.OverHosts, d.others(axes).part.Axes...) }
}

// others is what clauses declare that is not the bench's own.
func (d *declaration) others(clauses []Clause) *declaration {
	other := &declaration{bench: &Bench{}, part: &DeclaredPart{}}
	for _, c := range clauses {
		c(other)
	}
	d.bench.errs = append(d.bench.errs, other.bench.errs...)
	return other
}

func specAxis(name string, kind Kind, spec string) Clause {
	return func(d *declaration) {
		values, err := point.ParseSpec(kind, spec)
		if err != nil {
			d.fault("axis %q: %w", name, err)
			return
		}
		d.part.Axes = append(d.part.Axes, Axis{Name: name, Kind: kind, Values: values})
	}
}

func textAxis(name string, kind Kind, texts []string) Clause {
	return func(d *declaration) {
		a := Axis{Name: name, Kind: kind}
		for _, t := range texts {
			v, err := point.Parse(kind, t)
			if err != nil {
				d.fault("axis %q: %w", name, err)
				return
			}
			a.Values = append(a.Values, v)
		}
		d.part.Axes = append(d.part.Axes, a)
	}
}

// Env declares a swept environment variable; [Unset] among the values removes it
// from the worker's environment. Each value needs new processes.
func Env(name string, values ...string) Clause {
	e := EnvAxis{Name: name}
	for _, v := range values {
		e.Values = append(e.Values, EnvVar{Name: name, Value: v, Set: true})
		if v == Unset {
			e.Values[len(e.Values)-1] = EnvVar{Name: name}
		}
	}
	return func(d *declaration) { d.part.Envs = append(d.part.Envs, e) }
}

// Zip makes the axes and environment variables declared inside move together
// instead of being crossed: the first values of all, then the second of all.
func Zip(axes ...Clause) Clause {
	return func(d *declaration) {
		firstAxis, firstEnv := len(d.part.Axes), len(d.part.Envs)
		for _, a := range axes {
			a(d)
		}
		names := lists.Map(d.part.Axes[firstAxis:], func(a Axis) string { return a.Name })
		envs := lists.Map(d.part.Envs[firstEnv:], func(e EnvAxis) string { return e.Name })
		d.part.Zips = append(d.part.Zips, append(names, envs...))
	}
}

// Drop drops the points for which the function returns an error, whose text is the
// recorded reason. It must be pure: the planner calls it, not the workers.
func Drop(where Where) Clause {
	return func(d *declaration) { d.part.Wheres = append(d.part.Wheres, where) }
}

// Refuse refuses a run any point of which is a mistake together with the options, of which
// the backend (BackendName) is one here: the
// error goes to the user as one of usage, and nothing runs. It must be pure, as that
// of [Drop].
func Refuse(mistake func(p, options Point) error) Clause {
	return func(d *declaration) { d.part.Mistakes = append(d.part.Mistakes, mistake) }
}

// Profile declares values that --profile NAME gives to axes, each "axis=SPEC". A
// profile without any names the axes as declared.
func Profile(name string, axes ...string) Clause {
	return func(d *declaration) {
		p := DeclaredProfile{Name: name}
		for _, text := range axes {
			axis, spec, ok := strings.Cut(text, "=")
			if !ok {
				d.fault("profile %s: %q: want axis=SPEC", name, text)
			}
			p.Axes = append(p.Axes, [2]string{axis, spec})
		}
		d.bench.Profiles = append(d.bench.Profiles, p)
	}
}

// Unknown returns the error of a name that is not one of the known ones, with the
// one that was probably meant. A [Drop] that returns it makes the command line
// refuse a value that no point can use, instead of dropping its points.
func Unknown(what, name string, known []string) error { return suggest.Unknown(what, name, known) }
