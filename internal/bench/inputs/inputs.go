// Package inputs finds and hashes everything that a bench depends on: programs as the kernel would find
// them, the interpreters of scripts, and files that the declaration names. The result is part of the
// identity of every row, so that rows of two builds are never mixed.
//
// It only reads files. Packages sweep and python decide what belongs to a bench, package plan combines it
// with the declaration and the environment, and package run checks that nothing changes during a run.
package inputs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Set is a list of inputs with their current content.
type Set struct {
	Inputs journal.Inputs
	// Unknown lists inputs that cannot be fingerprinted, each with the reason. Changes of these inputs
	// are not noticed.
	Unknown []string

	find      func(*Set) error // makes all additions
	arguments []string         // names of the inputs that Argument has added
}

// Find returns a new set filled by find, which adds every input. Refresh and Changed call find again, which may then
// find other files.
func Find(find func(*Set) error) (*Set, error) {
	s := &Set{Inputs: journal.Inputs{}, find: find}
	return s, find(s)
}

// Program adds a program, which is looked up in the PATH of environ and relative to dir, and
// the interpreter if it is a script. A program that does not exist or cannot be read is
// listed as unknown: starting it will give the proper error.
func (s *Set) Program(name, dir string, environ []string) error {
	return s.program("program ", name, dir, environ)
}

// Interpreter adds an interpreter whose path is known.
func (s *Set) Interpreter(name, path string) error { return s.file("interpreter "+name, path) }

// File adds a file that does not change during a run, such as a script. Its name is kept as
// written, so that a copy of a declaration in another folder has the same inputs. A file that this process may not read
// is listed as unknown.
func (s *Set) File(name, path string) error {
	err := s.file("file "+name, path)
	if errors.Is(err, fs.ErrPermission) {
		s.unknown("file "+name, "it cannot be read")
		return nil
	}
	return err
}

// Argument adds a file that is an argument of a program. Changed ignores it, because the program may
// write to it.
func (s *Set) Argument(name, path string) error {
	s.arguments = append(s.arguments, "file "+name)
	return s.File(name, path)
}

// Changed returns the names of the inputs that differ from when they were found or refreshed.
func (s *Set) Changed() ([]string, error) {
	if s == nil {
		return nil, nil
	}
	now, err := Find(s.find)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(s.Inputs.Changed(now.Inputs), func(name string) bool {
		return slices.Contains(s.arguments, name) || slices.Contains(now.arguments, name)
	}), nil
}

// Refresh hashes all inputs again. Changed then compares with their current content.
func (s *Set) Refresh() error {
	if s == nil {
		return nil
	}
	now, err := Find(s.find)
	if err == nil {
		*s = *now
	}
	return err
}

// unknown records an input without a fingerprint. The reason is recorded instead, so that rows differ from
// those measured after the obstacle is removed.
func (s *Set) unknown(name, why string) {
	s.Inputs[name] = "unknown: " + why
	if text := name + ": " + why; !slices.Contains(s.Unknown, text) {
		s.Unknown = append(s.Unknown, text)
	}
}

// maxInterpreters limits how often the interpreter of a script may be a script itself; the
// kernel has a similar limit.
const maxInterpreters = 4

func (s *Set) program(prefix, name, dir string, environ []string) error {
	path, err := launch.LookPath(name, dir, environ)
	if err != nil {
		s.unknown(prefix+name, "not found in PATH")
		return nil
	}
	path = joinDir(dir, path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.unknown(prefix+name, "no such file on this host")
		return nil
	case err == nil && !info.Mode().IsRegular():
		s.unknown(prefix+name, "not a regular file")
		return nil
	}
	err = s.file(prefix+name, path)
	if errors.Is(err, fs.ErrPermission) {
		s.unknown(prefix+name, "it may be executed but not read")
		return nil
	}
	if err != nil {
		return err
	}
	for depth := 0; depth < maxInterpreters; depth++ {
		interpreter, program := shebang(path)
		if interpreter == "" {
			return nil
		}
		path = joinDir(dir, interpreter)
		if err := s.file("interpreter "+interpreter, path); err != nil {
			s.unknown("interpreter "+interpreter, "it cannot be read")
			return nil
		}
		if program != "" { // env looks it up in PATH
			return s.program("interpreter ", program, dir, environ)
		}
	}
	return nil
}

// shebang returns the interpreter in the first line of a script and, if that is env, the
// program that env starts. It returns "" for other files.
func shebang(path string) (interpreter, program string) {
	f, err := infile.Open(path, infile.Data)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 512).ReadSlice('\n') // the kernel reads 256 bytes
	text, is := strings.CutPrefix(string(line), "#!")
	words := strings.Fields(text)
	if !is || len(words) == 0 {
		return "", ""
	}
	if filepath.Base(words[0]) == "env" {
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
				return words[0], w
			}
		}
	}
	return words[0], ""
}

// file adds the sum of a regular file, or the size and time of a huge one.
func (s *Set) file(name, path string) error {
	sum, huge, err := hashFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.Inputs[name] = sum
	if huge {
		s.Unknown = append(s.Unknown, name+": larger than "+hugeText+", so only its size and time of change count")
	}
	return nil
}

// Glob adds the files that match a pattern in dir, at least one. The list of names is an
// input too: a new file is a change.
func (s *Set) Glob(pattern, dir string) error {
	found, err := filepath.Glob(joinDir(dir, pattern))
	if err != nil {
		return fmt.Errorf("files: %q: %w", pattern, err)
	}
	var names []string
	for _, path := range found {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("files: %w", err)
		}
		if info.IsDir() {
			continue
		}
		name := path
		if rel, err := filepath.Rel(dir, path); err == nil && !filepath.IsAbs(pattern) {
			name = rel
		}
		names = append(names, name)
		if err := s.file("file "+name, path); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("files: no file matches %q in %s", pattern, dir)
	}
	if len(names) > 1 || names[0] != pattern {
		s.Inputs["files "+pattern] = strings.Join(names, " ")
	}
	return nil
}

// joinDir returns the path of a file in dir. An absolute path stays as it is.
func joinDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
