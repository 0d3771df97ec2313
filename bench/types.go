package bench

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/kernel/proof"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Bench is a declared benchmark or suite, made by [New] or [Suite] and passed to
// kernbench.Main. Its method Validate reports all mistakes in the declaration at once; every
// command calls it first.
type Bench = decl.Bench

// Names that the harness gives to axes and options.
const (
	RanksAxis     = decl.RanksAxis   // the axis of [Ranks]
	BackendName   = decl.BackendName // the backend, among the options of [Refuse] and [DefaultRanks]
	SecondsOption = "seconds"        // the option of [Seconds]
)

// Coordinates of a point: see "Points" in the package documentation.
type (
	Kind  = point.Kind  // type of the values of an axis or option
	Value = point.Value // one value of an axis or option
	Point = point.Point // the values of all axes, in declared order
	DType = dist.DType  // element type
)

// The kinds of values, for [Option] and [ParseValue].
const (
	KindInt    = point.Int    // whole numbers; K = 1000
	KindBytes  = point.Bytes  // byte sizes; K = Ki = 1024
	KindFloat  = point.Float  // real numbers
	KindString = point.String // any text
	KindBool   = point.Bool   // true or false
	KindDType  = point.DType  // element types: f32
	KindTuple  = point.Tuple  // whole numbers joined by x, with an optional label: qkv=4096x6144x4096
)

// ParseValue parses a value like the command line does. For example, "64Ki" of KindBytes is
// 65536.
func ParseValue(kind Kind, text string) (Value, error) { return point.Parse(kind, text) }

// Recorded rows: see "Rows" in the package documentation.
type (
	Row     = journal.Row  // one point in one trial
	Rows    = dataset.Set  // rows of a run
	RowKind = journal.Kind // whether its numbers were measured, simulated or modelled
)

// StatusOK is the status of rows with valid numbers.
const StatusOK = journal.OK

// The sources of a row's numbers, for [State.Kind].
const (
	Measured  = journal.Measured
	Simulated = journal.Simulated
	Modelled  = journal.Modelled
)

// Sampling of a point: see "Sampling" in the package documentation.
type (
	Config  = measure.Config  // the complete configuration, for [Measure] and [State.Sampling]
	Cadence = measure.Cadence // Isolated or Streaming
	Clock   = dist.Clock      // time source of [State.Time], for [State.UseClock]
)

// Cadences and cache states of a measurement.
const (
	Isolated  = measure.Isolated  // barrier before each sample
	Streaming = measure.Streaming // back-to-back calls
	Warm      = measure.Warm      // caches keep what the previous call left
	Cold      = measure.Cold      // caches are flushed before each sample
)

// DefaultMeasure returns the sampling of a bench without [Measure]: streaming, warm, until the
// median is known to 1 %.
func DefaultMeasure() Config { return measure.Default() }

// Wrong is the error of a verification that found wrong elements. Count becomes the row's
// metric "wrong". Detail describes the first wrong element: its position, its value and the
// expected value. Note counts one element; Err returns nil while the count is 0.
type Wrong = proof.Mistake

// Results in words and files: see "Views" in the package documentation.
type (
	Section = decl.Section // text with an optional table
	File    = decl.File    // name and content of an exported file
)

// Rule makes a sentence from the data D of a run if its condition holds, for [Sentences].
type Rule[D any] = views.Rule[D]

// TuningDefaults holds the defaults of the tune command, for [Tuning]. Metric is the objective,
// to be minimised unless Maximise is set. Per lists axes that get a separate winner for each
// value. Axes returns the axes to search on a backend, each with a SPEC of its candidates, the
// default first. Files makes files from the rows of the default and of the confirmed winners.
type TuningDefaults = decl.Tuning
