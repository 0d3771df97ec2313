// Package bench is kernbench's public face for Go programs: declare
// benchmarks, call Main, and your program has the whole command line over them
// (list, run, show, compare, report), with worker processes, environment
// sweeps, a journal and figures.
//
//	func main() {
//		os.Exit(bench.Main(bench.New("copy", run,
//			bench.Ranks("1,2"),
//			bench.Bytes("size", "4K:64M:x4"),
//		)))
//	}
//
//	func run(ctx context.Context, s *bench.State) error {
//		src, dst := make([]byte, s.Int("size")), make([]byte, s.Int("size"))
//		s.Bytes(int64(2 * len(src)))
//		return s.Time(ctx, func() error { copy(dst, src); return nil })
//	}
//
// A body runs once per point in every rank's own process. Everything it does
// before State.Time is untimed set-up. It returns Skip to leave a point out;
// any other error, or a panic, is a failed row.
//
// Ranks that work on common data use package dist, which is public too. The guide
// is docs/writing-benches.md.
package bench

import (
	"context"
	"os/exec"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// What a declaration is made of.
type (
	Bench  = decl.Bench
	Body   = decl.Body
	Item   = decl.Item
	State  = decl.State
	Wrong  = decl.Wrong
	Timing = decl.Timing
	Where  = decl.Where
	Kind   = point.Kind
	Point  = point.Point
	Value  = point.Value
	Row    = journal.Row
	Config = measure.Config
	Rule   = measure.Stop
)

// What findings in words are made of, and a file of the bench's own: see Sections
// and Exports.
type (
	Section  = decl.Section
	Grid     = decl.Grid
	GridRow  = decl.GridRow
	GridCell = decl.GridCell
	File     = decl.File
)

// StatusOK is the Status of a row whose numbers count.
const StatusOK = journal.OK

// What the numbers of a row are, for State.Kind: measured unless it says
// otherwise.
const (
	Measured  = journal.Measured
	Simulated = journal.Simulated
	Modelled  = journal.Modelled
)

// What a figure is made of: see Figures.
type (
	Figure = figure.Figure
	Panel  = figure.Panel
	Axis   = figure.Axis
	Series = figure.Series
	Dot    = figure.Point
	Line   = figure.Line
)

// Kinds of options.
const (
	KindInt    = point.Int
	KindBytes  = point.Bytes
	KindFloat  = point.Float
	KindString = point.String
	KindBool   = point.Bool
	KindDType  = point.DType
	KindTuple  = point.Tuple
)

// Unset, among the values of Env, removes the variable from the workers'
// environment.
const Unset = decl.Unset

// Cadences and cache states of a measurement, for Measure.
const (
	Isolated  = measure.Isolated
	Streaming = measure.Streaming
	Warm      = measure.Warm
	Cold      = measure.Cold
)

// Main runs the command line over the benches and returns the exit code. Call
// it first in main: worker processes are this same program started again.
func Main(benches ...*Bench) int { return cli.Main(benches) }

// New declares a benchmark: one body over the product of its axes.
func New(name string, body Body, items ...Item) *Bench { return decl.New(name, body, items...) }

// Suite declares an evaluation of several parts.
func Suite(name string, items ...Item) *Bench { return decl.NewSuite(name, items...) }

// Part adds a part to a Suite.
func Part(name string, body Body, items ...Item) Item { return decl.NewPart(name, body, items...) }

// Axes. Numeric ones take a SPEC: "1,2,8", "1K:64M:x4", "0:64:+8", "pow2:8:13".
func Ints(name, spec string) Item                { return decl.Ints(name, spec) }
func Bytes(name, spec string) Item               { return decl.Bytes(name, spec) }
func Floats(name, spec string) Item              { return decl.Floats(name, spec) }
func Strings(name string, values ...string) Item { return decl.Strings(name, values...) }
func DTypes(name string, values ...string) Item  { return decl.DTypes(name, values...) }
func Tuples(name string, values ...string) Item  { return decl.Tuples(name, values...) }
func Bools(name string, values ...bool) Item     { return decl.Bools(name, values...) }

// AllDTypes are the names of the element types, for a DTypes axis over all.
func AllDTypes() []string { return decl.AllDTypes() }

// Ranks declares the rank counts to launch with; without it, one rank.
func Ranks(spec string) Item { return decl.Ranks(spec) }

// Env sweeps an environment variable; each value needs new processes.
func Env(name string, values ...string) Item { return decl.Env(name, values...) }

// Zip makes the axes and variables inside move together.
func Zip(items ...Item) Item { return decl.Zip(items...) }

// Drop leaves out the points for which the pure function returns an error; its
// text is the recorded reason.
func Drop(where Where) Item { return decl.Drop(where) }

// Profile declares a preset: `--profile NAME` gives axes other values, each
// "axis=SPEC".
func Profile(name string, axes ...string) Item { return decl.Profile(name, axes...) }

// Backends lists what the bench can run on, the default first; without it, cpu.
// The program imports the backends' packages, such as dist/mpi.
func Backends(names ...string) Item { return decl.Backends(names...) }

// On gives axes, declared before, other values on one backend.
func On(backend string, items ...Item) Item { return decl.On(backend, items...) }

// SecondsOption is the option that Seconds declares, for State.SampleAtMost.
const SecondsOption = decl.SecondsOption

// Options: parameters with one value per run.
func Option(name string, kind Kind, def, help string) Item { return decl.Opt(name, kind, def, help) }
func Choice(name, help string, choices ...string) Item     { return decl.Choice(name, help, choices...) }
func Seconds(def, help string) Item                        { return decl.Seconds(def, help) }
func FileOption(name, def, help string) Item               { return decl.FileOpt(name, def, help) }

// Metric declares the unit of a metric and which direction is better.
func Metric(name, unit, better string) Item { return decl.Metric(name, unit, better) }

// Help is the line in `list`; Doc the text of --help.
func Help(text string) Item { return decl.Help(text) }
func Doc(text string) Item  { return decl.Doc(text) }

// Timeout bounds one point of one trial; Trials repeats whole launches.
func Timeout(t time.Duration) Item { return decl.Timeout(t) }
func Trials(n int) Item            { return decl.Trials(n) }

// Stop sets when sampling ends; Measure sets everything about it.
func Stop(rule Rule) Item   { return decl.Stop(rule) }
func Measure(c Config) Item { return decl.Measure(c) }

// DefaultMeasure is what a bench without Measure uses.
func DefaultMeasure() Config { return measure.Default() }

// Version marks stored rows; Out sets the default RUN folder.
func Version(v string) Item { return decl.Version(v) }
func Out(dir string) Item   { return decl.Out(dir) }

// Accumulates makes views merge all runs of a folder by point.
func Accumulates() Item { return decl.Accumulates() }

// Derive adds what follows from other rows, such as a speed-up over the row of
// one rank, to the rows that are shown. It is pure and keeps every row.
func Derive(f func([]Row) []Row) Item { return decl.Derive(f) }

// Figures and Sections describe the views of the rows. Both are pure.
func Figures(f func([]Row) []Figure) Item   { return decl.Figures(f) }
func Sections(f func([]Row) []Section) Item { return decl.Sections(f) }

// Exports makes files of the bench's own from the rows; Artifacts names the files
// that a run must leave. Both are pure.
func Exports(f func([]Row) ([]File, error)) Item { return decl.Exports(f) }
func Artifacts(f func([]Row) []string) Item      { return decl.Artifacts(f) }

// Skip, returned by a body, leaves out a point that does not apply, with a
// reason. All ranks must come to the same answer.
func Skip(format string, args ...any) error { return decl.Skip(format, args...) }

// NotExecuted, returned by a body, is for a point that should run but cannot
// here, because something is missing. A required one fails the run.
func NotExecuted(required bool, format string, args ...any) error {
	return decl.NotExecuted(required, format, args...)
}

// Helper declares a function that bodies may run in a process of its own, which
// they may then lose; HelperCommand starts it from a body.
func Helper(name string, f func(args []string) error) Item { return decl.Helper(name, f) }

// HelperCommand is this program, to be started again as a helper of the bench.
// It ends when ctx does.
func HelperCommand(ctx context.Context, bench, name string, args ...string) (*exec.Cmd, error) {
	return worker.Helper(ctx, bench, name, args...)
}

// Preamble runs before each timed call, untimed.
func Preamble(f func() error) Timing { return decl.Preamble(f) }
