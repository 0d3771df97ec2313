package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/cli/terminal"
)

// Exit codes, as every command's help lists them.
const (
	exitGood        = 0
	exitFailed      = 1 // a row failed, a required one was not executed, or nothing ran
	exitUsage       = 2
	exitAmbiguous   = 3 // compare only
	exitInterrupted = 130
)

const exitHelp = `Exit status: 0 good (skipped rows allowed), 1 a row failed, a required one was
not executed, or nothing ran, 2 wrong usage, 130 interrupted (what was done is kept: continue with --resume).`

// exitError carries an exit code up to Main. A nil err has been reported.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as one that the user can correct.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

// unread is the error of a file of benches that could not be read: a mistake in it,
// unless the user did not wait for it to be imported.
func unread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted while the benches were read")}
	}
	return usage(err)
}

// arguments demands between least and most arguments, -1 for any number, and
// says what they are.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least || most > 0 && len(args) > most:
			return fmt.Errorf("%s: want %s, have %s", cmd.Name(), what, terminal.Count(len(args), "argument"))
		case most == 0 && len(args) > 0:
			return fmt.Errorf("%s: unexpected argument %q: %s", cmd.Name(), args[0], what)
		}
		return nil
	}
}

// noArguments is for commands that have only flags.
var noArguments = arguments(0, 0, "it takes no arguments")

// unknownCommand refuses words that no command has taken.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return suggest.Unknown("command", args[0], names)
}
