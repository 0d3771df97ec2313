package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/view/export"
)

// runFlags are the fixed flags of `run`.
type runFlags struct {
	benches, files []string
	axes, envs     []plan.Assign
	skips          []plan.Assign
	zips, only     []string
	ranks          string
	profile        string
	backend, bind  string
	launcher       string
	iface          string
	endpoint       string // where the ranks of a job meet
	secretFile     string
	threads        int
	seed           uint64
	trials         int
	timeout        time.Duration
	retries        int
	failFast       bool
	resume         bool
	renderOnly     bool
	plan           bool
	format         string
	plots          []string
	out            string
	quiet          bool
}

// declare adds the flags, in the order of the help.
func (f *runFlags) declare(fl *pflag.FlagSet, program string) {
	fl.SetNormalizeFunc(normalize)
	fl.SortFlags = false
	fl.StringArrayVar(&f.benches, "bench", nil, "benchmark to run, a name or a glob (see "+program+" list)")
	fl.StringArrayVarP(&f.files, "file", "f", nil, "sweep file to run (see docs/sweep-format.md)")
	fl.Var(assignFlag{&f.axes, "size=1K:64M:x4"}, "axis", "values of an axis (repeatable)")
	fl.Var(assignFlag{&f.envs, "NCCL_PROTO=LL,Simple,-"}, "env", "values of an environment variable, - for unset (repeatable)")
	fl.StringArrayVar(&f.zips, "zip", nil, "axes and variables `K1,K2` that move together (repeatable)")
	fl.Var(assignFlag{&f.skips, "size=1K"}, "skip", "values to leave out (repeatable)")
	fl.StringArrayVar(&f.only, "only", nil, "run only points where `EXPR` holds, such as 'size>=1M && num_ranks==2'")
	fl.StringVar(&f.ranks, "ranks", "", "rank counts, the same as --axis num_ranks=`SPEC`")
	fl.StringVar(&f.profile, "profile", "", "named set of axis values, of benches that have `NAME`s for them")
	fl.StringVar(&f.backend, "backend", "auto", "what to run on: auto (mpi in a job of an MPI launcher, else the bench's first), or one that the bench has")
	fl.StringVar(&f.launcher, "launcher", "auto", "what starts the ranks: local (this program), join (the job that this process is a rank of), auto (join in a job, else local), or a `COMMAND`: mpirun, mpiexec or srun, with flags of its own")
	fl.StringVar(&f.iface, "interface", "", "network interface by which ranks that a --launcher starts reach this host (default: loopback)")
	fl.StringVar(&f.endpoint, "rdzv-endpoint", "", "`HOST:PORT` where the ranks of a job on several hosts meet, of the host of rank 0 (default: the variable "+endpointVar+", or what torchrun and srun tell)")
	fl.StringVar(&f.secretFile, "rdzv-secret-file", "", "`FILE` with the secret by which they know each other (default: the variable "+secretVar+")")
	fl.StringVar(&f.bind, "bind", "auto", "ranks to cores: auto (an equal share each), core (one per thread), none")
	fl.IntVar(&f.threads, "threads-per-rank", 0, "threads a rank may use; sets OMP_NUM_THREADS and the like")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of inputs and of the order of trials")
	fl.IntVar(&f.trials, "trials", 0, "repeat every launch N times, interleaved (default: the bench's own, else 1)")
	fl.DurationVar(&f.timeout, "timeout", 0, "limit per point and trial (default: the bench's own, else 2m)")
	fl.IntVar(&f.retries, "retries", 0, "attempts after a failed one")
	fl.BoolVar(&f.failFast, "fail-fast", false, "stop after the first failed row")
	fl.BoolVar(&f.resume, "resume", false, "continue the folder's latest run: only what is missing, failed points once more")
	fl.BoolVar(&f.renderOnly, "render-only", false, "draw again from stored rows, run nothing")
	fl.BoolVar(&f.plan, "plan", false, "print points, launches and an estimate, run nothing")
	fl.StringVar(&f.format, "format", export.Default, "what to print: "+strings.Join(export.Formats(), ", "))
	fl.StringArrayVar(&f.plots, "plot", nil, "draw `x=AXIS,y=METRIC,by=AXIS` as PNG and SVG (repeatable)")
	fl.StringVar(&f.out, "out", "", "RUN folder (default out/<bench>)")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, only the result")
}

// check finds values that no run can have.
func (f *runFlags) check() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"trials", f.trials}, {"retries", f.retries}, {"threads-per-rank", f.threads}} {
		if err := atLeast(n.flag, n.value, 0); err != nil {
			return err
		}
	}
	switch {
	case f.timeout < 0:
		return fmt.Errorf("--timeout %v: a time cannot be negative", f.timeout)
	case !slices.Contains(export.Formats(), f.format):
		return suggest.Unknown("format", f.format, export.Formats())
	case !slices.Contains(cores.Binds(), f.bind):
		return suggest.Unknown("binding", f.bind, cores.Binds())
	}
	return nil
}

// reserved are names that `run` may need one day, or that cobra adds.
var reserved = []string{"help", "trace"}

// fixedNames are the flags of every `run`; no axis or option may take their names.
func fixedNames() []string {
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(runFlags).declare(fl, "")
	names := slices.Clone(reserved)
	fl.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}
