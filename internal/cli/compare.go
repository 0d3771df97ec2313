package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/verdict"
)

const compareHelp = `Pairs the points of two runs and judges each: faster, slower, same, ambiguous
(not enough data), lost, failed or new. Trials (separate launches) are the statistical unit:
at least 4 on each side are needed to estimate their variation, and with fewer there
is no verdict, regardless of the samples within a launch. Run with --trials 6.
Disturbed trials count only if the launches of both sides alternate. Otherwise they
are left out, and without enough others the raw change is shown without a verdict.
Simulated rows have no noise and are compared exactly.

Above the table it lists how the runs differ otherwise: host, kernel, driver, build,
seed, environment, inputs, units, sampling. Values in other units are converted. Points
measured on another CPU or GPU model, or in units that cannot be converted, are "not
comparable", unless --ignore names the difference (--ignore cpu).

With one RUN, the last two builds in its folder are compared: edit the program, run it
again, and compare. 'ab' measures two programs in turns and compares them, and 'history'
looks for changes over all runs of a folder.

With --by, values of an axis, variable or option of one run are compared: the first
value with each of the others, or the named ones (--by algorithm=ring,tree).

` + runHelp + `

Below the table is the geometric mean over the points, which --alpha covers too.`

// comparisonCodes are the exit codes of commands that compare runs.
var comparisonCodes = codes{exitGood: "nothing slower, lost or failed", exitFailed: "something is",
	exitAmbiguous: "ambiguous or not comparable (and nothing slower)"}

// judging holds the flags of the commands that print verdicts.
type judging struct {
	opts         verdict.Options
	only         []string
	format, link string
}

// declare adds the flags. alpha is the default of --alpha.
func (f *judging) declare(fl *pflag.FlagSet, alpha float64) {
	f.format = verdict.Formats()[0]
	fl.StringVar(&f.opts.Metric, "metric", "", "`METRIC` to compare (default: the main one, such as time_us)")
	declareDisturbed(fl, &f.opts.Disturbed)
	fl.Float64Var(&f.opts.Floor, "floor", verdict.DefaultFloor, "smallest relative change that matters")
	fl.Float64Var(&f.opts.Alpha, "alpha", alpha, "probability of any false verdict in the whole comparison")
	fl.StringVar(&f.link, "link", "", "`URL` of a report, for --format github (default: the present GitHub job)")
	fl.StringArrayVar(&f.only, "only", nil, onlyHelp)
	request.Choice(fl, &f.format, "format", "format", "what to print", verdict.Formats())
}

// declareTable adds the flags for the table of a comparison.
func (f *judging) declareTable(fl *pflag.FlagSet) {
	f.opts.Mean = true
	fl.StringSliceVar(&f.opts.Ignore, "ignore", nil, "`NAMES` of axes, variables, options or differences that are on purpose")
	fl.StringSliceVar(&f.opts.Sort, "sort", nil,
		"order by these `COLUMNS` of the table, the first one first; -change is largest first")
	fl.StringSliceVar(&f.opts.Columns, "columns", nil, "show these `COLUMNS` of the table in this order")
}

// complete checks the flags, and finds the link of the present job.
func (f *judging) complete(a *app, fl *pflag.FlagSet) error {
	f.link = cmp.Or(f.link, a.jobLink())
	return usage(notZero(fl, "floor", "alpha"))
}

func (a *app) compareCommand() *cobra.Command {
	var f judging
	var by string
	cmd := &cobra.Command{
		Use:   "compare OLD NEW | compare RUN [--by VAR]",
		Short: "Show what became faster or slower between two runs, or values within one",
		Long:  compareHelp, Annotations: exitsWith(comparisonCodes),
		Example: fmt.Sprintf(`  %[1]s compare out/memory@-1 out/memory
  %[1]s compare out/sweep
  %[1]s compare before after --format junit > compare.xml
  %[1]s compare out/a out/b --ignore NCCL_MIN_CTAS --metric busbw
  %[1]s compare out/memory --by num_ranks=1,2 --metric gbps`, a.name),
		Args: arguments(1, 2, "OLD and NEW, or one RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.complete(a, cmd.Flags()); err != nil {
				return err
			}
			return a.compare(args, by, f)
		},
	}
	fl := cmd.Flags()
	f.declare(fl, verdict.DefaultAlpha)
	fl.StringVar(&by, "by", "", "compare values of the axis, variable or option `VAR` within one run; VAR=A,B compares these")
	f.declareTable(fl)
	return cmd
}

func (a *app) historyCommand() *cobra.Command {
	var f judging
	cmd := &cobra.Command{
		Use:   "history RUN",
		Short: "Show in which runs of a folder a point or the whole bench changed its level",
		Long: `Searches all runs of a folder up to RUN for the runs where a point or the whole bench
became faster or slower for good. Each kind of machine is treated separately.

` + runHelp,
		Annotations: exitsWith(codes{exitGood: "good, also if there are changes"}),
		Example: fmt.Sprintf("  %[1]s history out/memory\n  %[1]s history out/memory --metric gbps --format json",
			a.name),
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.complete(a, cmd.Flags()); err != nil {
				return err
			}
			return a.showHistory(args[0], f)
		},
	}
	f.declare(cmd.Flags(), changepoint.DefaultAlpha)
	return cmd
}

// declareDisturbed declares the flags that force whether disturbed trials count.
func declareDisturbed(fl *pflag.FlagSet, d *verdict.Disturbed) {
	fl.BoolVar(&d.Count, "count-disturbed", false, "let disturbed trials count (default: only if launches alternate)")
	fl.BoolVar(&d.Ignore, "ignore-disturbed", false, "leave disturbed trials out, also if launches alternate")
}

// notZero returns an error if one of the flags is given as 0. To the packages below, 0 means the default.
func notZero(fl *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if v, _ := fl.GetFloat64(name); v == 0 && fl.Changed(name) {
			return fmt.Errorf("--%s 0: want a number above 0", name)
		}
	}
	return nil
}

// compare compares two runs, or values within one.
func (a *app) compare(args []string, by string, f judging) error {
	if by != "" && len(args) != 1 {
		return usage(errors.New("give two runs, OLD and NEW, or one and --by VAR"))
	}
	if by == "" && len(args) == 1 {
		return a.compareBuilds(args[0], f)
	}
	debug.SetGCPercent(30) // two runs are in memory at once
	sides, err := a.sides(args, f.only)
	if err != nil {
		return err
	}
	reports := make([]verdict.Report, 1)
	if by != "" {
		reports, err = verdict.By(sides[0], by, f.opts)
	} else {
		reports[0], err = verdict.Compare(sides[0], sides[1], f.opts)
	}
	if err == nil && len(reports) > 1 && f.format != verdict.Formats()[0] {
		_, second, _ := strings.Cut(reports[0].NewRun, "=")
		err = fmt.Errorf("format %s can hold only one comparison: name two values, such as --by %s,%s", f.format,
			reports[0].OldRun, second)
	}
	if err != nil {
		return usage(err)
	}
	return a.writeComparisons(reports, f)
}

// sides reads runs as sides of a comparison. only selects their rows.
func (a *app) sides(specs, only []string) ([]dataset.Named, error) {
	journals := map[string]*journal.Journal{}
	return lists.TryMap(specs, func(spec string) (dataset.Named, error) {
		_, r, err := a.loadFrom(journals, spec)
		if err != nil {
			return dataset.Named{}, err
		}
		side, err := sideOf(dataset.Of(r), only)
		return side, usage(err)
	})
}

// compareBuilds compares the current build of a folder with the one before it.
func (a *app) compareBuilds(spec string, f judging) error {
	j, r, err := a.load(spec)
	if err != nil {
		return err
	}
	others := dataset.OtherBuilds(j, r)
	if len(others) == 0 {
		return usage(fmt.Errorf("%s has only one build of %s: give two runs, OLD and NEW, or --by VAR", spec,
			r.Header.Bench))
	}
	before, now := others[0], dataset.Of(r)
	sides, err := sidesOf([]*dataset.Dataset{before, now}, f.only)
	if err != nil {
		return usage(err)
	}
	if before.ID() == now.ID() { // two builds of the same run
		sides[0].Name, sides[1].Name = before.ID()+" before the change", now.ID()+" after it"
	}
	report, err := verdict.Compare(sides[0], sides[1], f.opts)
	if err != nil {
		return usage(err)
	}
	return a.writeComparisons([]verdict.Report{report}, f)
}

// writeComparisons prints the reports one after the other. The exit code means "slower" if any report has
// a slower point, else "ambiguous" if any has an ambiguous one.
func (a *app) writeComparisons(reports []verdict.Report, f judging) error {
	code := exitGood
	for i, r := range reports {
		if i > 0 {
			a.stdout.Printf("\n")
		}
		if err := r.Write(a.stdout.Writer(), f.format, f.link, a.width); err != nil {
			return err
		}
		if c := r.ExitCode(); code == exitGood || c == exitFailed {
			code = c
		}
	}
	return exit(code)
}

// showHistory prints the changes of level over all runs of a folder up to the given one.
func (a *app) showHistory(spec string, f judging) error {
	j, last, err := a.load(spec)
	if err != nil {
		return err
	}
	runs, err := sidesOf(lists.Map(verdict.LastRuns(j, last, len(j.Runs)), dataset.Of), f.only)
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf("%s: its runs have no rows", spec)
	}
	if err != nil {
		return usage(err)
	}
	h, err := verdict.Steps(runs, f.opts)
	if err != nil {
		return usage(err)
	}
	return h.Write(a.stdout.Writer(), f.format, f.link, a.width)
}

func (a *app) speedupCommand() *cobra.Command {
	goals := verdict.Goals{Least: 1, Mean: 1}
	cmd := &cobra.Command{
		Use:   "speedup OURS PEER...",
		Short: "Show how many times faster a run is than other programs doing the same work",
		Long: `Pairs a run with runs of other programs that do the same work, by number of
ranks, the values of all common axes, and trial. For each point it shows how many
times faster OURS is than the best peer, and the 95 % confidence interval of that. The
trials of the programs should have been interleaved. A goal is met if the interval's
lower end reaches it, not met if its upper end does not, and otherwise not resolved.
At least 10 pairs with every peer are needed to resolve a goal. Disturbed ones count
only if the programs ran in turns.

The intervals allow for the number of points and peers, and the best peer of a trial is
chosen by other trials, so that luck does not choose it. 'kernbench docs statistics' says how.

Above the table it lists how the peers' runs differ from OURS. Runs on another CPU or
GPU model are not comparable, unless --ignore names the difference.

` + runHelp,
		Annotations: exitsWith(codes{exitGood: "both goals met", exitFailed: "one of them not met",
			exitAmbiguous: "not resolved or not comparable"}),
		Example: fmt.Sprintf("  %[1]s speedup out/ours out/openmpi out/mpich --goal 3.5\n  %[1]s speedup out/bf16 out/f32 "+
			"--except dtype --least 1.6 --goal 1.6", a.name),
		Args: arguments(2, -1, "OURS and at least one PEER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notZero(cmd.Flags(), "least"); err != nil {
				return usage(err)
			}
			sides, err := a.sides(args, nil)
			if err != nil {
				return err
			}
			for i, spec := range args {
				sides[i].Name = filepath.Base(spec)
			}
			tables, err := verdict.Speedups(sides[0], sides[1:], goals)
			if err != nil {
				return usage(err)
			}
			code := exitGood
			for _, t := range tables {
				if err := t.Write(a.stdout.Writer(), sides[0].Name, goals, a.width); err != nil {
					return err
				}
				for _, v := range []judge.Outcome{t.Least, t.Mean} {
					switch {
					case v == judge.NotMet:
						code = exitFailed
					case v != judge.Met && code == exitGood:
						code = exitAmbiguous
					}
				}
			}
			return exit(code)
		},
	}
	fl := cmd.Flags()
	fl.Float64Var(&goals.Mean, "goal", goals.Mean, "how many times faster the geometric mean over the points should be")
	fl.Float64Var(&goals.Least, "least", goals.Least, "how many times faster every point should be; 1 means not slower")
	fl.StringSliceVar(&goals.Except, "except", nil, "`AXES` that may differ, because the comparison is between their values")
	declareDisturbed(fl, &goals.Disturbed)
	fl.StringSliceVar(&goals.Ignore, "ignore", nil, "`NAMES` of differences that are on purpose, such as cpu")
	return cmd
}
