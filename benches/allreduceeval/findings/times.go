package findings

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/model"
)

// lossy reports whether an algorithm gives other sums than the exact ones. Lossy
// algorithms do not compete with the others.
func lossy(algorithm string) bool { return matrix.Codec(algorithm) != nil }

// exactSamples returns the samples of the algorithms that are not lossy.
func exactSamples(samples []model.Sample) []model.Sample {
	return lists.Filter(samples, func(s model.Sample) bool { return !lossy(s.Algorithm) })
}

// A setting is everything but the algorithm in a model.Series: type, ranks, memory and
// so on. Algorithms compete within a setting. A time has settled (model.Sample.Settled)
// if nothing disturbed it and its 95 % interval is narrow.

// settingName formats a setting for the report.
func settingName(s model.Series) string {
	parts := []string{s.DType, fmt.Sprintf("%d ranks", s.Ranks)}
	if s.InPlace {
		parts = append(parts, "in place")
	}
	return strings.Join(append(parts, lists.NonEmpty(s.Buffers, s.Variant)...), ", ")
}

// settingOf returns a series without its algorithm.
func settingOf(s model.Series) model.Series {
	s.Algorithm = ""
	return s
}

// bySetting groups samples by setting, in the order of the settings.
func bySetting(samples []model.Sample) []lists.Group[model.Series, model.Sample] {
	groups := lists.GroupBy(samples, func(s model.Sample) model.Series { return settingOf(s.Series) })
	slices.SortFunc(groups, func(a, b lists.Group[model.Series, model.Sample]) int { return a.Key.Compare(b.Key) })
	return groups
}

// formatShare formats the share of a limit that a time reaches, in per cent.
func formatShare(limitUS, us float64) string {
	percent := 100 * limitUS / us
	if percent < 10 {
		return unit.FormatSig(percent, 2) + " %"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// fitSections shows the lines fitted through every series, and whether latency or
// bandwidth determines its time.
func fitSections(curves []model.Curve) []bench.Section {
	table := [][]string{{"setting", "algorithm", "sizes", "alpha", "beta", "worst error", "what decides"}}
	for _, c := range curves {
		decides := c.Bounds()
		if c.Fault != "" {
			decides += " (" + c.Fault + ")"
		}
		if !c.Fitted() {
			table = append(table, []string{settingName(c.Series), c.Algorithm, "", "", "", "", decides})
			continue
		}
		for i, s := range c.Segments {
			beta := "no limit seen"
			if !math.IsInf(s.BetaGBs, 0) {
				beta = unit.FormatSig(s.BetaGBs, 3) + " GB/s"
			}
			line := []string{settingName(c.Series), c.Algorithm,
				unit.FormatBytesApprox(float64(s.Min)) + " to " + unit.FormatBytesApprox(float64(s.Max)),
				unit.FormatMicros(s.AlphaUS), beta, fmt.Sprintf("%.0f %%", 100*s.WorstErr), decides}
			if i > 0 {
				line[0], line[1], line[6] = "", "", ""
			}
			table = append(table, line)
		}
	}
	return tableSection(bench.Section{Detail: true, Title: "Fits: time = alpha + bytes / beta",
		Text: "alpha is the time that an empty message would take, and bytes/beta is the time that the bytes add, over " +
			"the sizes of the " +
			"row. A series has as many lines as lower the Bayesian information criterion, each through at least three sizes. " +
			"Latency or bandwidth decides where it makes up two thirds of the line's time. The answer is not resolved where " +
			"a line is off by more than 10 %, where leaving out some sizes would reverse it, and between two lines.",
		Table: table})
}

// bestSections lists the fastest algorithm at each size with the crossovers, and the entries
// of tuning.json. If no comparison is resolved, the first is one line.
func (r *results) bestSections() []bench.Section {
	best := bench.Section{Title: "Best algorithm by size"}
	resolved := lists.Filter(r.contests, contest.resolved)
	switch {
	case len(r.contests) == 0:
		return nil
	case len(resolved) == 0:
		best.Text = "Not resolved: " + notResolved(r.contests) + "."
	default:
		best.Text = "The fastest algorithm with exact sums, where all of them ran and have settled. If the 95 % " +
			"intervals do not separate algorithms, all are named."
		best.Table = contestTable(r.contests)
		if lines := r.crossoverLines(resolved); len(lines) > 0 {
			best.Text += "\n\nCrossovers:\n\n" + strings.Join(lines, "\n")
		}
	}
	return append([]bench.Section{best}, tuningSections(r.samples)...)
}

// contestTable has a line for each setting and size.
func contestTable(list []contest) [][]string {
	table := [][]string{{"setting", "size", "fastest", "time", "second", "second takes longer by"}}
	for _, c := range list {
		line := []string{settingName(c.setting), unit.FormatBytes(c.bytes), "not resolved: " + c.unresolved, "", "", ""}
		if c.resolved() {
			line[2], line[3] = c.winner(), formatTime(c.samples[0])
			if len(c.samples) > 1 {
				second := c.samples[1]
				line[4], line[5] = second.Algorithm, fmt.Sprintf("%.0f %%", 100*(second.TimeUS/c.samples[0].TimeUS-1))
			}
		}
		table = append(table, line)
	}
	return table
}

// crossoverLines names the sizes at which another algorithm becomes the fastest.
func (r *results) crossoverLines(resolved []contest) (lines []string) {
	samples := exactSamples(resolvedSamples(resolved))
	for _, x := range model.Crossovers(samples) {
		both := lists.Filter(samples, func(s model.Sample) bool {
			return settingOf(s.Series) == x.Setting && (s.Algorithm == x.From || s.Algorithm == x.To)
		})
		lines = append(lines, r.cited.cite("crossover",
			fmt.Sprintf("- %s: %s up to %s, then %s", settingName(x.Setting), x.From,
				unit.FormatBytesApprox(float64(x.Bytes)), x.To), both))
	}
	return lines
}

// tuningSections lists exactly the entries that this run adds to tuning.json.
func tuningSections(samples []model.Sample) []bench.Section {
	own := tunable(samples)
	if len(own) == 0 {
		return nil
	}
	entries, err := model.TuningEntries(own)
	if err != nil {
		return []bench.Section{{Title: "Tuning table", Text: "None: " + err.Error() + "."}}
	}
	table := [][]string{{"buffers", "ranks", "types", "up to", "algorithm"}}
	for _, e := range entries {
		algorithm := e.Algorithm
		if e.ChunkBytes > 0 {
			algorithm += fmt.Sprintf(" in chunks of %s", unit.FormatBytes(int64(e.ChunkBytes)))
		}
		types := strings.Join(lists.Map(e.DTypes, dtype.DType.String), ", ")
		table = append(table, []string{e.Buffers, fmt.Sprint(e.MinRanks), types, unit.FormatBytes(int64(e.MaxBytes)),
			algorithm})
	}
	return []bench.Section{{Title: "Tuning table", Text: "The entries that this run adds to `tuning.json`, for " +
		"`algorithm=auto` on this host or kind of GPU. An entry differs from the present choice only where another " +
		"algorithm is faster beyond the 95 % intervals; otherwise it repeats that choice.", Table: table}}
}

// timeSections lists every sample with its bandwidths and its share of every limit.
func timeSections(samples []model.Sample) []bench.Section {
	limits := map[string]float64{}
	for _, s := range samples {
		maps.Copy(limits, s.Limits)
	}
	names := slices.Sorted(maps.Keys(limits))
	head := []string{"setting", "algorithm", "size", "time", "95 % interval", "algbw", "busbw",
		"moved by the busiest rank"}
	for _, n := range names {
		head = append(head, "of "+n)
	}
	table := [][]string{head}
	for _, s := range samples {
		interval, moved := "", ""
		if s.LowUS > 0 {
			interval = unit.FormatMicros(s.LowUS) + " to " + unit.FormatMicros(s.HighUS)
		}
		if s.Traffic > 0 {
			moved = unit.FormatBytesApprox(float64(s.Traffic)) + "B"
		}
		row := []string{settingName(s.Series), s.Algorithm, unit.FormatBytes(s.Bytes), unit.FormatMicros(s.TimeUS), interval,
			unit.FormatSig(s.AlgBW(), 3) + " GB/s", unit.FormatSig(s.BusBW(), 3) + " GB/s", moved}
		for _, n := range names {
			text := ""
			if us, ok := s.Limits[n]; ok {
				text = formatShare(us, s.TimeUS)
			}
			row = append(row, text)
		}
		table = append(table, row)
	}
	return tableSection(bench.Section{Detail: true, Title: "Times",
		Text: "Medians over iterations of the slowest rank. busbw is algbw x 2(n-1)/n for every algorithm; the next column " +
			"has the bytes that the busiest rank really moves. A share of a limit is the least time that the limit allows " +
			"for this algorithm's own traffic, divided by the time.", Table: table})
}
