package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func (a *app) listCommand() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the benchmarks, their axes and options",
		Example: fmt.Sprintf("  %[1]s list\n  %[1]s list --verbose", a.name),
		Args:    arguments(0, 0, "it lists all benches; --verbose shows their axes and options"),
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
			for _, b := range a.benches {
				fmt.Fprintf(w, "%s\t%s\n", b.Name, b.Help)
				if verbose {
					describeBench(w, b)
				}
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show axes, variables and options")
	return cmd
}

func describeBench(w *tabwriter.Writer, b *bench.Bench) {
	for _, p := range b.Parts {
		if p.Name != "" {
			fmt.Fprintf(w, "  part %s\t%s\n", p.Name, p.Help)
		}
		for _, a := range p.Axes {
			fmt.Fprintf(w, "  axis %s\t%s: %s\n", a.Name, a.Kind, request.Shorten(point.FormatSpec(a.Values), 100))
		}
		for _, e := range p.Envs {
			fmt.Fprintf(w, "  env %s\t", e.Name)
			for i, v := range e.Values {
				if i > 0 {
					fmt.Fprint(w, ",")
				}
				fmt.Fprint(w, v.Text())
			}
			fmt.Fprintln(w)
		}
	}
	for _, o := range b.Options {
		fmt.Fprintf(w, "  option %s\t%s, default %q\n", o.Name, o.Help, o.Default.Pretty())
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: fmt.Sprintf("  %s version", a.name),
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprint(a.stdout, versionText())
			return nil
		},
	}
}

func versionText() string {
	return fmt.Sprintf("%s, journal schema %d\n", hostinfo.LocalBuild(), journal.Schema)
}
