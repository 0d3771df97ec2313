// Package bench declares benchmarks. A benchmark is a declaration, which says what
// is swept, and a body, which runs at every point of the sweep on every rank:
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
// A program that passes its benches to kernbench.Main has the whole command line
// over them (list, run, show, compare, report), with worker processes, environment
// sweeps, a journal and figures. The built-in benches are declared in the same way.
//
// Package bench does not run anything: the harness plans the points, starts the
// processes and records the rows. Ranks that work on common data use package dist,
// which ranks on several hosts join with [State.Exchange].
// A guide with a complete program is docs/writing-benches.md.
//
// # Declaring
//
// [New] takes a name, a [Body] and clauses in any order; [Suite] and [Part] declare
// several sweeps under one name. A [Clause] is an axis, an option, a text, a view:
//
//	bench.New("sort", run,
//		bench.Help("sort random numbers"),
//		bench.Ints("count", "1K:1M:x8"),
//		bench.Strings("order", "random", "sorted"),
//		bench.Timeout(time.Minute))
//
// A fault in a declaration, such as a duplicate axis, does not panic: all faults
// are reported by [Bench.Validate], which every command calls first.
//
// # Axes and SPEC
//
// The points of a bench are the product of its axes, the last axis varying fastest.
// [Ints], [Bytes] and [Floats] take a SPEC, a list of values and ranges:
//
//	1,2,8         a list
//	1K:64M:x4     geometric: from 1K, times 4, up to 64M
//	0:64:+8       linear: from 0, plus 8, up to 64
//	pow2:8:13     powers of two: 2^8 to 2^13
//
// [Strings], [DTypes], [Tuples] and [Bools] take their values. [Zip] makes axes move
// together, [Drop] drops points of the product with a reason, [On] gives axes other
// values on one backend, and [Profile] declares values that --profile NAME selects.
// A Drop that does not know a value returns [Unknown], so that it is refused.
// On the command line every axis is a flag that takes a SPEC.
//
// # Ranks and environment variables
//
// [Ranks] declares rank counts: the body runs in that many processes. [Env] sweeps an
// environment variable, which may also be [Unset]. Both need new processes for each
// value; points that share them share their processes. Workers report the variables
// they saw, and a row fails where they are not the planned ones.
//
// # Options
//
// [Option], [Choice] and [FileOption] declare parameters with one value per run. Every
// row records them, and rows with different options are not mixed. One that is
// [Sweepable] may be given several values, and is an axis of such a run. [Seconds]
// declares the option that bounds the sampling.
//
// # Bodies
//
// A [Body] runs once per point on every rank, each in a process of its own (on a
// backend that simulates, all ranks are goroutines of one process). It reads the
// point from its [State], sets up its data, declares what one call does, and calls
// [State.Time] or reports numbers of its own:
//
//	read the point        Value, Int, Float, Str, Bool, Dims, DType, File
//	know the rank         Rank, Size, LocalRank, Backend, Seed, Session
//	meet the other ranks  Barrier, Group
//	check the result      Verify
//	have rates computed   Bytes, Flops, Volume, Limit
//	time                  Time, Sampling, SampleAtMost, UseClock
//	record more           Report, ReportSamples, Metric, Kind, Detail, Warn, Phase
//
// It returns nil when all is well, [Skip] for a point that does not apply, and
// [NotExecuted] for one that cannot run here. Any other error, a panic, a crash and a
// hang are failed rows that name the rank and its phase, and the sweep goes on with
// new processes. The context ends when the point's time is up, on an interrupt, and
// when another rank has failed.
//
// Its inputs should be a function of [State.Seed] and [State.Rank], so that runs can
// be repeated.
//
// # Timing and verification
//
// [State.Time] makes one call and has the checks of [State.Verify] look at its result,
// warms up, samples, and has the result checked again. Ranks that find wrong elements
// return a [Wrong], and the row fails on all. The time of an iteration is that of the
// slowest rank; the metric time_us is the median over the iterations, with a 95 %
// confidence interval in the row's Stats. [Preamble] restores what a call changes.
//
// One right result may have been there before. With [State.Refresh], which makes new
// inputs and spoils the outputs, a verification is four calls, and there are some between
// the samples too.
//
// # Sampling
//
// A [Config] says how samples are taken; [Measure] sets it for a bench, [Stop] its
// stopping rule alone, [State.Sampling] for one point:
//
//	Cadence    Streaming: calls follow one another; Isolated: ranks meet before each
//	Cache      Warm, or Cold: caches are swept before each sample
//	Stop       RelNoise, MinSamples, MaxSamples, MinTime, MaxTime
//	Warmup     MinCalls, MaxCalls, MaxTime
//	ColdBytes  size of what is swept for a cold cache; 0 chooses
//
// [DefaultMeasure] is streaming and warm, and stops when half the width of the
// interval is 1 % of the median, or after 5 seconds. [Trials] repeats whole launches.
//
// # Metrics and limits
//
// The harness computes these metrics:
//
//	time_us       median time of one call, in microseconds
//	gbps          bytes per call (State.Bytes) over the time
//	tflops        operations per call (State.Flops) over the time
//	algbw, busbw  bandwidth of a collective (State.Volume), as nccl-tests counts it
//	pct_of_limit  largest State.Limit over the time, in percent
//	wrong         number of wrong elements, where State.Verify is used
//
// [State.Report] records any other; [Metric] declares its unit and which direction is
// better, so that tables know it before the first row.
//
// # Points
//
// A [Point] is a list of [Coord], with the methods Get, With and Without. A [Value] has
// a [Kind] and is read by its methods Int, Float, String, Bool and Dims. Values are
// comparable with ==. [ParseValue] makes one from text.
//
// # Rows
//
// A [Row] is one point in one trial, as the journal stores it and views get it:
//
//	Bench, Part, Point, NumRanks, Backend, Env, Options, Trial   what it is
//	Status, Reason, Rank, Phase, Output                          what became of it
//	Kind, Clock, Cadence, Cache, Samples, Batch                  how it was timed
//	Metrics, Units, Stats, Limits, Skew, Slowest                 its numbers
//	Details, Warnings, Host, Load, Time                          its circumstances
//
// NumRanks is nil for a program that starts its own ranks. Only the numbers of rows
// with [StatusOK] count. docs/journal-schema.md describes every field.
//
// # Views
//
// Views are pure functions of rows, so that they can be made again from a journal:
// [Derive] adds to rows what follows from others, [Sections] states findings in words
// and tables, [Figures] describes pictures, [Exports] makes other files, [Artifacts]
// names the files that a run must leave. A [Section] that is a Headline is printed at
// the end of a run in place of the table of all rows. [Accumulates] merges the runs of
// a folder.
//
// # Figures
//
// A [Figure] has a Name, which is its file's, a Title, a Caption and Panels. A [Panel]
// has a Title, two axes X and Y, and Series and Lines, or a Heat map, or a Diagram:
//
//	FigureAxis   Label; Scale "linear", "log2", "log10" or "category";
//	             Unit "bytes", "us", "percent", "GB/s" or "TFLOP/s"; Categories
//	Series       Name; Kind "line", "scatter", "bars" or "stacked-bars"; Points
//	FigurePoint  X, Y; Low and High of an error bar
//	Line         Label and X, Y or Points: a limit or an ideal
//
// # Suites
//
// [Suite] declares an evaluation: several [Part] sweeps with options and views in
// common. A row names its part.
//
// # Helpers
//
// A [Helper] is a function that a body runs in a process of its own, started by
// [HelperCommand]: for what may crash or hang by design, such as a rank that dies to
// see whether the others notice.
//
// # Backends
//
// [Backends] lists what a bench runs on; --backend selects one, and [State.Backend]
// tells the body. "cpu" is processes on this or several hosts. Package dist has the
// others, and shows what each can do.
//
// # Testing a body
//
// Workers make a [State] from a [Setting] with [NewState], run the body, and get its
// [Outcome] from [State.Finish]. A test may do the same, and so run a body without
// processes.
package bench
