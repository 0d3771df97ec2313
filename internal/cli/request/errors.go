package request

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// FlagError words what the flag parser found like all other errors: what was
// written, where, and what would be right.
func FlagError(fl *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(fl, unknown)
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: missing value", missing.GetFlag().Name)
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
func unknownFlag(fl *pflag.FlagSet, e *pflag.NotExistError) error {
	if e.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("unknown flag %q", "-"+e.GetSpecifiedName())
	}
	var all, own []string
	fl.VisitAll(func(f *pflag.Flag) {
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

// AtLeast refuses a flag's value that is too small.
func AtLeast(flag string, value, least int) error {
	if value < least {
		return fmt.Errorf("--%s %d: want a whole number of at least %d", flag, value, least)
	}
	return nil
}
