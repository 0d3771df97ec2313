package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: fmt.Sprintf("  %s version", a.name),
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprint(a.stdout, versionText())
			return nil
		},
	}
}

func versionText() string {
	return fmt.Sprintf("%s, journal schema %d\n", hostinfo.LocalBuild(), journal.Schema)
}
