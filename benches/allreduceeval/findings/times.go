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
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/model"
)

// lossy reports whether an algorithm gives other sums than the exact ones. Lossy
// algorithms do not compete with the others.
func lossy(algorithm string) bool { return matrix.Codec(algorithm) != nil }

// A setting is everything but the algorithm in a model.Series: type, ranks, memory and
// so on. Algorithms compete within a setting. A time has settled (model.Sample.Settled)
// if nothing disturbed it and its 95 % interval is narrow.

// settingName formats a setting for the report.
func settingName(s model.Series) string {
	s.Algorithm, s.Backend, s.Sharing = "", "", 0
	return s.String()
}

// formatShare formats the share of a limit that a time reaches, in per cent.
func formatShare(limitUS, us float64) string {
	percent := 100 * limitUS / us
	if percent < 10 {
		return unit.FormatSig(percent, 2) + " %"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// unfit returns why no line is fitted through the times of a series, or "". Times without an
// interval are accepted; the worst error of the line shows how well it describes them.
func (r *results) unfit(series model.Series) string {
	mine := lists.Filter(r.samples, func(s model.Sample) bool { return s.Series == series })
	if why := fewLaunches(mine); why != "" {
		return why
	}
	if n := len(lists.Filter(mine, model.Sample.Doubtful)); n > 0 {
		return fmt.Sprintf("%d of %d times have not settled", n, len(mine))
	}
	return ""
}

// fitSections shows the lines fitted through every series, and whether latency or
// bandwidth determines its time. If no series can be fitted, it is one line.
func (r *results) fitSections() []bench.Section {
	const title = "Fits: time = alpha + bytes / beta"
	s := bench.Section{Detail: true, Title: title,
		Text: "alpha is the time that an empty message would take, and bytes/beta is the time that the bytes add, over " +
			"the sizes of the " +
			"row. A series has as many lines as lower the Bayesian information criterion, each through at least three sizes. " +
			"Latency or bandwidth decides where it makes up two thirds of the line's time. The answer is not resolved where " +
			"a line is off by more than 10 %, where leaving out some sizes would reverse it, and between two lines.",
		Table: [][]string{{"setting", "algorithm", "sizes", "alpha", "beta", "worst error", "what decides"}}}
	var unfit []string
	for _, c := range r.curves {
		if why := r.unfit(c.Series); why != "" {
			unfit = append(unfit, why)
			s.AddLine("fit", nil, settingName(c.Series), c.Algorithm, "", "", "", "", "not resolved: "+why)
			continue
		}
		behind := rowsOf(lists.Filter(r.samples, func(s model.Sample) bool { return s.Series == c.Series }))
		decides := c.Bounds()
		if c.Fault != "" {
			decides += " (" + c.Fault + ")"
		}
		if !c.Fitted() {
			s.AddLine("fit", behind, settingName(c.Series), c.Algorithm, "", "", "", "", decides)
		}
		for i, line := range c.Segments {
			beta := "no limit seen"
			if !math.IsInf(line.BetaGBs, 0) {
				beta = unit.FormatSig(line.BetaGBs, 3) + " GB/s"
			}
			cells := []string{settingName(c.Series), c.Algorithm,
				unit.FormatBytesApprox(float64(line.Min)) + " to " + unit.FormatBytesApprox(float64(line.Max)),
				unit.FormatMicros(line.AlphaUS), beta, fmt.Sprintf("%.0f %%", 100*line.WorstErr), decides}
			if i > 0 {
				cells[0], cells[1], cells[6], behind = "", "", "", nil
			}
			s.AddLine("fit", behind, cells...)
		}
	}
	if why := lists.Distinct(unfit); len(r.curves) > 0 && len(unfit) == len(r.curves) && len(why) == 1 {
		return []bench.Section{{Title: title, Text: "Not resolved: " + why[0] + "."}}
	}
	return tableSection(s)
}

// bestSections lists the fastest algorithm at each size, and the entries of tuning.json. If no comparison is resolved,
// the first is one line.
func (r *results) bestSections() []bench.Section {
	best := bench.Section{Title: "Best algorithm by size"}
	switch {
	case len(r.contests) == 0:
		return nil
	case !slices.ContainsFunc(r.contests, contest.resolved):
		best.Text = "Not resolved: " + notResolved(r.contests) + "."
	default:
		best.Text = fmt.Sprintf("The fastest algorithm with exact sums, where all of them ran and have settled over at "+
			"least %d launches. If the ranges of the launches overlap, all algorithms are named.", judge.MinLaunches)
		r.addContests(&best)
	}
	return append([]bench.Section{best}, r.tuningSections()...)
}

// addContests adds a table with a line for each setting and size.
func (r *results) addContests(s *bench.Section) {
	s.Table = [][]string{{"setting", "size", "fastest", "time", "second", "second takes longer by"}}
	for _, c := range r.contests {
		line := []string{settingName(c.setting), unit.FormatBytes(c.bytes), "not resolved: " + c.unresolved, "", "", ""}
		var behind dataset.Set
		if c.resolved() {
			line[2], line[3], behind = c.winner(), formatTime(c.samples[0]), rowsOf(c.samples)
			if len(c.samples) > 1 {
				second := c.samples[1]
				line[4], line[5] = second.Algorithm, fmt.Sprintf("%.0f %%", 100*(second.TimeUS/c.samples[0].TimeUS-1))
			}
		}
		s.AddLine("best", behind, line...)
	}
}

// tuningSections lists exactly the entries of tuning.json.
func (r *results) tuningSections() []bench.Section {
	if !slices.ContainsFunc(r.samples, model.Sample.Choosable) {
		return nil
	}
	entries, why := model.TuningEntries(r.samples, model.Sample.Comparable)
	if len(entries) == 0 {
		return []bench.Section{{Title: "Tuning table", Text: "`tuning.json` has no entries: " + why + "."}}
	}
	s := bench.Section{Title: "Tuning table", Text: "The entries of `tuning.json`, for `algorithm=auto` on this " +
		"host or kind of GPU. An entry differs from the present choice only where another algorithm is faster and the " +
		"ranges of their launches do not overlap; otherwise it repeats that choice.",
		Table: [][]string{{"buffers", "ranks", "types", "from", "to", "algorithm"}}}
	for _, e := range entries {
		algorithm := e.Algorithm
		if e.ChunkBytes > 0 {
			algorithm += fmt.Sprintf(" in chunks of %s", unit.FormatBytes(int64(e.ChunkBytes)))
		}
		behind := lists.Filter(r.samples, func(s model.Sample) bool { return supports(s, e) })
		types := strings.Join(lists.Map(e.DTypes, dtype.DType.String), ", ")
		s.AddLine("tuning", rowsOf(behind), e.Buffers, fmt.Sprint(e.MinRanks), types, unit.FormatBytes(int64(e.MinBytes)),
			unit.FormatBytes(int64(e.MaxBytes)), algorithm)
	}
	return []bench.Section{s}
}

// supports reports whether an entry rests on a sample.
func supports(s model.Sample, e tuning.Entry) bool {
	d, err := dtype.Parse(s.DType)
	return err == nil && (s.Algorithm == model.Auto || s.Choosable()) && slices.Contains(e.DTypes, d) && s.Comparable() &&
		s.Backend == e.Backend && s.Buffers == e.Buffers && s.Ranks == e.MinRanks && s.Device == e.Device &&
		s.Bytes >= int64(e.MinBytes) && s.Bytes <= int64(e.MaxBytes)
}

// timeSections lists every sample with its bandwidths and its share of every limit.
func timeSections(samples []model.Sample) []bench.Section {
	limits := map[string]float64{}
	for _, s := range samples {
		maps.Copy(limits, s.Limits)
	}
	names := slices.Sorted(maps.Keys(limits))
	head := []string{"setting", "algorithm", "size", "time", "spread", "algbw", "busbw",
		"moved by the busiest rank"}
	for _, n := range names {
		head = append(head, "of "+n)
	}
	table := [][]string{head}
	for _, s := range samples {
		interval, moved := "", ""
		if s.LowUS > 0 {
			interval = unit.FormatMicros(s.LowUS) + " to " + unit.FormatMicros(s.HighUS)
			if s.Launches > 1 {
				interval += fmt.Sprintf(" in %d launches", s.Launches)
			}
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
		Text: "Medians over iterations of the slowest rank, and over launches. The spread is the 95 % interval of one " +
			"launch, or the range of several. busbw is algbw x 2(n-1)/n for every algorithm; the next column " +
			"has the bytes that the busiest rank really moves. A share of a limit is the least time that the limit allows " +
			"for this algorithm's own traffic, divided by the time.", Table: table})
}
