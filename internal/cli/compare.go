package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/compare"
)

func (a *app) compareCommand() *cobra.Command {
	var opts compare.Options
	only, format := []string(nil), compare.Formats()[0]
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Show what became faster or slower between two runs",
		Long: `Pairs the points of two runs and judges each: faster, slower, same, ambiguous
(the data cannot tell), lost or new. Trials (separate launches) are the
statistical unit: how launches differ takes at least 4 on both sides, and fewer
give no verdict, whatever the samples within them say. Run with --trials 6. A
trial that stolen time, another kernbench or drift disturbed does not count.
Simulated rows have no noise and are compared exactly, one trial or many.

` + runHelp + `

Exit status: 0 nothing slower or lost, 1 something is, 2 wrong usage,
3 ambiguous (and nothing slower).`,
		Example: fmt.Sprintf(`  %[1]s compare out/memory@-1 out/memory
  %[1]s compare before after --format junit > compare.xml
  %[1]s compare out/a out/b --ignore NCCL_MIN_CTAS --metric busbw`, a.name),
		Args: arguments(2, 2, "OLD and NEW"),
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(compare.Formats(), format) {
				return usage(suggest.Unknown("format", format, compare.Formats()))
			}
			var sides [2]compare.Run
			for i, spec := range args {
				_, r, err := journal.LoadRun(spec)
				if err != nil {
					return usage(err)
				}
				sides[i].Header = &r.Header
				if sides[i].Rows, err = chosenRows(r, only, nil); err != nil {
					return usage(err)
				}
			}
			rep, err := compare.Compare(sides[0], sides[1], opts)
			if err != nil {
				return usage(err)
			}
			if err := rep.Write(a.stdout, format, a.width); err != nil {
				return err
			}
			if code := rep.ExitCode(); code != exitGood {
				return &exitError{code: code}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&opts.Metric, "metric", compare.DefaultMetric, "what to compare")
	fl.Float64Var(&opts.Floor, "floor", compare.DefaultFloor, "smallest relative change that matters")
	fl.Float64Var(&opts.Alpha, "alpha", compare.DefaultAlpha, "chance of any false verdict in the whole comparison")
	fl.StringSliceVar(&opts.Ignore, "ignore", nil, "axes, variables or options that differ on purpose")
	fl.StringArrayVar(&only, "only", nil, onlyHelp)
	fl.StringSliceVar(&opts.Sort, "sort", nil, "order by these `COLUMNS` of the table, the first one first; -change is largest first")
	fl.StringSliceVar(&opts.Columns, "columns", nil, "show these `COLUMNS` of the table in this order")
	fl.StringVar(&format, "format", format, "what to print: "+strings.Join(compare.Formats(), ", "))
	return cmd
}
