// Package cli is the command line, with one file per command. It reads flags and the environment, calls
// the packages that do the work, and prints the results. No package below it prints or exits. Package
// request interprets the flags of `run`, package job starts or joins its ranks, and package terminal
// shows its progress.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/bench"
	_ "github.com/kernbench/kernbench/dist/all" // every program has every backend
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/cli/guide"
	"github.com/kernbench/kernbench/internal/cli/job"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/cli/selftest"
	"github.com/kernbench/kernbench/internal/cli/terminal"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/process/culprit"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// app holds everything that commands get from outside: arguments, environment and streams.
type app struct {
	name    string
	benches []*bench.Bench
	args    []string
	environ []string
	ports   connection.PortRange // to listen on for other hosts: see usePorts
	stdout  texttab.Out          // makes control characters visible, like stderr
	stderr  texttab.Out
	streams [2]io.Writer // unfiltered stdout and stderr, for binary output and the progress bar
	output  *terminal.Output
	isTerm  bool // stderr is a terminal
	width   int
}

// Child runs this process as an agent, a guard or a worker if it was started as one, and reports whether
// it did. These processes are the same program, started with special environment variables.
func Child(benches []*bench.Bench) (code int, is bool) {
	if code, is := launch.MaybeAgent(); is {
		return code, true
	}
	return worker.Maybe(append(slices.Clone(benches), selftest.Bench()))
}

// secondSignal is the time after the first signal from which another signal counts as the second one.
const secondSignal = time.Second

// Main runs the command line with the given benches and returns the exit code. It is also where agents
// and workers start.
func Main(benches []*bench.Bench) int {
	if code, is := Child(benches); is {
		return code
	}
	if err := culprit.OwnLimits().CheckThreads(); err != nil {
		texttab.ForTerminal(os.Stderr).Printf("%s: %v\n", filepath.Base(os.Args[0]), err)
		return exitFailed
	}
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	launch.CatchUserSignals()
	// A second Ctrl-C kills the program at once, and its agent then kills the workers. A signal that follows the first
	// one immediately does not count: timeout(1) sends every signal to its child and then again to the process group.
	context.AfterFunc(ctx, func() { time.AfterFunc(secondSignal, stop) })
	output := terminal.NewOutput(os.Stdout)
	a := &app{
		name: filepath.Base(os.Args[0]), benches: benches, args: commandFirst(os.Args[1:]), environ: os.Environ(),
		stdout:  texttab.ForTerminal(terminal.Guard(output)),
		stderr:  texttab.ForTerminal(terminal.Guard(os.Stderr)),
		streams: [2]io.Writer{output, os.Stderr}, output: output,
		isTerm: terminal.Is(os.Stderr), width: terminal.Width(os.Stdout),
	}
	return a.run(ctx)
}

// rankZeroPrints is how long the other ranks of a job wait for rank 0 to print a usage error.
const rankZeroPrints = time.Second

func (a *app) run(ctx context.Context) int {
	root, err := a.root(ctx)
	if err == nil {
		root.SetArgs(a.args)
		err = a.withOutput(root.ExecuteContext(ctx))
	}
	if err == nil {
		return exitGood
	}
	exit := exitOf(err)
	if exit.err == nil {
		return exit.code
	}
	a.storeError(exit.err)
	if exit.code == exitUsage && job.Follower(a.args, a.environ) {
		// In a job, every rank finds the same usage error, and only rank 0 prints it. Launchers end all ranks as soon as
		// one has ended, so the others leave rank 0 the time to do so.
		select {
		case <-ctx.Done():
		case <-time.After(rankZeroPrints):
		}
	} else {
		a.stderr.Printf("%s: %v\n", a.name, texttab.Failure(launch.WithLimit(exit.err)))
		if exit.code == exitUsage {
			a.stderr.Printf("See '%s --help'.\n", a.helpCommand(root))
		}
	}
	return exit.code
}

// withOutput returns the error of a command, or that its output could not be written, unless it failed for another
// reason. A failed write is never a usage error, even if the command reports it as one. If the reader of a pipe has
// gone, nothing is printed.
func (a *app) withOutput(err error) error {
	failed := a.output.Err()
	var status *exitError
	verdict := errors.As(err, &status) && status.err == nil
	switch {
	case failed == nil && errors.Is(err, syscall.ENOSPC):
		return &exitError{exitFailed, err}
	case failed == nil || err != nil && !verdict && !errors.Is(err, failed):
		return err
	case verdict && status.code > exitAmbiguous: // of a rank of `launch`
		return err
	case errors.Is(failed, syscall.EPIPE):
		return exit(exitFailed)
	}
	return &exitError{exitFailed, fmt.Errorf("writing the output: %w", failed)}
}

// storeError stores the error for torchrun, which shows the error of the first rank that failed.
func (a *app) storeError(err error) {
	path := jobenv.Variable(a.environ, "TORCHELASTIC_ERROR_FILE")
	if path == "" {
		return
	}
	type text struct {
		Message   any               `json:"message"`
		ExtraInfo map[string]string `json:"extraInfo,omitempty"`
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	data, _ := json.Marshal(text{Message: text{Message: err.Error(), ExtraInfo: map[string]string{"timestamp": now}}})
	_ = os.WriteFile(path, data, 0o600) // without the file, the launcher still shows the final output
}

// helpCommand returns the command whose --help is recommended after a usage error.
func (a *app) helpCommand(root *cobra.Command) string {
	if root == nil { // only `run` and `tune` fail before their flags are complete, or a wrong declaration
		return strings.Join(append([]string{a.name}, a.args[:min(len(a.args), 1)]...), " ")
	}
	if cmd, _, err := root.Find(a.args); err == nil {
		return cmd.CommandPath()
	}
	return a.name
}

// root returns the complete command tree.
func (a *app) root(ctx context.Context) (*cobra.Command, error) {
	if err := a.validate(); err != nil {
		return nil, usage(err)
	}
	root := &cobra.Command{
		Use:   a.name,
		Short: "Measure distributed kernels: how fast, whether correct, and how far from the limit",
		Long: `Runs benchmarks of distributed kernels over axes, rank counts and environment
variables, verifies their results, and records every row in a journal. Tables,
figures and comparisons are made from the journal.`,
		Example: fmt.Sprintf(`  %[1]s list
  %[1]s run --bench memory --size 4K:64M:x4 --ranks 1,2
  %[1]s run -f sweep.yaml --env NCCL_MIN_CTAS=32,64,-
  %[1]s show out/memory --format csv
  %[1]s compare out/memory@-1 out/memory`, a.name),
		Version: versionText(), SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && a.bench(args[0]) != nil {
				return usage(fmt.Errorf("%[1]s is a bench: %[2]s run %[1]s", args[0], a.name))
			}
			return usage(unknownCommand(cmd, args))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if own := a.ownExample(); own != nil {
		root.Example = fmt.Sprintf("  %[1]s list\n%[2]s\n  %[1]s show out/%[3]s --format csv", a.name, a.benchExamples(own),
			own.Name)
	}
	root.SetOut(a.stdout.Writer())
	root.SetErr(a.stderr.Writer())
	root.SetUsageFunc(guide.Usage(a.width))
	root.SetHelpFunc(guide.Help(a.width))
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(request.FlagError(cmd.Flags(), a.benches, err))
	})
	root.PersistentFlags().Var(inputLimit{}, "max-input",
		"raise the size limit of input files to `SIZE`, such as 256M")
	run, err := a.runCommand(ctx)
	if err != nil {
		return nil, err
	}
	tune, err := a.tuneCommand(ctx)
	if err != nil {
		return nil, err
	}
	root.AddCommand(a.listCommand(), run, tune, a.showCommand(), a.runsCommand(), a.samplesCommand(), a.verifyCommand(),
		a.tagCommand(), a.compareCommand(), a.abCommand(), a.historyCommand(), a.baselineCommand(),
		a.reportCommand(), a.whyCommand(), a.webCommand(), a.importCommand(), a.probeCommand(), a.predictCommand(),
		a.speedupCommand(), a.launchCommand(), a.doctorCommand(), a.selftestCommand(), a.pythonCommand(),
		a.solveServiceCommand(), a.wheelCommand(), a.docsCommand(), a.versionCommand(),
		wrongUsage(guide.Starter(a.name, a.stdout)), wrongUsage(guide.Manual(a.name)))
	root.InitDefaultCompletionCmd()
	describeCompletion(root)
	root.InitDefaultHelpCmd() // now, so that prepare also covers the arguments of `help`
	prepare(root, root.Commands())
	return root, nil
}

// describeCompletion rewords the help of cobra's command `completion`, and has it refuse a shell that it does not know.
// Cobra would print the help.
func describeCompletion(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Use, c.Short = "completion SHELL", "Print a script with which a shell completes commands and flags"
		c.Long = `Prints a script for bash, fish, powershell or zsh. It completes commands, flags, and
the names of benches and backends. Add --help to a SHELL to see how to load the script.`
		c.Example = "  " + root.Name() + " completion bash > kernbench.bash"
		c.Args = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return suggest.Unknown("shell", args[0], lists.Map(c.Commands(), (*cobra.Command).Name))
		}
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
}

// commandFirst moves a global flag that is before the command to after it: `--max-input 1G run memory`.
func commandFirst(args []string) []string {
	n := 0
	for n < len(args) && strings.HasPrefix(args[n], "--max-input=") {
		n++
	}
	if n+1 < len(args) && args[n] == "--max-input" {
		n += 2
	}
	if n >= len(args) {
		return args
	}
	return slices.Concat(args[n:n+1], args[:n], args[n+1:])
}

// inputLimit is the value of --max-input.
type inputLimit struct{}

func (inputLimit) String() string { return "" }
func (inputLimit) Type() string   { return "size" }

func (inputLimit) Set(text string) error {
	n, err := unit.ParseBytes(text)
	if err == nil {
		infile.Raise(n)
	}
	return err
}

// wrongUsage turns every error of a command into a usage error.
func wrongUsage(c *cobra.Command) *cobra.Command {
	work := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error { return usage(work(cmd, args)) }
	return c
}

// prepare turns wrong arguments of all commands into usage errors, and makes commands that need not clean up
// end at an interrupt.
func prepare(root *cobra.Command, commands []*cobra.Command) {
	for _, c := range commands {
		prepare(root, c.Commands())
		check := c.Args
		if check == nil { // cobra's command `help COMMAND`
			check = func(_ *cobra.Command, args []string) error {
				if topic, _, err := root.Find(args); err != nil || topic == root {
					return unknownCommand(root, args)
				}
				return nil
			}
		}
		c.Args = func(cmd *cobra.Command, args []string) error { return usage(check(cmd, args)) }
		if own := c.HasParent() && c.Parent().Name() != "completion"; c.RunE != nil && own {
			c.Long = cmp.Or(c.Long, c.Short+".") + "\n\n" + exitStatus(c)
		}
		if work := c.RunE; work != nil && c.Annotations["kernbench_cleans_up"] == "" {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				return readOnly(cmd.Context(), func() error { return work(cmd, args) })
			}
		}
	}
}

// readOnly runs work that measures nothing and can be interrupted. It lowers GOGC, because such work
// keeps almost all of its memory (rows or points), so the default would double the peak.
func readOnly(ctx context.Context, work func() error) error {
	debug.SetGCPercent(65)
	return interruptible(ctx, work)
}

// interruptible runs work and abandons it at an interrupt. The work must own nothing but memory, and must
// write files atomically.
func interruptible(ctx context.Context, work func() error) error {
	done := make(chan error, 1)
	if ctx.Err() == nil {
		go func() { done <- work() }()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &exitError{exitInterrupted, errors.New("interrupted")}
	}
}

// validate checks the declarations of the benches that this program was built with.
func (a *app) validate() error {
	var errs []error
	var names lists.Set[string]
	for _, b := range a.benches {
		errs = append(errs, b.Validate())
		if !names.Add(b.Name) {
			errs = append(errs, fmt.Errorf("bench %q is declared twice", b.Name))
		}
		errs = append(errs, request.Clash(b))
	}
	return errors.Join(errs...)
}

// benchNames returns the sorted names of the built-in benches.
func (a *app) benchNames() []string {
	names := lists.Map(a.benches, func(b *bench.Bench) string { return b.Name })
	slices.Sort(names)
	return names
}

// printWritten prints the names of written files, unless quiet.
func (a *app) printWritten(files []string, quiet bool) {
	for _, name := range files {
		if !quiet {
			a.stderr.Printf("wrote %s\n", name)
		}
	}
}

// printJSON writes a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// arguments accepts between minimum and maximum arguments. A maximum of -1 means any number. what describes the
// arguments in errors.
func arguments(minimum, maximum int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < minimum || maximum > 0 && len(args) > maximum:
			return fmt.Errorf("%s: want %s, have %s", cmd.Name(), what, unit.Plural(len(args), "argument"))
		case maximum == 0 && len(args) > 0:
			return fmt.Errorf("%s: unexpected argument %q: %s", cmd.Name(), args[0], what)
		}
		return nil
	}
}

// subcommand refuses the arguments of a command that only has these subcommands.
func subcommand(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s: want %s", cmd.Name(), strings.Join(names, " or "))
		}
		return suggest.Unknown("command", args[0], names)
	}
}

// oneRun accepts the name of a run.
var oneRun = arguments(1, 1, "one RUN folder such as out/memory")

// noArguments accepts no arguments, for commands that have only flags.
var noArguments = arguments(0, 0, "it takes no arguments")

// unknownCommand returns the error for arguments that are not the name of a command.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	shown := lists.Filter(root.Commands(), func(c *cobra.Command) bool { return !c.Hidden })
	return suggest.Unknown("command", args[0], lists.Map(shown, (*cobra.Command).Name))
}
