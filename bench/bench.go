// Package bench is kernbench's public face for Go programs: declare
// benchmarks, call Main, and your program has the whole command line over them
// (list, run, show, compare, report), with worker processes, environment
// sweeps, a journal and figures.
//
//	func main() {
//		os.Exit(kernbench.Main(bench.New("copy", run,
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
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// What a declaration is made of.
type (
	Kind   = point.Kind
	Point  = point.Point
	Value  = point.Value
	Row    = journal.Row
	Config = measure.Config
	Rule   = measure.Stop
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

// Cadences and cache states of a measurement, for Measure.
const (
	Isolated  = measure.Isolated
	Streaming = measure.Streaming
	Warm      = measure.Warm
	Cold      = measure.Cold
)

// DefaultMeasure is what a bench without Measure uses.
func DefaultMeasure() Config { return measure.Default() }
