package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Manual returns the command `man`.
func Manual(program string) *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages of all commands",
		Long:    "Writes a manual page for every command to FOLDER, which is created if necessary.",
		Example: fmt.Sprintf("  %[1]s man man/man1", program),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("man: want one FOLDER, have %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			return writeMan(cmd.Root(), args[0])
		},
	}
}

// writeMan writes the pages of a command and its subcommands.
func writeMan(cmd *cobra.Command, dir string) error {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			if err := writeMan(c, dir); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), []byte(manPage(cmd)), 0o666)
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns a page in the macros of man(7). Help texts are already wrapped for a terminal, so
// they are not filled again.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1\n", roff(strings.ToUpper(pageName(cmd))))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n%s\n", roff(cmd.UseLine()))
	verbatim := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(strings.TrimRight(text, "\n")))
		}
	}
	verbatim("DESCRIPTION", cmd.Long)
	sections := Sections(cmd)
	for i, s := range sections {
		if i == 0 {
			b.WriteString(".SH OPTIONS\n")
		}
		if len(sections) > 1 {
			fmt.Fprintf(&b, ".SS %s\n", roff(s.Title))
		}
		for _, f := range s.Flags {
			t := Describe(f)
			if t.Default != "" {
				t.Meaning += " (default: " + t.Default + ")"
			}
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(strings.TrimSpace(t.Name+" "+t.Value)), roff(t.Meaning))
		}
	}
	verbatim("EXAMPLES", cmd.Example)
	var also []string
	if cmd.HasParent() {
		also = append(also, pageName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			also = append(also, pageName(c))
		}
	}
	also = lists.Map(also, func(name string) string { return "\\fB" + roff(name) + "\\fR(1)" })
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, ", "))
	}
	return b.String()
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// roff escapes text so that troff prints it literally.
func roff(text string) string {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + roffEscapes.Replace(text)
	}
	return roffEscapes.Replace(text)
}
