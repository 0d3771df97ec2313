package bench

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Clause is one element of a declaration: an axis, an option, a text, a view.
type Clause = decl.Clause

// New declares a benchmark: one body over the product of its axes. Mistakes in the
// declaration are reported by the method Validate, which every command calls first.
func New(name string, body Body, clauses ...Clause) *Bench {
	b := &Bench{Name: name}
	Part("", body, clauses...)(&decl.Declaration{Bench: b})
	return b
}

// Suite declares an evaluation of several parts. Options, views and texts belong to the
// suite; axes and metrics belong to its parts.
func Suite(name string, clauses ...Clause) *Bench {
	b := &Bench{Name: name}
	d := &decl.Declaration{Bench: b, Part: &decl.Part{}}
	for _, c := range clauses {
		c(d)
	}
	if len(d.Part.Axes)+len(d.Part.Envs) > 0 {
		fault(b, "a suite has no axes of its own: declare them in its parts")
	}
	return b
}

// fault records a mistake in the declaration, which the method Validate will report.
func fault(b *Bench, format string, args ...any) {
	b.Faults = append(b.Faults, fmt.Errorf(format, args...))
}

// Part adds a named part to a [Suite]: a body over the product of its own axes.
func Part(name string, body Body, clauses ...Clause) Clause {
	return func(d *decl.Declaration) {
		p := &decl.Part{Name: name}
		if body != nil {
			p.Body = body.perform
		}
		inner := &decl.Declaration{Bench: d.Bench, Part: p}
		for _, c := range clauses {
			c(inner)
		}
		d.Bench.Parts = append(d.Bench.Parts, p)
	}
}

// Metric declares a metric: its unit, which direction is better ("lower", "higher" or ""), and a description for
// users. The metrics that the harness computes need no declaration.
func Metric(name, unit, better string, meaning ...string) Clause {
	return func(d *decl.Declaration) {
		d.Part.Metrics = append(d.Part.Metrics, journal.MetricInfo{Name: name, Unit: unit, Better: better,
			Meaning: strings.Join(meaning, " ")})
	}
}

// Reports documents a metric that a body reports although the bench does not declare it, because only some rows have
// it: its unit, and a description for users. Capitals in the name stand for a text that differs from row to row, as in
// exposed_KIND_us.
func Reports(name, unit string, meaning ...string) Clause {
	return func(d *decl.Declaration) {
		d.Part.Reports = append(d.Part.Reports, journal.MetricInfo{Name: name, Unit: unit,
			Meaning: strings.Join(meaning, " ")})
	}
}

// Help sets the one-line description that `kernbench list` shows.
func Help(text string) Clause {
	return func(d *decl.Declaration) {
		d.Part.Help = text
		d.Bench.Help = cmp.Or(d.Bench.Help, text)
	}
}

// Doc sets the longer text that `kernbench run --bench NAME --help` shows.
func Doc(text string) Clause { return func(d *decl.Declaration) { d.Bench.Doc = text } }

// Timeout limits the duration of one point in one trial; the default is 2 minutes. A point
// that takes longer becomes a row with status "timeout".
func Timeout(t time.Duration) Clause { return func(d *decl.Declaration) { d.Part.Timeout = t } }

// Trials repeats whole launches n times, to show the variance between launches. Without it, sweeps
// over environment variables have four trials and all others one. Simulated times are exact, so
// simulated launches are repeated only with --trials.
func Trials(n int) Clause { return func(d *decl.Declaration) { d.Part.Trials = n } }

// Measure sets how points are sampled: cadence, cache state, warm-up and stopping rule.
func Measure(c Config) Clause { return func(d *decl.Declaration) { d.Part.Measure = c } }

// Backends lists the supported backends, the default first. Without it, a bench runs on cpu
// only.
func Backends(names ...string) Clause { return func(d *decl.Declaration) { d.Bench.Backends = names } }

// OneHost requires all ranks to be on one host. The reason, such as "they share memory", is
// shown when a run over several hosts is refused. Backends whose own launcher connects the
// ranks, such as MPI, are exempt.
func OneHost(reason string) Clause { return func(d *decl.Declaration) { d.Bench.OneHost = reason } }

// HostMemory requires the data to be in memory that the CPU can address. The reason, such as
// "the product is computed on the CPU", is shown when a run on a backend with device memory is
// refused.
func HostMemory(reason string) Clause {
	return func(d *decl.Declaration) { d.Bench.HostMemory = reason }
}

// PreferBackend chooses the backend of a run that names none. The function gets each point with
// its num_ranks and returns a backend, or "" for the default. All points of a run must agree.
func PreferBackend(choose func(Point) string) Clause {
	return func(d *decl.Declaration) { d.Bench.Prefer = choose }
}

// DefaultRanks computes the number of ranks of a point when the run does not set it, for
// example from a file that describes a machine. It returns 0 to use the declared [Ranks]. The
// options include the backend ([BackendName]).
func DefaultRanks(ranks func(p, options Point) int) Clause {
	return func(d *decl.Declaration) { d.Bench.RanksOf = ranks }
}

// ContentHashes adds the SHA-256 of external data to the identity of a point, for data that is not named by a
// [FileOption] but by the values of some axes or options. digest returns it, or "" for a value that names no data. If
// the data has changed, --resume runs the point again. If it changes between planning and running, the row fails.
func ContentHashes(digest func(value string) (sha256 string, err error), names ...string) Clause {
	return func(d *decl.Declaration) {
		others := d.Bench.Content
		d.Bench.Content = func(p, options Point) map[string]string {
			sums := map[string]string{}
			if others != nil {
				sums = others(p, options)
			}
			for _, name := range names {
				v := point.ValueOf(p, options, name)
				sum, err := digest(v.String())
				if err != nil { // it changes the identity of the point until it can be read
					sum = "unknown: " + err.Error()
				}
				if sum != "" {
					sums[name+" "+v.String()] = sum
				}
			}
			return sums
		}
	}
}

// Version labels stored rows. Rows of different versions are never mixed. Change it whenever the
// body starts to measure something different.
func Version(v string) Clause { return func(d *decl.Declaration) { d.Bench.Version = v } }

// Out sets the folder of a run without --out. The default is out/NAME.
func Out(dir string) Clause { return func(d *decl.Declaration) { d.Bench.Out = dir } }

// Accumulates makes views merge all runs of a folder by point. By default they show only the
// latest run.
func Accumulates() Clause { return func(d *decl.Declaration) { d.Bench.Accumulate = true } }

// Tuning sets the defaults of `kernbench tune` for this bench. Its flags override them.
func Tuning(t TuningDefaults) Clause { return func(d *decl.Declaration) { d.Bench.Tuning = &t } }

// Headline chooses the metrics and details that the default table shows, in this order, each as NAME or NAME=HEADING.
// Without it, the table shows every metric. A metric is shown with its interval if rows have the metrics NAME_low and
// NAME_high. Users see other columns with `show --columns` and `--format csv`.
func Headline(columns ...string) Clause {
	return func(d *decl.Declaration) { d.Part.Headline = columns }
}

// Derive sets a pure function that adds metrics which depend on other rows, such as a speed-up
// over one rank. It must return every row. The rows are shared with other views: to change the
// Metrics or Conditions of a row, it must replace the map or slice and not write into it.
func Derive(f func(rows Rows) Rows) Clause {
	return func(d *decl.Declaration) { d.Bench.Derive = f }
}

// Plot declares a figure in the form of --plot: x=size,y=busbw,by=algorithm. See "Plots" in the package
// documentation for all keys. An unknown name is a mistake in the declaration.
func Plot(text string, words ...ViewText) Clause {
	return func(d *decl.Declaration) {
		p, err := views.ParsePlot(text)
		if err != nil {
			d.Bench.Faults = append(d.Bench.Faults, err)
			return
		}
		p.Name = figure.Stem(d.Bench.Name + "_" + p.String())
		for _, set := range words {
			set(&p.Words)
		}
		d.Bench.Plots = append(d.Bench.Plots, p)
	}
}

// Pivot declares a table: rows=op+dtype,columns=size,value=busbw. See "Plots" in the package documentation.
func Pivot(text string, words ...ViewText) Clause {
	return func(d *decl.Declaration) {
		p, err := views.ParsePivot(text)
		if err != nil {
			d.Bench.Faults = append(d.Bench.Faults, err)
			return
		}
		for _, set := range words {
			set(&p.Words)
		}
		d.Bench.Pivots = append(d.Bench.Pivots, p)
	}
}

// ViewText is a text of a [Plot] or [Pivot].
type ViewText = func(*views.Words)

// Named sets the name of a figure's file. Plots of the same name are panels of one figure. A name with a coordinate in
// braces, such as latency_{dtype}, makes a figure for each value.
func Named(name string) ViewText { return func(w *views.Words) { w.Name = name } }

// Title sets the title of a figure or table. It may contain values of the rows as {NAME}, and so may the caption.
func Title(text string) ViewText { return func(w *views.Words) { w.Title = text } }

// Caption sets the text below a figure, or above a table.
func Caption(text string) ViewText { return func(w *views.Words) { w.Caption = text } }

// Label sets the text for the name of a coordinate or metric, or for the axes "x" and "y", and the unit of an axis. The
// text for a coordinate may have a place for its value, as in "K = {}".
func Label(name, text string, unit ...string) ViewText {
	return func(w *views.Words) {
		if w.Labels == nil {
			w.Labels, w.Units = map[string]string{}, map[string]string{}
		}
		w.Labels[name], w.Units[name] = text, strings.Join(unit, "")
	}
}

// Sections sets a pure function that states the findings of a run in text and tables.
func Sections(f func(rows Rows) []Section) Clause {
	return func(d *decl.Declaration) { d.Bench.Sections = f }
}

// Sentences adds rules for the generated sentences of a report. data computes, from the rows of a run, what the rules
// need. A rule with an ID, a condition, the rows that it cites and a text makes a sentence in the section of its title,
// which it creates if the bench has none. Users list the cited rows with `kernbench why RUN ID`.
func Sentences[D any](data func(rows Rows) D, rules ...Rule[D]) Clause {
	return func(d *decl.Declaration) {
		d.Bench.Sentences = func(rows Rows) (list []views.Sentence) {
			of := data(rows)
			for _, r := range rules {
				list = append(list, r.Apply(of)...)
			}
			return list
		}
	}
}

// Exports sets a pure function that makes additional files for the run folder.
func Exports(f func(rows Rows) ([]File, error)) Clause {
	return func(d *decl.Declaration) { d.Bench.Exports = f }
}

// TableFile declares a file with a line for each ok row that where chooses, as CSV, or as JSON if its name ends in
// .json. A column is NAME, NAME=QUANTITY or NAME=QUANTITY FORMAT, such as latency_ns=1000*time_us %.3f. A quantity is a
// coordinate, a detail such as detail.fabric, or what a [Plot] may have on x.
func TableFile(name, where string, columns ...string) Clause {
	return func(d *decl.Declaration) {
		d.Bench.TableFiles = append(d.Bench.TableFiles, decl.TableFile{Name: name, Where: where, Columns: columns})
	}
}

// Page declares a page with all figures and every [TableFile]. With it, the run fails if a figure of a [Plot] or a file
// for which there are rows is missing.
func Page(name, heading, text string) Clause {
	return func(d *decl.Declaration) { d.Bench.Page = &decl.Page{Name: name, Heading: heading, Text: text} }
}
