package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/export"
	"github.com/kernbench/kernbench/internal/jobenv"
	"github.com/kernbench/kernbench/internal/journal"
	"github.com/kernbench/kernbench/internal/plan"
	"github.com/kernbench/kernbench/internal/report"
	"github.com/kernbench/kernbench/internal/run"
	"github.com/kernbench/kernbench/internal/suggest"
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

func (a *app) runCommand() (*cobra.Command, error) {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run (--bench NAME | -f sweep.yaml) [flags]",
		Short: "Run a benchmark over its axes and record every row",
		Long: `Runs every point of a benchmark: the product of its axes, rank counts and
environment variables. Points that share ranks and environment share a launch;
changing either starts fresh processes. Rows go to RUN/journal.jsonl as they
are made; tables and figures are views of it.

SPEC is a list (1,2,8), a geometric range (1K:64M:x4), a linear one (0:64:+8),
or powers of two (pow2:8:13), mixed as you like. K = Ki = 1024 on byte axes.
For --env, a bare - leaves the variable unset.

With --bench NAME, the bench's own axes and options are flags too:
` + a.name + ` run --bench NAME --help lists them.

` + exitHelp,
		Example: fmt.Sprintf(`  %[1]s run --bench memory
  %[1]s run --bench memory --size 4K:256M:x4 --ranks 1,2 --only 'size>=1M && num_ranks==2'
  %[1]s run --bench memory --env GOGC=50,100,- --trials 6
  %[1]s run -f examples/rccl-cta-sweep.yaml --plan
  %[1]s run -f sweep.yaml --env NCCL_MIN_CTAS=32,64 --env NCCL_MAX_CTAS=32,64 --zip NCCL_MIN_CTAS,NCCL_MAX_CTAS
  %[1]s run --bench memory --ranks 2 --launcher 'mpirun --hostfile hosts' --interface eth0
  %[1]s run --bench memory --plot x=size,y=gbps,by=num_ranks --out out/mine`, a.name),
		Args: cobra.NoArgs,
	}
	cmd.Flags().SetNormalizeFunc(normalize)
	cmd.Flags().SortFlags = false
	fl := cmd.Flags()
	fl.StringArrayVar(&f.benches, "bench", nil, "benchmark to run, a name or a glob (see "+a.name+" list)")
	fl.StringArrayVarP(&f.files, "file", "f", nil, "sweep file to run (see docs/sweep-format.md)")
	fl.Var(assignFlag{&f.axes, "K=SPEC"}, "axis", "values of an axis (repeatable)")
	fl.Var(assignFlag{&f.envs, "K=SPEC"}, "env", "values of an environment variable, - for unset (repeatable)")
	fl.StringArrayVar(&f.zips, "zip", nil, "axes and variables `K1,K2` that move together (repeatable)")
	fl.Var(assignFlag{&f.skips, "K=SPEC"}, "skip", "values to leave out (repeatable)")
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

	var benches []*decl.Bench
	read := func(*decl.Bench) (axes, options []plan.Assign) { return nil, nil }
	if len(a.args) > 0 && a.args[0] == "run" {
		var err error
		if benches, err = a.selectBenches(a.args[1:]); err != nil {
			return nil, usage(err)
		}
		read = bindBenchFlags(cmd, benches)
	}
	if len(benches) == 1 && benches[0].Doc != "" {
		cmd.Long = benches[0].Doc + "\n\n" + exitHelp
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(benches) == 0 {
			return usage(fmt.Errorf("nothing to run: give --bench NAME (%s) or -f sweep.yaml", strings.Join(a.benchNames(), ", ")))
		}
		// The name that the evaluations' scripts know for --render-only.
		f.renderOnly = f.renderOnly || slices.Contains(a.environ, "MILESTONE_FAST=1")
		return a.runAll(cmd.Context(), benches, f, read)
	}
	return cmd, nil
}

// runAll runs the benches one after the other; the worst exit code wins.
func (a *app) runAll(ctx context.Context, benches []*decl.Bench, f runFlags, read func(*decl.Bench) (axes, options []plan.Assign)) error {
	place, err := a.job(f)
	if err != nil {
		return usage(err)
	}
	starts := !f.plan && !f.renderOnly
	var joined *run.Joined
	switch {
	case place == nil:
	case place.Rank > 0 && starts:
		return a.follow(ctx, place, f)
	case place.Rank > 0:
		return nil
	case starts: // first of all, for the others wait for what rank 0 has to say
		if ctx, joined, err = a.lead(ctx, place, f); err != nil {
			return err
		}
		defer joined.Leader.Close()
	}
	var plots []report.Plot
	for _, text := range f.plots {
		p, err := report.ParsePlot(text)
		if err != nil {
			return usage(err)
		}
		plots = append(plots, p)
	}
	if !slices.Contains(export.Formats(), f.format) {
		return usage(suggest.Unknown("format", f.format, export.Formats()))
	}
	if err := knownAnywhere(benches, f); err != nil {
		return usage(err)
	}
	var jobs []job
	for _, b := range benches {
		j, err := a.prepare(b, f, place, len(benches) > 1, read)
		if err != nil {
			return usage(err)
		}
		j.plots = plots
		jobs = append(jobs, j)
	}
	code := exitGood
	for _, j := range jobs {
		c, err := a.runOne(ctx, j, f, joined)
		if err != nil {
			return err
		}
		code = max(code, c)
		if c == exitInterrupted {
			break
		}
	}
	if code != exitGood {
		return &exitError{code: code}
	}
	return nil
}

// job is one bench, planned.
type job struct {
	bench  *decl.Bench
	plan   *plan.Plan
	out    string
	inputs map[string]string
	plots  []report.Plot
}

func (a *app) prepare(b *decl.Bench, f runFlags, place *jobenv.Job, several bool, read func(*decl.Bench) (axes, options []plan.Assign)) (job, error) {
	axes, options := read(b)
	chosen, err := preset(b, f.profile)
	if err != nil {
		return job{}, err
	}
	req := plan.Request{
		Axes: slices.Concat(chosen, applicable(b, f.axes, several), axes), Envs: f.envs, Skips: applicable(b, f.skips, several), Only: f.only,
		Options: options, Trials: f.trials, Seed: f.seed, Threads: f.threads, Bind: plan.Bind(f.bind),
	}
	if f.ranks != "" {
		req.Axes = append(req.Axes, plan.Assign{Name: decl.RanksAxis, Text: f.ranks})
	}
	for _, z := range f.zips {
		req.Zips = append(req.Zips, strings.Split(z, ","))
	}
	if f.trials < 0 || f.retries < 0 || f.threads < 0 || f.timeout < 0 {
		return job{}, errors.New("--trials, --retries, --threads-per-rank and --timeout cannot be negative")
	}
	if !slices.Contains([]plan.Bind{plan.BindAuto, plan.BindCore, plan.BindNone}, req.Bind) {
		return job{}, suggest.Unknown("binding", f.bind, []string{"auto", "core", "none"})
	}
	if req.Backend, err = backend(b, f.backend, place); err != nil {
		return job{}, err
	}
	if place != nil {
		if err := canJoin(b, req.Backend, place); err != nil {
			return job{}, err
		}
		req.World = &plan.World{Ranks: place.Size, Reason: fmt.Sprintf("this job has %d ranks: have its launcher start another number, or start %s alone and let it start them", place.Size, a.name)}
	}
	if req.Inputs, err = inputFiles(b, options); err != nil {
		return job{}, err
	}
	p, err := plan.Make(b, req)
	if err != nil {
		return job{}, err
	}
	out := f.out
	switch {
	case out == "" && b.Out != "":
		out = b.Out
	case out == "":
		out = filepath.Join("out", b.Name)
	case several:
		out = filepath.Join(out, b.Name)
	}
	return job{bench: b, plan: p, out: out, inputs: req.Inputs}, nil
}

// knownAnywhere refuses a name that none of the selected benches has. A name
// that only some have applies to those.
func knownAnywhere(benches []*decl.Bench, f runFlags) error {
	if len(benches) < 2 {
		return nil // the planner says it better
	}
	for _, as := range slices.Concat(f.axes, f.skips) {
		var names []string
		for _, b := range benches {
			names = append(names, axisNames(b)...)
		}
		isEnv := slices.ContainsFunc(f.envs, func(e plan.Assign) bool { return e.Name == as.Name })
		if !slices.Contains(names, as.Name) && !isEnv {
			return suggest.Unknown("axis", as.Name, names)
		}
	}
	return nil
}

// applicable keeps the assignments whose axis the bench has; with one bench
// all are kept, so that the planner reports the typo.
func applicable(b *decl.Bench, list []plan.Assign, several bool) []plan.Assign {
	names := axisNames(b)
	return slices.DeleteFunc(slices.Clone(list), func(as plan.Assign) bool {
		return several && !slices.Contains(names, as.Name)
	})
}

func axisNames(b *decl.Bench) []string {
	names := []string{decl.RanksAxis}
	for _, p := range b.Parts {
		for _, x := range p.Axes {
			names = append(names, x.Name)
		}
		for _, e := range p.Envs {
			names = append(names, e.Name)
		}
	}
	return names
}

// backend resolves --backend for a bench.
func backend(b *decl.Bench, asked string, place *jobenv.Job) (string, error) {
	can := b.Backends
	if len(can) == 0 {
		can = []string{"cpu"}
	}
	if asked == "auto" && place != nil && isMPI(place.Launcher) && slices.Contains(can, mpiBackend) {
		return mpiBackend, nil
	}
	if asked == "auto" {
		return can[0], nil
	}
	if !slices.Contains(can, asked) {
		return "", fmt.Errorf("bench %s: %w", b.Name, suggest.Unknown("backend", asked, append([]string{"auto"}, can...)))
	}
	return asked, nil
}

// inputFiles hashes the files that options name.
func inputFiles(b *decl.Bench, given []plan.Assign) (map[string]string, error) {
	inputs := map[string]string{}
	for _, o := range b.Options {
		if !o.File {
			continue
		}
		path := o.Default.String()
		for _, g := range given {
			if g.Name == o.Name {
				path = g.Text
			}
		}
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("option %s: %w", o.Name, err)
		}
		inputs[o.Name] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return inputs, nil
}

// runOne plans, runs and shows one bench.
func (a *app) runOne(ctx context.Context, j job, f runFlags, joined *run.Joined) (int, error) {
	if f.plan {
		return exitGood, a.printPlan(j, f)
	}
	if f.renderOnly {
		return a.renderOnly(j, f)
	}
	var via *run.Launcher
	if joined == nil {
		var err error
		if via, err = a.launcher(ctx, f, j.plan.Backend); err != nil {
			return exitUsage, usage(err)
		}
	} else {
		joined.Native = j.plan.Backend == mpiBackend
	}
	progress := newProgress(a, j, f.quiet)
	res, err := run.Run(ctx, j.plan, run.Options{
		Dir: j.out, Argv: append([]string{a.name}, a.args...), Environ: a.environ, Timeout: f.timeout, Retries: f.retries,
		FailFast: f.failFast, Resume: f.resume, Launcher: via, Joined: joined, Inputs: j.inputs, Observe: progress.observe,
	})
	progress.close()
	if err != nil {
		return exitFailed, err
	}
	if err := a.show(j, f, res.Run); err != nil {
		return exitFailed, err
	}
	switch {
	case res.Broken != "":
		fmt.Fprintf(a.stderr, "%s: the job is broken: %s; what was done is in %s, --resume continues it\n", a.name, res.Broken, j.out)
		return exitFailed, nil
	case res.Interrupted:
		fmt.Fprintf(a.stderr, "%s: interrupted; what was done is in %s, --resume continues it\n", a.name, j.out)
		return exitInterrupted, nil
	case res.Counts[journal.Failed]+res.Counts[journal.Timeout]+res.Missing > 0, res.Counts[journal.OK]+res.Counts[journal.Skipped] == 0:
		return exitFailed, nil
	}
	return exitGood, nil
}

// show prints the chosen format and draws the views of a run.
func (a *app) show(j job, f runFlags, id string) error {
	jn, r, err := journal.LoadRun(j.out + "@" + id)
	if err != nil {
		return err
	}
	return a.views(jn.Dir(), j, f, j.bench.View(jn, r))
}

func (a *app) views(dir string, j job, f runFlags, r *journal.Run) error {
	if err := a.print(j.bench, f.format, r); err != nil {
		return err
	}
	files, err := report.Render(dir, report.Input{Bench: j.bench, Run: r, Plots: j.plots})
	if err != nil {
		return err
	}
	if !f.quiet {
		for _, file := range files {
			fmt.Fprintf(a.stderr, "wrote %s\n", file)
		}
	}
	return nil
}

// print writes the rows as the format, or, for people, what the bench itself
// would say first.
func (a *app) print(b *decl.Bench, format string, r *journal.Run) error {
	rows := r.Latest()
	if format == export.Default {
		if written, err := report.Headlines(a.stdout, b, rows, a.width); written || err != nil {
			return err
		}
	}
	return export.Write(a.stdout, format, export.Input{Header: &r.Header, Rows: rows}, export.Options{Width: a.width, MaxRows: tableRows(format)})
}

// tableRows is how many lines a table on the terminal may have before its
// middle is left out; files always hold all.
func tableRows(format string) int {
	if format == export.Default {
		return 200
	}
	return 0
}

// renderOnly draws again from stored rows, if they are what this bench and
// these inputs would give.
func (a *app) renderOnly(j job, f runFlags) (int, error) {
	jn, r, err := journal.LoadRun(j.out)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("nothing is stored in %s: run without --render-only first", j.out)
	}
	if err != nil {
		return exitFailed, err
	}
	switch {
	case r.Header.Bench != j.bench.Name:
		err = fmt.Errorf("%s holds rows of bench %q, not of %q", j.out, r.Header.Bench, j.bench.Name)
	case r.Header.Version != j.bench.Version:
		err = fmt.Errorf("the rows in %s were made by version %q of %s, this is version %q: run again without --render-only", j.out, r.Header.Version, j.bench.Name, j.bench.Version)
	case len(r.Rows) == 0:
		err = fmt.Errorf("the latest run in %s holds no row: run without --render-only first", j.out)
	}
	if err == nil && !maps.Equal(j.inputs, r.Header.Inputs) {
		err = fmt.Errorf("the rows in %s were made with other files (%s, now %s): run again without --render-only",
			j.out, inputNames(r.Header.Inputs), inputNames(j.inputs))
	}
	if err != nil {
		return exitFailed, err
	}
	return exitGood, a.views(jn.Dir(), j, f, j.bench.View(jn, r))
}

// inputNames words a set of input files.
func inputNames(inputs map[string]string) string {
	if len(inputs) == 0 {
		return "none"
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		names = append(names, fmt.Sprintf("--%s %.8s", name, inputs[name]))
	}
	return strings.Join(names, ", ")
}

// printPlan shows what a run would do.
func (a *app) printPlan(j job, f runFlags) error {
	p := j.plan
	least, most := p.Estimate()
	fmt.Fprintf(a.stdout, "bench %s on %s: %d points, %d launches", p.Bench.Name, p.Backend, p.Points, p.Launches())
	if p.Trials > 1 {
		fmt.Fprintf(a.stdout, " (%d trials, order seeded with %d)", p.Trials, p.Seed)
	}
	fmt.Fprintf(a.stdout, ", into %s\n", j.out)
	if p.Groups[0].Part.Command != nil {
		fmt.Fprintf(a.stdout, "takes at most %v, if every launch runs into its time-out\n", most.Round(time.Second))
	} else {
		fmt.Fprintf(a.stdout, "sampling takes between %v and %v\n", least.Round(time.Millisecond), most.Round(time.Second))
	}
	for i, g := range p.Groups {
		ranks := fmt.Sprintf("ranks=%d", g.Ranks)
		if g.Ranks == 0 {
			ranks = "its own ranks"
		}
		fmt.Fprintf(a.stdout, "launch %d: %s", i+1, ranks)
		if g.Part.Name != "" {
			fmt.Fprintf(a.stdout, " part=%s", g.Part.Name)
		}
		if len(g.Env) > 0 {
			fmt.Fprintf(a.stdout, " %s", g.Env)
		}
		if p.Trials > 1 {
			fmt.Fprintf(a.stdout, " trial=%d", g.Trial)
		}
		fmt.Fprintln(a.stdout)
		for _, t := range g.Tasks {
			fmt.Fprintf(a.stdout, "  %s\n", orDash(t.Point.String()))
		}
	}
	for _, t := range p.Dropped {
		fmt.Fprintf(a.stdout, "dropped: %s ranks=%d: %s\n", t.Point, t.Ranks, t.Reason)
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
