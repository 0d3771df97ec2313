package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/verdict"
)

const (
	baselineRuns = 30 // default of save --last
	recentRuns   = 50 // default of check --last
	neededRuns   = 4  // size of a baseline from which small changes can be judged
)

func (a *app) baselineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "baseline save|check",
		Short: "Save runs as the baseline of a folder, and check later runs against it",
		Long: `Watches the runs of a folder for regressions: 'save' marks its last runs as the
baseline, 'check' tests whether later runs became slower, and 'check --update' also adds
good runs to the baseline. Each run is one observation, so variation between runs raises
no alarm. See 'kernbench docs baseline'.`,
		Example: fmt.Sprintf(`  %[1]s baseline save out/memory
  %[1]s baseline check out/memory`, a.name),
		Args: subcommand("save", "check"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.baselineSaveCommand(), a.baselineCheckCommand())
	return cmd
}

func (a *app) baselineSaveCommand() *cobra.Command {
	last := baselineRuns
	cmd := &cobra.Command{
		Use:   "save RUN",
		Short: "Mark the last runs of a folder as its baseline",
		Long: `Marks the last runs of a folder, up to RUN, as its baseline, replacing the previous
one. The rows stay in the journal; RUN/` + verdict.BaselineFile + ` lists the runs.

After an intended change, save again with only the runs since then, such as --last 4.

` + runHelp,
		Example: fmt.Sprintf(`  %[1]s baseline save out/memory
  %[1]s baseline save out/memory@-1 --last 10`, a.name),
		Args: oneRun,
		RunE: func(_ *cobra.Command, args []string) error {
			if last < 1 {
				return usage(fmt.Errorf("--last %d: want at least 1 run", last))
			}
			return a.saveBaseline(args[0], last)
		},
	}
	cmd.Flags().IntVar(&last, "last", last, "use at most this many runs")
	return cmd
}

// saveBaseline makes the latest runs of a bench, up to the given number, the baseline of their
// folder. It prints warnings about failed rows, incomplete runs, different kinds of machine and too few
// runs.
func (a *app) saveBaseline(spec string, limit int) error {
	j, r, err := a.load(spec)
	if err != nil {
		return err
	}
	runs := verdict.LastRuns(j, r, limit)
	if len(runs) == 0 {
		return usage(fmt.Errorf("%s: its runs have no rows", spec))
	}
	m := verdict.NewBaseline(r.Header.Bench, runs)
	hosts := map[string]bool{}
	bad := 0
	for _, r := range runs {
		hosts[r.Header.Host.Class()] = true
		d := dataset.Of(r)
		c := d.Rows.Counts()
		bad += c[journal.Failed] + c[journal.Timeout]
		if part := d.Incomplete(); part != "" {
			a.stdout.Printf("run %s: %s\n", r.ID(), part)
		}
	}
	if err := m.Write(j.Dir()); err != nil {
		return fmt.Errorf("saving the baseline: %w", err)
	}
	a.stdout.Printf("baseline of %s: %s of bench %s, %s to %s\n", j.Dir(), unit.Plural(len(runs), "run"), m.Bench,
		m.Runs[0], m.Runs[len(m.Runs)-1])
	if bad > 0 {
		a.stdout.Printf("%s in them failed\n", unit.Plural(bad, "row"))
	}
	if len(hosts) > 1 {
		a.stdout.Printf("they come from %d kinds of machine: a run is compared only with runs on its own kind\n",
			len(hosts))
	}
	if len(runs) < neededRuns {
		a.stdout.Printf("at least %d runs are needed to see how much runs differ: add good runs with '%s baseline check %s "+
			"--update'\n", neededRuns, a.name, j.Dir())
	}
	return nil
}

// checkFlags holds the flags of `baseline check`.
type checkFlags struct {
	opts                  verdict.Options
	only                  []string
	last                  int
	update                bool
	against, format, link string
	junit, markdown       string
	github                string
}

func (a *app) baselineCheckCommand() *cobra.Command {
	f := checkFlags{last: recentRuns, format: verdict.Formats()[0]}
	cmd := &cobra.Command{
		Use:   "check RUN",
		Short: "Test whether the runs since the baseline became slower",
		Long: `Judges the latest run, all points together and each point:

  slower, faster   since the run named, by at least --floor; the probability of a
                   false alarm in a check is about --alpha, for any number of points
  no slowdown      a slow-down of --tolerance or more as a whole, or of twice that
                   at one point, is excluded with a confidence of 95 %
  cannot tell      the runs cannot decide it, with what is missing
  lost, failed,    failed or absent now; failed, and not in the baseline; not in the
  new, ...         baseline; ...

Runs are compared with runs on the same kind of machine. Disturbed trials do not count
unless --count-disturbed is given.
Above the table it lists how the latest run differs from the last run of the baseline.
Simulated rows are compared exactly.

With --update, the runs since the baseline become part of it unless a step is
suspected, so that the baseline maintains itself. Without a baseline it starts one.

` + runHelp,
		Annotations: exitsWith(codes{exitGood: "nothing slower, lost or failed", exitFailed: "something is",
			exitUsage: "wrong usage or no baseline", exitAmbiguous: "cannot tell (and nothing slower)"}),
		Example: fmt.Sprintf(`  %[1]s baseline check out/memory --update
  %[1]s baseline check out/memory --junit check.xml --github comment.md
  %[1]s baseline check after --baseline out/memory --only 'size>=16K'`, a.name),
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notZero(cmd.Flags(), "floor", "alpha", "tolerance"); err != nil {
				return usage(err)
			}
			return a.checkBaseline(args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.update, "update", false, "add the runs since the baseline to it unless a step is suspected")
	fl.StringVar(&f.against, "baseline", "", "the `FOLDER` whose baseline it is (default: RUN's own)")
	fl.IntVar(&f.last, "last", f.last, "use at most this many runs since the baseline")
	fl.StringVar(&f.opts.Metric, "metric", "", "`METRIC` to compare (default: the main one, such as time_us)")
	declareDisturbed(fl, &f.opts.Disturbed)
	fl.Float64Var(&f.opts.Floor, "floor", changepoint.DefaultFloor, "smallest relative change that matters")
	fl.Float64Var(&f.opts.Alpha, "alpha", changepoint.DefaultAlpha, "probability of any false alarm in a check")
	fl.Float64Var(&f.opts.Tolerance, "tolerance", changepoint.DefaultTolerance,
		"largest slow-down of all points together that a good check may miss; twice that at one point")
	fl.StringSliceVar(&f.opts.Ignore, "ignore", nil, "`NAMES` of differences between runs that are on purpose, such as cpu")
	fl.StringArrayVar(&f.only, "only", nil, onlyHelp)
	request.Choice(fl, &f.format, "format", "format", "what to print", verdict.Formats())
	fl.StringVar(&f.junit, "junit", "", "also write JUnit XML to this `FILE`")
	fl.StringVar(&f.markdown, "markdown", "", "also write Markdown with all points to this `FILE`")
	fl.StringVar(&f.github, "github", "", "also write a short comment for a pull request to this `FILE`")
	fl.StringVar(&f.link, "link", "",
		"`URL` of a report, for --format github and --github (default: the present GitHub job)")
	return cmd
}

// checkBaseline judges the latest run and prints the verdicts. The exit code depends on whether anything
// became slower.
func (a *app) checkBaseline(spec string, f checkFlags) error {
	if f.last < 1 {
		return usage(fmt.Errorf("--last %d: want at least 1 run", f.last))
	}
	j, last, err := a.load(spec)
	if err != nil {
		return err
	}
	home := j
	if f.against != "" {
		if home, _, err = a.load(f.against); err != nil {
			return err
		}
	}
	mark, err := verdict.ReadBaseline(home.Dir())
	if errors.Is(err, verdict.ErrNoBaseline) && f.update && home == j {
		if err := a.saveBaseline(spec, 1); err != nil {
			return err
		}
		a.stdout.Printf("cannot tell: there is no earlier run to compare with\n")
		return exit(exitAmbiguous)
	}
	if err != nil {
		return usage(a.baselineError(err, home.Dir()))
	}
	accepted, later, err := a.checkedRuns(mark, home, j, last, f)
	if err != nil {
		return usage(err)
	}
	r, err := verdict.Check(accepted, later, f.opts)
	if err != nil {
		return usage(err)
	}
	if err := a.writeCheck(r, f); err != nil {
		return err
	}
	if f.update && home == j {
		if err := a.updateBaseline(mark, r, j.Dir(), f.format == verdict.Formats()[0]); err != nil {
			return err
		}
	}
	return exit(r.ExitCode())
}

// baselineError adds the command that saves a baseline to the error of a missing one.
func (a *app) baselineError(err error, dir string) error {
	if errors.Is(err, verdict.ErrNoBaseline) {
		return fmt.Errorf("%w: %s baseline save %s", err, a.name, dir)
	}
	return err
}

// updateBaseline adds the checked runs to a baseline unless they may be at another level. It prints
// what it did if verbose is set.
func (a *app) updateBaseline(mark verdict.Baseline, r verdict.Report, dir string, verbose bool) error {
	remark := ""
	switch {
	case r.ExitCode() == exitFailed:
		remark = fmt.Sprintf("the baseline is unchanged; if the change is intended: %s baseline save %s --last 1",
			a.name, dir)
	case r.Suspected:
		remark = "the baseline is unchanged: the latest runs may be at another level, which the next runs will show"
	case len(r.Usable) == 0:
		remark = "the baseline is unchanged: the latest runs have no undisturbed value"
	default:
		grown := mark.Add(r.Usable)
		if err := grown.Write(dir); err != nil {
			return fmt.Errorf("updating the baseline: %w", err)
		}
		remark = fmt.Sprintf("the baseline now has %s", unit.Plural(len(grown.Runs), "run"))
	}
	if verbose {
		a.stdout.Printf("%s\n", remark)
	}
	return nil
}

// writeCheck prints a report and writes the files that the flags ask for.
func (a *app) writeCheck(r verdict.Report, f checkFlags) error {
	link := cmp.Or(f.link, a.jobLink())
	for _, file := range []struct{ path, format string }{
		{f.junit, "junit"}, {f.markdown, "markdown"}, {f.github, "github"},
	} {
		if file.path == "" {
			continue
		}
		var text bytes.Buffer
		if err := r.Write(&text, file.format, link, 0); err != nil {
			return err
		}
		if err := journal.WriteFileAtomic(file.path, text.Bytes()); err != nil {
			return fmt.Errorf("writing the check as %s: %w", file.format, err)
		}
	}
	return r.Write(a.stdout.Writer(), f.format, link, a.width)
}

// checkedRuns returns the runs of a check: the accepted runs of the baseline, and the later ones.
func (a *app) checkedRuns(mark verdict.Baseline, home, j *journal.Journal, last *journal.Run, f checkFlags) (
	accepted, later []dataset.Named, err error,
) {
	if mark.Bench != last.Header.Bench {
		return nil, nil, fmt.Errorf("%s has a run of bench %q, but the baseline is of bench %q", j.Dir(),
			last.Header.Bench, mark.Bench)
	}
	before, after, missing := mark.Select(home, j, last, f.last)
	switch {
	case len(before) == 0:
		return nil, nil, fmt.Errorf("%s: the journal no longer has any accepted run of the baseline: save the baseline again",
			home.Dir())
	case len(after) == 0 || after[len(after)-1].ID() != last.ID():
		return nil, nil, fmt.Errorf("%s: no run since the baseline was saved: there is nothing to check", j.Dir())
	}
	if len(missing) > 0 {
		a.stderr.Printf("%s: the journal no longer has %s of the baseline\n", a.name, unit.Plural(len(missing), "run"))
	}
	if accepted, err = sidesOf(before, f.only); err == nil {
		later, err = sidesOf(after, f.only)
	}
	return accepted, later, err
}

// jobLink returns the address of the GitHub job in which this process runs, or "".
func (a *app) jobLink() string {
	vars := jobenv.Variables(a.environ)
	server, repo, id := vars["GITHUB_SERVER_URL"], vars["GITHUB_REPOSITORY"], vars["GITHUB_RUN_ID"]
	if server == "" || repo == "" || id == "" {
		return ""
	}
	return server + "/" + repo + "/actions/runs/" + id
}

// sidesOf returns datasets as sides of a comparison. only selects their rows.
func sidesOf(list []*dataset.Dataset, only []string) ([]dataset.Named, error) {
	return lists.TryMap(list, func(d *dataset.Dataset) (dataset.Named, error) { return sideOf(d, only) })
}

// sideOf returns a dataset as a side of a comparison. only selects its rows.
func sideOf(d *dataset.Dataset, only []string) (dataset.Named, error) {
	rows, err := selected(d.Rows, only)
	return dataset.Named{Dataset: d}.WithRows(rows), err
}
