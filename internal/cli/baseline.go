package cli

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/view/compare"
)

// How many runs a baseline and a check take by default: with 30 and 10 of one launch each,
// a slow-down of 5 % is found through a launch spread of 3 % (docs/baseline.md).
const (
	baselineRuns = 30
	recentRuns   = 10
)

func (a *app) baselineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "baseline save|check",
		Short: "Save runs as the baseline of a folder, and check later runs against it",
		Long: `Watches the runs of a folder for regressions: 'save' marks its last runs as the
baseline, 'check' tests whether later runs became slower. Each run is one observation,
so variation between runs raises no alarm. See docs/baseline.md.`,
		Example: fmt.Sprintf(`  %[1]s baseline save out/memory
  %[1]s baseline check out/memory`, a.name),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("baseline: want save or check")
			}
			return suggest.Unknown("command", args[0], []string{"save", "check"})
		},
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
one. The rows stay in the journal; RUN/` + compare.BaselineFile + ` lists the runs.

After an intended change, save again with only the runs since then, such as --last 4.

` + runHelp,
		Example: fmt.Sprintf(`  %[1]s baseline save out/memory
  %[1]s baseline save out/memory@-1 --last 10`, a.name),
		Args: arguments(1, 1, "one RUN folder such as out/memory"),
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
// folder. It warns of failed rows, incomplete runs, different kinds of host and too few runs.
func (a *app) saveBaseline(spec string, most int) error {
	j, r, err := a.load(spec)
	if err != nil {
		return err
	}
	runs := compare.LastRuns(j, r, most)
	if len(runs) == 0 {
		return usage(fmt.Errorf("%s: its runs have no rows", spec))
	}
	m := compare.Baseline{Bench: r.Header.Bench, Saved: time.Now().UTC().Truncate(time.Second)}
	hosts := map[string]bool{}
	bad := 0
	for _, r := range runs {
		m.Runs = append(m.Runs, r.ID())
		hosts[r.Header.Host.Class()] = true
		c := r.Counts()
		bad += c[journal.Failed] + c[journal.Timeout]
		if part := r.Incomplete(); part != "" {
			fmt.Fprintf(a.stdout, "run %s: %s\n", r.ID(), part)
		}
	}
	if err := m.Write(j.Dir()); err != nil {
		return fmt.Errorf("saving the baseline: %w", err)
	}
	fmt.Fprintf(a.stdout, "baseline of %s: %s of bench %s, %s to %s\n", j.Dir(), unit.Plural(len(runs), "run"), m.Bench,
		m.Runs[0],
		m.Runs[len(m.Runs)-1])
	if bad > 0 {
		fmt.Fprintf(a.stdout, "%s in them failed\n", unit.Plural(bad, "row"))
	}
	if len(hosts) > 1 {
		fmt.Fprintf(a.stdout, "they come from %d kinds of host: only runs on the last run's kind count\n", len(hosts))
	}
	if len(runs) < judge.MinLaunches {
		fmt.Fprintf(a.stdout, "at least %d runs are needed to estimate their variation, and %d to find small changes: save "+
			"again when there are more\n", judge.MinLaunches, baselineRuns)
	}
	return nil
}

// checkFlags holds the flags of `baseline check`.
type checkFlags struct {
	opts            compare.Options
	only            []string
	last            int
	against, format string
	junit, markdown string
}

func (a *app) baselineCheckCommand() *cobra.Command {
	f := checkFlags{last: recentRuns, format: compare.Formats()[0]}
	cmd := &cobra.Command{
		Use:   "check RUN",
		Short: "Test whether the runs since the baseline became slower",
		Long: `Judges each point of the latest run: slower, faster, same, ambiguous (not enough
data), lost (no longer ok, or absent), new or fixed. Small changes are found from the
last runs together, where each run is one observation. Large changes are found from the
latest run alone if it has at least 4 trials. The probability of any false alarm in a
check is at most --alpha, regardless of the number of points.

Disturbed trials do not count, and neither do runs on another kind of host than the
baseline's. Simulated rows are compared exactly.

` + runHelp + `

Exit status: 0 nothing slower or lost, 1 something is, 2 wrong usage or no baseline,
3 ambiguous (and nothing slower).`,
		Example: fmt.Sprintf(`  %[1]s baseline check out/memory
  %[1]s baseline check out/memory --junit check.xml --markdown check.md
  %[1]s baseline check after --baseline out/memory --only 'size>=16K'`, a.name),
		Args: arguments(1, 1, "one RUN folder such as out/memory"),
		RunE: func(_ *cobra.Command, args []string) error { return a.checkBaseline(args[0], f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.against, "baseline", "", "the `FOLDER` whose baseline it is (default: RUN's own)")
	fl.IntVar(&f.last, "last", f.last, "use at most this many runs since the baseline")
	fl.StringVar(&f.opts.Metric, "metric", compare.DefaultMetric, "what to compare")
	fl.Float64Var(&f.opts.Floor, "floor", compare.DefaultFloor, "smallest relative change that matters")
	fl.Float64Var(&f.opts.Alpha, "alpha", compare.DefaultCheckAlpha, "probability of any false alarm in a check")
	fl.StringArrayVar(&f.only, "only", nil, onlyHelp)
	request.Choice(fl, &f.format, "format", "format", "what to print", compare.Formats())
	fl.StringVar(&f.junit, "junit", "", "also write JUnit XML to this `FILE`")
	fl.StringVar(&f.markdown, "markdown", "", "also write Markdown, as for a pull request, to this `FILE`")
	return cmd
}

// checkBaseline compares the runs after the baseline with it and prints the verdicts. The exit code
// says whether a point became slower.
func (a *app) checkBaseline(spec string, f checkFlags) error {
	if f.last < 1 {
		return usage(fmt.Errorf("--last %d: want at least 1 run", f.last))
	}
	base, recent, err := a.baselineRuns(spec, f)
	if err != nil {
		return err
	}
	r, err := compare.CheckBaseline(base, recent, f.opts)
	if err != nil {
		return usage(err)
	}
	for _, file := range []struct{ path, format string }{{f.junit, "junit"}, {f.markdown, "markdown"}} {
		if file.path == "" {
			continue
		}
		var text bytes.Buffer
		if err := r.Write(&text, file.format, 0); err != nil {
			return err
		}
		if err := journal.WriteFileAtomic(file.path, text.Bytes()); err != nil {
			return fmt.Errorf("writing the check as %s: %w", file.format, err)
		}
	}
	if err := r.Write(a.stdout, f.format, a.width); err != nil {
		return err
	}
	return exit(r.ExitCode())
}

// baselineRuns reads the baseline and the recent runs for a check.
func (a *app) baselineRuns(spec string, f checkFlags) (base, recent []compare.Run, err error) {
	j, last, err := a.load(spec)
	if err != nil {
		return nil, nil, err
	}
	home := j
	if f.against != "" {
		if home, _, err = a.load(f.against); err != nil {
			return nil, nil, err
		}
	}
	mark, err := compare.ReadBaseline(home.Dir())
	if errors.Is(err, compare.ErrNoBaseline) {
		err = fmt.Errorf("%w: %s baseline save %s", err, a.name, home.Dir())
	}
	if err == nil && mark.Bench != last.Header.Bench {
		err = fmt.Errorf("%s holds a run of bench %q, the baseline is of %q", spec, last.Header.Bench, mark.Bench)
	}
	if err != nil {
		return nil, nil, usage(err)
	}
	_, late, _ := mark.Split(j, last, f.last)
	early, _, gone := mark.Split(home, last, f.last)
	switch {
	case len(early) == 0:
		err = fmt.Errorf("%s: the journal no longer has any run of the baseline: save the baseline again", home.Dir())
	case len(late) == 0:
		err = fmt.Errorf("%s: no run since the baseline was saved: there is nothing to check", spec)
	}
	if err != nil {
		return nil, nil, usage(err)
	}
	if len(gone) > 0 {
		fmt.Fprintf(a.stderr, "%s: the journal no longer has %s of the baseline\n", a.name, unit.Plural(len(gone), "run"))
	}
	side := func(r *journal.Run) (compare.Run, error) { return sideOf(r, f.only) }
	if base, err = lists.TryMap(early, side); err == nil {
		recent, err = lists.TryMap(late, side)
	}
	return base, recent, usage(err)
}

// sideOf returns a run in the form that package compare takes.
func sideOf(r *journal.Run, only []string) (compare.Run, error) {
	rows, err := chosenRows(r, only, nil)
	return compare.Run{Header: &r.Header, Earlier: r.Earlier, Rows: rows, Incomplete: r.Incomplete()}, err
}
