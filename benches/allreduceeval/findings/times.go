package findings

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/model"
)

// lossy tells whether an algorithm gives other sums than the exact ones: it is
// no choice where they are wanted.
func lossy(algorithm string) bool { return matrix.Codec(algorithm) != nil }

// exactSamples leaves out the lossy ones.
func exactSamples(samples []model.Sample) []model.Sample {
	return lists.Filter(samples, func(s model.Sample) bool { return !lossy(s.Algorithm) })
}

// settingOf is what the algorithms compete in, as people read it.
func settingOf(s model.Series) string {
	parts := []string{s.DType, fmt.Sprintf("%d ranks", s.Ranks)}
	if s.InPlace {
		parts = append(parts, "in place")
	}
	return strings.Join(append(parts, lists.NonEmpty(s.Buffers, s.Variant)...), ", ")
}

// sameSetting compares all but the algorithm.
func sameSetting(a, b model.Series) bool {
	a.Algorithm = b.Algorithm
	return a == b
}

// inSetting are the samples of one setting.
func inSetting(samples []model.Sample, set model.Series) []model.Sample {
	return lists.Filter(samples, func(s model.Sample) bool { return sameSetting(s.Series, set) })
}

// settings lists them in order.
func settings(samples []model.Sample) []model.Series {
	all := lists.Distinct(lists.Map(samples, func(s model.Sample) model.Series { s.Algorithm = ""; return s.Series }))
	slices.SortFunc(all, model.Series.Compare)
	return all
}

// share is how much of a limit a time reaches, with its denominator.
func share(limit, us float64) string {
	percent := 100 * limit / us
	if percent < 10 {
		return unit.FormatSig(percent, 2) + " %"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// fitSections put lines through every series and say what decides its time.
func fitSections(curves []model.Curve) []bench.Section {
	table := [][]string{{"setting", "algorithm", "sizes", "alpha", "beta", "worst error", "what decides"}}
	for _, c := range curves {
		decides := c.Bounds()
		if c.Fault != "" {
			decides += " (" + c.Fault + ")"
		}
		if !c.Fitted() {
			table = append(table, []string{settingOf(c.Series), c.Algorithm, "", "", "", "", decides})
			continue
		}
		for i, s := range c.Segments {
			beta := "no limit seen"
			if !math.IsInf(s.BetaGBs, 0) {
				beta = unit.FormatSig(s.BetaGBs, 3) + " GB/s"
			}
			line := []string{settingOf(c.Series), c.Algorithm,
				unit.FormatBytesApprox(float64(s.Min)) + " to " + unit.FormatBytesApprox(float64(s.Max)),
				unit.FormatMicros(s.AlphaUS), beta, fmt.Sprintf("%.0f %%", 100*s.WorstErr), decides}
			if i > 0 {
				line[0], line[1], line[6] = "", "", ""
			}
			table = append(table, line)
		}
	}
	if len(table) == 1 {
		return nil
	}
	return []bench.Section{{Detail: true, Title: "Fits: time = alpha + bytes / beta",
		Text: "alpha is what an empty message would take, bytes/beta what the bytes add, over the sizes of the row: a " +
			"series has as many lines as lower the Bayesian information criterion, " +
			"each through three sizes at least. Latency or bandwidth decides where it is two thirds of the line's time; not " +
			"resolved is where a line is off by more than 10 %, " +
			"where leaving out some sizes would turn the answer round, and between two lines.", Table: table}}
}

// bestSections name the fastest algorithm of each size.
func bestSections(samples []model.Sample) []bench.Section {
	choices := model.Best(exactSamples(samples))
	if len(choices) == 0 {
		return nil
	}
	table := [][]string{{"setting", "size", "fastest", "time", "second", "second takes longer by"}}
	for _, c := range choices {
		longer := ""
		if c.Second != "" {
			longer = fmt.Sprintf("%.0f %%", 100*c.Margin)
		}
		best := fastest(c)
		if !c.Settled() {
			best = c.Best + " (not settled)"
		}
		table = append(table, []string{settingOf(c.Setting), unit.FormatBytes(c.Bytes), best, timeOf(c.Sample), c.Second,
			longer})
	}
	var lines []string
	for _, x := range model.Crossovers(exactSamples(samples)) {
		lines = append(lines, fmt.Sprintf("- %s: %s up to %s, then %s", settingOf(x.Setting), x.From,
			unit.FormatBytesApprox(float64(x.Bytes)), x.To))
	}
	text := "The fastest of the algorithms that give exact sums, of times that have settled; two whose 95 % intervals " +
		"do not tell them apart are both named."
	if len(tunable(samples)) > 0 {
		text += " `tuning.json` holds these choices for `algorithm=auto`."
	}
	if len(lines) > 0 {
		text += "\n\nCrossovers:\n\n" + strings.Join(lines, "\n")
	}
	return []bench.Section{{Title: "Best algorithm by size", Text: text, Table: table}}
}

// timeSections list every sample with its bandwidths and every named ceiling.
func timeSections(samples []model.Sample) []bench.Section {
	if len(samples) == 0 {
		return nil
	}
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
		row := []string{settingOf(s.Series), s.Algorithm, unit.FormatBytes(s.Bytes), unit.FormatMicros(s.TimeUS), interval,
			unit.FormatSig(s.AlgBW(), 3) + " GB/s", unit.FormatSig(s.BusBW(), 3) + " GB/s", moved}
		for _, n := range names {
			text := ""
			if us, ok := s.Limits[n]; ok {
				text = share(us, s.TimeUS)
			}
			row = append(row, text)
		}
		table = append(table, row)
	}
	return []bench.Section{{Detail: true, Title: "Times",
		Text: "Medians over iterations of the slowest rank. busbw is algbw x 2(n-1)/n whatever the algorithm; what the " +
			"busiest rank really moves stands beside it. " +
			"Each share names its ceiling in the heading: the least time that the ceiling allows this algorithm's own " +
			"traffic, over the time.", Table: table}}
}
