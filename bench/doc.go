// Package bench declares benchmarks. A benchmark is a declaration of the parameters to sweep,
// and a body that runs at every point of the sweep on every rank:
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
// A program that passes its benches to kernbench.Main has the complete command line for them
// (list, run, show, compare, report), with worker processes, environment sweeps, a journal and
// figures. The built-in benches are declared in the same way.
//
// Package bench does not run anything itself: the harness plans the points, starts the processes
// and records the rows. Ranks that work on common data use package dist. Ranks on several hosts
// pass [State.Exchange] to it. docs/writing-benches.md is a guide with a complete program.
//
// # Declaring
//
// [New] takes a name, a [Body] and clauses in any order. [Suite] and [Part] declare several
// sweeps under one name. A [Clause] is an axis, an option, a text or a view:
//
//	bench.New("sort", run,
//		bench.Help("sort random numbers"),
//		bench.Ints("count", "1K:1M:x8"),
//		bench.Strings("order", "random", "sorted"),
//		bench.Timeout(time.Minute))
//
// A mistake in a declaration, such as a duplicate axis, does not panic. The method Validate of
// [Bench] reports all mistakes, and every command calls it first.
//
// # Axes and SPEC
//
// The points of a bench are the product of its axes; the last axis varies fastest. [Ints],
// [Bytes] and [Floats] take a SPEC, a list of values and ranges:
//
//	1,2,8         a list
//	1K:64M:x4     geometric: from 1K, times 4, up to 64M
//	0:64:+8       linear: from 0, plus 8, up to 64
//	pow2:8:13     powers of two: 2^8 to 2^13
//
// [Strings], [DTypes], [Tuples] and [Bools] take their values directly. [Zip] makes axes vary
// together. [Drop] removes points of the product and records a reason. [On] gives axes other
// values on one backend. [Profile] declares values that --profile NAME selects. A Drop that
// meets an unknown value returns [Unknown], so that the command line rejects the value. Every
// axis is also a command-line flag that takes a SPEC.
//
// # Ranks and environment variables
//
// [Ranks] declares rank counts: the body runs in that many processes. [Env] sweeps an
// environment variable; the value [Unset] removes it. Both need new processes for each value,
// and points with equal values share their processes. Workers report the variables that they
// saw, and a row fails if these differ from the plan.
//
// # Options
//
// [Option], [Choice] and [FileOption] declare parameters with one value per run. Every row
// records them, and rows with different options are not mixed. A [Sweepable] option accepts
// several values and is then an axis of that run. [Seconds] declares the option that limits the
// sampling time.
//
// # Bodies
//
// A [Body] runs once per point on every rank, each rank in its own process. (On a simulating
// backend, all ranks are goroutines of one process.) It reads the point from its [State], sets up
// its data, declares the amount of work of one call, and calls [State.Time] or reports its own
// numbers:
//
//	read the point        Value, Int, Float, Str, Bool, Dims, DType, File
//	know the rank         Rank, Size, LocalRank, Backend, Seed, Session
//	meet the other ranks  Barrier, Exchange
//	check the result      Verify, Refresh
//	have rates computed   Bytes, Flops, Volume, Limit
//	time                  Time, TimeAs, Sampling, SampleAtMost, UseClock
//	record more           Record, RecordSamples, Report, Kind, Detail, Warn, Phase
//
// [Gather] collects a value of every rank. The body returns nil on success, [Skip] for a point
// that does not apply, and [NotExecuted] for a point that cannot run here. Any other error, a
// panic, a crash or a hang makes a failed row that names the rank and its phase, and the sweep
// continues with new processes. The context ends when the point's time is up, on an interrupt,
// and when another rank has failed.
//
// Inputs should be a function of [State.Seed] and [State.Rank], so that runs are repeatable.
//
// # Timing and verification
//
// [State.Time] makes one call, runs the checks of [State.Verify] on its result, warms up, takes
// samples, and checks the result again. A rank that finds wrong elements returns a [Wrong], and
// the row fails on all ranks. The time of an iteration is the time of its slowest rank. The
// metric time_us is the median over the iterations; the row's Stats hold its 95 % confidence
// interval. A [Preamble] restores data that a call changes.
//
// A correct result could be left over from an earlier call. With [State.Refresh], which writes
// new inputs and overwrites the outputs, a verification makes four calls, and there are further
// verifications between the samples.
//
// # Sampling
//
// A [Config] describes how samples are taken. [Measure] sets it for a bench, [State.Sampling]
// for one point:
//
//	Cadence    Streaming: back-to-back calls; Isolated: barrier before each call
//	Cache      Warm, or Cold: caches are flushed before each sample
//	Stop       RelNoise, MinSamples, MaxSamples, MinTime, MaxTime
//	Warmup     MinCalls, MaxCalls, MaxTime
//	ColdBytes  bytes to write when flushing the caches; 0 means automatic
//
// [DefaultMeasure] is streaming and warm. It stops when half the width of the confidence
// interval is 1 % of the median, or after 5 seconds. [Trials] repeats whole launches.
//
// # Metrics and limits
//
// The harness computes these metrics:
//
//	time_us       median time of one call, in microseconds
//	gbps          bytes per call (State.Bytes) divided by the time
//	tflops        operations per call (State.Flops) divided by the time
//	algbw, busbw  bandwidth of a collective (State.Volume), as nccl-tests counts it
//	pct_of_limit  largest State.Limit divided by the time, in percent
//	wrong         number of wrong elements, if State.Verify is used
//
// [Metric] declares another metric with its unit and which direction is better, so that tables
// know it before the first row. [State.Record] records it. [Reports] documents a metric that only some rows have.
//
// # Points
//
// A [Point] is a list of [Coord] with the methods Get, With and Without. A [Value] has a [Kind]
// and the methods Int, Float, String, Bool and Dims. Values are comparable with ==. [ParseValue]
// converts text to a value.
//
// # Rows
//
// A [Row] is one point in one trial, as the journal stores it and views receive it:
//
//	Bench, Part, Point, NumRanks, Backend, Env, Options, Trial   identity
//	Status, Reason, Rank, Phase, Output                          success or failure
//	Kind, Clock, Cadence, Cache, Samples, Batch                  how it was timed
//	Metrics, Units, Stats, Limits, Skew, Slowest                 numbers
//	Details, Conditions, Host, Load, Time                        circumstances
//
// NumRanks is nil for a program that starts its own ranks. Only rows with [StatusOK] have valid
// numbers. docs/journal-schema.md describes every field.
//
// # Views
//
// Views are pure functions of rows, so they can be made again from a journal at any time:
//
//	Derive     adds metrics that depend on other rows
//	Plot       declares a figure
//	Pivot      declares a table
//	Sections   states findings in text and tables
//	Sentences  states findings by rules, each with an ID, a condition, the rows that it cites and a text
//	Exports    makes other files, each a [File] with a Name and Data
//	TableFile  declares a CSV or JSON file with a line for each row
//	Page       declares a page with all figures and table files, which must then exist after a run
//
// [Accumulates] makes views merge all runs of a folder. The results are made of these types:
//
//	Section   Title; Text in Markdown; Table, whose lines [Section.AddLine] adds with the rows that
//	          they rest on; Lead: comes first; Detail: folded away;
//	          Headline: printed at the end of a run instead of the table of all rows
//
// # Plots
//
// [Plot] and [Pivot] declare figures and tables of the rows. Medians over trials, error bars, hollow markers of
// disturbed rows and limits follow from the rows:
//
//	bench.Plot("x=size,y=busbw,by=algorithm,panel=op+num_ranks,limit=least",
//		bench.Named("collectives_busbw"), bench.Title("Bus bandwidth by size"),
//		bench.Label("busbw", "bus bandwidth"))
//	bench.Pivot("rows=op+num_ranks,columns=size,value=busbw", bench.Title("Bus bandwidth"))
//
// The keys of a plot, which --plot also accepts:
//
//	x         a coordinate, a metric, or point: a slot for each point of the sweep
//	y         metrics, or parts of their spread such as time_us.p99, joined by +; default the main metric
//	by        coordinates that separate series; others that vary separate them too
//	panel     coordinates that separate panels
//	where     which rows, in the language of --only; quote texts that contain commas
//	first     coordinates of which only the first value is drawn; also last
//	kind      lines, points, bars, stack (of bars, one for each metric) or heat (lines of cells)
//	share     y in percent of another metric
//	over      first: y divided by the y of the first series at the same x
//	xscale    linear or log; also yscale
//	limit     each limit of the rows, the least that any series could reach, or none
//	ideal     a level line at a number, the line y = x, or with first a line in proportion to x
//	          from the highest y at the first x; a panel with one x, all on the ideal, is left out
//	columns   panels side by side
//
// x and y may be products, such as 2*count and time_us/bound_us. shape.0 is the first number of a tuple
// and shape.cube the number that all of its numbers are.
//
// The keys of a pivot are rows, columns, value and where; unit=common shows all times in one unit, and show=headline
// prints the table at the end of a run. [Named], [Title], [Caption] and [Label] set the texts.
//
// # Suites
//
// [Suite] declares an evaluation: several [Part] sweeps with common options and views. A row
// names its part.
//
// # Helpers
//
// A [Helper] is a function that a body runs in a separate process, started by [HelperCommand],
// because it crashes or hangs by design: for example a rank that dies, to test whether the others
// notice.
//
// # Backends
//
// [Backends] lists the backends that a bench supports. --backend selects one, and
// [State.Backend] returns its name. "cpu" is processes on one or several hosts. Package dist has
// the others and describes the abilities of each.
//
// # Testing a body
//
// [Body.Run] runs a body at a [Point] on one rank in the calling process, and returns the [Row] that it would record.
package bench
