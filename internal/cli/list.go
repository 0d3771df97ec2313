package cli

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/bench/python"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/host/doctor"
	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) listCommand() *cobra.Command {
	var verbose bool
	var files []string
	cmd := &cobra.Command{
		Use:   "list [BENCH...]",
		Short: "List the benchmarks, their axes and options",
		Long: `Lists all benchmarks, or shows those that are named (a name or a glob): axes,
variables and options with their legal words and defaults, and how to run them.`,
		Example:           fmt.Sprintf("  %[1]s list\n  %[1]s list memory\n  %[1]s list --verbose\n  %[1]s list -f examples/python/memory.py", a.name),
		Args:              arguments(0, -1, "names of benches"),
		ValidArgsFunction: nameCompletion(a.benches),
		RunE: func(cmd *cobra.Command, names []string) error {
			w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
			benches := a.benches
			if len(files) > 0 {
				benches = nil
			}
			for _, f := range files {
				found, err := request.LoadFile(cmd.Context(), f)
				if err != nil {
					return unread(cmd.Context(), err)
				}
				benches = append(benches, found...)
			}
			benches, err := request.Named(benches, names)
			if err != nil {
				return usage(err)
			}
			for _, b := range benches {
				fmt.Fprintf(w, "%s\t%s\n", b.Name, b.Help)
				if verbose || len(names) > 0 {
					describeBench(w, b)
				}
				if len(names) > 0 {
					fmt.Fprintf(w, "\n%s\n", a.benchExamples(b))
				}
			}
			if verbose && len(files)+len(names) == 0 {
				describeMachine(w, doctor.Devices(doctor.Local(cmd.Context())))
			}
			return w.Flush()
		},
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "list what `FILE` declares instead (repeatable)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show axes, variables and options, and the backends, GPUs and libraries of this machine")
	return cmd
}

// describeMachine lists what benches can run on: backends, GPUs and libraries, or why
// they are missing.
func describeMachine(w *tabwriter.Writer, found []doctor.Finding) {
	for _, name := range dist.Backends() {
		fmt.Fprintf(w, "backend %s\t%s\n", name, dist.Describe(name).Help)
	}
	for _, f := range found {
		fmt.Fprintf(w, "%s %s\t%s: %s\n", f.Area, f.Name, f.State, f.Detail)
	}
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
		words := ""
		if len(o.Choices) > 0 {
			words = " (" + strings.Join(o.Choices, ", ") + ")"
		}
		fmt.Fprintf(w, "  option %s\t%s%s, default %q\n", o.Name, o.Help, words, o.Default.Pretty())
	}
	if len(b.Backends) > 0 {
		fmt.Fprintf(w, "  backends\t%s\n", strings.Join(b.Backends, ", "))
	}
	for _, p := range b.Profiles {
		var axes []string
		for _, x := range p.Axes {
			axes = append(axes, x[0]+"="+x[1])
		}
		fmt.Fprintf(w, "  profile %s\t%s\n", p.Name, strings.Join(axes, " "))
	}
}

// pythonCommand prints the module that Python files import. Kernbench brings it along
// itself; beside a file it is for editors and type checkers.
func (a *app) pythonCommand() *cobra.Command {
	var module bool
	cmd := &cobra.Command{
		Use:     "python --print-module",
		Short:   "Print the module that benches in Python import",
		Example: fmt.Sprintf("  %s python --print-module > kernbench.py", a.name),
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			if !module {
				return usage(errors.New("nothing to do: give --print-module"))
			}
			fmt.Fprint(a.stdout, python.Module)
			return nil
		},
	}
	cmd.Flags().BoolVar(&module, "print-module", false, "print kernbench.py")
	return cmd
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
	text := fmt.Sprintf("%s, journal schema %d\n", hostinfo.LocalBuild(), journal.Schema)
	if !dynlib.HasLoader {
		text += "static: without C libraries, so without "
		for i, l := range dynlib.Declared() {
			if i > 0 {
				text += ", "
			}
			text += l.Name
		}
		text += "\n"
	}
	return text
}

//go:embed first
var firstFiles embed.FS

// sweepKind is one of the ways to declare a sweep.
type sweepKind struct {
	name  string
	files [][2]string // in the folder first, and as they are written
	next  string      // what to type
}

var sweepKinds = []sweepKind{
	{"yaml", [][2]string{{"sweep.yaml", "sweep.yaml"}, {"bench.sh", "bench.sh"}}, `%[1]s run -f %[2]s/sweep.yaml --plan
%[1]s run -f %[2]s/sweep.yaml --trials 6
%[1]s show out/first-sweep --chart`},
	{"go", [][2]string{{"main.go.txt", "main.go"}}, `cd %[2]s
go mod init first && go mod tidy
go run . run --bench first --plan
go run . run --bench first --trials 6`},
	{"python", [][2]string{{"bench.py", "bench.py"}}, `%[1]s run -f %[2]s/bench.py --plan
%[1]s run -f %[2]s/bench.py --trials 6
%[1]s show out/first --chart`},
}

func kindNames() []string {
	var names []string
	for _, k := range sweepKinds {
		names = append(names, k.name)
	}
	return names
}

// initCommand is `init`.
func initCommand(program string, out io.Writer) *cobra.Command {
	dir := "."
	cmd := &cobra.Command{
		Use:   "init [yaml|go|python]",
		Short: "Write a first sweep to start from",
		Long: `Writes a small sweep that runs as it is, to be changed into your own: over any
program (yaml, the default), as a Go program, or in Python. It overwrites nothing,
and says what to type next.`,
		Example:   fmt.Sprintf("  %[1]s init --dir first\n  %[1]s init python --dir first-python", program),
		ValidArgs: kindNames(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("init: want one of %s, have %d arguments", strings.Join(kindNames(), ", "), len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name := sweepKinds[0].name
			if len(args) > 0 {
				name = args[0]
			}
			i := slices.Index(kindNames(), name)
			if i < 0 {
				return suggest.Unknown("kind of sweep", name, kindNames())
			}
			return sweepKinds[i].write(program, dir, out)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "the `FOLDER` to write to; it is made if need be")
	return cmd
}

// write puts the files into the folder, all or none.
func (k sweepKind) write(program, dir string, out io.Writer) error {
	for _, f := range k.files {
		path := filepath.Join(dir, f[1])
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there already, and is not overwritten: name another folder with --dir", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, f := range k.files {
		text, err := firstFiles.ReadFile("first/" + f[0])
		if err != nil {
			return err
		}
		path := filepath.Join(dir, f[1])
		if err := writeNew(path, text); err != nil {
			return err
		}
		fmt.Fprintf(out, "wrote %s\n", path)
	}
	fmt.Fprintf(out, "\nNext:\n\n")
	for _, line := range strings.Split(fmt.Sprintf(k.next, program, filepath.ToSlash(dir)), "\n") {
		fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(line, "./", ""))
	}
	return nil
}

// writeNew makes a file that was not there.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// manCommand is `man`.
func manCommand(program string) *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages of all commands",
		Long:    "Writes a manual page for every command into FOLDER, which is made if need be.",
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

// writeMan writes the page of a command and of those below it.
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

// manPage is a page in the macros of man(7). Texts of help are laid out for a terminal
// already, so they stay as they are.
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
	first := true
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if first {
			b.WriteString(".SH OPTIONS\n")
			first = false
		}
		what, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if what != "" {
			name += " " + what
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(name), roff(usage))
	})
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
	for i, name := range also {
		also[i] = "\\fB" + roff(name) + "\\fR(1)"
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, ", "))
	}
	return b.String()
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// roff is text that troff prints as it is.
func roff(text string) string {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + roffEscapes.Replace(text)
	}
	return roffEscapes.Replace(text)
}

// completing returns the arguments of the command line that the shell wants completed, or
// the arguments themselves, and whether it is so: then nothing in them is whole yet.
func completing(args []string) ([]string, bool) {
	if len(args) == 0 || args[0] != cobra.ShellCompRequestCmd && args[0] != cobra.ShellCompNoDescRequestCmd {
		return args, false
	}
	args = args[1:]
	if len(args) > 0 && slices.ContainsFunc(args, func(a string) bool { return strings.HasSuffix(a, ".py") }) {
		return args[:1], true // nobody's program is run because a key was pressed
	}
	return args, true
}

// complete tells the shell the values of a command's flags: names of benches, values of
// axes, choices of options.
func complete(cmd *cobra.Command, known, chosen []*bench.Bench) {
	values := map[string][]string{"bench": benchNamesOf(known), "backend": dist.Backends()}
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
			// It fails only for a flag that is not there.
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, oneOf(list))
		}
	}
}

// nameCompletion completes arguments that are names of benches.
func nameCompletion(known []*bench.Bench) cobra.CompletionFunc { return oneOf(benchNamesOf(known)) }

func benchNamesOf(benches []*bench.Bench) []string {
	var out []string
	for _, b := range benches {
		out = append(out, b.Name)
	}
	return out
}

// oneOf completes the last element of a list that is separated by commas.
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
