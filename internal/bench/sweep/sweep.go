// Package sweep reads a sweep file: the YAML in which people declare a
// benchmark over a program of their own. It yields the same declaration as Go
// code does (package bench), with the program's argv, and a parser that finds
// the metrics in what the program printed.
//
// It neither plans nor runs anything; package run calls Substitute for the
// argv of a point and Command.Parse for the output. docs/sweep-format.md is
// the reference of the format.
package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/decl"
)

// Error is everything wrong in a sweep file, each fault with its position.
type Error = yamlfile.Error

// reader turns the syntax tree of a sweep file into a declaration.
type reader struct{ *yamlfile.Reader }

// Load reads a sweep file. The program runs in the file's folder, or in its
// `dir`, wherever kernbench itself was started; and the scripts named in the
// command become inputs by their SHA-256, so that a changed
// script is not taken for the one that was measured.
func Load(path string) (*bench.Bench, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a sweep file: %w", err)
	}
	bench, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	command := bench.Parts[0].Command
	if command.Dir, err = filepath.Abs(command.Dir); err != nil {
		return nil, fmt.Errorf("%s: dir: %w", path, err)
	}
	if info, err := os.Stat(command.Dir); err != nil {
		return nil, fmt.Errorf("%s: dir: %w", path, err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s: dir: %s is not a folder", path, command.Dir)
	}
	if err := addScripts(command); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return bench, nil
}

// Parse reads the text of a sweep file without touching the file system. The
// name stands in errors, and its folder is where the program runs.
func Parse(name string, data []byte) (*bench.Bench, error) {
	file, root := yamlfile.Parse(name, data, "sweep", "name, command and metrics")
	r := &reader{file}
	if root == nil {
		return nil, r.Err()
	}
	bench := r.sweep(root)
	if err := r.Err(); err != nil {
		return nil, err
	}
	// The checks above point at a line; this one makes sure that no rule of
	// declarations is missed by them.
	if err := bench.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return bench, nil
}

// addScripts adds every argument that names a file to the inputs. Names are
// kept as written, so that the same sweep elsewhere has the same inputs. The
// sweep file as a whole is none: another value on an axis does not change the
// points that are there already, so a resumed run need not repeat them.
func addScripts(command *decl.Command) error {
	for _, arg := range slices.Concat(command.Argv, command.Prepare, command.Setup, command.Cleanup) {
		name, constant := literalArg(arg)
		if !constant || name == "" {
			continue
		}
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(command.Dir, file)
		}
		// Arguments are rarely files: only what is certainly one counts.
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		sum, err := point.HashFile(file)
		if errors.Is(err, fs.ErrPermission) {
			continue // a program may be executable without being readable
		}
		if err != nil {
			return err
		}
		command.Inputs[name] = sum
	}
	return nil
}

func hashText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
