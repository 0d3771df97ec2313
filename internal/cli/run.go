package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/cli/guide"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/cli/terminal"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const specHelp = `SPEC is a list (1,2,8), a geometric range (1K:64M:x4), a linear one (0:64:+8),
or powers of two (pow2:8:13), in any combination. K = Ki = 1024 on byte axes.
For --env, a bare - leaves the variable unset.`

// runCodes are the exit codes of a run.
var runCodes = codes{exitGood: "good (skipped rows allowed)",
	exitFailed:      "a row failed, a required row was not executed, or nothing ran",
	exitInterrupted: "interrupted (completed rows are kept: continue with --resume)"}

// onlyOneName refuses the further arguments of `run` and `tune`.
var onlyOneName = arguments(0, 0, "a benchmark is named by --bench, a sweep file by -f; only the first needs no flag")

func (a *app) runCommand(ctx context.Context) (*cobra.Command, error) {
	var f request.Flags
	cmd := &cobra.Command{
		Use:   "run (--bench NAME | -f sweep.yaml | -f bench.py) [flags]",
		Short: "Run a benchmark over its axes and record every row",
		Long: `Runs every point of a benchmark: the product of its axes, rank counts and
environment variables. Points with equal ranks and environment share a launch;
changing either starts new processes. Each row is written to RUN/journal.jsonl as
soon as it is complete. Tables and figures are views of this file.

` + specHelp + `

The name of a bench or of a file needs no flag: ` + "`run memory`, `run -q sweep.yaml`" + `.
With a bench, its own axes and options are flags too:
'` + a.name + ` run --bench NAME --help' lists them.`,
		Example: fmt.Sprintf(`  %[1]s run --bench memory
  %[1]s run --bench memory --size 4K:256M:x4 --ranks 1,2 --only 'size>=1M && num_ranks==2'
  %[1]s run --bench memory --env GOGC=50,100,- --trials 6
  %[1]s run --bench memory --cache cold --noise 0.5%% --max-time 30s
  %[1]s run -f examples/rccl-cta-sweep.yaml --plan
  %[1]s run -f examples/python/memory.py --trials 3
  %[1]s run -f sweep.yaml --env NCCL_MIN_CTAS=32,64 --env NCCL_MAX_CTAS=32,64 --zip NCCL_MIN_CTAS,NCCL_MAX_CTAS
  %[1]s run --bench memory --ranks 2 --launcher 'mpirun --hostfile hosts' --interface eth0
  %[1]s run --bench memory --plot x=size,y=gbps,by=num_ranks --out out/mine`, a.name),
		Args:        onlyOneName,
		Annotations: cleansUp(runCodes),
	}
	f.Declare(cmd.Flags(), a.name)
	benches, read, err := a.selectBenches(ctx, cmd)
	if err != nil {
		return nil, err
	}
	f.DeclareSampling(cmd.Flags())
	f.DeclareLabels(cmd.Flags())
	a.explain(cmd, benches)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(benches) == 0 {
			return usage(fmt.Errorf("nothing to run: give --bench NAME (%s) or -f sweep.yaml",
				strings.Join(a.benchNames(), ", ")))
		}
		fast, err := a.fast(benches)
		if err != nil {
			return usage(err)
		}
		f.RenderOnly = f.RenderOnly || fast
		work := func() error { return a.runAll(cmd.Context(), benches, f, read) }
		if f.Plan || f.RenderOnly { // these start no processes
			return readOnly(cmd.Context(), work)
		}
		return work()
	}
	return cmd, nil
}

// selectBenches finds the benches that the command line names, if it is for this command, and adds
// flags for their axes and options.
func (a *app) selectBenches(ctx context.Context, cmd *cobra.Command) ([]*bench.Bench, request.Values, error) {
	cmd.ValidArgsFunction = guide.NamesOrFiles(a.benches) // until the arguments name a bench
	args, completing := guide.Completing(a.args)
	if len(args) == 0 || args[0] != cmd.Name() {
		return nil, nil, nil
	}
	benches, words, err := request.Select(ctx, cmd.Flags(), a.benches, args[1:])
	if err != nil && !completing {
		return nil, nil, loadError(ctx, err)
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return onlyOneName(cmd, args[min(words, len(args)):])
	}
	read, err := request.Bind(cmd.Flags(), benches)
	guide.Complete(cmd, a.benches, benches)
	if len(benches) > 0 {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	return benches, read, usage(err)
}

// explain replaces the help text of `run` by the selected bench's text, and the examples by examples
// with the program's own benches.
func (a *app) explain(cmd *cobra.Command, benches []*bench.Bench) {
	if own := a.ownExample(); own != nil {
		cmd.Example = a.benchExamples(own)
	}
	if len(benches) == 1 {
		cmd.Example = a.benchExamples(benches[0])
		if benches[0].Doc != "" {
			cmd.Long = benches[0].Doc + "\n\n" + specHelp
		}
	}
}

// fast reports whether an environment variable that the benches declare asks for stored rows.
func (a *app) fast(benches []*bench.Bench) (bool, error) {
	declare := lists.Filter(benches, func(b *bench.Bench) bool { return b.RenderVar != "" })
	if len(declare) == 0 {
		return false, nil
	}
	name, own := declare[0].RenderVar, declare[0].Name
	switch value := jobenv.Variable(a.environ, name); strings.ToLower(value) {
	case "1", "true", "yes", "on":
		if len(declare) < len(benches) {
			return false, fmt.Errorf("%s=%s applies only to some of the benches: run %s separately", name, value, own)
		}
		return true, nil
	case "", "0", "false", "no", "off":
		return false, nil
	default:
		return false, fmt.Errorf("%s=%s: want 1, true, yes or on, or 0, false, no or off", name, value)
	}
}

func (a *app) isFast(b *bench.Bench) bool {
	fast, err := a.fast([]*bench.Bench{b})
	return fast && err == nil
}

// ownExample returns a bench for the examples if the program does not have the bench memory, which the
// usual examples use. Otherwise it returns nil.
func (a *app) ownExample() *bench.Bench {
	if len(a.benches) == 0 || a.bench("memory") != nil {
		return nil
	}
	return a.benches[0]
}

// benchExamples returns example commands for a bench, using one of its axes if it has any.
func (a *app) benchExamples(b *bench.Bench) string {
	start := fmt.Sprintf("  %s run --bench %s", a.name, b.Name)
	switch {
	case b.Script != nil:
		start = fmt.Sprintf("  %s run -f %s", a.name, filepath.Base(b.Script[1]))
	case b.Parts[0].Command != nil:
		start = fmt.Sprintf("  %s run -f sweep.yaml", a.name)
	}
	lines := []string{start, start + " --plan"}
	for _, x := range b.Parts[0].Axes {
		if x.Name != bench.RanksAxis && len(x.Values) > 0 {
			lines = append(lines, fmt.Sprintf("%s --%s %s --trials 6", start, x.Name, point.FormatSpec(x.Values[:1])))
			break
		}
	}
	return strings.Join(lines, "\n")
}

// runAll runs the benches one after the other and returns the worst exit code.
func (a *app) runAll(ctx context.Context, benches []*bench.Bench, f request.Flags, read request.Values) error {
	if err := a.usePorts(f.Ports); err != nil {
		return usage(err)
	}
	self := a.process(f.Endpoint, f.SecretFile, f.OtherBuild)
	self.JoinTimeout = f.Options.JoinTimeout
	of, err := self.Find(f.Launcher)
	if err != nil {
		return usage(err)
	}
	starts := !f.Plan && !f.RenderOnly
	var joined *run.Joined
	switch {
	case of == nil:
	case of.Rank > 0 && starts:
		return follow(ctx, self, of)
	case of.Rank > 0:
		return nil
	case starts: // before planning, because the other ranks wait for rank 0
		if ctx, joined, err = lead(ctx, self, of); err != nil {
			return err
		}
		defer joined.Leader.Close()
		// If the launcher has restarted its ranks, perhaps with another number of them, continue their run.
		if of.Restarts > 0 && !f.Options.Resume {
			if f.Options.ResumeSince, err = job.Began(of); err != nil {
				return fmt.Errorf("finding the run that the restarted ranks continue: %w", err)
			}
			f.Options.Resume = true
		}
	}
	var plans []request.Planned
	err = interruptible(ctx, func() (err error) { // planning a million points takes seconds
		plans, err = request.Run{Program: a.name, Known: a.benches, Benches: benches, Flags: f, Read: read, Job: of,
			PlanOnly: f.Plan, Environ: a.environ}.Plans()
		return usage(err)
	})
	if err != nil {
		return err
	}
	for _, j := range plans {
		for _, note := range j.Plan.Notes {
			if starts && !f.Quiet {
				a.stderr.Printf("%s: %s: %s\n", a.name, j.Bench.Name, note)
			}
		}
		for _, doubt := range j.Doubts {
			if starts && !f.Quiet {
				a.stderr.Printf("%s: warning: %v: it can be drawn only if %s reports it\n", a.name, doubt, j.Bench.Name)
			}
		}
	}
	code := exitGood
	for _, j := range plans {
		c, err := a.runOne(ctx, j, f, joined)
		if err != nil {
			return err
		}
		code = max(code, c)
		if c == exitInterrupted {
			break
		}
	}
	return exit(code)
}

// process describes this process for a job.
func (a *app) process(endpoint, secretFile string, otherBuild bool) job.Process {
	return job.Process{Name: a.name, Args: a.args, Environ: a.environ, Endpoint: endpoint, SecretFile: secretFile,
		AllowOtherBuild: otherBuild}
}

// usePorts restricts this process and its children to the ports of --port-range or of its
// environment variable.
func (a *app) usePorts(flag string) (err error) {
	if flag != "" {
		if _, err := connection.ParsePortRange(flag); err != nil {
			return fmt.Errorf("--port-range: %w", err)
		}
		a.environ = append(a.environ, jobenv.PortsVar+"="+flag)
	}
	a.ports, err = connection.PortRangeFromEnv(a.environ)
	return err
}

// follow executes a rank other than 0. Rank 0 plans, records and prints.
func follow(ctx context.Context, self job.Process, of *jobenv.Job) error {
	cfg, err := self.HostConfig(of)
	switch {
	case err != nil && of.LocalRank > 0: // local rank 0 reports the same error
		return exit(exitUsage)
	case err != nil: // each host reports its error, because it may concern only this host
		return err
	}
	err = rankhost.Follow(ctx, cfg)
	switch {
	case errors.Is(err, rankhost.ErrInterrupted):
		return exit(exitInterrupted)
	case errors.Is(err, rankhost.ErrGivenUp):
		return exit(exitFailed)
	}
	return err
}

// lead waits for the other ranks of the job, as its rank 0.
func lead(ctx context.Context, self job.Process, of *jobenv.Job) (context.Context, *run.Joined, error) {
	cfg, err := self.HostConfig(of)
	if err != nil {
		return ctx, nil, usage(err)
	}
	ctx, joined, err := job.Lead(ctx, of, cfg)
	if errors.Is(err, job.ErrInterrupted) {
		err = &exitError{exitInterrupted, err}
	}
	return ctx, joined, err
}

// runOne runs one planned bench and shows its results.
func (a *app) runOne(ctx context.Context, j request.Planned, f request.Flags, joined *run.Joined) (int, error) {
	if f.Plan {
		w := bufio.NewWriterSize(a.stdout.Writer(), 1<<16) // a plan may have a million lines
		terminal.WritePlan(texttab.ForTerminal(w), j.Plan, j.Out, earlierDurations(j.Out, j.Bench.Name))
		return exitGood, w.Flush()
	}
	if f.RenderOnly {
		return a.renderOnly(j, f)
	}
	var via *run.Launcher
	if joined == nil {
		var err error
		if via, err = job.Launcher(ctx, f.Launcher, f.Interface, j.Plan.Backend); err != nil {
			return exitUsage, usage(err)
		}
	} else {
		joined.Native = dist.Describe(j.Plan.Backend).Launcher != nil
	}
	progress := terminal.NewProgress(a.stderr.Writer(), a.streams[1], j.Bench.Name, j.Plan.Backend, a.isTerm, f.Quiet)
	opts := a.runOptions(j, f, via, progress)
	opts.Joined = joined
	res, err := run.Run(ctx, j.Plan, opts)
	progress.Close()
	if err != nil {
		return exitFailed, err
	}
	if err := a.show(j, f, res.Run); err != nil {
		return exitFailed, err
	}
	if res.GivenUp > 0 && !f.Quiet {
		a.stderr.Printf("%s: %s failed twice and will not be retried again (use --resume --retry-failed)\n", a.name,
			unit.Plural(res.GivenUp, "row"))
	}
	return a.conclude(res, j.Out), nil
}

// conclude prints why a run has ended early or measured nothing, and returns its exit code.
func (a *app) conclude(res run.Result, dir string) int {
	switch {
	case res.Broken != "":
		a.stderr.Printf("%s: the job cannot continue: %s; completed rows are in %s, --resume continues the run\n",
			a.name,
			res.Broken, dir)
		return exitFailed
	case res.Interrupted:
		a.stderr.Printf("%s: interrupted; completed rows are in %s, --resume continues the run\n", a.name, dir)
		return exitInterrupted
	}
	a.warnIfAllSkipped(res.Counts)
	return exitCode(res.Counts, res.Missing)
}

// warnIfAllSkipped prints a warning that explains the exit code of a run in which all rows were skipped.
func (a *app) warnIfAllSkipped(counts map[journal.Status]int) {
	total := 0
	for _, n := range counts {
		total += n
	}
	if total > 0 && counts[journal.Skipped] == total {
		a.stderr.Printf("%s: nothing was measured: %s skipped (the table has the reasons)\n", a.name,
			unit.Counted(total, "row was", "rows were"))
	}
}

// runOptions completes the options of the flags for one bench.
func (a *app) runOptions(j request.Planned, f request.Flags, via *run.Launcher,
	progress *terminal.Progress) run.Options {
	o := f.Options
	o.Dir, o.Argv, o.Environ = j.Out, append([]string{a.name}, a.args...), a.environ
	o.Ports, o.Launcher, o.Inputs, o.Observe = a.ports, via, j.Inputs, progress.Observe
	o.Replan, o.AllowOtherBuild = j.Replan, f.OtherBuild
	return o
}

// earlierDurations returns how long the points of a bench took in earlier runs of a folder, by key. It returns nil if
// the folder has no journal.
func earlierDurations(dir, bench string) map[string]time.Duration {
	j, err := journal.Read(dir)
	if err != nil {
		return nil
	}
	return j.Durations(bench)
}

// exitCode returns the exit code for the rows of a run. It is exitGood if at least one row is ok, no row has
// failed, and no required row is missing.
func exitCode(counts map[journal.Status]int, missing int) int {
	if counts[journal.Failed]+counts[journal.Timeout]+missing > 0 || counts[journal.OK] == 0 {
		return exitFailed
	}
	return exitGood
}
