package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// Exit codes. The help of every command lists the codes that it can return.
const (
	exitGood        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitAmbiguous   = 3 // of commands that compare
	exitInterrupted = 130
)

// codes says what the exit codes of a command mean.
type codes map[int]string

// usualCodes are the exit codes of every command. A command may give them another meaning.
var usualCodes = codes{exitGood: "good", exitFailed: "failed", exitUsage: "wrong usage", exitInterrupted: "interrupted"}

// exitsWith returns the annotations of a command that declares its exit codes.
func exitsWith(own codes) map[string]string {
	out := map[string]string{}
	for code, meaning := range own {
		out[fmt.Sprint("kernbench_exit_", code)] = meaning
	}
	return out
}

// cleansUp returns the annotations of a command that also must clean up when it is interrupted. It watches its context.
func cleansUp(own codes) map[string]string {
	out := exitsWith(own)
	out["kernbench_cleans_up"] = "true"
	return out
}

// exitStatus describes the exit codes of a command for its help.
func exitStatus(c *cobra.Command) string {
	var list []string
	for _, code := range []int{exitGood, exitFailed, exitUsage, exitAmbiguous, exitInterrupted} {
		if text := cmp.Or(c.Annotations[fmt.Sprint("kernbench_exit_", code)], usualCodes[code]); text != "" {
			list = append(list, fmt.Sprintf("%d %s", code, text))
		}
	}
	const width = 80
	return texttab.Wrap(strings.Fields("Exit status: "+strings.Join(list, ", ")+"."), width, "")
}

// exitError carries an exit code to Main. A nil err means that the reason has already been printed.
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

// exit returns the error for an exit code whose reason has already been printed.
func exit(code int) error {
	if code == exitGood {
		return nil
	}
	return &exitError{code: code}
}

// usage marks an error as a usage error, which sets the exit code and adds a hint to --help.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

// loadError classifies the error of loading a file of benches: it is a usage error, unless the user
// interrupted the loading.
func loadError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted while the benches were read")}
	}
	return usage(err)
}

// exitOf returns the error with its exit code. Commands report most errors about a file as wrong usage, but a read that
// was interrupted is not.
func exitOf(err error) *exitError {
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{exitFailed, err}
	}
	if errors.Is(exit.err, infile.ErrInterrupted) {
		return &exitError{exitInterrupted, exit.err}
	}
	return exit
}
