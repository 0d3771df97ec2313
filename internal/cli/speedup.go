package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/speedup"
)

func (a *app) speedupCommand() *cobra.Command {
	goals := speedup.Goals{Least: 1, Mean: 1}
	cmd := &cobra.Command{
		Use:   "speedup OURS PEER...",
		Short: "Show how many times faster a run is than other programs doing the same work",
		Long: `Pairs a run with runs of other programs that do the same work, by number of
ranks, the values of all axes that they have in common, and trial, and shows for
each point the best peer, how many times faster OURS is, and the 95 % interval of
the median ratio over the trials, which should have been interleaved. A goal is
met when the interval's lower end reaches it, not met when its upper end does
not, otherwise not resolved; fewer than 10 pairs resolve nothing.

` + runHelp + `

Exit status: 0 both goals met, 1 one of them not met, 2 wrong usage, 3 not
resolved.`,
		Example: fmt.Sprintf("  %[1]s speedup out/ours out/openmpi out/mpich --goal 3.5\n  %[1]s speedup out/bf16 out/f32 --except dtype --least 1.6 --goal 1.6", a.name),
		Args:    arguments(2, -1, "OURS and at least one PEER"),
		RunE: func(_ *cobra.Command, args []string) error {
			var sides []speedup.Side
			for _, spec := range args {
				_, r, err := journal.LoadRun(spec)
				if err != nil {
					return usage(err)
				}
				sides = append(sides, speedup.Side{Name: filepath.Base(spec), Rows: r.Latest()})
			}
			tables, err := speedup.Compare(sides[0], sides[1:], goals)
			if err != nil {
				return usage(err)
			}
			code := exitGood
			for _, t := range tables {
				if err := t.Write(a.stdout, sides[0].Name, goals, a.width); err != nil {
					return err
				}
				for _, v := range []speedup.Verdict{t.Slower, t.Faster} {
					switch {
					case v == speedup.NotMet:
						code = exitFailed
					case v == speedup.NotResolved && code == exitGood:
						code = exitAmbiguous
					}
				}
			}
			if code != exitGood {
				return &exitError{code: code}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.Float64Var(&goals.Mean, "goal", goals.Mean, "how many times faster the geometric mean over the points should be")
	fl.Float64Var(&goals.Least, "least", goals.Least, "how many times faster every point should be; 1 means not slower")
	fl.StringSliceVar(&goals.Except, "except", nil, "axes that may differ, because their values are what is compared")
	return cmd
}
