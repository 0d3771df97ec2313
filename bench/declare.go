package bench

import (
	"cmp"
	"fmt"
	"time"
)

// Clause is one clause of a declaration: an axis, an option, a text, a view.
type Clause func(d *declaration)

// declaration is what the clauses build up: a bench, and the part that axes and
// body belong to.
type declaration struct {
	bench *Bench
	part  *DeclaredPart
}

func (d *declaration) fault(format string, args ...any) {
	d.bench.errs = append(d.bench.errs, fmt.Errorf(format, args...))
}

// New declares a benchmark: one body over the product of its axes. Faults are
// reported by [Bench.Validate], which every command calls first.
func New(name string, body Body, clauses ...Clause) *Bench {
	b := &Bench{Name: name}
	Part("", body, clauses...)(&declaration{bench: b})
	return b
}

// Suite declares an evaluation of several parts, with the views of all their
// rows. Options, views and texts belong to the suite, axes and metrics to its
// parts.
func Suite(name string, clauses ...Clause) *Bench {
	b := &Bench{Name: name}
	d := &declaration{bench: b, part: &DeclaredPart{}}
	for _, c := range clauses {
		c(d)
	}
	if len(d.part.Axes)+len(d.part.Envs) > 0 {
		d.fault("a suite has no axes of its own: declare them in its parts")
	}
	return b
}

// Part adds a named part to a [Suite]: a body over the product of its own axes.
func Part(name string, body Body, clauses ...Clause) Clause {
	return func(d *declaration) {
		p := &DeclaredPart{Name: name, Body: body}
		inner := &declaration{bench: d.bench, part: p}
		for _, c := range clauses {
			c(inner)
		}
		d.bench.Parts = append(d.bench.Parts, p)
	}
}

// Metric declares the unit of a metric and which direction is better: "lower",
// "higher" or "". The harness's own metrics need no declaration.
func Metric(name, unit, better string) Clause {
	return func(d *declaration) {
		d.part.Metrics = append(d.part.Metrics, MetricInfo{Name: name, Unit: unit, Better: better})
	}
}

// Help sets the one line that the command list shows.
func Help(text string) Clause {
	return func(d *declaration) {
		d.part.Help = text
		d.bench.Help = cmp.Or(d.bench.Help, text)
	}
}

// Doc sets the longer text that run --bench NAME --help shows.
func Doc(text string) Clause { return func(d *declaration) { d.bench.Doc = text } }

// Timeout bounds one point of one trial, [DefaultTimeout] without it. A point that
// takes longer is a row of status "timeout".
func Timeout(t time.Duration) Clause { return func(d *declaration) { d.part.Timeout = t } }

// Trials repeats whole launches n times, to show the variance between processes.
func Trials(n int) Clause { return func(d *declaration) { d.part.Trials = n } }

// Stop sets when sampling ends; the rest stays as in [DefaultMeasure].
func Stop(s StopRule) Clause { return func(d *declaration) { d.part.Measure.Stop = s } }

// Measure sets cadence, cache state, warm-up and stopping rule at once.
func Measure(c Config) Clause { return func(d *declaration) { d.part.Measure = c } }

// Backends lists what the bench can run on, the default first; without it, cpu.
func Backends(names ...string) Clause { return func(d *declaration) { d.bench.Backends = names } }

// OneHost says why the ranks must be on one host, such as "they share memory": a run
// over several is refused before it starts. A backend whose own launcher connects the
// ranks, as MPI's does, has no such bounds.
func OneHost(why string) Clause { return func(d *declaration) { d.bench.OneHost = why } }

// HostMemory says why the data must be in memory that the host reaches, such as "the
// product is made by the processors": a run on a backend of device memory is refused with
// it.
func HostMemory(why string) Clause { return func(d *declaration) { d.bench.HostMemory = why } }

// Prefer names the backend to take for a point, with its num_ranks, in a run that names
// none: "" is the default. All points of a run must agree on it.
func Prefer(backend func(Point) string) Clause {
	return func(d *declaration) { d.bench.Prefer = backend }
}

// RanksOf gives the number of ranks of a point in a run that does not say how many, 0 for as
// declared: where the machine that an option describes has so many. The options, of which the
// backend (BackendName) is one here, come with the point, as for [Refuse].
func RanksOf(ranks func(p, options Point) int) Clause {
	return func(d *declaration) { d.bench.RanksOf = ranks }
}

// Content gives the SHA-256 of what values of a point or of the options name, other than by
// [FileOption]: a file that is a value of an axis, a RUN; by what it is called. A point whose content was
// edited is another one, which --resume runs anew, and a row whose content changes after the run was
// planned fails.
func Content(of func(p, options Point) map[string]string) Clause {
	return func(d *declaration) { d.bench.Content = of }
}

// Version marks stored rows: rows of another version are not mixed with these.
// Change it when the body measures something else than before.
func Version(v string) Clause { return func(d *declaration) { d.bench.Version = v } }

// Out sets the folder of a run without --out; otherwise it is out/NAME.
func Out(dir string) Clause { return func(d *declaration) { d.bench.Out = dir } }

// Accumulates makes views merge all runs of a folder by point, instead of showing
// the latest alone.
func Accumulates() Clause { return func(d *declaration) { d.bench.Accumulate = true } }

// Tuning sets what `tune` takes of the bench where its flags do not say.
func Tuning(t DeclaredTuning) Clause { return func(d *declaration) { d.bench.Tuned = &t } }

// Derive sets a pure function that adds to the rows what follows from other rows,
// such as a speed-up over one rank. It returns every row it was given; of a row
// that it changes, it replaces the Metrics and Warnings, never writing into those
// it was given.
func Derive(f func(rows []Row) []Row) Clause {
	return func(d *declaration) { d.bench.Derive = f }
}

// Figures sets a pure function that describes the figures of a run, one picture
// each. They are drawn as PNG and SVG.
func Figures(f func(rows []Row) []Figure) Clause {
	return func(d *declaration) { d.bench.Figures = f }
}

// Sections sets a pure function that states the findings of a run in words and
// tables.
func Sections(f func(rows []Row) []Section) Clause {
	return func(d *declaration) { d.bench.Sections = f }
}

// Exports sets a pure function that makes further files of a run.
func Exports(f func(rows []Row) ([]File, error)) Clause {
	return func(d *declaration) { d.bench.Exports = f }
}

// Artifacts sets a pure function that names the files, exports and figures alike,
// that a run must leave in its folder; one that is missing fails the run.
func Artifacts(f func(rows []Row) []string) Clause {
	return func(d *declaration) { d.bench.Artifacts = f }
}
