package export

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Footnotes of tables in which the spread between launches is unknown. LaunchesNote is for tables in which some lines
// have it. SingleNote is for tables in which no line has it, so that there is no column for it.
const (
	LaunchesNote = "±trials is empty for points with one usable launch. " + moreLaunches
	SingleNote   = "Each time comes from one launch. " + moreLaunches
	moreLaunches = "Launches often differ by more than the 95 % interval of one launch; --trials 4 shows by how much."
)

// launchStats describes how the launches of a point differ in one metric.
type launchStats struct {
	spread float64 // half the range of the launches, in per cent of their median
	known  bool    // there is more than one launch
	modes  []stats.Mode
}

// launchStatsOf compares the launches among the rows of one point. A program that was launched until
// its time was precise has several launches in one row.
func launchStatsOf(rows dataset.Set, metric string) launchStats {
	good := rows.Counting()
	values := good.Values(metric)
	var low, mid, high float64
	switch {
	case len(values) > 1:
		low, mid, high = slices.Min(values), good.Median(metric), slices.Max(values)
	case len(values) == 1 && dataset.Launches(good[0]) > 1:
		s, _ := good[0].Stats.Find(metric)
		low, mid, high = s.Min, s.P50, s.Max
	}
	if mid == 0 || low == high && good[0].Kind != journal.Measured { // computed values do not differ
		return launchStats{}
	}
	return launchStats{spread: 100 * (high - low) / 2 / math.Abs(mid), known: true, modes: stats.FindModes(values)}
}

// launchesByPoint returns a function that returns how the launches of every point differ, by dataset.Key. The
// function computes this at its first call. It returns nil if no point has a second trial.
func launchesByPoint(rows dataset.Set, metric string) func() map[string]launchStats {
	return sync.OnceValue(func() map[string]launchStats {
		if !slices.ContainsFunc(rows, func(r *journal.Row) bool { return r.Trial > 0 }) {
			return nil
		}
		out := map[string]launchStats{}
		for _, trials := range rows.Points() {
			out[dataset.Key(trials[0])] = launchStatsOf(trials, metric)
		}
		return out
	})
}

// launchesOf returns how the launches of a row's point differ.
func (c Column) launchesOf(r *journal.Row) launchStats {
	if c.launches != nil {
		if all := c.launches(); all != nil {
			return all[dataset.Key(r)]
		}
	}
	return launchStatsOf(dataset.Set{r}, c.Key)
}

// measures reports whether a row has a measured value of the column's metric. Only measured values can
// differ in a second launch.
func (c Column) measures(r *journal.Row) bool {
	_, has := r.Metrics[c.Key]
	return has && r.Status == journal.OK && r.Kind != journal.Simulated && r.Kind != journal.Modelled
}

// lineLaunches returns how the launches of a line differ. A line of one trial has those of its point.
func (c Column) lineLaunches(l Line) launchStats {
	if len(l.Rows) > 1 {
		return launchStatsOf(l.Rows, c.Key)
	}
	return c.launchesOf(l.Rows[0])
}

func percentText(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) + "%" }

// modes returns the two modes of a line's metric with their shares, or "" if it does not have two. These are the modes
// of the launches, or else of the samples. If the samples of only some trials have two modes, it shows the modes of the
// first such trial and the number of such trials.
func (c Column) modes(l Line) string {
	if m := c.lineLaunches(l).modes; m != nil {
		return c.twoModes(m) + " of the launches"
	}
	good := l.Rows.Counting()
	split := good.Where(func(r *journal.Row) bool { return journal.Modes(r, c.Key) != nil })
	if len(split) == 0 {
		return ""
	}
	text := c.twoModes(journal.Modes(split[0], c.Key))
	if len(l.Rows) > 1 {
		text += fmt.Sprintf(" in %d/%d trials", len(split), len(good))
	}
	return text
}

func (c Column) twoModes(m []stats.Mode) string {
	if len(m) != 2 {
		return ""
	}
	return fmt.Sprintf("%s (%.0f%%) or %s (%.0f%%)", unit.FormatSig(c.convert(m[0].Center), 3), 100*m[0].Share,
		unit.FormatSig(c.convert(m[1].Center), 3), 100*m[1].Share)
}
