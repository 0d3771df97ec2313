package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/bench/sweep"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/cli/terminal"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/verdict"
)

// abFlags holds the flags of `ab`.
type abFlags struct {
	judging
	trials  int
	axes    []plan.Assign
	out     string
	seed    uint64
	timeout time.Duration
	quiet   bool
}

func (a *app) abCommand() *cobra.Command {
	var f abFlags
	cmd := &cobra.Command{
		Use:   "ab A B",
		Short: "Measure two programs with alternating launches, and compare them",
		Long: `Measures A and B and compares them: two sweep files, two Python files, or two commands,
whose wall time is measured. Their launches alternate in random order, so that drift of
the machine affects both. The rows are stored as usual, in the folders OUT/old and
OUT/new, also after Ctrl-C. 'compare --help' explains the verdicts.`,
		Example: fmt.Sprintf(`  %[1]s ab old.yaml new.yaml --trials 6
  %[1]s ab 'old/prog {n}' 'new/prog {n}' --axis n=1000,2000`, a.name),
		Args:        arguments(2, 2, "two sides, such as a.yaml b.yaml"),
		Annotations: cleansUp(comparisonCodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.trials < 1 {
				return usage(fmt.Errorf("--trials %d: want at least 1, and %d for a verdict", f.trials, judge.MinLaunches))
			}
			if err := f.complete(a, cmd.Flags()); err != nil {
				return err
			}
			return a.runAndCompare(cmd.Context(), f, args)
		},
	}
	fl := cmd.Flags()
	f.declare(fl, verdict.DefaultAlpha)
	f.declareTable(fl)
	fl.IntVar(&f.trials, "trials", judge.AdvisedLaunches, "launches of every point on each side")
	fl.Var(request.AxisFlag(&f.axes, "n=1000,2000"), "axis", "values of an axis on both sides (repeatable)")
	fl.StringVar(&f.out, "out", filepath.Join("out", "ab"), "`FOLDER` for the runs old and new")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the inputs and of the order of launches")
	fl.DurationVar(&f.timeout, "timeout", 0, "time limit per point and trial (default: the bench's own, else 2m)")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, only the comparison")
	return cmd
}

// sideNames are the names of the sides and of their folders.
var sideNames = []string{"old", "new"}

// runAndCompare measures two sides with alternating launches and compares them. After an interrupt
// it compares the rows recorded so far.
func (a *app) runAndCompare(ctx context.Context, b abFlags, args []string) error {
	var plans []request.Planned
	for i, arg := range args {
		p, err := a.planSide(ctx, b, arg, filepath.Join(b.out, sideNames[i]))
		if err != nil {
			return loadError(ctx, err)
		}
		plans = append(plans, p)
	}
	results, err := a.runSides(ctx, b, plans)
	if err != nil {
		return err
	}
	specs := make([]string, len(plans))
	for i, r := range results {
		specs[i] = plans[i].Out + "@" + r.Run
	}
	repeat := fmt.Sprintf("%s compare %s %s", a.name, specs[0], specs[1])
	interrupted := slices.ContainsFunc(results, func(r run.Result) bool { return r.Interrupted })
	if interrupted {
		a.stderr.Printf("%s: interrupted; comparing the rows recorded so far; to repeat this: %s\n", a.name, repeat)
	} else if !b.quiet {
		a.stderr.Printf("%s: to repeat this comparison: %s\n", a.name, repeat)
	}
	for i, r := range results {
		if len(r.Counts) == 0 {
			return &exitError{exitInterrupted, fmt.Errorf("interrupted before the first row of %s", args[i])}
		}
	}
	report, err := a.compareRuns(specs, args, b.judging)
	if err != nil {
		return err
	}
	err = a.writeComparisons([]verdict.Report{report}, b.judging)
	if interrupted {
		return exit(exitInterrupted)
	}
	return err
}

// compareRuns compares two stored runs under the given names.
func (a *app) compareRuns(specs, names []string, f judging) (report verdict.Report, err error) {
	sides, err := a.sides(specs, f.only)
	if err != nil {
		return report, err
	}
	sides[0].Name, sides[1].Name = names[0], names[1]
	report, err = verdict.Compare(sides[0], sides[1], f.opts)
	return report, usage(err)
}

// prefixWriter writes the name of a side before every line.
type prefixWriter struct {
	w    io.Writer
	name string
}

func (p prefixWriter) Write(text []byte) (int, error) {
	_, err := io.WriteString(p.w, p.name+": "+string(text)) // the progress writes whole lines
	return len(text), err
}

// runSides executes both plans with interleaved launches and returns their results.
func (a *app) runSides(ctx context.Context, b abFlags, plans []request.Planned) ([]run.Result, error) {
	turns := run.NewTurns(len(plans), b.seed)
	results, errs := make([]run.Result, len(plans)), make([]error, len(plans))
	var printing sync.Mutex
	var wait sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx) // an error of one side ends the other side too
	defer cancel()
	launchers, err := lists.TryMap(plans, func(p request.Planned) (*run.Launcher, error) {
		return job.Launcher(ctx, "auto", "", p.Plan.Backend)
	})
	if err != nil {
		return nil, usage(err)
	}
	for i, p := range plans {
		progress := terminal.NewProgress(prefixWriter{a.stderr.Writer(), sideNames[i]}, nil, p.Bench.Name, p.Plan.Backend,
			false, b.quiet)
		flags := request.Flags{Options: run.Options{Timeout: b.timeout, Remeasure: request.Remeasure}}
		o := a.runOptions(p, flags, launchers[i], progress)
		o.Observe = func(e run.Event) {
			printing.Lock()
			defer printing.Unlock()
			progress.Observe(e)
		}
		turn := turns.Of(i)
		if !p.Plan.Simulated { // simulated time does not depend on the order
			o.Turn = turn
		}
		wait.Go(func() {
			defer turn.Leave()
			if results[i], errs[i] = run.Run(ctx, p.Plan, o); errs[i] != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	return results, errors.Join(errs...)
}

// planSide plans one side: a file of benches, or a command.
func (a *app) planSide(ctx context.Context, b abFlags, arg, out string) (request.Planned, error) {
	var f request.Flags
	f.Declare(pflag.NewFlagSet("", pflag.ContinueOnError), a.name) // sets the defaults
	f.Trials, f.Seed, f.Out, f.Options.Timeout = b.trials, b.seed, out, b.timeout
	var found []*bench.Bench
	var err error
	switch filepath.Ext(arg) {
	case ".yaml", ".yml", ".py":
		f.Axes = b.axes
		found, err = request.LoadFile(ctx, arg, 0)
	default:
		found = make([]*bench.Bench, 1)
		found[0], err = commandBench(arg, b.axes)
	}
	if err == nil && len(found) != 1 {
		names := lists.Map(found, func(b *bench.Bench) string { return b.Name })
		err = fmt.Errorf("%s declares %d benches (%s): want a file with one", arg, len(found), strings.Join(names, ", "))
	}
	if err != nil {
		return request.Planned{}, err
	}
	none := func(*bench.Bench) (axes, options []plan.Assign) { return nil, nil }
	plans, err := request.Run{Program: a.name, Known: a.benches, Benches: found, Flags: f, Read: none,
		Environ: a.environ}.Plans()
	if err != nil {
		return request.Planned{}, fmt.Errorf("%s: %w", arg, err)
	}
	return plans[0], nil
}

// placeholder matches the name of an axis in an argument.
var placeholder = regexp.MustCompile(`\{([A-Za-z]\w*)\}`)

// commandBench returns the bench of a command line with axes in braces.
func commandBench(command string, given []plan.Assign) (*bench.Bench, error) {
	argv, err := launch.ParseCommand(command)
	if err == nil && len(argv) == 0 {
		err = errors.New("a side is empty: want a file or a command")
	}
	if err != nil {
		return nil, err
	}
	var axes []sweep.Axis
	for _, m := range placeholder.FindAllStringSubmatch(command, -1) {
		as, has := lists.First(given, func(as plan.Assign) bool { return as.Name == m[1] })
		if !has {
			return nil, fmt.Errorf("the command %q needs values of %s: give --axis %s=SPEC, such as --axis %s=1000,2000",
				command, m[1], m[1], m[1])
		}
		if axis := (sweep.Axis{Name: as.Name, Spec: as.Text}); !slices.Contains(axes, axis) {
			axes = append(axes, axis)
		}
	}
	for _, as := range given {
		if !slices.ContainsFunc(axes, func(x sweep.Axis) bool { return x.Name == as.Name }) {
			return nil, fmt.Errorf("--axis %s: the command %q has no {%s}", as.Name, command, as.Name)
		}
	}
	return sweep.OfCommand(argv, axes)
}
