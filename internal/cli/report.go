package cli

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
	"github.com/kernbench/kernbench/internal/view/export"
	"github.com/kernbench/kernbench/internal/view/report"
)

func (a *app) reportCommand() *cobra.Command {
	var out string
	var plots []string
	var allBuilds bool
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Write figures, tables, report.html and report.md from stored rows again",
		Long: "Makes every view of a run again from its journal: figures, tables, one\nself-contained page, " +
			"report.html, and the same as Markdown, report.md. For a\nrun that is named with @, the files go to RUN/runs/ID, " +
			"and the folder's own files stay.\n\nWith -o, all runs go onto one page: their curves in the same " +
			"figures, and what " +
			"became\nfaster or slower between the first and each of the others. A FILE that ends in .png or\n.svg is the " +
			"figure alone. Where simulated and measured rows meet, legends say which is\nwhich, and captions on what " +
			"machine.\n\n" + runHelp,
		Example: fmt.Sprintf("  %[1]s report out/memory\n  %[1]s report before after -o report.html --plot "+
			"x=size,y=gbps,by=run\n  %[1]s report sim cpu gpu -o allreduce.png --plot x=size,y=time_us,by=backend+kind", a.name),
		Args: arguments(1, -1, "RUN folders such as out/memory"),
		RunE: func(_ *cobra.Command, args []string) error {
			if out != "" {
				return a.overlay(args, plots, out, allBuilds)
			}
			if allBuilds {
				return usage(errors.New("--all-builds needs -o: it draws the builds on one page"))
			}
			if len(plots) > 0 {
				return usage(errors.New("--plot needs -o: it adds figures to that page"))
			}
			for _, spec := range args {
				j, r, err := a.load(spec)
				if err != nil {
					return err
				}
				b, folder, d := a.bench(r.Header.Bench), "", dataset.Of(r)
				if filepath.Clean(spec) == filepath.Clean(j.Dir()) {
					d = decl.View(b, j, r)
				} else { // the RUN folder itself is for the views of the latest run
					folder = path.Join("runs", r.ID())
				}
				files, err := report.Render(j.Dir(), report.Input{Bench: b, Data: d, Folder: folder})
				if err != nil {
					return err
				}
				for _, f := range files {
					a.stdout.Printf("wrote %s\n", f)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "",
		"write one page of all the runs to this `FILE`, or only the figure if it is a .png or .svg")
	cmd.Flags().StringArrayVar(&plots, "plot", nil, "draw `x=AXIS,y=METRIC,by=AXIS` on that page (repeatable)")
	cmd.Flags().BoolVar(&allBuilds, "all-builds", false, "with -o: draw all builds of each folder, the oldest first")
	return cmd
}

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why RUN ID",
		Short: "Print the rows behind a sentence of a report",
		Long: "Generated sentences of a report end in an ID such as [fastest-1]. This prints such a sentence\nand the rows " +
			"that it rests on.\n\n" + runHelp,
		Example: fmt.Sprintf("  %[1]s why out/allreduce-eval verdict-1", a.name),
		Args:    arguments(2, 2, "a RUN folder and the ID of a sentence, such as fastest-1"),
		RunE:    a.onRun(a.printEvidence),
	}
}

// printEvidence prints a sentence of the report and the rows that it is based on.
func (a *app) printEvidence(j *journal.Journal, r *journal.Run, args []string) error {
	b := a.bench(r.Header.Bench)
	d := decl.View(b, j, r)
	s, err := report.Why(report.Input{Bench: b, Data: d}, d.Rows, strings.Trim(args[1], "[]"))
	if err != nil {
		return usage(err)
	}
	a.stdout.Printf("%s [%s]\n\n", s.Text, s.Citation())

	in := export.Input{Header: &d.Header, Rows: s.Rows}
	return export.Write(a.stdout.Writer(), "table", in, export.Options{})
}

// overlay writes one page of several runs.
func (a *app) overlay(specs, plots []string, path string, allBuilds bool) error {
	var make func(report.Input) ([]byte, error)
	switch ending := strings.ToLower(filepath.Ext(path)); ending {
	case ".html", ".htm":
		make = report.Page
	case ".png", ".svg":
		make = func(in report.Input) ([]byte, error) { return report.Picture(in, ending) }
	default:
		return usage(fmt.Errorf("writing the report %s: want a name that ends in .html for a page, or in .png or .svg "+
			"for a figure",
			path))
	}
	var runs []dataset.Named
	for _, spec := range specs {
		j, r, err := a.load(spec)
		if err != nil {
			return err
		}
		if allBuilds {
			others := dataset.OtherBuilds(j, r)
			for i, b := range slices.Backward(others) {
				runs = append(runs, dataset.Named{Name: fmt.Sprintf("%s build %d", spec, len(others)-i), Dataset: b})
			}
		}
		name := spec
		for slices.ContainsFunc(runs, func(o dataset.Named) bool { return o.Name == name }) {
			name += "@" + r.ID()
		}
		runs = append(runs, dataset.Named{Name: name, Dataset: dataset.Of(r)})
	}
	chosen, err := views.ParsePlots(plots)
	if err != nil {
		return usage(err)
	}
	text, err := make(report.Overlay(runs, chosen))
	if err != nil {
		return usage(err)
	}
	if err := journal.WriteFileAtomic(path, text); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	a.stdout.Printf("wrote %s\n", path)
	return nil
}
