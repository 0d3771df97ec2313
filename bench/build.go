package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Unset is the environment value that means: remove the variable. The NUL byte
// cannot occur in a real value.
const Unset = "\x00unset"

// Item is one clause of a declaration: an axis, an option, a limit.
type Item func(d *declaration)

// declaration is what the items build up: a bench, and the part that axes and
// body belong to.
type declaration struct {
	bench *Bench
	part  *DeclaredPart
}

func (d *declaration) fault(format string, args ...any) {
	d.bench.errs = append(d.bench.errs, fmt.Errorf(format, args...))
}

// New declares a plain benchmark: one body over the product of its axes.
// Faults are reported by Validate, which every command calls first.
func New(name string, body Body, items ...Item) *Bench {
	b := &Bench{Name: name}
	Part("", body, items...)(&declaration{bench: b})
	return b
}

// Suite declares an evaluation: several parts, and the figures and sections
// drawn from all their rows.
func Suite(name string, items ...Item) *Bench {
	b := &Bench{Name: name}
	d := &declaration{bench: b, part: &DeclaredPart{}}
	for _, it := range items {
		it(d)
	}
	if len(d.part.Axes)+len(d.part.Envs) > 0 {
		d.fault("a suite has no axes of its own: declare them in its parts")
	}
	return b
}

// Part adds a named part to a suite.
func Part(name string, body Body, items ...Item) Item {
	return func(d *declaration) {
		p := &DeclaredPart{Name: name, Body: body}
		inner := &declaration{bench: d.bench, part: p}
		for _, it := range items {
			it(inner)
		}
		d.bench.Parts = append(d.bench.Parts, p)
	}
}

// Ints, Bytes and Floats declare a numeric axis by a SPEC: "1,2,8",
// "1K:64M:x4", "0:64:+8", "pow2:8:13".
func Ints(name, spec string) Item { return specAxis(name, point.Int, spec) }

// Bytes declares an axis of byte sizes, where K = Ki = 1024.
func Bytes(name, spec string) Item { return specAxis(name, point.Bytes, spec) }

// Floats declares an axis of real numbers.
func Floats(name, spec string) Item { return specAxis(name, point.Float, spec) }

// Ranks declares the rank counts the benchmark is launched with.
func Ranks(spec string) Item { return specAxis(RanksAxis, point.Int, spec) }

// Strings declares an axis of texts.
func Strings(name string, values ...string) Item { return textAxis(name, point.String, values) }

// DTypes declares an axis of element types: "f32", "bf16".
func DTypes(name string, values ...string) Item { return textAxis(name, point.DType, values) }

// Tuples declares an axis of shapes: "4096x6144x4096" or "qkv=4096x6144x4096".
func Tuples(name string, values ...string) Item { return textAxis(name, point.Tuple, values) }

// Bools declares an axis of truth values.
func Bools(name string, values ...bool) Item {
	a := DeclaredAxis{Name: name, Kind: point.Bool}
	for _, v := range values {
		a.Values = append(a.Values, point.BoolValue(v))
	}
	return func(d *declaration) { d.part.Axes = append(d.part.Axes, a) }
}

// On gives axes, declared before, other values on one backend: what it cannot do
// is left out of a plain run there.
func On(backend string, items ...Item) Item {
	return func(d *declaration) {
		other := &declaration{bench: d.bench, part: &DeclaredPart{}}
		for _, it := range items {
			it(other)
		}
		if d.part.On == nil {
			d.part.On = map[string][]DeclaredAxis{}
		}
		d.part.On[backend] = append(d.part.On[backend], other.part.Axes...)
	}
}

func specAxis(name string, kind point.Kind, spec string) Item {
	return func(d *declaration) {
		values, err := point.ParseSpec(kind, spec)
		if err != nil {
			d.fault("axis %q: %w", name, err)
			return
		}
		d.part.Axes = append(d.part.Axes, DeclaredAxis{name, kind, values})
	}
}

func textAxis(name string, kind point.Kind, texts []string) Item {
	return func(d *declaration) {
		a := DeclaredAxis{Name: name, Kind: kind}
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

// Env declares a swept environment variable; Unset among the values removes
// it from the worker's environment.
func Env(name string, values ...string) Item {
	e := EnvAxis{Name: name}
	for _, v := range values {
		e.Values = append(e.Values, point.EnvVar{Name: name, Value: v, Set: true})
		if v == Unset {
			e.Values[len(e.Values)-1] = point.EnvVar{Name: name}
		}
	}
	return func(d *declaration) { d.part.Envs = append(d.part.Envs, e) }
}

// Zip makes the axes and environment variables declared inside move together
// instead of being crossed.
func Zip(items ...Item) Item {
	return func(d *declaration) {
		axes, envs := len(d.part.Axes), len(d.part.Envs)
		for _, it := range items {
			it(d)
		}
		var names []string
		for _, a := range d.part.Axes[axes:] {
			names = append(names, a.Name)
		}
		for _, e := range d.part.Envs[envs:] {
			names = append(names, e.Name)
		}
		d.part.Zips = append(d.part.Zips, names)
	}
}

// Drop keeps a point only while the function returns nil; its error is the
// recorded reason. It must be pure: the planner calls it, not the workers.
func Drop(where Where) Item {
	return func(d *declaration) { d.part.Wheres = append(d.part.Wheres, where) }
}

// Profile declares a preset: `--profile name` gives the axes these values, each
// "axis=SPEC". The profile without any is the name of the axes as declared.
func Profile(name string, axes ...string) Item {
	return func(d *declaration) {
		p := Preset{Name: name}
		for _, text := range axes {
			axis, spec, ok := strings.Cut(text, "=")
			if !ok {
				d.fault("profile %s: %q: want axis=SPEC", name, text)
			}
			p.Axes = append(p.Axes, [2]string{axis, spec})
		}
		d.bench.Presets = append(d.bench.Presets, p)
	}
}

// Option declares an option by kind and default text.
func Option(name string, kind point.Kind, def, help string) Item {
	return func(d *declaration) {
		v, err := point.Parse(kind, def)
		if err != nil {
			d.fault("option %q: default: %w", name, err)
			return
		}
		d.bench.Options = append(d.bench.Options, DeclaredOption{Name: name, Kind: kind, Default: v, Help: help})
	}
}

// SecondsOption is the name of the option that Seconds declares.
const SecondsOption = "seconds"

// Seconds declares the option by which a user bounds the sampling of a point; the
// body gives it to State.SampleAtMost.
func Seconds(def, help string) Item {
	return func(d *declaration) {
		Option(SecondsOption, point.Float, def, help)(d)
		if n := len(d.bench.Options); n > 0 {
			d.bench.Options[n-1].Above0 = true
		}
	}
}

// Choice declares an option that takes one of the given texts, the first by
// default.
func Choice(name, help string, choices ...string) Item {
	return func(d *declaration) {
		if len(choices) == 0 {
			d.fault("option %q: no choices", name)
			return
		}
		d.bench.Options = append(d.bench.Options, DeclaredOption{Name: name, Kind: point.String,
			Default: point.StringValue(choices[0]), Help: help, Choices: choices})
	}
}

// FileOption declares an option that names a file. The row records the file's
// SHA-256, so a changed file is a different point.
func FileOption(name, def, help string) Item {
	return func(d *declaration) {
		d.bench.Options = append(d.bench.Options, DeclaredOption{Name: name, Kind: point.String,
			Default: point.StringValue(def), Help: help, File: true})
	}
}

// Metric declares the unit of a metric and which direction is better ("lower",
// "higher" or ""). Metrics the harness makes itself need no declaration.
func Metric(name, unit, better string) Item {
	return func(d *declaration) {
		d.part.Metrics = append(d.part.Metrics, journal.MetricInfo{Name: name, Unit: unit, Better: better})
	}
}

// Help is the one line that `kernbench list` shows.
func Help(text string) Item {
	return func(d *declaration) {
		d.part.Help = text
		if d.bench.Help == "" {
			d.bench.Help = text
		}
	}
}

// Doc is the longer text of `kernbench run --bench NAME --help`.
func Doc(text string) Item { return func(d *declaration) { d.bench.Doc = text } }

// Timeout bounds one point of one trial.
func Timeout(t time.Duration) Item { return func(d *declaration) { d.part.Timeout = t } }

// Trials repeats whole launches, so that the variance of starting anew is seen.
func Trials(n int) Item { return func(d *declaration) { d.part.Trials = n } }

// Stop sets when sampling ends.
func Stop(s measure.Stop) Item { return func(d *declaration) { d.part.Measure.Stop = s } }

// Measure sets cadence, cache state, warm-up and stopping rule at once.
func Measure(c measure.Config) Item { return func(d *declaration) { d.part.Measure = c } }

// Backends lists what the bench can run on, the default first.
func Backends(names ...string) Item { return func(d *declaration) { d.bench.Backends = names } }

// Version marks stored rows: rows of another version are not mixed with these.
func Version(v string) Item { return func(d *declaration) { d.bench.Version = v } }

// Out sets the default RUN folder.
func Out(dir string) Item { return func(d *declaration) { d.bench.Out = dir } }

// Figures sets the pure function that describes the bench's figures.
func Figures(f func(rows []journal.Row) []figure.Figure) Item {
	return func(d *declaration) { d.bench.Figures = f }
}

// Sections sets the pure function that words the bench's findings.
func Sections(f func(rows []journal.Row) []Section) Item {
	return func(d *declaration) { d.bench.Sections = f }
}

// Exports sets the pure function that makes the bench's own files.
func Exports(f func(rows []journal.Row) ([]File, error)) Item {
	return func(d *declaration) { d.bench.Exports = f }
}

// Artifacts sets the pure function that names the files which a run must leave
// in its folder.
func Artifacts(f func(rows []journal.Row) []string) Item {
	return func(d *declaration) { d.bench.Artifacts = f }
}

// Accumulates makes views merge all runs of a folder by point.
func Accumulates() Item { return func(d *declaration) { d.bench.Accumulate = true } }

// Derive sets the pure function that adds what follows from other rows.
func Derive(f func(rows []journal.Row) []journal.Row) Item {
	return func(d *declaration) { d.bench.Derive = f }
}

// AllDTypes are the names of the element types, for a DTypes axis over all.
func AllDTypes() []string {
	var names []string
	for _, d := range dtype.All() {
		names = append(names, d.String())
	}
	return names
}
