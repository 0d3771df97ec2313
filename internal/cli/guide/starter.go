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

	"github.com/kernbench/kernbench/internal/accel/topo"
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
	files [][2]string   // name in the embedded folder `first`, and name to write
	next  string        // commands to try next
	text  func() []byte // of the only file, if it is not in the embedded folder
}

var sweepKinds = []sweepKind{
	{name: "yaml", files: [][2]string{{"sweep.yaml", "sweep.yaml"}, {"bench.sh", "bench.sh"}},
		next: `%[1]s run -f %[2]s/sweep.yaml --plan
%[1]s run -f %[2]s/sweep.yaml --trials 6
%[1]s show out/first-sweep --chart`},
	{name: "go", files: [][2]string{{"main.go.txt", "main.go"}}, next: `cd %[2]s
go mod init first && go mod tidy
go run . run --bench first --plan
go run . run --bench first --trials 6`},
	{name: "python", files: [][2]string{{"bench.py", "bench.py"}}, next: `%[1]s run -f %[2]s/bench.py --plan
%[1]s run -f %[2]s/bench.py --trials 6
%[1]s show out/first --chart`},
	// The file is not called topology.yaml, because benches use a file with that name without being asked to.
	{name: "accelerator", files: [][2]string{{"", "my.yaml"}}, text: topo.DefaultFile,
		next: `%[1]s run --bench accel-transfers --topology %[2]s/my.yaml
%[1]s run --bench milestone-1h-ccl --only 'part=="latency"' --sips 6:ring --topology built-in,%[2]s/my.yaml --out changed
%[1]s compare changed --by topology=built-in,%[2]s/my.yaml`},
}

func (k sweepKind) String() string { return k.name }

func kindNames() []string { return lists.Map(sweepKinds, sweepKind.String) }

// Starter returns the command `init`.
func Starter(program string, out texttab.Out) *cobra.Command {
	dir := "."
	cmd := &cobra.Command{
		Use:   "init [yaml|go|python|accelerator]",
		Short: "Write a first sweep to start from, or the topology file of the simulated accelerator",
		Long: `Writes a small working sweep for you to change: of any program (yaml, the default),
as a Go program, or in Python. The kind accelerator is the topology file of the
simulated accelerator. It overwrites nothing and prints what to type next.`,
		Example: fmt.Sprintf("  %[1]s init --dir first\n  %[1]s init python --dir first-python\n"+
			"  %[1]s init accelerator --dir machine", program),
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
		text, err := k.read(f[0])
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

// read returns the text of a file of the kind.
func (k sweepKind) read(name string) ([]byte, error) {
	if k.text != nil {
		return k.text(), nil
	}
	return firstFiles.ReadFile("first/" + name)
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
