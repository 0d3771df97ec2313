// Package decl holds benchmark declarations as data. Package bench builds them from clauses,
// package sweep from YAML files and package python from Python files. The planner, the workers, the
// command line and the views read them.
//
// The types are internal because only the harness reads them. Authors of benches use the clauses of
// package bench, which also has aliases for the few types that they fill in themselves.
package decl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/inputs"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// RanksAxis is the name of the axis of rank counts.
const RanksAxis = "num_ranks"

// BackendName is the name of the backend in filters, tables and option lists. No axis may
// have this name.
const BackendName = "backend"

// DefaultTimeout limits a point of a part that declares no timeout.
const DefaultTimeout = 2 * time.Minute

// Bench is a benchmark, or a suite of several. A benchmark has one part without a name; a
// suite has named parts, which share the options and the views.
type Bench struct {
	Name    string
	Help    string // one line for the list of benches
	Doc     string // longer text and examples for --help
	Version string // changes when stored rows are no longer comparable
	Parts   []*Part
	Options []Option

	// Backends lists the supported backends, the default first. Empty means cpu only.
	Backends []string
	// Prefer returns the backend for a point when the run names none, or "" for the default.
	Prefer func(point.Point) string

	// RanksOf returns the number of ranks of a point when the run does not set it, or 0 to use
	// the declared axis.
	RanksOf func(p, options point.Point) int

	// Content returns SHA-256 sums of data that the values of a point refer to, keyed by a name
	// for messages. The sums are part of the point's identity.
	Content func(p, options point.Point) map[string]string

	// OptionsOn holds, by backend, the options that have another default there.
	OptionsOn map[string][]Option

	// Profiles are selected by --profile.
	Profiles []Profile

	// Helpers are functions that a body runs in separate processes, by name.
	Helpers map[string]func(args []string) error

	// Out is the run folder when --out is not given. Empty means out/NAME.
	Out string

	// RenderVar is an environment variable that means --render-only for exactly the points that the command line selects,
	// or "" for none.
	RenderVar string
	// OneHost is the reason why all ranks must be on one host, or "" if they may be on several. It does
	// not apply to backends whose own launcher connects the ranks.
	OneHost string
	// HostMemory is the reason why the data must be in memory that the CPU can address, or "" if it may
	// be elsewhere.
	HostMemory string
	// Accumulate makes views merge all runs of a folder by point. Otherwise they show only the latest
	// run.
	Accumulate bool

	// The views below are pure functions: the same rows always give the same result.

	// Derive adds metrics that depend on other rows, such as a speed-up over one rank. It
	// returns every row. To change a row's Metrics or Conditions it must replace them, because
	// the originals are shared.
	Derive func(rows dataset.Set) dataset.Set
	// Plots and Pivots are the declared figures and tables.
	Plots  []views.Plot
	Pivots []views.Pivot
	// Figures describes the figures that no plot can describe. They come before the declared ones.
	Figures func(rows dataset.Set) []figure.Figure
	// Sections states the findings in text and tables.
	Sections func(rows dataset.Set) []Section
	// Sentences applies the rules for generated sentences. Each goes to the section of its title.
	Sentences func(rows dataset.Set) []views.Sentence
	// Exports returns additional files for the run folder.
	Exports func(rows dataset.Set) ([]File, error)
	// TableFiles are files with the rows in columns that a bench chooses.
	TableFiles []TableFile
	// Page is a page with all figures and table files, or nil.
	Page *Page

	// Tuning holds the defaults of the tune command, or nil.
	Tuning *Tuning

	// Script is the interpreter, the file whose functions are the bodies, and the file's
	// SHA-256. It is empty if the bodies are in this program.
	Script []string

	// Inputs are SHA-256 sums that all rows depend on besides their point.
	Inputs map[string]string

	// Tracked holds the programs and files that all rows depend on. It is nil if rows depend only on this
	// program.
	Tracked *inputs.Set

	// Faults are mistakes found while the declaration was built. Validate reports them.
	Faults []error
}

// Declaration is what a clause modifies: a bench, and the part that axes and body belong to.
type Declaration struct {
	Bench *Bench
	Part  *Part
}

// Clause is one element of a declaration: an axis, an option, a text, a view.
type Clause = func(d *Declaration)

// Figures sets a pure function that describes the figures of a run that no plot can describe. Each becomes a PNG and
// an SVG file. Only benches of this module use it, because package figure is internal.
func Figures(f func(rows dataset.Set) []figure.Figure) Clause {
	return func(d *Declaration) { d.Bench.Figures = f }
}

// RenderVar names an environment variable that means --render-only if it is set to 1. Users of the program that a bench
// replaces may set it in their scripts.
func RenderVar(name string) Clause { return func(d *Declaration) { d.Bench.RenderVar = name } }

// TableFile is a file with rows in columns that a bench chooses.
type TableFile = views.Export

// Page is a page that a bench publishes.
type Page struct{ Name, Heading, Text string }

// Body runs a benchmark body at one point on one rank. It returns the rank's outcome and the error that
// caused it. The worker needs the error to distinguish causes from consequences.
type Body func(ctx context.Context, set Setting) (Outcome, error)

// Part is one sweep: axes, environment variables, and the body or command that runs at each
// point of their product.
type Part struct {
	Name  string // empty for the only part of a plain bench
	Help  string
	Axes  []Axis
	Envs  []EnvAxis
	Zips  [][]string // groups of names that vary together; axes and variables may be mixed
	Drops []Drop
	// Refusals reject a whole run because of one point and the options. If a refusal returns a Note, the run is not
	// rejected, and the note is shown before the run starts.
	Refusals []func(p, options point.Point) error
	// On holds, by backend, the axes that have other values there.
	On map[string][]Axis
	// OverHosts holds the axes that have other values when the ranks are on several hosts.
	OverHosts []Axis
	Metrics   []journal.MetricInfo
	Reports   []journal.MetricInfo // metrics that only some rows have
	// Headline lists the metrics and details that tables show by default, in this order, each as NAME or NAME=HEADING.
	// Empty means all metrics. A metric is shown with its interval if rows have NAME_low and NAME_high.
	Headline []string

	Body    Body     // nil if Command is set
	Command *Command // nil if Body is set

	Timeout time.Duration // per point and trial; 0 means DefaultTimeout
	Trials  int           // 0: as many as the plan needs, see plan.Plan.TrialsOf
	Measure measure.Config
}

// Drop is a pure function that removes points from a sweep. If it returns an error, the point is
// removed, and the text of the error is recorded as the reason. The point includes num_ranks and, in a
// plan, the backend ([BackendName]).
type Drop = func(p point.Point) error

// Axis is a swept parameter.
type Axis struct {
	Name   string
	Kind   point.Kind
	Values []point.Value
	Only   []string // backends that have this axis; empty means all
	// Words maps each text that the command line accepts to the text of the value that it stands for. It is set for axes
	// whose values are objects of another program. If it is nil, every text of the kind is accepted.
	Words map[string]string
}

// Parse returns the values of this axis for a SPEC of the command line.
func (a Axis) Parse(spec string) ([]point.Value, error) {
	values, err := point.ParseSpec(a.Kind, spec)
	if err != nil || len(a.Words) == 0 {
		return values, err
	}
	for i, v := range values {
		text, known := a.Words[v.String()]
		if !known {
			return nil, suggest.Unknown("value", v.String(), slices.Sorted(maps.Keys(a.Words)))
		}
		if values[i], err = point.Parse(a.Kind, text); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// EnvAxis is a swept environment variable. Changing it needs new processes.
type EnvAxis struct {
	Name   string
	Values []point.EnvVar
}

// Option is a parameter with one value per run. It is recorded in every row and belongs to a
// point's identity.
type Option struct {
	Name      string
	Kind      point.Kind
	Default   point.Value
	Help      string
	Choices   []string // allowed texts; empty means any
	Range     *Range   // allowed numbers; nil means any
	File      bool     // the value is a file's path; rows record its SHA-256
	Sweepable bool     // accepts a list; several values become an axis of the run
	Output    bool     // names a file to write, so it cannot change a result; rows record the default
	Only      []string // backends that have this option; empty means all
}

// Range is a range of numbers. The ends of an open range do not belong to it.
type Range struct {
	Min, Max float64
	Open     bool
}

// AtLeast is the range of numbers from min.
func AtLeast(min float64) Range { return Range{Min: min, Max: math.Inf(1)} }

// Between is the range of numbers above min and below max.
func Between(min, max float64) Range { return Range{min, max, true} }

// Has reports whether a number is in the range.
func (r Range) Has(v float64) bool {
	return v > r.Min && v < r.Max || !r.Open && (v == r.Min || v == r.Max)
}

func (r Range) String() string {
	switch {
	case !r.Open:
		return fmt.Sprintf("a number of %g or more", r.Min)
	case math.IsInf(r.Max, 1):
		return fmt.Sprintf("a number above %g", r.Min)
	}
	return fmt.Sprintf("a number above %g and below %g", r.Min, r.Max)
}

// Within declares options whose numbers must be in a range.
func Within(r Range, options ...Clause) Clause {
	return func(d *Declaration) {
		before := len(d.Bench.Options)
		for _, declare := range options {
			declare(d)
		}
		for i := range d.Bench.Options[before:] {
			d.Bench.Options[before+i].Range = &r
		}
	}
}

// OneOf drops the points whose value at an axis is none of the names. It ignores points without the axis.
func OneOf(axis string, names ...string) Clause {
	return func(d *Declaration) {
		d.Part.Drops = append(d.Part.Drops, func(p point.Point) error {
			if v, has := p.Get(axis); has && !slices.Contains(names, v.String()) {
				return suggest.Unknown(axis, v.String(), names)
			}
			return nil
		})
	}
}

// Profile is a named set of axis values. Flags for single axes override it.
type Profile struct {
	Name string
	Axes [][2]string // axis and SPEC, or "only" and an expression, or "trials" and a number
}

// Tuning holds the defaults of the tune command for a bench.
type Tuning struct {
	Metric   string                           // the objective
	Maximise bool                             // whether larger is better
	Per      []string                         // axes with a separate winner for each value
	Axes     func(backend string) [][2]string // axis and SPEC of the candidates, the default first
	// Files makes files, such as a table for other programs, from the rows of the default setting and
	// of the winners whose gain was confirmed.
	Files func(rows dataset.Set) ([]File, error)
}

// Axis returns the named axis of the part.
func (p *Part) Axis(name string) (Axis, bool) {
	return lists.First(p.Axes, func(a Axis) bool { return a.Name == name })
}

// Option returns the named option of the bench.
func (b *Bench) Option(name string) (Option, bool) {
	return lists.First(b.Options, func(o Option) bool { return o.Name == name })
}

// Part returns the named part.
func (b *Bench) Part(name string) (*Part, bool) {
	return lists.First(b.Parts, func(p *Part) bool { return p.Name == name })
}

// SpeedMetrics are the metrics that the harness computes from a call's time and from the
// amounts that a body declares.
var SpeedMetrics = []journal.MetricInfo{
	{Name: "time_us", Unit: "us", Better: "lower",
		Meaning: "median over iterations of the slowest rank's time"},
	{Name: "gbps", Unit: "GB/s", Better: "higher",
		Meaning: "bytes that a call moves, as the bench counts them, divided by the time"},
	{Name: "algbw", Unit: "GB/s", Better: "higher",
		Meaning: "size of a collective divided by the time"},
	{Name: "busbw", Unit: "GB/s", Better: "higher",
		Meaning: "algbw times a factor that makes collectives and rank counts comparable"},
	{Name: "tflops", Unit: "TFLOP/s", Better: "higher",
		Meaning: "floating-point operations of a call, as the bench counts them, divided by the time"},
}

// WrongMetric is the number of wrong elements in a verified row.
var WrongMetric = journal.MetricInfo{Name: "wrong", Better: "lower", Meaning: "wrong elements of the result"}

// LimitMetric is the metric of rows with a recorded limit: the largest limit divided by the
// time, in percent. [Bench.Metrics] lists it only if the bench declares it.
const LimitMetric = "pct_of_limit"

// WrongLimit is the ratio of limit to time above which a row gets a warning. On an idle machine, the
// error of measured limits is at most 20 %, so a larger ratio means a wrong limit or work that was not
// timed.
const WrongLimit = 1.25

// Metrics returns the metrics that are known before anything has run: the declared metrics of all
// parts, and the harness's own metrics if a part has a body. complete reports whether rows can have no
// other metrics. It is false if a body or Derive may add some. (The output of a command is searched
// only for declared metrics.)
func (b *Bench) Metrics() (infos []journal.MetricInfo, complete bool) {
	add := func(m journal.MetricInfo, replace bool) {
		i := slices.IndexFunc(infos, func(old journal.MetricInfo) bool { return old.Name == m.Name })
		switch {
		case i < 0:
			infos = append(infos, m)
		case replace:
			infos[i] = m
		}
	}
	body := slices.ContainsFunc(b.Parts, func(p *Part) bool { return p.Body != nil })
	if body {
		infos = slices.Clone(SpeedMetrics)
	}
	for _, p := range b.Parts {
		for _, m := range p.Metrics {
			add(m, true)
		}
	}
	if body {
		add(WrongMetric, false)
	}
	return infos, !body && b.Derive == nil
}

// ErrElsewhere marks a failure whose cause is on another rank. The error text names that rank, and the
// row reports the error of that rank instead.
var ErrElsewhere = errors.New("the cause is there")

// Note is an error of a refusal that does not reject the run. It is a message for the user about one of the points.
type Note string

func (n Note) Error() string { return string(n) }
