package bench

import (
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Coordinates of a point: see "Points" in the package documentation.
type (
	Kind   = point.Kind   // what an axis or option holds
	Value  = point.Value  // one value of an axis or option
	Coord  = point.Coord  // a name and its value
	Point  = point.Point  // the values of all axes, in the declared order
	EnvVar = point.EnvVar // one value of a swept environment variable
	DType  = dtype.DType  // element type, the same as dist.DType
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

// ParseValue reads a value as the command line does: "64Ki" of KindBytes is
// 65536.
func ParseValue(kind Kind, text string) (Value, error) { return point.Parse(kind, text) }

// Recorded rows: see "Rows" in the package documentation.
type (
	Row        = journal.Row        // one point in one trial
	Status     = journal.Status     // what became of it
	RowKind    = journal.Kind       // where its numbers come from
	Stat       = journal.Stat       // spread of a metric over its samples
	Sampled    = journal.Sampling   // how the samples of a row came about
	MetricInfo = journal.MetricInfo // name and unit of a metric, and which direction is better
)

// The statuses of a row. Only the numbers of StatusOK count.
const (
	StatusOK          = journal.OK
	StatusFailed      = journal.Failed
	StatusTimeout     = journal.Timeout
	StatusSkipped     = journal.Skipped
	StatusNotExecuted = journal.NotExecuted
)

// The sources of a row's numbers, for [State.Kind].
const (
	Measured  = journal.Measured
	Simulated = journal.Simulated
	Modelled  = journal.Modelled
)

// How a point is sampled: see "Sampling" in the package documentation.
type (
	Config   = measure.Config  // all of it, for [Measure] and [State.Sampling]
	Cadence  = measure.Cadence // Isolated or Streaming
	Cache    = measure.Cache   // Warm or Cold
	StopRule = measure.Stop    // when there are enough samples
	Warmup   = measure.Warmup  // calls before the first sample
	Clock    = measure.Clock   // what [State.Time] reads, for [State.UseClock]
)

// Cadences and cache states of a measurement.
const (
	Isolated  = measure.Isolated  // all ranks meet before each sample
	Streaming = measure.Streaming // calls follow one another
	Warm      = measure.Warm      // the caches hold what the call before left there
	Cold      = measure.Cold      // the caches are swept before each sample
)

// DefaultMeasure is how a bench without [Measure] is sampled: streaming, warm,
// until the median is known to 1 %.
func DefaultMeasure() Config { return measure.Default() }

// Group is the harness's own channel between the ranks of a launch.
type Group = syncgroup.Group

// Parts of a figure: see "Figures" in the package documentation.
type (
	Figure      = figure.Figure  // one picture: panels under a title
	Panel       = figure.Panel   // one coordinate system
	FigureAxis  = figure.Axis    // how numbers become positions
	Series      = figure.Series  // points that are drawn alike
	FigurePoint = figure.Point   // one value, with an optional error bar
	Line        = figure.Line    // a limit or an ideal
	HeatMap     = figure.HeatMap // a matrix instead of series
	Cell        = figure.Cell    // one entry of a heat map
	Diagram     = figure.Diagram // a free drawing instead of series
	Shape       = figure.Shape   // one element of a diagram
)
