package guide

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/base/texttab"
)

// Section holds the flags of a command that its help lists under one title.
type Section struct {
	Title string
	Flags []*pflag.Flag
}

// sectionOf is the annotation of a flag with the title of its section.
const sectionOf = "kernbench_section"

// BenchFlags is the title of the axes and options of a bench, which come first.
const BenchFlags = "Axes and options of the bench"

// Under gives the title to all flags that have none yet.
func Under(title string, fl *pflag.FlagSet) {
	fl.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[sectionOf] == nil {
			f.Annotations = map[string][]string{sectionOf: {title}}
		}
	})
}

// Sections returns the flags of a command in the order of its help, without the flags that all commands have.
func Sections(cmd *cobra.Command) []Section {
	var all []Section
	rest := Section{Title: "Flags"}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := f.Annotations[sectionOf]
		switch at := slices.IndexFunc(all, func(s Section) bool { return title != nil && s.Title == title[0] }); {
		case f.Hidden:
		case title == nil:
			rest.Flags = append(rest.Flags, f)
		case at >= 0:
			all[at].Flags = append(all[at].Flags, f)
		default:
			all = append(all, Section{title[0], []*pflag.Flag{f}})
		}
	})
	if at := slices.IndexFunc(all, func(s Section) bool { return s.Title == BenchFlags }); at > 0 {
		own := all[at]
		all = slices.Insert(slices.Delete(all, at, at+1), 0, own)
	}
	if len(all) > 0 {
		rest.Title = "Other flags"
	}
	if len(rest.Flags) > 0 {
		all = append(all, rest)
	}
	return all
}

// Usage returns the function that prints the usage of a command for a terminal of that width (0: no limit). It prints
// what cobra prints, but flags in their sections, and wrapped.
func Usage(width int) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		var b strings.Builder
		b.WriteString("Usage:\n")
		if c.Runnable() {
			b.WriteString(foldLine("  "+c.UseLine(), width) + "\n")
		}
		if c.HasAvailableSubCommands() {
			b.WriteString("  " + c.CommandPath() + " [command]\n")
		}
		if c.HasExample() {
			b.WriteString("\nExamples:\n" + foldCommands(c.Example, width) + "\n")
		}
		if c.HasAvailableSubCommands() {
			b.WriteString("\nAvailable Commands:\n")
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				pad := strings.Repeat(" ", max(0, sub.NamePadding()-len(sub.Name())))
				b.WriteString(foldLine("  "+sub.Name()+pad+" "+sub.Short, width) + "\n")
			}
		}
		for _, s := range Sections(c) {
			b.WriteString("\n" + s.Title + ":\n" + usages(s.Flags, width))
		}
		if c.HasAvailableInheritedFlags() {
			b.WriteString("\nGlobal Flags:\n" + c.InheritedFlags().FlagUsagesWrapped(width))
		}
		if c.HasAvailableSubCommands() {
			more := "Use \"" + c.CommandPath() + " [command] --help\" for more information about a command."
			b.WriteString("\n" + foldLine(more, width) + "\n")
		}
		return texttab.ForTerminal(c.OutOrStderr()).Printf("%s", texttab.Block(b.String()))
	}
}

// Help returns the function that prints the help of a command for a terminal of that width (0: no limit).
func Help(width int) func(*cobra.Command, []string) {
	return func(c *cobra.Command, _ []string) {
		c.InheritedFlags() // adds the flags of the parents, as cobra's own function does
		texttab.ForTerminal(c.OutOrStdout()).Printf("%s\n\n%s", texttab.Block(fold(cmp.Or(c.Long, c.Short), width)),
			texttab.Block(c.UsageString()))
	}
}

// usages describes flags, one or more lines each.
func usages(flags []*pflag.Flag, width int) string {
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	fl.SortFlags = false
	for _, f := range flags {
		fl.AddFlag(f)
	}
	return fl.FlagUsagesWrapped(width)
}

// FlagText is a flag as text: "-f, --file", "FILE", its default, and what it does. Default is a value, or a text that
// the meaning has as "(default: ...)". It is empty if the flag is unset by default.
type FlagText struct {
	Name, Value, Default, Meaning string
}

// Describe returns the texts of a flag.
func Describe(f *pflag.Flag) FlagText {
	t := FlagText{Name: "--" + f.Name}
	if f.Shorthand != "" {
		t.Name = "-" + f.Shorthand + ", " + t.Name
	}
	t.Value, t.Meaning = pflag.UnquoteUsage(f)
	if before, rest, found := strings.Cut(t.Meaning, " (default: "); found && strings.HasSuffix(rest, ")") {
		t.Meaning, t.Default = before, strings.TrimSuffix(rest, ")")
	} else if !slices.Contains([]string{"", "0s", "false", "[]"}, f.DefValue) {
		t.Default = f.DefValue
	}
	return t
}
