package cli

import (
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/export/texttab"
	"github.com/kernbench/kernbench/internal/journal"
	"github.com/kernbench/kernbench/internal/speedup"
	"github.com/kernbench/kernbench/internal/unit"
)

func (a *app) speedupCommand() *cobra.Command {
	goal := 1.0
	cmd := &cobra.Command{
		Use:   "speedup OURS PEER...",
		Short: "Say how many times faster a run is than the same work by others",
		Long: `Pairs a run with runs of other programs that do the same work, by number of
ranks, size and trial, and shows for each size the best peer, how many times
faster OURS is, and the 95 % interval of the median ratio over the trials, which
should have been interleaved. A goal is met when the interval's lower end
reaches it, not met when its upper end does not, otherwise not resolved; fewer
than 10 pairs resolve nothing.

` + runHelp + `

Exit status: 0 not slower at any size and the goal met, 1 one of them not met,
2 wrong usage, 3 not resolved.`,
		Example: fmt.Sprintf("  %s speedup out/ours out/openmpi out/mpich --goal 3.5", a.name),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(fmt.Errorf("want OURS and at least one PEER, have %d arguments", len(args)))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var sides []speedup.Side
			for _, spec := range args {
				_, r, err := journal.LoadRun(spec)
				if err != nil {
					return usage(err)
				}
				sides = append(sides, speedup.Side{Name: filepath.Base(spec), Rows: r.Latest()})
			}
			tables, err := speedup.Compare(sides[0], sides[1:], goal)
			if err != nil {
				return usage(err)
			}
			code := exitGood
			for _, t := range tables {
				if err := writeSpeedup(a.stdout, sides[0].Name, t, goal, a.width); err != nil {
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
	cmd.Flags().Float64Var(&goal, "goal", goal, "how many times faster the geometric mean over the sizes should be")
	return cmd
}

func writeSpeedup(w io.Writer, ours string, t speedup.Table, goal float64, width int) error {
	fmt.Fprintf(w, "%s, %d ranks:\n", ours, t.Ranks)
	tab := texttab.Table{Columns: []texttab.Column{{Title: "size", Right: true}, {Title: "ours us", Right: true}, {Title: "peer us", Right: true},
		{Title: "times faster", Right: true}, {Title: "95% interval", Right: true}, {Title: "% of limit", Right: true}, {Title: "not slower"}, {Title: "best peer", Shrink: true}}}
	for _, l := range t.Lines {
		limit := ""
		if l.OfLimit > 0 {
			limit = fmt.Sprintf("%.0f", l.OfLimit)
		}
		tab.Add(unit.FormatBytes(l.Size), unit.FormatSig(l.Ours, 3), unit.FormatSig(l.Theirs, 3), unit.FormatSig(l.Ratio.Median, 3),
			interval(l.Ratio), limit, string(l.Verdict), texttab.Plain(l.Peer))
	}
	if err := tab.Write(w, width); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "not slower at any size: %s\ngeometric mean %s times faster (%s), goal %s: %s (%d pairs)\n\n", t.Slower,
		unit.FormatSig(t.Geomean.Median, 3), interval(t.Geomean), unit.FormatSig(goal, 3), t.Faster, t.Geomean.Pairs)
	return err
}

func interval(r speedup.Ratio) string {
	if math.IsNaN(r.Low) {
		return "too few pairs"
	}
	return unit.FormatSig(r.Low, 3) + " to " + unit.FormatSig(r.High, 3)
}
