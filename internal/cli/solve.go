package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/solve/service"
)

// solveServiceCommand serves the solves of a Python process. The module kernbench starts it.
func (a *app) solveServiceCommand() *cobra.Command {
	var memory uint
	cmd := &cobra.Command{
		Use: "solve-service", Hidden: true, Args: cobra.NoArgs,
		Short: "Solve sparse systems for kernbench.solve in Python",
		Long: `Solve sparse systems for kernbench.solve in Python, which starts this command. Requests come from the
standard input, and a file descriptor is the shared memory with the arrays. It ends with its input.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return service.Serve(cmd.Context(), os.Stdin, a.streams[0], os.NewFile(uintptr(memory), "shared memory"))
		},
	}
	cmd.Flags().UintVar(&memory, "memory", 3, "file `DESCRIPTOR` of the shared memory")
	return cmd
}
