// Package guide helps new users: it writes a first sweep, manual pages for every command, and
// shell completions. It describes the commands of cobra but runs none.
package guide

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/spf13/cobra"
)

//go:embed first
var firstFiles embed.FS

// sweepKind is one of the ways to declare a sweep.
type sweepKind struct {
	name  string
	files [][2]string // name in the embedded folder `first`, and name to write
	next  string      // commands to try next
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

func (k sweepKind) String() string { return k.name }

func kindNames() []string { return lists.Map(sweepKinds, sweepKind.String) }

// Starter returns the command `init`.
func Starter(program string, out texttab.Out) *cobra.Command {
	dir := "."
	cmd := &cobra.Command{
		Use:   "init [yaml|go|python]",
		Short: "Write a first sweep to start from",
		Long: `Writes a small working sweep for you to change: of any program (yaml, the default),
as a Go program, or in Python. It overwrites nothing and prints what to type next.`,
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
			kind, err := suggest.Find("kind of sweep", name, sweepKinds, sweepKind.String)
			if err != nil {
				return err
			}
			return kind.write(program, dir, out)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "`FOLDER` to write to, created if necessary")
	return cmd
}

// write writes the files to the folder, unless one of them exists already.
func (k sweepKind) write(program, dir string, out texttab.Out) error {
	for _, f := range k.files {
		path := filepath.Join(dir, f[1])
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists and is not overwritten: choose another folder with --dir", path)
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
		out.Printf("wrote %s\n", path)
	}
	out.Printf("\nNext:\n\n")
	for _, line := range strings.Split(fmt.Sprintf(k.next, program, filepath.ToSlash(dir)), "\n") {
		out.Printf("  %s\n", strings.ReplaceAll(line, "./", ""))
	}
	return nil
}

// writeNew creates a file and fails if it exists.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
