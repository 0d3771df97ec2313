package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/host/doctor"
)

// doctorFormats are the words of --format, the default first.
var doctorFormats = []string{"table", "json"}

func (a *app) doctorCommand() *cobra.Command {
	format := doctorFormats[0]
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show which libraries, launchers, instructions, limits and networks this machine has",
		Long: `Looks for what backends and peers can use on this machine: C libraries that can
be opened, programs that start ranks, instructions of the processor, and the
limits of this process: cores, memory, shared memory, locked memory, open files;
network interfaces, and the one that is used unless another is named.

None of it is needed for the default path. Exit status 0.`,
		Example: fmt.Sprintf("  %[1]s doctor\n  %[1]s doctor --format json", a.name),
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(doctorFormats, format) {
				return usage(suggest.Unknown("format", format, doctorFormats))
			}
			findings := doctor.Examine(doctor.Local(cmd.Context()))
			if format == "json" {
				enc := json.NewEncoder(a.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(findings)
			}
			t := texttab.Table{Columns: []texttab.Column{{Title: "area"}, {Title: "what"}, {Title: "here"}, {Title: "details"}}}
			for _, f := range findings {
				t.Add(f.Area, f.Name, string(f.State), f.Detail)
			}
			return t.Write(a.stdout, 0)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "what to print: "+strings.Join(doctorFormats, ", "))
	return cmd
}
