package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// flagError words what the flag parser found in the way of all other errors:
// what was written, where, and what would be right.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: a value is missing", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		want, known := wants[f.Value.Type()]
		if !known {
			return fmt.Errorf("--%s %q: %w", f.Name, invalid.GetValue(), invalid.Unwrap())
		}
		return fmt.Errorf("--%s %q: want %s", f.Name, invalid.GetValue(), want)
	}
	return err
}

// wants is what a flag takes, by its type's name.
var wants = map[string]string{
	"bool":     "true or false",
	"int":      "a whole number",
	"uint64":   "a whole number, 0 or more",
	"float64":  "a number",
	"duration": "a time such as 90s, 2m or 500ms",
	"intSlice": "whole numbers such as 0,2",
}

// unknownFlag suggests the nearest flag. Of many flags only those of the bench
// are listed, which differ from bench to bench; the rest is in the help.
func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	if e.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("unknown flag %q", "-"+e.GetSpecifiedName())
	}
	var all, own []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		all = append(all, "--"+f.Name)
		if _, ofBench := f.Value.(*textFlag); ofBench {
			own = append(own, "--"+f.Name)
		}
	})
	name := "--" + e.GetSpecifiedName()
	const few = 12
	if len(all) <= few {
		return suggest.Unknown("flag", name, all)
	}
	text := fmt.Sprintf("unknown flag %q", name)
	if near := suggest.Nearest(name, all); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	if len(own) > 0 {
		text += fmt.Sprintf(" (the bench has %s)", strings.Join(own, ", "))
	}
	return errors.New(text)
}

// arguments demands between least and most arguments, -1 for any number, and
// says what they are.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least || most > 0 && len(args) > most:
			return fmt.Errorf("%s: want %s, have %s", cmd.Name(), what, count(len(args), "argument"))
		case most == 0 && len(args) > 0:
			return fmt.Errorf("%s: %q is too much: %s", cmd.Name(), args[0], what)
		}
		return nil
	}
}

// noArguments is for commands that have flags alone.
var noArguments = arguments(0, 0, "it takes no arguments")

// atLeast refuses a flag's value that is too small.
func atLeast(flag string, value, least int) error {
	if value < least {
		return fmt.Errorf("--%s %d: want a whole number of at least %d", flag, value, least)
	}
	return nil
}

// program demands that a launcher's command line begins with a program that is
// there.
func program(command string) error {
	words := strings.Fields(command)
	if len(words) == 0 {
		return errors.New("--launcher is empty: leave it out, or give auto, local, join, mpirun, mpiexec or srun")
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return fmt.Errorf("--launcher %s: no such program here: want auto, local, join, or mpirun, mpiexec or srun with flags of its own", words[0])
	}
	return nil
}
