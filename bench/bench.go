package bench

import (
	"context"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// RanksAxis is the name of the axis that [Ranks] declares.
const RanksAxis = "num_ranks"

// BackendName is the name by which filters and tables call the backend. No axis
// may have it.
const BackendName = "backend"

// Body is the code of a benchmark. It runs once per point on every rank; what it
// does before [State.Time] is untimed set-up. Returning [Skip] or [NotExecuted]
// leaves the point out with a reason; any other error, and a panic, is a failed
// row.
type Body func(ctx context.Context, s *State) error

// Bench is a benchmark or an evaluation: one part, or a suite of them, with
// options shared by all parts and the views drawn from their rows.
type Bench struct {
	Name    string
	Help    string // one line for the command list
	Doc     string // longer text and examples for --help
	Version string // changes when stored rows are no longer comparable
	Parts   []*DeclaredPart
	Options []DeclaredOption

	// Backends lists what the bench can run on, the default first; empty
	// means cpu.
	Backends []string
	// Prefer names the backend to take instead of the default for a point, "" for none.
	Prefer func(Point) string

	// RanksOf is how many ranks a point has where the run does not say, 0 for as declared.
	RanksOf func(p, options Point) int

	// Content is the SHA-256 of what the values of a point name, by what it is called.
	Content func(p, options Point) map[string]string

	// OptionsOn are, by backend, options that have another default there.
	OptionsOn map[string][]DeclaredOption

	// Profiles are chosen by --profile; without it the axes are as declared.
	Profiles []DeclaredProfile

	// Helpers are functions that bodies run in processes of their own, by name.
	Helpers map[string]func(args []string) error

	// Out is the RUN folder used when --out is not given; empty means
	// out/<name>.
	Out string

	// OneHost is why ranks that no launcher of the backend's own connects must be on
	// one host, empty if they need not.
	OneHost string
	// HostMemory is why the data must be in memory that the host reaches, empty if it
	// need not.
	HostMemory string
	// Accumulate makes views merge all runs of the folder by point instead of
	// showing the latest run alone.
	Accumulate bool

	// Derive adds what follows from other rows (a speed-up over the row of one
	// rank, say) to the rows that are shown. It is pure and keeps every row; it
	// may change the Metrics and Warnings it replaces, never those it was given.
	Derive func(rows []Row) []Row

	// Figures and Sections are pure: the same rows give the same views.
	Figures  func(rows []Row) []Figure
	Sections func(rows []Row) []Section

	// Exports are files of the bench's own, made from its rows: a table in a
	// format that others read, a page.
	Exports func(rows []Row) ([]File, error)

	// Artifacts are the files, exports and figures alike, that must be in the
	// RUN folder after a run with these rows; one that is missing fails it.
	Artifacts func(rows []Row) []string

	// Tuned is what `tune` takes where its flags do not say; nil: the flags do.
	Tuned *DeclaredTuning

	// Script is the interpreter, the file whose functions are the bodies, and its
	// SHA-256; none means this program.
	Script []string

	// Inputs are what all rows depend on besides their point, by SHA-256.
	Inputs map[string]string

	errs []error // faults met while declaring, reported by Validate
}

// DeclaredPart is what [Part] declares: axes, environment variables, and what runs
// at each of their points.
type DeclaredPart struct {
	Name   string // empty for the only part of a plain bench
	Help   string
	Axes   []Axis
	Envs   []EnvAxis
	Zips   [][]string // names that move together; axes and env may be mixed
	Wheres []Where
	// Mistakes are the conditions of [Refuse].
	Mistakes []func(p, options Point) error
	On       map[string][]Axis // by backend: axes that have other values there
	// OverHosts are axes that have other values where the ranks are on several hosts.
	OverHosts []Axis
	Metrics   []MetricInfo

	Body    Body     // either a body of this program
	Command *Command // or another program

	Timeout time.Duration // per point and trial; 0 means DefaultTimeout
	Trials  int           // 0 means 1
	Measure Config
}

// DefaultTimeout bounds a point of a bench without [Timeout].
const DefaultTimeout = 2 * time.Minute

// Where is a pure predicate over a point, for [Drop]: an error drops the point, and
// its text is the recorded reason.
type Where func(p Point) error

// Axis is a swept parameter.
type Axis struct {
	Name   string
	Kind   Kind
	Values []Value
	Only   []string // the backends that have it; none: all
}

// EnvAxis is a swept environment variable. Changing it needs new processes.
type EnvAxis struct {
	Name   string
	Values []EnvVar
}

// DeclaredOption is what [Option] declares: a parameter with one value per run. It
// is recorded in every row and is part of a point's identity, but it is not swept, unless
// it is [Sweepable].
type DeclaredOption struct {
	Name    string
	Kind    Kind
	Default Value
	Help    string
	Choices []string // the allowed texts; empty means any
	Above0  bool     // a number that must be positive
	From0   bool     // a number that must not be negative
	File    bool     // the value names a file: recorded with its SHA-256
	Sweep   bool     // it takes a list, and several values are an axis
	Only    []string // the backends that have it; none: all
}

// DeclaredProfile is what [Profile] declares: a named set of axis values. A flag
// for an axis takes precedence.
type DeclaredProfile struct {
	Name string
	Axes [][2]string // axis and SPEC
}

// DeclaredTuning is what [Tuning] declares: how a bench is tuned without flags.
type DeclaredTuning struct {
	Metric   string // to make small, or large
	Maximise bool
	Per      []string                         // axes with a winner for each value
	Axes     func(backend string) [][2]string // axis and SPEC of the values to choose among, the default first
	// Files are made of the rows of the default and of the winners whose gain was
	// confirmed, such as a table for others to read.
	Files func(rows []Row) ([]File, error)
}

// Command is a program that runs once per rank and point instead of a body. Sweep
// files declare it.
type Command struct {
	Argv  []string // {axis} is replaced by the axis' value; never a shell
	Dir   string
	Parse ParseOutput
	// OwnRanks is set for a program that starts its own processes: it runs
	// once, and the row's num_ranks is null.
	OwnRanks bool
	// Inputs are what a row depends on besides its point, by SHA-256: the
	// command, the scripts it names, how its output is read.
	Inputs map[string]string
	// Columns are the coordinates that the output's tables are known to add.
	Columns []Axis
	// Prepare runs once, before the first launch; Setup before each point and Cleanup after it,
	// whatever became of it. They are argvs as Argv is; empty is none.
	Prepare, Setup, Cleanup []string
	// Warmup is how many launches of a point are thrown away before those that count.
	Warmup int
	// Until says when a point has been launched often enough; a sample is a launch. The zero
	// value is once. UntilMetric is the metric whose noise is meant.
	Until       StopRule
	UntilMetric string
}

// Launches is how often a point is launched at most, warm-up included.
func (c *Command) Launches() int { return c.Warmup + max(c.Until.MaxSamples, 1) }

// RankOutput is what one rank of a program printed.
type RankOutput struct {
	Rank   int
	Stdout []byte
	Stderr []byte
	Wall   time.Duration
}

// ParsedRow is one row found in a program's output. Extra coordinates (the key
// columns of a table) are added to the point.
type ParsedRow struct {
	Extra   Point
	Samples map[string][]float64 // by metric; one or more values each
	// Wrong is why the row is not right, by the program's own word or by a check of
	// its output: such a row has failed, whatever it measured.
	Wrong string
}

// ParseOutput turns the output of all ranks into rows. No row is an error.
type ParseOutput func(ranks []RankOutput) ([]ParsedRow, error)

// Axis returns the named axis of the part.
func (p *DeclaredPart) Axis(name string) (Axis, bool) {
	return lists.First(p.Axes, func(a Axis) bool { return a.Name == name })
}

// Option returns the named option of the bench.
func (b *Bench) Option(name string) (DeclaredOption, bool) {
	return lists.First(b.Options, func(o DeclaredOption) bool { return o.Name == name })
}

// OptionOn returns the named option with the default that it has on a backend.
func (b *Bench) OptionOn(backend, name string) (DeclaredOption, bool) {
	o, ok := b.Option(name)
	for _, other := range b.OptionsOn[backend] {
		if other.Name == name {
			o.Default = other.Default
		}
	}
	return o, ok
}

// Part returns the part of that name.
func (b *Bench) Part(name string) (*DeclaredPart, bool) {
	return lists.First(b.Parts, func(p *DeclaredPart) bool { return p.Name == name })
}

// speedMetrics are those that the harness computes itself where a body declares
// what they follow from.
var speedMetrics = []MetricInfo{
	{Name: "time_us", Unit: "us", Better: "lower"},
	{Name: "gbps", Unit: "GB/s", Better: "higher"},
	{Name: "algbw", Unit: "GB/s", Better: "higher"},
	{Name: "busbw", Unit: "GB/s", Better: "higher"},
	{Name: "tflops", Unit: "TFLOP/s", Better: "higher"},
}

// LimitMetric is the metric of rows with a [State.Limit]: the largest limit over
// the time, in percent. [Bench.Metrics] leaves it out unless it is declared.
const LimitMetric = "pct_of_limit"

// Metrics returns the metrics that are known before anything has run: the declared
// ones of all parts, and the harness's own where a part has a body. All reports
// that rows have no others: a program's output is searched for the declared ones
// alone, while a body, and Derive, may add any.
func (b *Bench) Metrics() (infos []MetricInfo, all bool) {
	add := func(m MetricInfo, replace bool) {
		i := slices.IndexFunc(infos, func(old MetricInfo) bool { return old.Name == m.Name })
		switch {
		case i < 0:
			infos = append(infos, m)
		case replace:
			infos[i] = m
		}
	}
	body := slices.ContainsFunc(b.Parts, func(p *DeclaredPart) bool { return p.Body != nil })
	if body {
		infos = slices.Clone(speedMetrics)
	}
	for _, p := range b.Parts {
		for _, m := range p.Metrics {
			add(m, true)
		}
	}
	if body {
		add(MetricInfo{Name: "wrong", Better: "lower"}, false)
	}
	return infos, !body && b.Derive == nil
}
