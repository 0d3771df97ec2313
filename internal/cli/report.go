package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/report"
)

func (a *app) reportCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "report RUN...",
		Short:   "Write figures, tables, report.html and report.md of stored rows again",
		Long:    "Makes every view of a run again from its journal: figures, tables, one\nself-contained page, report.html, and the same as Markdown, report.md.\n\n" + runHelp,
		Example: fmt.Sprintf("  %s report out/memory", a.name),
		Args:    arguments(1, -1, "RUN folders such as out/memory"),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, spec := range args {
				j, r, err := journal.LoadRun(spec)
				if err != nil {
					return usage(err)
				}
				b := a.bench(r.Header.Bench)
				if _, sel, err := journal.Select(spec); err == nil && sel == "" {
					r = b.View(j, r)
				}
				files, err := report.Render(j.Dir(), report.Input{Bench: b, Run: r})
				if err != nil {
					return err
				}
				for _, f := range files {
					fmt.Fprintf(a.stdout, "wrote %s\n", f)
				}
			}
			return nil
		},
	}
}

// bench is the built-in bench of that name, or nil: rows of a sweep file or of
// another program are shown without figures of their own.
func (a *app) bench(name string) *bench.Bench {
	for _, b := range a.benches {
		if b.Name == name {
			return b
		}
	}
	return nil
}
