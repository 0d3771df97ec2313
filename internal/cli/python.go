package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/bench/python"
)

// pythonCommand runs a Python file that imports kernbench or iris.bench, or prints the module. Kernbench
// provides the module itself when it runs benches; a copy next to the file helps editors and type
// checkers.
func (a *app) pythonCommand() *cobra.Command {
	var module bool
	cmd := &cobra.Command{
		Use:   "python FILE [ARGUMENT...]",
		Short: "Run a Python file that imports kernbench or iris.bench",
		Long: fmt.Sprintf(`Runs a Python file as python3 does, with the modules kernbench and iris.bench at hand.

A file written for iris.bench runs unchanged, with the flags and the output of
iris.bench. The rows are also kept in a RUN folder, out/FILE. The interpreter is the
python3 of the PATH, or the one that the variable %s names.`, python.InterpreterVar),
		Example: fmt.Sprintf(`  %[1]s python bench_all_reduce.py --axis_M=1024 --skip_dtype=fp32 --benchmark_format csv
  %[1]s python --print-module > kernbench.py`, a.name),
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case module && len(args) > 0:
				return usage(errors.New("--print-module takes no file"))
			case module:
				a.stdout.Printf("%s", texttab.Block(python.Module))
				return nil
			case len(args) == 0:
				return usage(errors.New("missing FILE: give a Python file, or --print-module"))
			}
			self, err := ownPath()
			if err != nil {
				return err
			}
			environ := append(os.Environ(), "KERNBENCH="+self)
			return python.Exec(os.Getenv(python.InterpreterVar), args[0], args[1:], environ)
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after FILE belong to the file
	cmd.Flags().BoolVar(&module, "print-module", false, "print the module that benches in Python import")
	return cmd
}

// ownPath returns the path of this program. If the program was started through a link with another name,
// it returns the path of the link, because the name may matter. A wheel installs a script with the name of
// the program. Its path must not be returned: the script starts the program that KERNBENCH names, so it
// would start itself.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err == nil && filepath.Base(self) == filepath.Base(os.Args[0]) {
		return self, nil
	}
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return self, nil
	}
	return filepath.Abs(path)
}
