package guide

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Manual returns the command `man`.
func Manual(program string) *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages of all commands",
		Long:    "Writes a manual page for every command to FOLDER, which is created if necessary.",
		Example: fmt.Sprintf("  %[1]s man man/man1", program),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("man: want one FOLDER, have %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			cmd.Root().DisableAutoGenTag = true // the same program always writes the same pages
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Source: program, Date: commitTime()}, args[0])
		},
	}
}

// commitTime returns the time of the commit that this program was built from.
func commitTime() *time.Time {
	var at time.Time
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				at, _ = time.Parse(time.RFC3339, s.Value) // else it is unknown
			}
		}
	}
	return &at
}
