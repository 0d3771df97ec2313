package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/bench/wheel"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// wheelCommand writes a Python wheel with this program.
func (a *app) wheelCommand() *cobra.Command {
	var program, licences string
	cmd := &cobra.Command{
		Use:   "wheel [FOLDER]",
		Short: "Write a Python wheel that installs kernbench",
		Long: `Writes a wheel with this program and the Python package kernbench into FOLDER (default:
the current one), and prints its path. After "pip install" of the wheel, the command
kernbench, "import kernbench" and the pytest plugin are there. No network and no Python
is needed to write it.`,
		Example: fmt.Sprintf("  pip install --no-index \"$(%s wheel /tmp)\"", a.name),
		Args:    arguments(0, 1, "a folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			folder := "."
			if len(args) > 0 {
				folder = args[0]
			}
			w := wheel.Wheel{Version: wheel.Version(hostinfo.LocalBuild()), Program: program}
			var err error
			if w.Program == "" {
				if w.Program, err = os.Executable(); err != nil {
					return fmt.Errorf("finding this program: %w", err)
				}
			}
			if licences != "" {
				if w.Licences, err = infile.Read(licences, infile.Table); err != nil {
					return fmt.Errorf("reading the licences: %w", err)
				}
			}
			path, err := writeWheel(w, folder)
			if err == nil {
				a.stdout.Printf("%s\n", path)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&program, "program", "", "put this `FILE` into the wheel instead of the running program")
	cmd.Flags().StringVar(&licences, "licences", "", "add the licences in this `FILE`")
	return cmd
}

// writeWheel writes the wheel into a folder, which it creates if necessary.
func writeWheel(w wheel.Wheel, folder string) (path string, err error) {
	name, err := w.Name()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", fmt.Errorf("writing the wheel: %w", err)
	}
	path = filepath.Join(folder, name)
	return path, journal.WriteAtomic(path, w.Write)
}
