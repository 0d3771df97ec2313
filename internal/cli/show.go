package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/cli/terminal"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/chart"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
	"github.com/kernbench/kernbench/internal/view/tuned"
)

const runHelp = `RUN is the folder of a run (out/memory). RUN@-1 is the run before the latest in
it, RUN@ID is the run with this id, which may be abbreviated, and RUN@TAG is the
latest run with this tag.`

const onlyHelp = "only rows where `EXPR` holds, such as 'size>=1M && status==ok'"

// showFlags holds the flags of `show`.
type showFlags struct {
	format, section                       string
	plots, only, sort, columns            []string
	perTrial, chart, allBuilds, following bool
}

func (a *app) showCommand() *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Print or draw stored rows again",
		Long: `Prints the rows of a run in any format, and draws them, without running anything.
With --follow it shows the rows of a run that another process executes as they arrive,
and ends with the exit status of that run.

` + runHelp,
		Example: fmt.Sprintf(`  %[1]s show out/memory
  %[1]s show out/memory --follow
  %[1]s show out/memory@-1 --format csv > rows.csv
  %[1]s show out/memory --only 'size>=64K' --sort -gbps --columns op,size,gbps
  %[1]s show out/memory --columns op,size,time_us,p90,p99,max,stopped
  %[1]s show out/memory --chart
  %[1]s show out/solve-scaling --section 'work of an iteration'
  %[1]s show out/memory --all-builds
  %[1]s show out/memory --plot x=size,y=gbps,by=num_ranks
  %[1]s show out/memory --format benchfmt > new.txt && benchstat old.txt new.txt`, a.name),
		Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.following {
				return a.follow(cmd.Context(), args[0], f)
			}
			return a.showRun(args[0], f)
		},
	}
	f.declare(cmd.Flags())
	return cmd
}

// declare adds the flags of `show`.
func (f *showFlags) declare(fl *pflag.FlagSet) {
	request.FormatFlag(fl, &f.format)
	fl.StringArrayVar(&f.plots, "plot", nil, "draw `x=AXIS,y=METRIC,by=AXIS` into RUN/figures (repeatable)")
	fl.BoolVar(&f.chart, "chart", false, "draw in the terminal instead: the curves of --plot, or a default choice")
	fl.StringArrayVar(&f.only, "only", nil, onlyHelp)
	fl.StringSliceVar(&f.sort, "sort", nil, "order by these `COLUMNS`, the first one first; -size is largest first")
	fl.StringSliceVar(&f.columns, "columns", nil, "show these `COLUMNS` in this order (table, markdown, csv)")
	fl.BoolVar(&f.perTrial, "per-trial", false, "one table line per trial")
	fl.BoolVar(&f.following, "follow", false, "show the rows of a run under way until it ends, then its table")
	fl.StringVar(&f.section, "section", "",
		"print the sections of the report whose title contains `TEXT` instead, such as 'work of an iteration'")
	fl.BoolVar(&f.allBuilds, "all-builds", false,
		"show the rows of all builds in the folder, with the column build, not only the current one")
}

// printSections prints the sections of the bench whose titles contain a text.
func (a *app) printSections(r *dataset.Dataset, rows dataset.Set, text string) error {
	if err := report.Titled(a.stdout.Writer(), a.bench(r.Header.Bench), rows, text, a.width); err != nil {
		return usage(fmt.Errorf("--section: %w", err))
	}
	return nil
}

// viewOf returns what is shown of a run: the view of the bench for a RUN folder, or only the rows of a run that is
// named with @.
func (a *app) viewOf(name string, j *journal.Journal, r *journal.Run) *dataset.Dataset {
	if _, sel, err := journal.Locate(name); err == nil && sel == "" {
		return decl.View(a.bench(r.Header.Bench), j, r)
	}
	return dataset.Of(r)
}

// showRun prints or draws what the flags ask for.
func (a *app) showRun(name string, f showFlags) error {
	j, r, err := a.load(name)
	if err != nil {
		return err
	}
	d := a.viewOf(name, j, r)
	if f.allBuilds {
		d = dataset.AllBuilds(j, r)
	}
	rows, err := chosenRows(d, f.only, f.sort)
	if err != nil {
		return usage(err)
	}
	switch {
	case f.section != "":
		return a.printSections(d, rows, f.section)
	case f.chart:
		return usage(a.showChart(d, rows, f.plots))
	}
	for _, text := range f.plots {
		if err := a.draw(j.Dir(), text, d, rows); err != nil {
			return usage(err)
		}
	}
	return a.printRows(d, rows, f.format, export.Options{Width: a.width, PerTrial: f.perTrial, Columns: f.columns})
}

// printRows writes rows in a format. The default format starts with the result of a tuning study, if the
// run has one, and ends with the notes of the run.
func (a *app) printRows(r *dataset.Dataset, rows dataset.Set, format string, opts export.Options) error {
	if format == export.Default {
		found, err := tuned.Load(r)
		if err != nil {
			return err
		}
		if found != nil {
			a.stdout.Printf("%s\n", texttab.Block(tuned.Text(*found, r.Rows)))
		}
	}
	header := r.Header
	header.Headline = decl.Headlines(a.bench(header.Bench))
	if err := export.Write(a.stdout.Writer(), format, export.Input{Header: &header, Rows: rows}, opts); err != nil {
		return usage(err)
	}
	a.printNotes(r, format)
	return nil
}

// chosenRows returns the latest row of each point for which the expressions hold, sorted by
// columns.
func chosenRows(d *dataset.Dataset, only, sort []string) (dataset.Set, error) {
	rows, err := selected(d.Rows, only)
	if err != nil {
		return nil, err
	}
	return export.Sort(&d.Header, rows, sort)
}

// selected returns the rows for which all expressions hold. It is an error if there are rows but no such one.
func selected(all dataset.Set, only []string) (dataset.Set, error) {
	rows, err := all.Select(only...)
	if err == nil && len(rows) == 0 && len(all) > 0 {
		err = all.NoMatch(only)
	}
	return rows, err
}

// load reads a run. It prints warnings about lines of its journal that are damaged or have no checksum.
func (a *app) load(spec string) (*journal.Journal, *journal.Run, error) {
	return a.loadFrom(map[string]*journal.Journal{}, spec)
}

// onRun returns the work of a command whose first argument is a run.
func (a *app) onRun(work func(j *journal.Journal, r *journal.Run, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(_ *cobra.Command, args []string) error {
		j, r, err := a.load(args[0])
		if err != nil {
			return err
		}
		return work(j, r, args)
	}
}

// loadFrom is like load, but reads each folder only once. journals caches them by folder.
func (a *app) loadFrom(journals map[string]*journal.Journal, spec string) (*journal.Journal, *journal.Run, error) {
	dir, sel, err := journal.Locate(spec)
	if err != nil {
		return nil, nil, usage(err)
	}
	if j := journals[dir]; j != nil {
		r, err := j.Find(sel)
		return j, r, usage(err)
	}
	j, err := journal.Read(dir)
	if err != nil {
		return nil, nil, usage(err)
	}
	journals[dir] = j
	r, err := j.Find(sel)
	if err != nil {
		return nil, nil, usage(err)
	}
	for _, p := range j.Problems {
		a.stderr.Printf("%s: %s: %v\n", a.name, j.Path, p)
	}
	return j, r, nil
}

// printNotes prints the tags and notes of a run below a table. For other formats, it only prints to stderr
// if the run is incomplete.
func (a *app) printNotes(r *dataset.Dataset, format string) {
	part := r.Incomplete()
	if format != export.Default {
		if part != "" {
			a.stderr.Printf("%s: %s\n", a.name, part)
		}
		return
	}
	if part != "" {
		a.stdout.Printf("%s\n", part)
	}
	a.printLabels(&r.Header)
	for _, n := range r.Notes {
		if len(n.Tuned) == 0 {
			a.stdout.Printf("note: %s\n", n.Text)
		}
	}
}

// showChart draws the plots in the terminal, or a default one if there are none.
func (a *app) showChart(r *dataset.Dataset, rows dataset.Set, plots []string) error {
	chosen, err := views.ParsePlots(plots)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		p, ok := views.AutoPlot(&r.Header, rows)
		if !ok {
			return errors.New("there is no curve to draw: no coordinate varies, or no row has a metric")
		}
		chosen = []views.Plot{p}
	}
	style := chart.Style{Width: a.width, Unicode: terminal.UTF8(a.environ),
		Color: a.width > 0 && terminal.Color(a.environ)}
	if a.width == 0 { // not a terminal
		style.Width = 80
	}
	for i, p := range chosen {
		fig, err := p.Figure(&r.Header, rows)
		if err != nil {
			return err
		}
		if i > 0 {
			a.stdout.Printf("\n")
		}
		fig.AddCaption(r.Incomplete())
		io.WriteString(a.streams[0], chart.Text(fig, style)) // chart escapes control characters itself
	}
	return nil
}

func (a *app) draw(dir, text string, r *dataset.Dataset, rows dataset.Set) error {
	p, err := views.ParsePlot(text)
	if err != nil {
		return err
	}
	fig, err := p.Figure(&r.Header, rows)
	if err != nil {
		return err
	}
	fig.AddCaption(r.Incomplete())
	files, err := figure.Write(dir, "figures", fig)
	a.printWritten(files, false)
	return err
}

// bench returns the built-in bench with that name, or nil. Rows of sweep files and of other programs have no
// built-in bench, so they are shown without the views of a bench.
func (a *app) bench(name string) *bench.Bench {
	b, _ := lists.First(a.benches, func(b *bench.Bench) bool { return b.Name == name })
	return b
}

// show prints a new run and draws its views.
func (a *app) show(j request.Planned, f request.Flags, id string) error {
	jn, r, err := journal.LoadRun(j.Out + "@" + id)
	if err != nil {
		return err
	}
	return a.views(jn.Dir(), j, f, decl.View(j.Bench, jn, r))
}

func (a *app) views(dir string, j request.Planned, f request.Flags, r *dataset.Dataset) error {
	if err := a.print(j.Bench, f.Format, r); err != nil {
		return err
	}
	if a.width > 0 && !f.Quiet && f.Format == export.Default { // stdout is a terminal
		plots := lists.Map(j.Plots, func(p views.Plot) string { return p.String() })
		a.stdout.Printf("\n")
		if err := a.showChart(r, r.Rows, plots); err != nil {
			a.stderr.Printf("%s: no chart: %v\n", a.name, err)
		}
	}
	files, err := report.Render(dir, report.Input{Bench: j.Bench, Data: r, Plots: j.Plots})
	if err != nil {
		return err
	}
	a.printWritten(files, f.Quiet)
	return nil
}

// print writes the rows in a format. In the default format, the headline sections of the bench replace the
// table, if it has any.
func (a *app) print(b *bench.Bench, format string, r *dataset.Dataset) error {
	if format == export.Default {
		if written, err := report.Headlines(a.stdout.Writer(), b, r.Rows, a.width); written || err != nil {
			return err
		}
	}
	return export.Write(a.stdout.Writer(), format, export.Input{Header: &r.Header, Rows: r.Rows},
		export.Options{Width: a.width, MaxRows: tableRows(format)})
}

// tableRows returns the largest number of lines of a printed table, or 0 for no limit. The middle of longer
// tables is left out. Files always have all lines.
func tableRows(format string) int {
	if format == export.Default {
		return 200
	}
	return 0
}

// renderOnly draws the views again from stored rows: for the points that the command line selects, or for
// all points of the latest run. It returns an error if the rows come from another version of the bench or
// from other input files.
func (a *app) renderOnly(j request.Planned, f request.Flags) (int, error) {
	jn, r, err := a.load(j.Out)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("nothing is stored in %s: run without --render-only first", j.Out)
	}
	if err != nil {
		return exitFailed, err
	}
	switch {
	case r.Header.Bench != j.Bench.Name:
		err = fmt.Errorf("%s has rows of bench %q, not of %q", j.Out, r.Header.Bench, j.Bench.Name)
	case r.Header.Version != j.Bench.Version:
		err = fmt.Errorf("the rows in %s were made by version %q of %s, this is version %q: run again without --render-only",
			j.Out, r.Header.Version, j.Bench.Name, j.Bench.Version)
	case len(r.Rows) == 0:
		err = fmt.Errorf("the latest run in %s has no rows: run without --render-only first", j.Out)
	}
	if err == nil && !maps.Equal(sharedInputs(j.Inputs), sharedInputs(r.Header.Inputs)) {
		err = fmt.Errorf("the rows in %s were made with other files (%s, now %s): run again without --render-only",
			j.Out, inputNames(r.Header.Inputs), inputNames(j.Inputs))
	}
	stored := decl.Data(j.Bench, jn, r)
	if err == nil && (j.Asked || a.isFast(j.Bench)) {
		if stored, err = run.Stored(j.Plan, jn, r); err != nil {
			err = fmt.Errorf("%w: run without --render-only, or draw the stored rows with %s report %s", err, a.name, j.Out)
		}
	}
	if err != nil {
		return exitFailed, err
	}
	code := exitCode(stored.Rows.Counts(), stored.Rows.Missing())
	return code, a.views(jn.Dir(), j, f, decl.Derived(j.Bench, jn, stored))
}

// sharedInputs returns the input files of all rows. It leaves out files of swept options: each belongs to
// only some rows and is part of their identity.
func sharedInputs(inputs map[string]string) map[string]string {
	all := maps.Clone(inputs)
	maps.DeleteFunc(all, func(name, _ string) bool { return strings.Contains(name, " ") })
	return all
}

// inputNames formats a set of input files for messages.
func inputNames(inputs map[string]string) string {
	if len(inputs) == 0 {
		return "none"
	}
	words := lists.Map(slices.Sorted(maps.Keys(inputs)), func(name string) string {
		return fmt.Sprintf("--%s %.8s", name, inputs[name])
	})
	return strings.Join(words, ", ")
}
