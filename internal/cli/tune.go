package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/cli/guide"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/cli/terminal"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
	"github.com/kernbench/kernbench/internal/view/tuned"
)

// tuneFlags holds the flags of `tune`, which include those of `run`.
type tuneFlags struct {
	run                request.Flags
	minimise, maximise string
	over, per          []string
	defaults           []string
	budget             time.Duration
	launches           int
}

func (f *tuneFlags) declare(fl *pflag.FlagSet, program string) {
	fl.SortFlags = false
	fl.StringVar(&f.minimise, "minimise", "", "`METRIC` to minimise, such as time_us")
	fl.StringVar(&f.maximise, "maximise", "", "`METRIC` to maximise, such as busbw")
	fl.StringSliceVar(&f.over, "over", nil, "judge by the geometric mean of ratios to the default over these `AXES`")
	fl.StringSliceVar(&f.per, "per", nil, "find a winner for every value of these `AXES`")
	fl.StringArrayVar(&f.defaults, "default", nil,
		"`AXIS=VALUE` of the setting to improve on; without it the axis' first value, and variables unset (repeatable)")
	fl.DurationVar(&f.budget, "budget", 0, "spend at most this `TIME`, such as 30m")
	fl.IntVar(&f.launches, "launches", 0,
		"make at most this many launches (default: a tenth of the full sweep at 6 trials, more if there are few settings)")
	guide.Under("Search", fl)
	f.run.Declare(fl, program)
	// A study makes many launches, so a launch of another setting is more useful than a repetition.
	f.run.Options.Remeasure, fl.Lookup("remeasure").DefValue = 0, "0"
	fl.SetNormalizeFunc(func(fs *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "minimize":
			name = "minimise"
		case "maximize":
			name = "maximise"
		}
		return request.Normalize(fs, name)
	})
}

func (a *app) tuneCommand(ctx context.Context) (*cobra.Command, error) {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune (--bench NAME | -f sweep.yaml | -f bench.py) --minimise METRIC [flags]",
		Short: "Find the best setting of a benchmark's axes and variables in few launches, and confirm it",
		Long: `Races the settings of a benchmark: all combinations of its axes and environment
variables, except those of --over and --per. Launches are interleaved in a random order
(--seed). A setting that is significantly slower than the leader is dropped, and so is
one that fails. If there are too many settings to launch all, a surrogate model proposes
which. Finally the winner and the default run in new pairs of launches, which had no
influence on the choice. The reported gain is the gain of these pairs.

The default setting has every variable unset and every axis at its first value, unless
--default says otherwise. Rows go to RUN/journal.jsonl like those of any run; --resume
continues an interrupted study. 'kernbench docs tune' explains how it decides.

` + specHelp + ``,
		Example: fmt.Sprintf(`  %[1]s tune -f sweep.yaml --minimise time_us
  %[1]s tune -f sweep.yaml --maximise busbw --over size --budget 30m
  %[1]s tune --bench memory --maximise gbps --env GOGC=50,100,200 --env GOMAXPROCS=1,2 --ranks 1 --over size,op
  %[1]s tune --bench collectives --ranks 2,4`, a.name),
		Args: onlyOneName,
		Annotations: cleansUp(codes{exitGood: "some setting works", exitFailed: "none works",
			exitInterrupted: "interrupted (the best so far is printed; continue with --resume)"}),
	}
	f.declare(cmd.Flags(), a.name)
	benches, read, err := a.selectBenches(ctx, cmd)
	if err != nil {
		return nil, err
	}
	f.run.DeclareLabels(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case len(benches) == 0:
			return usage(fmt.Errorf("nothing to tune: give --bench NAME (%s) or -f sweep.yaml",
				strings.Join(a.benchNames(), ", ")))
		case len(benches) > 1:
			return usage(fmt.Errorf("%d benches: tune one at a time", len(benches)))
		}
		return a.tune(cmd.Context(), benches[0], f, read)
	}
	return cmd, nil
}

// tune plans a study, runs it and shows the result.
func (a *app) tune(ctx context.Context, b *bench.Bench, f tuneFlags, read request.Values) error {
	if err := a.usePorts(f.run.Ports); err != nil {
		return usage(err)
	}
	self := a.process(f.run.Endpoint, f.run.SecretFile, f.run.OtherBuild)
	self.JoinTimeout = f.run.Options.JoinTimeout
	if of, err := self.Find(f.run.Launcher); err != nil {
		return usage(err)
	} else if of != nil {
		return usage(errors.New("tune starts its own launches and cannot join a job: start it outside the job, with " +
			"--launcher if the ranks need one"))
	}
	goal, err := f.goal(b)
	if err != nil {
		return usage(err)
	}
	if doubt, err := doubtful(b, goal.Metric); err != nil {
		return usage(err)
	} else if doubt != nil && !f.run.Quiet {
		a.stderr.Printf("%s: warning: %v: no setting works unless %s reports it\n", a.name, doubt, b.Name)
	}
	var j request.Planned
	var study *tune.Study
	err = interruptible(ctx, func() (err error) {
		j, study, err = a.planStudy(b, f, goal, read)
		return usage(err)
	})
	if err != nil {
		return err
	}
	switch {
	case f.run.Plan:
		a.stdout.Printf("%s", texttab.Block(study.Describe()))
		return nil
	case f.run.RenderOnly:
		jn, r, err := journal.LoadRun(j.Out)
		if err != nil {
			return err
		}
		_, err = a.showTuned(jn.Dir(), j, f.run, dataset.Of(r))
		return err
	}
	via, err := job.Launcher(ctx, f.run.Launcher, f.run.Interface, j.Plan.Backend)
	if err != nil {
		return usage(err)
	}
	progress := terminal.NewProgress(a.stderr.Writer(), a.streams[1], b.Name, j.Plan.Backend, a.isTerm, f.run.Quiet)
	opts := a.runOptions(j, f.run, via, progress)
	opts.Source = source{study}
	opts.Replan = func() (*plan.Plan, error) {
		planned, replanned, err := a.planStudy(b, f, goal, read)
		if err == nil {
			*study = *replanned // opts.Source has a pointer to study
		}
		return planned.Plan, err
	}
	res, err := run.Run(ctx, j.Plan, opts)
	progress.Close()
	if err != nil {
		return err
	}
	return a.concludeTune(j, f.run, res)
}

// concludeTune shows the result and returns the exit status.
func (a *app) concludeTune(j request.Planned, f request.Flags, res run.Result) error {
	jn, r, err := journal.LoadRun(j.Out + "@" + res.Run)
	if err != nil {
		return err
	}
	works, err := a.showTuned(jn.Dir(), j, f, dataset.Of(r))
	switch {
	case err != nil:
		return err
	case res.Interrupted:
		a.stderr.Printf("%s: interrupted; completed rows are in %s, --resume continues the study\n", a.name, j.Out)
		return exit(exitInterrupted)
	case !works:
		return exit(exitFailed)
	}
	return nil
}

// showTuned prints the result, or the rows in another format, and writes the views. It reports
// whether any setting works.
func (a *app) showTuned(dir string, j request.Planned, f request.Flags, r *dataset.Dataset) (works bool, err error) {
	found, err := tuned.Load(r)
	if err == nil && found == nil {
		err = fmt.Errorf("%s has no completed study: continue it with tune --resume", j.Out)
	}
	if err != nil {
		return false, err
	}
	if f.Format == export.Default {
		err = a.stdout.Printf("%s", texttab.Block(tuned.Text(*found, r.Rows)))
	} else {
		err = a.print(j.Bench, f.Format, r)
	}
	if err != nil {
		return false, err
	}
	files, err := report.Render(dir, report.Input{Bench: j.Bench, Data: r, Plots: j.Plots})
	a.printWritten(files, f.Quiet)
	return slices.ContainsFunc(found.Findings, func(x tune.Finding) bool { return x.Answer.Best >= 0 }), err
}

// source adapts a study to run.Source.
type source struct{ *tune.Study }

func (s source) Found(rows []journal.Row, starts []time.Time) journal.Note {
	n, err := tuned.Note(s.Result(rows, starts))
	if err != nil {
		return journal.Note{Text: journal.Text(err.Error())}
	}
	return n
}

// goal returns the objective from the flags. What the flags leave open comes from the bench's declaration.
func (f *tuneFlags) goal(b *bench.Bench) (tune.Goal, error) {
	g := tune.Goal{Metric: f.minimise, Over: f.over, Per: f.per}
	switch {
	case f.minimise != "" && f.maximise != "":
		return g, errors.New("--minimise and --maximise: give only one of them")
	case f.maximise != "":
		g.Metric, g.Maximise = f.maximise, true
	}
	if t := b.Tuning; t != nil {
		if g.Metric == "" {
			g.Metric, g.Maximise = t.Metric, t.Maximise
		}
		if len(g.Over)+len(g.Per) == 0 {
			g.Per = t.Per
		}
	}
	metrics, _ := b.Metrics()
	for _, m := range metrics {
		if m.Name == g.Metric && (m.Better == "higher") != g.Maximise && m.Better != "" {
			return g, fmt.Errorf("the bench declares that %s values of %s are better: use --%s %s", m.Better, m.Name,
				map[bool]string{true: "minimise", false: "maximise"}[g.Maximise], m.Name)
		}
	}
	switch {
	case g.Metric == "":
		names := lists.Map(metrics, func(m journal.MetricInfo) string { return m.Name })
		return g, fmt.Errorf("missing objective: give --minimise METRIC or --maximise METRIC (metrics: %s)",
			strings.Join(names, ", "))
	case f.run.Trials > 0:
		return g, errors.New("--trials: tune decides how often to launch each setting; limit it with --launches or --budget")
	case f.launches < 0:
		return g, fmt.Errorf("--launches %d: want 1 or more", f.launches)
	case f.budget < 0:
		return g, fmt.Errorf("--budget %v: a time cannot be negative", f.budget)
	}
	return g, nil
}

// doubtful returns why a metric may not exist. It is an error if rows can have no other metrics than the declared ones.
func doubtful(b *bench.Bench, metric string) (doubt, err error) {
	metrics, all := b.Metrics()
	names := lists.Map(metrics, func(m journal.MetricInfo) string { return m.Name })
	switch unknown := suggest.Unknown("metric", metric, names); {
	case slices.Contains(names, metric):
		return nil, nil
	case all:
		return nil, unknown
	default:
		return unknown, nil
	}
}

// planStudy plans all settings and the default setting, and creates the study.
func (a *app) planStudy(b *bench.Bench, f tuneFlags, goal tune.Goal, read request.Values) (request.Planned,
	*tune.Study, error) {
	f.run.Trials = 1
	plans := func(flags request.Flags, more []plan.Assign) (request.Planned, error) {
		with := func(b *bench.Bench) (axes, options []plan.Assign) {
			axes, options = read(b)
			return append(f.declared(b, axes), append(axes, more...)...), options
		}
		all, err := request.Run{Program: a.name, Known: a.benches, Benches: []*bench.Bench{b}, Flags: flags,
			Read: with, Environ: a.environ}.Plans()
		if err != nil {
			return request.Planned{}, err
		}
		return all[0], nil
	}
	j, err := plans(f.run, nil)
	if err != nil {
		return j, nil, err
	}
	flags, more, err := f.base(j.Plan, goal)
	if err != nil {
		return j, nil, err
	}
	base, err := plans(flags, more)
	if err != nil {
		return j, nil, fmt.Errorf("planning the default setting (name another with --default AXIS=VALUE): %w", err)
	}
	study, err := tune.NewStudy(j.Plan, base.Plan, goal,
		tune.Config{Launches: f.launches, Seconds: f.budget.Seconds(), Seed: f.run.Seed})
	if err != nil {
		return j, nil, err
	}
	j.Plan.Groups = append(j.Plan.Groups, base.Plan.Groups...)
	maps.Copy(j.Plan.Fingerprints, base.Plan.Fingerprints)
	return j, study, nil
}

// declared returns the candidate values that the bench declares, for axes that no flag sets.
func (f *tuneFlags) declared(b *bench.Bench, given []plan.Assign) (out []plan.Assign) {
	if b.Tuning == nil || b.Tuning.Axes == nil {
		return nil
	}
	backend := f.run.Backend
	if backend == "auto" && len(b.Backends) > 0 {
		backend = b.Backends[0]
	}
	for _, x := range b.Tuning.Axes(backend) {
		named := func(g plan.Assign) bool { return g.Name == x[0] }
		if !slices.ContainsFunc(given, named) && !slices.ContainsFunc(f.run.Axes, named) {
			out = append(out, plan.Assign{Name: x[0], Text: x[1]})
		}
	}
	return out
}

// base returns the request for only the default setting, in which swept variables are unset and tuned axes
// have one value.
func (f *tuneFlags) base(p *plan.Plan, goal tune.Goal) (request.Flags, []plan.Assign, error) {
	flags := f.run
	flags.Skips = nil // with one value per axis, a skip may match nothing, which the planner rejects
	flags.Envs = slices.Clone(flags.Envs)
	defaults := map[string]string{}
	for _, d := range f.defaults {
		name, text, ok := strings.Cut(d, "=")
		if !ok {
			return flags, nil, fmt.Errorf("--default %s: want AXIS=VALUE, such as chunk=64K", d)
		}
		defaults[name] = text
	}
	var more []plan.Assign
	for _, v := range tune.Swept(p, slices.Concat(goal.Over, goal.Per)) {
		text, has := defaults[v.Name]
		delete(defaults, v.Name)
		switch {
		case v.Env && !has:
			flags.Envs = append(flags.Envs, plan.Assign{Name: v.Name, Text: "-"})
		case v.Env:
			flags.Envs = append(flags.Envs, plan.Assign{Name: v.Name, Text: text})
		case v.Name == bench.RanksAxis:
			flags.Ranks = v.First
			if has {
				flags.Ranks = text
			}
		case has:
			more = append(more, plan.Assign{Name: v.Name, Text: text})
		default:
			more = append(more, plan.Assign{Name: v.Name, Text: v.First})
		}
	}
	for name := range defaults {
		names := lists.Map(tune.Swept(p, slices.Concat(goal.Over, goal.Per)), func(v tune.SweptName) string { return v.Name })
		return flags, nil, fmt.Errorf("--default: %w", suggest.Unknown("tuned axis or variable", name, names))
	}
	return flags, more, nil
}
