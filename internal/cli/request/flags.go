package request

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/view/export"
)

// Flags are the fixed flags of `run`.
type Flags struct {
	Benches, Files []string
	Axes, Envs     []plan.Assign
	Skips          []plan.Assign
	Zips, Only     []string
	Ranks          string
	Profile        string
	Backend, Bind  string
	Launcher       string
	Interface      string
	Ports          string
	Endpoint       string // where the ranks of a job meet
	SecretFile     string
	Threads        int
	Seed           uint64
	Trials         int
	Timeout        time.Duration
	Grace          time.Duration
	Retries        int
	Remeasure      int
	Cadence, Cache string
	Noise          string
	Sampling       plan.Sampling // what these and the flags for samples and time say
	FailFast       bool
	Resume         bool
	RetryFailed    bool
	Follow         bool
	RenderOnly     bool
	Plan           bool
	Format         string
	Plots          []string
	Out            string
	Quiet          bool
}

// Remeasure is the default of --remeasure. Tests that do not look at it set 0: hosts that
// run tests are busy.
var Remeasure = 3

// Declare adds the flags, in the order of the help.
func (f *Flags) Declare(fl *pflag.FlagSet, program string) {
	fl.SetNormalizeFunc(Normalize)
	fl.SortFlags = false
	fl.StringArrayVar(&f.Benches, "bench", nil, "benchmark to run, a name or a glob (see "+program+" list)")
	fl.StringArrayVarP(&f.Files, "file", "f", nil,
		"`FILE` to run: a sweep in YAML (docs/sweep-format.md), benches in Python (docs/python.md), or a program that has "+
			"benches (docs/protocol.md)")
	fl.Var(assignFlag{&f.Axes, "size=1K:64M:x4"}, "axis", "values of an axis (repeatable)")
	fl.Var(assignFlag{&f.Envs, "NCCL_PROTO=LL,Simple,-"}, "env",
		"values of an environment variable, - for unset (repeatable)")
	fl.StringArrayVar(&f.Zips, "zip", nil, "axes and variables `K1,K2` that move together (repeatable)")
	fl.Var(assignFlag{&f.Skips, "size=1K"}, "skip", "values to leave out (repeatable)")
	fl.StringArrayVar(&f.Only, "only", nil, "run only points where `EXPR` holds, such as 'size>=1M && num_ranks==2'")
	fl.StringVar(&f.Ranks, "ranks", "", "rank counts, the same as --axis num_ranks=`SPEC`")
	fl.StringVar(&f.Profile, "profile", "", "`NAME` of a set of axis values, for benches that declare some")
	fl.StringVar(&f.Backend, "backend", "auto",
		"what to run on: auto (mpi in a job of an MPI launcher, nccl where a bench of collectives has a GPU for every "+
			"rank, else the bench's first), or one that the bench has")
	fl.StringVar(&f.Launcher, "launcher", "auto",
		"what starts the ranks: local (this program), join (the job that this process is a rank of), auto (join in a job, "+
			"else local), or a `COMMAND`: mpirun, mpiexec or srun, with flags of its own")
	fl.StringVar(&f.Interface, "interface", "",
		"network interface by which ranks that a --launcher starts reach this host and each other (default: loopback); "+
			"sets NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME")
	fl.StringVar(&f.Ports, "port-range", "",
		"ports `A-B` to listen on for ranks on other hosts, and for them, as a firewall lets through (default: the variable "+jobenv.PortsVar+", or any)")
	fl.StringVar(&f.Endpoint, "rdzv-endpoint", "",
		"`HOST:PORT` on the host of rank 0 where the ranks of a job on several hosts meet (default: the variable "+
			job.EndpointVar+", or what torchrun or srun sets)")
	fl.StringVar(&f.SecretFile, "rdzv-secret-file", "",
		"`FILE` with the secret that authenticates the ranks (default: the variable "+job.SecretVar+")")
	fl.StringVar(&f.Bind, "bind", "auto", "ranks to cores: auto (an equal share each), core (one per thread), none")
	fl.IntVar(&f.Threads, "threads-per-rank", 0, "threads a rank may use; sets OMP_NUM_THREADS and the like")
	fl.Uint64Var(&f.Seed, "seed", 1, "seed of inputs and of the order of trials")
	fl.IntVar(&f.Trials, "trials", 0, "repeat every launch N times, interleaved (default: the bench's own, else 1)")
	fl.DurationVar(&f.Timeout, "timeout", 0, "time limit per point and trial (default: the bench's own, else 2m)")
	fl.DurationVar(&f.Grace, "grace", launch.DefaultGrace,
		"time between SIGTERM and SIGKILL for a program that is ended early")
	fl.IntVar(&f.Retries, "retries", 0, "more attempts after a failure")
	fl.IntVar(&f.Remeasure, "remeasure", Remeasure,
		"measure a point again, up to N times, if stolen time, other programs, another kernbench, drift or noise "+
			"disturbed it; the least disturbed one counts")
	fl.BoolVar(&f.FailFast, "fail-fast", false, "stop after the first failed row")
	fl.BoolVar(&f.Resume, "resume", false,
		"continue the folder's latest run: run what is missing, retry failed points once")
	fl.BoolVar(&f.RetryFailed, "retry-failed", false,
		"with --resume: retry every failed point, also those that have failed again since")
	fl.BoolVar(&f.Follow, "follow", false,
		"with --resume: if the run is still under way in another process, show its rows until it ends, and end as it does")
	fl.BoolVar(&f.RenderOnly, "render-only", false, "draw again from stored rows, run nothing")
	fl.BoolVar(&f.Plan, "plan", false, "print points, launches and an estimate, run nothing")
	fl.StringVar(&f.Format, "format", export.Default, "what to print: "+strings.Join(export.Formats.Names(), ", "))
	fl.StringArrayVar(&f.Plots, "plot", nil, "draw `x=AXIS,y=METRIC,by=AXIS` as PNG and SVG (repeatable)")
	fl.StringVar(&f.Out, "out", "", "RUN folder (default out/<bench>)")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress, only the result")
}

// DeclareSampling adds the flags that say how points are sampled, those apart whose names
// an axis or option of the benches has.
func (f *Flags) DeclareSampling(fl *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&f.Cadence, "cadence", "",
		"what is between two samples: isolated (the ranks meet, then one call) or streaming (calls follow one another) "+
			"(default: the bench's own)")
	own.StringVar(&f.Cache, "cache", "",
		"what the caches hold before a sample: warm (what the call before left) or cold (nothing of it) (default: the "+
			"bench's own)")
	own.StringVar(&f.Noise, "noise", "",
		"sample until the median is known to `SHARE`, such as 1% or 0.01; 0 takes the most samples or time (default: the "+
			"bench's own, else 1%)")
	own.IntVar(&f.Sampling.MinSamples, "min-samples", 0,
		"take at least N samples a point, unless --max-time ends them (default: the bench's own, else 20)")
	own.IntVar(&f.Sampling.MaxSamples, "max-samples", 0,
		"take at most N samples a point (default: the bench's own, else 10000)")
	own.DurationVar(&f.Sampling.MinTime, "min-time", 0,
		"sample a point for at least this long (default: the bench's own, else 100ms)")
	own.DurationVar(&f.Sampling.MaxTime, "max-time", 0,
		"sample a point for at most this long (default: the bench's own, else 5s)")
	own.VisitAll(func(flag *pflag.Flag) {
		if fl.Lookup(flag.Name) == nil {
			fl.AddFlag(flag)
		}
	})
}

// readSampling takes the sampling flags that are text, and finds values that no run can have.
func (f *Flags) readSampling() error {
	s := &f.Sampling
	cadences, caches := []string{string(measure.Isolated), string(measure.Streaming)},
		[]string{string(measure.Warm), string(measure.Cold)}
	switch {
	case f.Cadence != "" && !slices.Contains(cadences, f.Cadence):
		return fmt.Errorf("--cadence: %w", suggest.Unknown("cadence", f.Cadence, cadences))
	case f.Cache != "" && !slices.Contains(caches, f.Cache):
		return fmt.Errorf("--cache: %w", suggest.Unknown("cache state", f.Cache, caches))
	case s.MinTime < 0 || s.MaxTime < 0:
		return fmt.Errorf("--min-time %v, --max-time %v: a time cannot be negative", s.MinTime, s.MaxTime)
	case s.MaxTime > 0 && s.MinTime > s.MaxTime:
		return fmt.Errorf("--min-time %v is above --max-time %v", s.MinTime, s.MaxTime)
	case s.MaxSamples > 0 && s.MinSamples > s.MaxSamples:
		return fmt.Errorf("--min-samples %d is above --max-samples %d", s.MinSamples, s.MaxSamples)
	}
	s.Cadence, s.Cache = measure.Cadence(f.Cadence), measure.Cache(f.Cache)
	if f.Noise != "" {
		noise, err := plan.ParseNoise(f.Noise)
		if err != nil {
			return fmt.Errorf("--noise: %w", err)
		}
		s.Noise = &noise
	}
	return nil
}

// check finds values that no run can have.
func (f *Flags) check() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"trials", f.Trials}, {"retries", f.Retries}, {"remeasure", f.Remeasure}, {"threads-per-rank", f.Threads},
		{"min-samples", f.Sampling.MinSamples}, {"max-samples", f.Sampling.MaxSamples}} {
		if err := AtLeast(n.flag, n.value, 0); err != nil {
			return err
		}
	}
	switch {
	case f.RetryFailed && !f.Resume:
		return errors.New("--retry-failed goes with --resume: a new run has nothing to retry (--retries is for its " +
			"own failures)")
	case f.Follow && !f.Resume:
		return errors.New("--follow goes with --resume: a new run is nobody else's")
	case f.Timeout < 0:
		return fmt.Errorf("--timeout %v: a time cannot be negative", f.Timeout)
	case f.Grace <= 0:
		return fmt.Errorf("--grace %v: want a time above 0, such as 30s", f.Grace)
	case !slices.Contains(cores.Binds(), f.Bind):
		return suggest.Unknown("binding", f.Bind, cores.Binds())
	}
	if _, err := export.Formats.Lookup(f.Format); err != nil {
		return err
	}
	return f.readSampling()
}

// reserved are names that cobra adds.
var reserved = []string{"help"}

// fixedNames are the flags of every `run`; no axis or option may take their names.
func fixedNames() []string {
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Flags).Declare(fl, "")
	names := slices.Clone(reserved)
	fl.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}
