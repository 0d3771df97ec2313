package request

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/cli/guide"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
)

// Flags holds the flags of `run` that do not depend on the bench. Options has the flags that package run
// reads itself.
type Flags struct {
	Options    run.Options
	Axes, Envs []plan.Assign
	Skips      []plan.Assign
	Zips, Only []string
	Ranks      string
	Profile    string
	Backend    string
	Bind       plan.Bind
	Launcher   string
	Interface  string
	Ports      string // A-B
	Endpoint   string // --rdzv-endpoint
	SecretFile string
	OtherBuild bool // --allow-other-build
	Threads    int
	Seed       uint64
	Trials     int
	Sampling   plan.Sampling
	RenderOnly bool
	Plan       bool
	Format     string
	Plots      []string
	Out        string
	Quiet      bool
}

// Remeasure is the default of --remeasure. Tests set it to 0, because test machines are busy and
// would measure every point several times.
var Remeasure = 3

// BindHelp describes --bind.
const BindHelp = "pinning of ranks to cores: auto (an equal share each), core (one per thread), none"

// OtherBuildHelp is the help of --allow-other-build.
const OtherBuildHelp = "let processes join that run another executable; by default they must be the same file"

// Declare adds the flags, in the order of the help.
func (f *Flags) Declare(fl *pflag.FlagSet, program string) {
	fl.SetNormalizeFunc(Normalize)
	fl.SortFlags = false
	f.declarePoints(fl, program)
	guide.Under("What to run", fl)
	f.declareRanks(fl)
	guide.Under("Ranks and hosts", fl)
	f.declareTrials(fl)
	guide.Under("Trials, time limits and failures", fl)
	o := &f.Options
	fl.BoolVar(&o.Resume, "resume", false,
		"continue the folder's latest run: run what is missing, retry failed points once")
	fl.BoolVar(&o.RetryFailed, "retry-failed", false,
		"with --resume: also retry points that failed again in an earlier --resume")
	fl.BoolVar(&f.RenderOnly, "render-only", false, "draw again from stored rows, run nothing")
	guide.Under("Stored runs", fl)
	FormatFlag(fl, &f.Format)
	fl.StringArrayVar(&f.Plots, "plot", nil, "draw `x=AXIS,y=METRIC,by=AXIS` as PNG and SVG (repeatable)")
	fl.StringVar(&f.Out, "out", "", "`FOLDER` of the run (default: out/BENCH, or the bench's own)")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress, only the result")
	guide.Under(outputFlags, fl)
}

// outputFlags is the title of the flags of what a run prints and stores.
const outputFlags = "Output"

// declarePoints adds the flags that choose the points.
func (f *Flags) declarePoints(fl *pflag.FlagSet, program string) {
	// Select reads --bench and --file before the flags are parsed.
	fl.StringArray("bench", nil,
		"`NAME` of the benchmark to run, or a glob such as 'gemm*' ('"+program+" list' shows all; repeatable)")
	fl.StringArrayP("file", "f", nil,
		"`FILE` to run: a sweep in YAML ('kernbench docs sweep-format'), benches in Python ('kernbench docs python'), "+
			"or a program that has benches ('kernbench docs protocol'; repeatable)")
	fl.Var(AxisFlag(&f.Axes, "size=1K:64M:x4"), "axis", "values of an axis (repeatable)")
	fl.Var(assignFlag{&f.Envs, "NCCL_PROTO=LL,Simple,-", false}, "env",
		"values of an environment variable, - for unset (repeatable)")
	fl.StringArrayVar(&f.Zips, "zip", nil, "axes and variables `K1,K2` that vary together (repeatable)")
	fl.Var(assignFlag{&f.Skips, "size=1K", true}, "skip", "values to leave out (repeatable)")
	fl.StringArrayVar(&f.Only, "only", nil, "run only points where `EXPR` holds, such as 'size>=1M && num_ranks==2'")
	fl.Var(specFlag{&f.Ranks}, "ranks", "rank counts, the same as --axis num_ranks=`SPEC`")
	fl.StringVar(&f.Profile, "profile", "", "`NAME` of a set of axis values, for benches that declare some")
	fl.StringVar(&f.Backend, "backend", "auto",
		"`NAME` of the backend, or auto: mpi in a job of an MPI launcher, nccl if a bench of collectives has a GPU for "+
			"every rank, else the bench's first")
	fl.BoolVar(&f.Plan, "plan", false, "print points, launches and an estimate, run nothing")
}

// declareRanks adds the flags that say how ranks are started.
func (f *Flags) declareRanks(fl *pflag.FlagSet) {
	fl.StringVar(&f.Launcher, "launcher", "auto",
		"what starts the ranks: local (this program), join (the job that this process is a rank of), auto (join in a job, "+
			"else local), or a `COMMAND`: mpirun, mpiexec or srun, with its own flags")
	fl.StringVar(&f.Interface, "interface", "",
		"`NAME` of the network interface by which ranks of a --launcher reach this host and each other; sets "+
			"NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME (default: loopback)")
	fl.StringVar(&f.Ports, "port-range", "",
		"ports `A-B` on which this program and its ranks may listen for other hosts, if a firewall allows only some "+
			"(default: the variable "+jobenv.PortsVar+", or any)")
	fl.StringVar(&f.Endpoint, "rdzv-endpoint", "",
		"`HOST:PORT` on the host of rank 0 where the ranks of a job on several hosts meet (default: the variable "+
			job.EndpointVar+", or the address that torchrun or srun sets)")
	fl.StringVar(&f.SecretFile, "rdzv-secret-file", "",
		"`FILE` with the secret that authenticates the ranks (default: the variable "+job.SecretVar+")")
	fl.BoolVar(&f.OtherBuild, "allow-other-build", false, OtherBuildHelp)
	f.Bind = cores.Auto
	Choice(fl, &f.Bind, "bind", "binding", BindHelp, cores.Binds())
	fl.IntVar(&f.Threads, "threads-per-rank", 0,
		"threads of each rank; sets OMP_NUM_THREADS and the like (default: not set)")
	fl.DurationVar(&f.Options.JoinTimeout, "join-timeout", run.StartLimit, "how long to wait for all ranks to start")
}

// declareTrials adds the flags about repetitions, time limits and failures.
func (f *Flags) declareTrials(fl *pflag.FlagSet) {
	o := &f.Options
	fl.Uint64Var(&f.Seed, "seed", 1, "seed of the inputs and of the order of trials")
	fl.Var((*positive)(&f.Trials), "trials",
		"repeat every launch N times, interleaved (default: the bench's own, else 4 if environment variables are "+
			"swept and 1 otherwise)")
	fl.DurationVar(&o.Timeout, "timeout", 0, "time limit per point and trial (default: the bench's own, else 2m)")
	fl.DurationVar(&o.ImportLimit, importFlag, python.ImportLimit, "time limit for the import of a Python file")
	fl.DurationVar(&o.Grace, "grace", launch.DefaultGrace,
		"time between SIGTERM and SIGKILL for a program that is ended early")
	fl.DurationVar(&o.Heartbeat, "heartbeat", connection.SilenceLimit,
		"how long a rank may be silent before it counts as lost; one of this host that only waits for a processor is waited "+
			"for, and its row is disturbed")
	fl.IntVar(&o.Retries, "retries", 0, "additional attempts after a failure")
	fl.IntVar(&o.Remeasure, "remeasure", Remeasure,
		"measure a point again, up to N times, if CPU steal, other programs, another kernbench, drift or noise disturbed "+
			"it; the least disturbed measurement counts")
	fl.BoolVar(&o.FailFast, "fail-fast", false, "stop after the first failed row")
}

// FormatFlag adds --format with the formats of rows.
func FormatFlag(fl *pflag.FlagSet, format *string) {
	*format = export.Default
	Choice(fl, format, "format", "output format", "what to print", export.Formats.Names())
}

// Choice adds a flag that accepts only the given words. The value of p is the default. The noun
// describes the value in errors, and the help gets a list of the words unless it names them.
func Choice[T ~string](fl *pflag.FlagSet, p *T, name, noun, help string, words []string) {
	if !strings.Contains(help, words[0]) {
		help += ": " + strings.Join(words, ", ")
	}
	fl.Var(choiceFlag[T]{p, noun, words}, name, help)
}

type choiceFlag[T ~string] struct {
	value *T
	noun  string
	words []string
}

func (f choiceFlag[T]) String() string { return string(*f.value) }
func (f choiceFlag[T]) Type() string   { return "WORD" }
func (f choiceFlag[T]) Set(s string) error {
	if !slices.Contains(f.words, s) {
		return suggest.Unknown(f.noun, s, f.words)
	}
	*f.value = T(s)
	return nil
}

// DeclareSampling adds the flags that control the sampling of points. It leaves out flags whose
// names belong to an axis or option of the benches.
func (f *Flags) DeclareSampling(fl *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	s := &f.Sampling
	Choice(own, &s.Cadence, "cadence", "cadence",
		"order of calls: isolated (barrier before each call) or streaming (back to back) (default: the bench's own)",
		[]string{string(measure.Isolated), string(measure.Streaming)})
	Choice(own, &s.Cache, "cache", "cache state",
		"caches before a sample: warm (as the previous call left them) or cold (flushed) (default: the bench's own)",
		[]string{string(measure.Warm), string(measure.Cold)})
	own.Func("noise", "sample until the median is known to a `FRACTION`, such as 1% or 0.01; 0 means until the largest "+
		"number of samples or time (default: the bench's own, else 1%)", func(text string) error {
		noise, err := plan.ParseNoise(text)
		s.Noise = &noise
		return err
	})
	own.IntVar(&s.MinSamples, "min-samples", 0,
		"take at least N samples per point, unless --max-time is reached (default: the bench's own, else 20)")
	own.IntVar(&s.MaxSamples, "max-samples", 0,
		"take at most N samples per point (default: the bench's own, else 10000)")
	own.DurationVar(&s.MinTime, "min-time", 0,
		"sample a point for at least this long (default: the bench's own, else 100ms)")
	own.DurationVar(&s.MaxTime, "max-time", 0,
		"sample a point for at most this long (default: the bench's own, else 5s)")
	addFree(fl, own, "Sampling")
}

// DeclareLabels adds the flags for tags and notes, except those whose names belong to an axis or option of the benches.
func (f *Flags) DeclareLabels(fl *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringArrayVar(&f.Options.Tags, "tag", nil,
		"label the run with this `NAME`, by which it can be found later (repeatable)")
	own.StringVar(&f.Options.Note, "note", "", "store this `TEXT` with the run, such as what was changed")
	addFree(fl, own, outputFlags)
}

// addFree adds the flags whose names are not taken, under a title of the help.
func addFree(fl, own *pflag.FlagSet, title string) {
	guide.Under(title, own)
	own.VisitAll(func(flag *pflag.Flag) {
		if fl.Lookup(flag.Name) == nil {
			fl.AddFlag(flag)
		}
	})
}

// check rejects values that no run can have.
func (f *Flags) check() error {
	o, s := f.Options, f.Sampling
	for _, n := range []struct {
		flag  string
		value int
	}{{"retries", o.Retries}, {"remeasure", o.Remeasure}, {"threads-per-rank", f.Threads},
		{"min-samples", s.MinSamples}, {"max-samples", s.MaxSamples}} {
		if err := AtLeast(n.flag, n.value, 0); err != nil {
			return err
		}
	}
	var err error
	if f.Options.Tags, err = journal.ParseTags(o.Tags); err != nil {
		return fmt.Errorf("--tag: %w", err)
	}
	if err := journal.CheckNote(o.Note); err != nil {
		return fmt.Errorf("--note: %w", err)
	}
	switch {
	case o.RetryFailed && !o.Resume:
		return errors.New("--retry-failed needs --resume: a new run has nothing to retry (--retries is for its own failures)")
	case o.Timeout < 0:
		return fmt.Errorf("--timeout %v: a time cannot be negative", o.Timeout)
	case o.ImportLimit <= 0:
		return fmt.Errorf("--%s %v: want a time above 0, such as 5m", importFlag, o.ImportLimit)
	case o.Heartbeat < time.Second:
		return fmt.Errorf("--heartbeat %v: want at least 1s, because ranks report twice a second", o.Heartbeat)
	case o.JoinTimeout <= 0:
		return fmt.Errorf("--join-timeout %v: want a time above 0, such as 2m", o.JoinTimeout)
	case o.Grace <= 0:
		return fmt.Errorf("--grace %v: want a time above 0, such as 30s", o.Grace)
	case s.MinTime < 0 || s.MaxTime < 0:
		return fmt.Errorf("--min-time %v, --max-time %v: a time cannot be negative", s.MinTime, s.MaxTime)
	case s.MaxTime > 0 && s.MinTime > s.MaxTime:
		return fmt.Errorf("--min-time %v is above --max-time %v", s.MinTime, s.MaxTime)
	case s.MaxSamples > 0 && s.MinSamples > s.MaxSamples:
		return fmt.Errorf("--min-samples %d is above --max-samples %d", s.MinSamples, s.MaxSamples)
	}
	return nil
}

// fixedNames returns the flags of every `run`. No axis or option may have these names. They are computed once, because
// every start of the program asks for them for each flag of each bench.
var fixedNames = sync.OnceValue(func() []string {
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Flags).Declare(fl, "")
	names := []string{"help"} // added by cobra
	fl.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
})

// FlagError rewords an error of the flag parser like all other errors: the flag, what was wrong,
// and what would be right. known are the benches that the program has.
func FlagError(fl *pflag.FlagSet, known []*bench.Bench, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(fl, known, unknown)
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: missing value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if want, known := wants[f.Value.Type()]; known {
			return fmt.Errorf("--%s %q: want %s", f.Name, invalid.GetValue(), want)
		}
		if _, quotes := f.Value.(assignFlag); quotes {
			return fmt.Errorf("--%s %q: %w", f.Name, invalid.GetValue(), invalid.Unwrap())
		}
		return fmt.Errorf("--%s: %w", f.Name, invalid.Unwrap()) // the error quotes the value itself
	}
	return err
}

// wants describes the values of a flag, by the name of its type.
var wants = map[string]string{
	"bool":     "true or false",
	"int":      "a whole number",
	"count":    "a whole number of at least 1",
	"uint64":   "a whole number, 0 or more",
	"float64":  "a number",
	"duration": "a time such as 90s, 2m or 500ms",
	"intSlice": "whole numbers such as 0,2",
}

// unknownFlag suggests the nearest flag. If there are many flags, it lists only the bench's flags,
// because they differ from bench to bench; the help has the others.
func unknownFlag(fl *pflag.FlagSet, known []*bench.Bench, e *pflag.NotExistError) error {
	if e.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("unknown flag %q", "-"+e.GetSpecifiedName())
	}
	var all, own []string
	fl.VisitAll(func(f *pflag.Flag) {
		all = append(all, "--"+f.Name)
		if _, ofBench := f.Value.(*textFlag); ofBench {
			own = append(own, "--"+f.Name)
		}
	})
	name := "--" + e.GetSpecifiedName()
	const few = 12
	if len(all) <= few {
		return suggest.Unknown("flag", name, all)
	}
	text := fmt.Sprintf("unknown flag %q", name)
	if of := owners(known, e.GetSpecifiedName()); len(own) == 0 && len(of) > 0 && fl.Lookup("bench") != nil {
		who, which := "only some benches have it ("+strings.Join(of, ", ")+")", "one"
		if len(of) == 1 {
			who, which = "only "+of[0]+" has it", "the bench"
		}
		return fmt.Errorf("%s: %s, so name %s: 'run %s %s ...'", text, who, which, of[0], name)
	}
	if near := suggest.Nearest(name, all); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	if len(own) > 0 {
		text += fmt.Sprintf(" (the bench has %s)", strings.Join(own, ", "))
	}
	return errors.New(text)
}

// positive is a flag with a whole number of at least 1. Its zero value means that it was not given.
type positive int

func (p *positive) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("want a whole number of at least 1")
	}
	*p = positive(n)
	return nil
}

func (p *positive) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.Itoa(int(*p))
}

func (*positive) Type() string { return "count" }

// AtLeast returns an error if a flag's value is too small.
func AtLeast(flag string, value, minimum int) error {
	if value < minimum {
		return fmt.Errorf("--%s %d: want a whole number of at least %d", flag, value, minimum)
	}
	return nil
}
