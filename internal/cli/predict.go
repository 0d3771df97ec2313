package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/result/predict"
)

const predictLong = `Checks the model behind the bench predict.

--errors fits the model again to the measured times that kernbench contains, each
time without one rank count, GPU kind, generation of NVLink, node count or every
second size, and prints the errors on the times left out as a Markdown table. It takes
some seconds. docs/models.md has this table.`

func (a *app) predictCommand() *cobra.Command {
	var leaveOut bool
	cmd := &cobra.Command{
		Use:     "predict",
		Short:   "Check the model that predicts collectives on clusters of GPUs",
		Long:    predictLong,
		Example: fmt.Sprintf("  %s predict --errors", a.name),
		Args:    arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if !leaveOut {
				return usage(errors.New("want --errors; to predict times use: run --bench predict"))
			}
			fmt.Fprint(a.stdout, predict.ErrorTable(predict.LeaveOut()))
			return nil
		},
	}
	cmd.Flags().BoolVar(&leaveOut, "errors", false, "leave whole systems out of the fit and print the errors on them")
	return cmd
}
