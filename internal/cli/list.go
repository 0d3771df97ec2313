package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/registry"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/cli/guide"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/doctor"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func (a *app) listCommand() *cobra.Command {
	var verbose, all bool
	var files []string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "list [BENCH...]",
		Short: "List the benchmarks, their axes and options",
		Long: `Lists all benchmarks, or shows the named ones (each a name or a glob): axes,
variables and options with their legal words and defaults, and how to run them.
With --all it lists everything that can be chosen by name: algorithms, backends,
codecs, file formats, problems, partitioners, methods and so on.`,
		Example: fmt.Sprintf("  %[1]s list\n  %[1]s list memory\n  %[1]s list --verbose\n  %[1]s list --all\n"+
			"  %[1]s list -f examples/python/memory.py", a.name),
		Args:              arguments(0, -1, "names of benches"),
		ValidArgsFunction: guide.Names(a.benches),
		RunE: func(cmd *cobra.Command, names []string) error {
			if all && (verbose || len(names)+len(files) > 0) {
				return usage(errors.New("--all lists everything: give no names, --file or --verbose with it"))
			}
			w := guide.NewColumns(a.stdout.Writer(), a.width)
			out := texttab.ForTerminal(w)
			if all {
				describeKinds(out, a.benches)
				return w.Flush()
			}
			benches := a.benches
			if len(files) > 0 {
				benches = nil
			}
			for _, f := range files {
				found, err := request.LoadFile(cmd.Context(), f, limit)
				if err != nil {
					return loadError(cmd.Context(), err)
				}
				benches = append(benches, found...)
			}
			benches, err := request.Named(benches, names)
			if err != nil {
				return usage(err)
			}
			for _, b := range benches {
				out.Printf("%s\t%s\n", b.Name, b.Help)
				if verbose || len(names) > 0 {
					describeBench(out, b)
				}
				if len(names) > 0 {
					out.Printf("\n%s\n", texttab.Block(a.benchExamples(b)))
				}
			}
			if verbose && len(files)+len(names) == 0 {
				describeMachine(out, doctor.Devices(doctor.Local(cmd.Context())))
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "list what `FILE` declares instead (repeatable)")
	cmd.Flags().DurationVar(&limit, "import-timeout", python.ImportLimit, "time limit for the import of a Python file")
	cmd.Flags().BoolVar(&all, "all", false, "list everything that has a name: benches, backends, algorithms, formats ...")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false,
		"show axes, variables and options, and the backends, GPUs and libraries of this machine")
	return cmd
}

// describeKinds lists the benches and the members of every registry of the program.
func describeKinds(out texttab.Out, benches []*bench.Bench) {
	out.Printf("bench\n")
	for _, b := range benches {
		out.Printf("  %s\t%s\n", b.Name, b.Help)
	}
	for _, kind := range registry.Kinds() {
		out.Printf("\n%s\n", kind.Noun)
		for _, e := range kind.Entries() {
			names := strings.Join(append([]string{e.Name}, e.Aliases...), ", ")
			out.Printf("  %s\t%s\n", names, e.Help)
		}
	}
}

// describeMachine lists backends, GPUs and libraries, or the reasons why they are missing.
func describeMachine(out texttab.Out, found []doctor.Finding) {
	for _, name := range dist.Backends(nil) {
		out.Printf("backend %s\t%s\n", name, dist.Describe(name).Help)
	}
	for _, f := range found {
		out.Printf("%s %s\t%s: %s\n", f.Area, f.Name, f.State, f.Detail)
	}
}

// describeBench prints the axes, environment variables, options, backends and profiles of a bench.
func describeBench(out texttab.Out, b *bench.Bench) {
	for _, p := range b.Parts {
		if p.Name != "" {
			out.Printf("  part %s\t%s\n", p.Name, p.Help)
		}
		legal := plan.KnownValues(b, p)
		for _, a := range p.Axes {
			words := ""
			if len(legal[a.Name]) > 0 {
				words = " (of " + strings.Join(legal[a.Name], ", ") + ")"
			}
			out.Printf("  axis %s\t%s: %s%s\n", a.Name, a.Kind, texttab.Shorten(point.FormatSpec(a.Values), 100), words)
		}
		for _, e := range p.Envs {
			out.Printf("  env %s\t", e.Name)
			for i, v := range e.Values {
				if i > 0 {
					out.Printf(",")
				}
				out.Printf("%s", v.Text())
			}
			out.Printf("\n")
		}
	}
	for _, o := range b.Options {
		words := ""
		if len(o.Choices) > 0 {
			words = " (" + strings.Join(o.Choices, ", ") + ")"
		}
		out.Printf("  option %s\t%s%s, default %q\n", o.Name, o.Help, words, o.Default.Pretty())
	}
	if len(b.Backends) > 0 {
		out.Printf("  backends\t%s\n", strings.Join(b.Backends, ", "))
	}
	for _, p := range b.Profiles {
		axes := lists.Map(p.Axes, func(x [2]string) string { return x[0] + "=" + x[1] })
		out.Printf("  profile %s\t%s\n", p.Name, strings.Join(axes, " "))
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: fmt.Sprintf("  %s version", a.name),
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			a.stdout.Printf("%s", texttab.Block(versionText()))
			return nil
		},
	}
}

func versionText() string {
	text := fmt.Sprintf("%s, journal schema %d\n", hostinfo.LocalBuild(), journal.Schema)
	if !dynlib.HasLoader {
		text += missingLibraries(doctor.Libraries())
	}
	return text
}

// missingLibraries lists the libraries that a binary without a dynamic loader cannot use.
func missingLibraries(libraries []dynlib.Spec) string {
	names := lists.Map(libraries, func(l dynlib.Spec) string { return l.Name })
	return "static: without C libraries, so without " + strings.Join(names, ", ") + "\n"
}
