package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

const runHelp = `RUN is a folder that a run left (out/memory). RUN@-1 is the run before the
latest in it, RUN@ID one by its id or the start of it.`

func (a *app) showCommand() *cobra.Command {
	var format string
	var plots []string
	var perTrial, runs bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Print or draw stored rows again",
		Long:  "Prints the rows of a run in any format, and draws them, without running anything.\n\n" + runHelp,
		Example: fmt.Sprintf(`  %[1]s show out/memory
  %[1]s show out/memory --runs
  %[1]s show out/memory@-1 --format csv > rows.csv
  %[1]s show out/memory --plot x=size,y=gbps,by=num_ranks
  %[1]s show out/memory --format benchfmt > new.txt && benchstat old.txt new.txt`, a.name),
		Args: arguments(1, 1, "one RUN folder such as out/memory"),
		RunE: func(_ *cobra.Command, args []string) error {
			j, r, err := journal.LoadRun(args[0])
			if err != nil {
				return usage(err)
			}
			for _, p := range j.Problems {
				fmt.Fprintf(a.stderr, "%s: %s: %v (left out)\n", a.name, j.Path, p)
			}
			if runs {
				return a.listRuns(j)
			}
			if _, sel, err := journal.Select(args[0]); err == nil && sel == "" {
				r = a.bench(r.Header.Bench).View(j, r)
			}
			rows := r.Latest()
			for _, text := range plots {
				if err := a.draw(j.Dir(), text, r, rows); err != nil {
					return usage(err)
				}
			}
			err = export.Write(a.stdout, format, export.Input{Header: &r.Header, Rows: rows}, export.Options{Width: a.width, PerTrial: perTrial})
			if err != nil {
				return usage(err)
			}
			if format == export.Default {
				for _, n := range r.Notes {
					fmt.Fprintf(a.stdout, "note: %s\n", n.Text)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", export.Default, "what to print: "+strings.Join(export.Formats(), ", "))
	cmd.Flags().StringArrayVar(&plots, "plot", nil, "draw `x=AXIS,y=METRIC,by=AXIS` into RUN/figures (repeatable)")
	cmd.Flags().BoolVar(&perTrial, "per-trial", false, "one table line per trial")
	cmd.Flags().BoolVar(&runs, "runs", false, "list the runs of the folder")
	return cmd
}

func (a *app) draw(dir, text string, r *journal.Run, rows []journal.Row) error {
	p, err := report.ParsePlot(text)
	if err != nil {
		return err
	}
	fig, err := p.Figure(&r.Header, rows)
	if err != nil {
		return err
	}
	files, err := figure.Write(dir+"/figures", fig)
	for _, f := range files {
		fmt.Fprintf(a.stderr, "wrote %s\n", f)
	}
	return err
}

func (a *app) listRuns(j *journal.Journal) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTARTED\tBENCH\tROWS\tFAILED\tOUTCOME")
	for _, r := range j.Runs {
		outcome := "not finished"
		if r.End != nil {
			outcome = r.End.Outcome
		}
		c := r.Counts()
		rows := 0
		for _, n := range c {
			rows += n
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", r.ID(), r.Header.Time.Local().Format("2006-01-02 15:04:05"), r.Header.Bench,
			rows, c[journal.Failed]+c[journal.Timeout], outcome)
	}
	return w.Flush()
}
