package sweep

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/inputs"
)

// track finds the programs and files of a sweep: the programs of its commands, arguments that name a
// file, and the declared files. Arguments that contain an axis are looked up for each point. The sweep
// file itself is not an input: adding a value to an axis must not invalidate the points that a resumed
// run already has.
func track(b *bench.Bench, environ []string) error {
	c := b.Parts[0].Command
	var err error
	b.Tracked, err = inputs.Find(func(set *inputs.Set) error {
		for _, argv := range [][]string{c.Argv, c.Prepare, c.Setup, c.Cleanup} {
			if err := trackCommand(set, c.Dir, argv, environ); err != nil {
				return err
			}
		}
		for _, pattern := range c.Files {
			if err := set.Glob(pattern, c.Dir); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if varying := varyingFiles(b.Parts[0]); len(varying) > 0 {
		b.Content = func(p, _ bench.Point) map[string]string { return contents(c, varying, p, environ) }
	}
	return nil
}

// interpreters matches programs whose first file argument is the program that really runs.
// outputFlags matches options whose argument is a file that the program writes.
var (
	interpreters = regexp.MustCompile(`^(python|pypy|bash|dash|sh|zsh|perl|ruby|node|julia|lua|Rscript|php)[0-9.]*$`)
	outputFlags  = regexp.MustCompile(`^--?(o|O|out|out[-_].*|output|output[-_].*|log|log[-_].*)$`)
)

// trackCommand adds the constant arguments of one command.
func trackCommand(set *inputs.Set, dir string, argv, environ []string) error {
	script := len(argv) > 0 && interpreters.MatchString(filepath.Base(argv[0]))
	for i, arg := range argv {
		name, constant := literalArg(arg)
		if !constant || i > 0 && outputFlags.MatchString(argv[i-1]) {
			continue
		}
		var err error
		switch path := fileArgument(dir, name); {
		case i == 0:
			err = set.Program(name, dir, environ)
		case path != "" && script:
			script = false
			err = set.File(name, path)
		case path != "":
			err = set.Argument(name, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fileArgument returns the path of the file that an argument names, or "" if there is no such file. Most
// arguments are not files.
func fileArgument(dir, name string) string {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if info, err := os.Stat(path); name == "" || err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// argument is one argument of the command or of its setup.
type argument struct {
	index int
	text  string
}

// varyingFiles returns the arguments that contain an axis and may name a file: a program, a path,
// or a text. Numbers are no files, and a sweep may have a million of them.
func varyingFiles(part *decl.Part) (out []argument) {
	for _, argv := range [][]string{part.Command.Argv, part.Command.Setup} {
		for i, arg := range argv {
			pieces, fault := parseTemplate(arg)
			if fault != nil {
				continue
			}
			may := func(p piece) bool {
				if p.literal {
					return strings.ContainsAny(p.text, "/.")
				}
				axis, has := part.Axis(p.text)
				return has && axis.Kind == point.String
			}
			if i > 0 && outputFlags.MatchString(argv[i-1]) {
				continue
			}
			if _, constant := literalArg(arg); !constant && (i == 0 || slices.ContainsFunc(pieces, may)) {
				out = append(out, argument{i, arg})
			}
		}
	}
	return out
}

// contents returns the sums of the files that arguments name at a point.
func contents(c *decl.Command, varying []argument, p point.Point, environ []string) map[string]string {
	found, _ := inputs.Find(func(set *inputs.Set) error {
		for _, a := range varying {
			name, err := Substitute([]string{a.text}, p, nil)
			if err == nil && a.index == 0 {
				err = set.Program(name[0], c.Dir, environ)
			} else if err == nil {
				if path := fileArgument(c.Dir, name[0]); path != "" {
					err = set.Argument(name[0], path)
				}
			}
			if err != nil { // it changes the identity of the point until it can be read
				set.Inputs["argument "+a.text] = "unknown: " + err.Error()
			}
		}
		return nil
	})
	return found.Inputs
}
