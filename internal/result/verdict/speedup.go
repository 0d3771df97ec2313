package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Goals are the speedups to reach.
type Goals struct {
	Least float64 // at every point; 0 means 1, which is "not slower"
	Mean  float64 // for the geometric mean over the points
	// Except names axes that may differ between the sides, because the comparison is between their
	// values, such as element types.
	Except []string
	// Ignore names differences that should not make points incomparable, such as cpu.
	Ignore []string
	Disturbed
}

func (g Goals) least() float64 { return cmp.Or(g.Least, 1) }

// Speedup is the result at one point.
type Speedup struct {
	Point   point.Point // on the common axes
	Ours    float64     // our median time in µs
	Theirs  float64     // median time in µs of the peer with the smallest median ratio
	Peer    string      // name of that peer
	Ratio   judge.Ratio // of the best peer's time over ours; see judge.RankPeers
	OfLimit float64     // median of pct_of_limit; 0 if the rows have none
	Outcome judge.Outcome
	Notes   []string // why a goal is not resolved
}

// SpeedupTable holds the points of one number of ranks.
type SpeedupTable struct {
	Ranks   int // 0 if a side has no number of ranks
	Lines   []Speedup
	Geomean judge.Ratio
	Least   judge.Outcome // Goals.Least at every point
	Mean    judge.Outcome // Goals.Mean
	// Differences lists how our run and the peers differ besides the program, one line each.
	Differences []string
	Warnings    []string // about whole runs
}

// entrant is a program with one setting at one point.
type entrant struct {
	name    string // of the run and the setting
	run     int    // index of the run among the sides
	rows    dataset.Set
	us      map[int]float64 // the times that count in microseconds, by trial
	leftOut string          // why the last of the other trials was left out
}

// median returns the median time, or NaN if every trial was disturbed or failed.
func (e entrant) median() float64 {
	if len(e.us) == 0 {
		return math.NaN()
	}
	return stats.Median(slices.Collect(maps.Values(e.us)))
}

// workload is one point: our program, and all peers that did the same work.
type workload struct {
	ranks   int
	point   point.Point
	ours    *entrant
	ofLimit float64   // our median of pct_of_limit
	peers   []entrant // sorted by name
}

// contest returns the logarithms of the ratios (peer's time over ours) of the paired trials.
func (w workload) contest() judge.Contest {
	return lists.Map(w.peers, func(p entrant) judge.Trials {
		pairs := judge.Trials{}
		for trial, us := range w.ours.us {
			if theirs, both := p.us[trial]; both {
				pairs[trial] = math.Log(theirs / us)
			}
		}
		return pairs
	})
}

// notes returns notes about trials that were left out, and about peers with too few pairs for a decision.
func (w workload) notes(c judge.Contest) (notes []string) {
	left := func(name string, e entrant) {
		if n := len(e.rows) - len(e.us); n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %s left out (%s)", name, n, unit.Plural(len(e.rows), "trial"),
				texttab.Shorten(e.leftOut, maxReason)))
		}
	}
	left("ours", *w.ours)
	for i, p := range w.peers {
		left(p.name, p)
		if n := len(c[i]); n < judge.MinPairs {
			notes = append(notes, fmt.Sprintf("not resolved: %s with %s, and at least %d are needed (see --count-disturbed)",
				unit.Counted(n, "undisturbed pair", "undisturbed pairs"), p.name, judge.MinPairs))
		}
	}
	return notes
}

// Speedups returns how many times faster our run is than the best peer at each point, with an interval,
// and whether it meets the goals.
//
// Rows are the same work if they have the same number of ranks (if every side has one) and the same values
// of all axes that every side has. The other axes of a side and its environment are a setting. Each setting
// of a peer counts as a peer of its own. The best peer at each point is the one to beat; see judge.RankPeers.
//
// Trials are paired: the runs were interleaved, so trial k of both sides was measured within the same minute
// and slow drift cancels in the ratio. (Compare judges two builds of one bench, whose trials are not
// paired.) A pair with a disturbed trial is left out. If our run failed at a point, the point is not
// resolved. If a peer failed at a point, it is not a peer there.
func Speedups(ours dataset.Named, peers []dataset.Named, goals Goals) ([]SpeedupTable, error) {
	sides := lists.Map(append([]dataset.Named{ours}, peers...), func(r dataset.Named) dataset.Named {
		return InUnit(r, journal.MetricInfo{Name: dataset.TimeMetric})
	})
	if err := errors.Join(goals.check(), checkIgnore("difference", goals.Ignore, nil, sides...)); err != nil {
		return nil, err
	}
	runs := make([]dataset.Set, len(sides))
	for i, s := range sides {
		runs[i] = s.Rows.Good().Where(func(r *journal.Row) bool { return r.Metrics[dataset.TimeMetric] > 0 })
		if len(runs[i]) == 0 {
			return nil, fmt.Errorf("%s has no ok row with the metric %s", s.Name, dataset.TimeMetric)
		}
	}
	common := dataset.FindCommonAxes(runs, goals.Except)
	settings := make([]func(*journal.Row) string, len(sides))
	for i, s := range sides {
		fixed := append(constantAxes(s.Rows), goals.Except...)
		settings[i] = func(r *journal.Row) string { return setting(s.Name, r, common.Rest(r, fixed...)) }
	}
	mine := lists.GroupBy(runs[0], settings[0])
	if len(mine) != 1 {
		names := lists.Map(mine, func(g lists.Group[string, dataset.Set]) string { return g.Key })
		slices.Sort(names)
		return nil, fmt.Errorf("%s has %d settings (%s): want one, so that each point has one time", ours.Name, len(mine),
			strings.Join(names, "; "))
	}
	runs[0] = append(runs[0], sides[0].Rows.Where(func(r *journal.Row) bool {
		return r.Status.Bad() && settings[0](r) == mine[0].Key
	})...)
	matched := dataset.Match(common.Work, runs...)
	var pairs []dataset.Matched // of ours and each peer
	for _, m := range matched {
		for _, peer := range m[1:] {
			pairs = append(pairs, dataset.Matched{m[0], peer})
		}
	}
	goals.Disturbed = goals.Disturbed.of(pairs)
	workloads, err := findWorkloads(matched, common, settings, goals.Disturbed)
	switch {
	case err != nil:
		return nil, err
	case len(workloads) == 0 && dataset.SharingDiffers(runs...):
		return nil, fmt.Errorf("ranks shared a GPU in some of %s and its peers but not in others: times on a shared GPU "+
			"depend on its memory and are not compared with times that depend on links", ours.Name)
	case len(workloads) == 0:
		return nil, fmt.Errorf("no peer has measured a point of %s with the same number of ranks; the common axes are: %s",
			ours.Name, strings.Join(common.Axes, ", "))
	}
	slices.SortStableFunc(workloads, func(a, b workload) int {
		return cmp.Or(cmp.Compare(a.ranks, b.ranks), dataset.ComparePoints(a.point, b.point))
	})
	byRanks := lists.GroupBy(workloads, func(w workload) int { return w.ranks })
	return lists.Map(byRanks, func(g lists.Group[int, []workload]) SpeedupTable {
		return newSpeedupTable(sides, g.Items, goals)
	}), nil
}

// findWorkloads returns the points that our run and at least one peer have measured. settings has, for each
// side, the function that names the setting of a row.
func findWorkloads(matched []dataset.Matched, common dataset.CommonAxes, settings []func(*journal.Row) string,
	rule Disturbed) ([]workload, error) {
	var out []workload
	for _, m := range matched {
		r := m.AnyRow()
		w := workload{ranks: common.Work(r).Ranks, point: common.Point(r), ofLimit: m[0].Median("pct_of_limit")}
		for i, rows := range m {
			for _, g := range lists.GroupBy(rows, settings[i]) {
				e := entrant{name: g.Key, run: i, rows: g.Items, us: map[int]float64{}}
				if err := e.take(w.ranks, rule); err != nil {
					return nil, err
				}
				if i == 0 {
					w.ours = &e
				} else {
					w.peers = append(w.peers, e)
				}
			}
		}
		slices.SortStableFunc(w.peers, func(a, b entrant) int { return strings.Compare(a.name, b.name) })
		if w.ours != nil && w.peers != nil {
			out = append(out, w)
		}
	}
	return out, nil
}

// take sets the times of the rows that count.
func (e *entrant) take(ranks int, rule Disturbed) error {
	seen := map[int]bool{}
	for _, r := range e.rows {
		if seen[r.Trial] {
			return fmt.Errorf("%s: two rows of %s on %d ranks in trial %d", e.name, r.Point, ranks, r.Trial)
		}
		seen[r.Trial] = true
		switch {
		case r.Status.Bad():
			e.leftOut = string(r.Status) + ": " + r.Why()
		case !rule.counts(r):
			e.leftOut = r.Conditions.Strongest().Label()
		default:
			e.us[r.Trial] = r.Metrics[dataset.TimeMetric]
		}
	}
	return nil
}

// newSpeedupTable judges the workloads of one number of ranks.
func newSpeedupTable(sides []dataset.Named, workloads []workload, goals Goals) SpeedupTable {
	t := SpeedupTable{Ranks: workloads[0].ranks, Least: judge.Met}
	contests := lists.Map(workloads, workload.contest)
	ratios, mean := judge.RankPeers(contests)
	t.Geomean, t.Mean = mean, mean.Reaches(goals.Mean)
	incomparable := t.findDifferences(sides, workloads, goals)
	for _, s := range sides {
		if part := s.Incomplete(); part != "" {
			t.Warnings = append(t.Warnings, s.Name+": "+part)
		}
	}
	all := lists.Map(sides, func(s dataset.Named) dataset.Set { return s.Rows })
	t.Warnings = append(t.Warnings, lists.NonEmpty(goals.warning(all...))...)
	for i, w := range workloads {
		s := Speedup{Point: w.point, Ours: w.ours.median(), Theirs: math.NaN(), Ratio: ratios[i], OfLimit: w.ofLimit,
			Outcome: ratios[i].Reaches(goals.least()), Notes: w.notes(contests[i])}
		if k := contests[i].ClosestPeer(); k >= 0 {
			s.Theirs, s.Peer = w.peers[k].median(), w.peers[k].name
		}
		if incomparable[i] {
			s.Outcome, t.Mean = judge.NotComparable, judge.NotComparable
		}
		t.Least = t.Least.Worse(s.Outcome)
		t.Lines = append(t.Lines, s)
	}
	return t
}

// findDifferences lists how the run of each peer differs from ours, besides being another program. It
// returns, for each workload, whether the differences make it incomparable.
func (t *SpeedupTable) findDifferences(sides []dataset.Named, workloads []workload, goals Goals) (incomparable []bool) {
	incomparable = make([]bool, len(workloads))
	opts := Options{Metric: dataset.TimeMetric, Ignore: goals.Ignore,
		compared: append([]string{inputsProperty, "bench", "version", "kernbench"}, goals.Except...)}
	for run := 1; run < len(sides); run++ {
		points := lists.Map(workloads, func(w workload) dataset.Matched {
			m := dataset.Matched{w.ours.rows, nil}
			for _, p := range w.peers {
				if p.run == run {
					m[1] = append(m[1], p.rows...)
				}
			}
			return m
		})
		found, decisive := differences(sides[0], sides[run], points, opts)
		for _, d := range found {
			t.Differences = append(t.Differences, fmt.Sprintf("%s differs in %s", sides[run].Name, d))
		}
		for i, names := range decisive {
			incomparable[i] = incomparable[i] || len(names) > 0
		}
	}
	return incomparable
}

// setting returns the name of a run followed by the row's own axes and its environment.
func setting(name string, r *journal.Row, ownAxes point.Point) string {
	set := lists.Filter(r.Env, func(e point.EnvVar) bool { return e.Set })
	return strings.Join(lists.NonEmpty(name, ownAxes.String(), set.String()), " ")
}

// constantAxes returns the coordinates that have the same value in all rows.
func constantAxes(rows dataset.Set) []string {
	single := func(c dataset.Coord) bool { return len(c.Known(rows)) == 1 }
	return dataset.Names(lists.Filter(dataset.Identities(rows), single))
}

// Write prints the table under the name of our run, followed by the outcomes of the goals. width is the
// width of the terminal, or 0 for no limit.
func (t SpeedupTable) Write(w io.Writer, ours string, goals Goals, width int) error {
	heading := ours
	if t.Ranks > 0 {
		heading += ", " + unit.Plural(t.Ranks, "rank")
	}
	every, title := "not slower at any point", "not slower"
	if goals.least() != 1 {
		every = fmt.Sprintf("at least %s times as fast at every point", unit.FormatSig(goals.least(), 3))
		title = "goal " + unit.FormatSig(goals.least(), 3)
	}
	axes := varyingAxes(t.Lines)
	numbers := append(slices.Clip(axes), "ours (µs)", "peer (µs)", "times faster", "95% interval", "pairs", "% of limit")
	columns := lists.Map(numbers, func(name string) texttab.Column { return texttab.Column{Title: name, Right: true} })
	columns = append(columns, texttab.Column{Title: title}, texttab.Column{Title: "notes"},
		texttab.Column{Title: "best peer", Shrink: true})
	var legend texttab.Legend
	lines := lists.Map(t.Lines, func(s Speedup) Line { return Line{Cells: s.cells(axes, legend.Mark(s.Notes...))} })
	remarks := lists.Map(legend.Lines("point", "points"), texttab.Plain)
	for _, text := range t.Warnings {
		remarks = append(remarks, "warning: "+text)
	}
	mean := "geometric mean: " + string(t.Mean)
	switch {
	case t.Mean == judge.NotComparable:
	case t.Geomean.Pairs == 0:
		mean += ": no trial has undisturbed times at all points"
	default:
		mean = fmt.Sprintf("geometric mean %s times faster (%s), goal %s: %s (%s)", unit.FormatSig(t.Geomean.Median, 3),
			intervalText(t.Geomean), unit.FormatSig(goals.Mean, 3), t.Mean, unit.Plural(t.Geomean.Pairs, "pair"))
	}
	return Document{Heading: []string{heading + ":"}, Differences: t.Differences, Columns: columns, Lines: lines,
		Remarks: append(remarks, fmt.Sprintf("%s: %s", every, t.Least), mean, "")}.Write(w, "", width)
}

func (s Speedup) cells(axes []string, marks string) []string {
	cells := lists.Map(axes, func(name string) string {
		v := s.Point.At(name)
		if v.Kind() == point.Bytes {
			return unit.FormatBytes(v.Int())
		}
		return v.String()
	})
	limit := ""
	if s.OfLimit > 0 {
		limit = fmt.Sprintf("%.0f", s.OfLimit)
	}
	return append(cells, knownText(s.Ours), knownText(s.Theirs), knownText(s.Ratio.Median), intervalText(s.Ratio),
		fmt.Sprint(s.Ratio.Pairs), limit, string(s.Outcome), marks, s.Peer)
}

// knownText returns a number with three digits, or "" for NaN.
func knownText(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return unit.FormatSig(v, 3)
}

// varyingAxes returns the axes whose values differ between the lines. If there is only one line, it returns
// all axes.
func varyingAxes(lines []Speedup) (names []string) {
	for i, c := range lines[0].Point {
		if len(lines) == 1 || slices.ContainsFunc(lines, func(s Speedup) bool { return s.Point[i].Value != c.Value }) {
			names = append(names, c.Name)
		}
	}
	return names
}

func intervalText(r judge.Ratio) string {
	switch {
	case math.IsNaN(r.High):
		return "too few pairs"
	case math.IsNaN(r.Low): // a peer has too few pairs
		return "at most " + unit.FormatSig(r.High, 3)
	}
	return unit.FormatSig(r.Low, 3) + " to " + unit.FormatSig(r.High, 3)
}
