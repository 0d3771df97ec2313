package bench

import (
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// Unset among the values of [Env] removes the variable from the worker's environment. Its NUL
// byte cannot occur in a real value.
const Unset = "\x00unset"

// Ints declares an axis of whole numbers by a SPEC, such as "1,2,8" or "1K:64M:x4", where
// K = 1000.
func Ints(name, spec string) Clause { return specAxis(name, point.Int, spec) }

// Bytes declares an axis of byte sizes by a SPEC, where K = Ki = 1024.
func Bytes(name, spec string) Clause { return specAxis(name, point.Bytes, spec) }

// Floats declares an axis of real numbers by a SPEC.
func Floats(name, spec string) Clause { return specAxis(name, point.Float, spec) }

// Ranks declares the rank counts of the launches by a SPEC. Without it, a bench has one rank.
func Ranks(spec string) Clause { return specAxis(RanksAxis, point.Int, spec) }

// Strings declares an axis of texts.
func Strings(name string, values ...string) Clause { return textAxis(name, point.String, values) }

// DTypes declares an axis of element types, such as "f32" and "bf16".
func DTypes(name string, values ...string) Clause { return textAxis(name, point.DType, values) }

// Tuples declares an axis of shapes, such as "4096x6144x4096", optionally with a label:
// "qkv=4096x6144x4096".
func Tuples(name string, values ...string) Clause { return textAxis(name, point.Tuple, values) }

// Bools declares an axis of truth values.
func Bools(name string, values ...bool) Clause {
	return axis(name, point.Bool, lists.Map(values, point.BoolValue), nil)
}

// On gives previously declared axes other values, and options other defaults, on one backend.
// Use it to leave out values that the backend does not support.
func On(backend string, clauses ...Clause) Clause {
	return func(d *decl.Declaration) {
		if d.Part.On == nil {
			d.Part.On = map[string][]decl.Axis{}
		}
		if d.Bench.OptionsOn == nil {
			d.Bench.OptionsOn = map[string][]decl.Option{}
		}
		other := evaluate(d, clauses)
		d.Part.On[backend] = append(d.Part.On[backend], other.Part.Axes...)
		d.Bench.OptionsOn[backend] = append(d.Bench.OptionsOn[backend], other.Bench.Options...)
	}
}

// OnlyOn declares axes and options that exist only on some backends. On other backends, points
// do not have them and naming them is an error.
func OnlyOn(backends []string, clauses ...Clause) Clause {
	return func(d *decl.Declaration) {
		other := evaluate(d, clauses)
		for _, a := range other.Part.Axes {
			a.Only = backends
			d.Part.Axes = append(d.Part.Axes, a)
		}
		for _, o := range other.Bench.Options {
			o.Only = backends
			d.Bench.Options = append(d.Bench.Options, o)
		}
	}
}

// OverHosts gives previously declared axes other values when the ranks are on several hosts.
// The run prints a note about it.
func OverHosts(axes ...Clause) Clause {
	return func(d *decl.Declaration) { d.Part.OverHosts = append(d.Part.OverHosts, evaluate(d, axes).Part.Axes...) }
}

// evaluate applies clauses to a new, empty declaration, so that the caller can place the results.
// Mistakes are added to the faults of d.
func evaluate(d *decl.Declaration, clauses []Clause) *decl.Declaration {
	other := &decl.Declaration{Bench: &Bench{}, Part: &decl.Part{}}
	for _, c := range clauses {
		c(other)
	}
	d.Bench.Faults = append(d.Bench.Faults, other.Bench.Faults...)
	return other
}

func specAxis(name string, kind Kind, spec string) Clause {
	values, err := point.ParseSpec(kind, spec)
	return axis(name, kind, values, err)
}

func textAxis(name string, kind Kind, texts []string) Clause {
	values, err := lists.TryMap(texts, func(text string) (Value, error) { return point.Parse(kind, text) })
	return axis(name, kind, values, err)
}

// axis adds an axis to the part, or the error of its values to the faults.
func axis(name string, kind Kind, values []Value, err error) Clause {
	return func(d *decl.Declaration) {
		if err != nil {
			fault(d.Bench, "axis %q: %w", name, err)
			return
		}
		d.Part.Axes = append(d.Part.Axes, decl.Axis{Name: name, Kind: kind, Values: values})
	}
}

// Env declares a swept environment variable. [Unset] among the values removes it from the
// worker's environment. Each value needs new processes.
func Env(name string, values ...string) Clause {
	e := decl.EnvAxis{Name: name}
	for _, v := range values {
		if v == Unset {
			e.Values = append(e.Values, point.EnvVar{Name: name})
		} else {
			e.Values = append(e.Values, point.EnvVar{Name: name, Value: v, Set: true})
		}
	}
	return func(d *decl.Declaration) { d.Part.Envs = append(d.Part.Envs, e) }
}

// Zip makes the axes and environment variables declared inside vary together instead of being
// crossed: the first value of each, then the second of each, and so on.
func Zip(axes ...Clause) Clause {
	return func(d *decl.Declaration) {
		firstAxis, firstEnv := len(d.Part.Axes), len(d.Part.Envs)
		for _, a := range axes {
			a(d)
		}
		names := lists.Map(d.Part.Axes[firstAxis:], func(a decl.Axis) string { return a.Name })
		envs := lists.Map(d.Part.Envs[firstEnv:], func(e decl.EnvAxis) string { return e.Name })
		d.Part.Zips = append(d.Part.Zips, append(names, envs...))
	}
}

// Drop removes the points for which the function returns an error. The error's text is recorded
// as the reason. The point includes the number of ranks and the backend ([BackendName]). The
// function must be pure: the planner calls it, not the workers.
func Drop(reason func(p Point) error) Clause {
	return func(d *decl.Declaration) { d.Part.Drops = append(d.Part.Drops, reason) }
}

// Refuse rejects the whole run if the function returns an error for any point together with the
// options. The error is reported as a usage error before anything starts. The options include
// the backend ([BackendName]). The function must be pure.
func Refuse(fault func(p, options Point) error) Clause {
	return func(d *decl.Declaration) { d.Part.Refusals = append(d.Part.Refusals, fault) }
}

// Profile declares the axis values that --profile NAME selects, each as "axis=SPEC". "only=EXPR"
// selects points as --only does, and "trials=N" sets the number of trials. A profile without values
// keeps the axes as declared.
func Profile(name string, axes ...string) Clause {
	return func(d *decl.Declaration) {
		p := decl.Profile{Name: name}
		for _, text := range axes {
			axis, spec, ok := strings.Cut(text, "=")
			if !ok {
				fault(d.Bench, "profile %s: %q: want axis=SPEC", name, text)
			}
			p.Axes = append(p.Axes, [2]string{axis, spec})
		}
		d.Bench.Profiles = append(d.Bench.Profiles, p)
	}
}

// Unknown returns the error for a name that is not one of the known names, with the most
// similar one as a suggestion. If a [Drop] returns it, a value for which all points are dropped
// becomes a usage error.
func Unknown(what, name string, known []string) error { return suggest.Unknown(what, name, known) }
