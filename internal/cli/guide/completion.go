package guide

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// Completing returns the command line that the arguments complete, without the word that is being typed, if they are
// cobra's request of a completion. Otherwise it returns the arguments.
func Completing(args []string) (line []string, is bool) {
	if len(args) < 2 || args[0] != cobra.ShellCompRequestCmd && args[0] != cobra.ShellCompNoDescRequestCmd {
		return args, false
	}
	line = args[1 : len(args)-1]
	if slices.ContainsFunc(line, func(a string) bool { return strings.HasSuffix(a, ".py") }) {
		return nil, true // pressing Tab must not execute a Python file
	}
	return line, true
}

// Complete registers completions for a command's flags: names of benches, values of axes, choices
// of options.
func Complete(cmd *cobra.Command, known, chosen []*bench.Bench) {
	values := map[string][]string{"bench": benchNamesOf(known), "backend": dist.Backends(nil)}
	for _, b := range chosen {
		for _, p := range b.Parts {
			for _, a := range p.Axes {
				name := a.Name
				if name == bench.RanksAxis {
					name = "ranks"
				}
				for _, v := range a.Values {
					values[name] = append(values[name], v.Pretty())
				}
			}
		}
		for _, o := range b.Options {
			values[o.Name] = append(values[o.Name], o.Choices...)
		}
	}
	for name, list := range values {
		if flag := cmd.Flags().Lookup(name); flag != nil && len(list) > 0 {
			// It fails only for a missing flag.
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, oneOf(list))
		}
	}
}

// Names completes arguments that are names of benches.
func Names(known []*bench.Bench) cobra.CompletionFunc { return oneOf(benchNamesOf(known)) }

// NamesOrFiles completes arguments that are names of benches, or else names of files.
func NamesOrFiles(known []*bench.Bench) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		names, directive := Names(known)(cmd, args, typed)
		if len(names) == 0 || typed == "" {
			directive = cobra.ShellCompDirectiveDefault
		}
		return names, directive
	}
}

func benchNamesOf(benches []*bench.Bench) []string {
	return lists.Map(benches, func(b *bench.Bench) string { return b.Name })
}

// oneOf completes the last element of a comma-separated list.
func oneOf(list []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		done := typed[:strings.LastIndexByte(typed, ',')+1]
		var out []string
		for _, v := range list {
			if text := done + v; strings.HasPrefix(text, typed) && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
