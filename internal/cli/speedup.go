package cli

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
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
				if err := writeSpeedup(a.stdout, sides[0].Name, t, goals, a.width); err != nil {
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

func writeSpeedup(w io.Writer, ours string, t speedup.Table, goals speedup.Goals, width int) error {
	switch t.Ranks {
	case 0: // a program that does not say
	case 1:
		ours += ", 1 rank"
	default:
		ours += fmt.Sprintf(", %d ranks", t.Ranks)
	}
	fmt.Fprintf(w, "%s:\n", ours)
	every, verdict := "not slower at any point", "not slower"
	if goals.Least != 1 {
		every = fmt.Sprintf("at least %s times as fast at every point", unit.FormatSig(goals.Least, 3))
		verdict = "goal " + unit.FormatSig(goals.Least, 3)
	}
	axes := varying(t.Lines)
	var tab texttab.Table
	for _, name := range axes {
		tab.Columns = append(tab.Columns, texttab.Column{Title: name, Right: true})
	}
	tab.Columns = append(tab.Columns, texttab.Column{Title: "ours us", Right: true}, texttab.Column{Title: "peer us", Right: true},
		texttab.Column{Title: "times faster", Right: true}, texttab.Column{Title: "95% interval", Right: true}, texttab.Column{Title: "pairs", Right: true},
		texttab.Column{Title: "% of limit", Right: true}, texttab.Column{Title: verdict}, texttab.Column{Title: "best peer", Shrink: true})
	for _, l := range t.Lines {
		var cells []string
		for _, name := range axes {
			v, _ := l.Point.Get(name)
			text := v.String()
			if v.Kind() == point.Bytes {
				text = unit.FormatBytes(v.Int())
			}
			cells = append(cells, text)
		}
		limit := ""
		if l.OfLimit > 0 {
			limit = fmt.Sprintf("%.0f", l.OfLimit)
		}
		tab.Add(append(cells, unit.FormatSig(l.Ours, 3), unit.FormatSig(l.Theirs, 3), unit.FormatSig(l.Ratio.Median, 3),
			interval(l.Ratio), fmt.Sprint(l.Ratio.Pairs), limit, string(l.Verdict), texttab.Plain(l.Peer))...)
	}
	if err := tab.Write(w, width); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s: %s\ngeometric mean %s times faster (%s), goal %s: %s (%d pairs)\n\n", every, t.Slower,
		unit.FormatSig(t.Geomean.Median, 3), interval(t.Geomean), unit.FormatSig(goals.Mean, 3), t.Faster, t.Geomean.Pairs)
	return err
}

// varying are the axes whose values differ between the lines; with a single line
// all of them.
func varying(lines []speedup.Line) []string {
	var names []string
	for i, c := range lines[0].Point {
		if len(lines) == 1 || slices.ContainsFunc(lines, func(l speedup.Line) bool { return l.Point[i].Value != c.Value }) {
			names = append(names, c.Name)
		}
	}
	return names
}

func interval(r speedup.Ratio) string {
	if math.IsNaN(r.Low) {
		return "too few pairs"
	}
	return unit.FormatSig(r.Low, 3) + " to " + unit.FormatSig(r.High, 3)
}
