package compare

import (
	"cmp"
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
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// Goals are the speedups to reach.
type Goals struct {
	Least float64 // at every point; 0 means 1, not slower
	Mean  float64 // geometric mean over the points
	// Except names axes that may differ between the sides because their values are
	// compared, such as element types.
	Except []string
}

func (g Goals) least() float64 { return cmp.Or(g.Least, 1) }

// Speedup is the result at one point.
type Speedup struct {
	Point   point.Point // on the common axes
	Ours    float64     // median time in microseconds
	Theirs  float64     // median time of the best peer
	Peer    string      // name of the best peer
	Ratio   judge.Ratio // theirs over ours
	OfLimit float64     // median of pct_of_limit; 0 if the rows have none
	Outcome judge.Outcome
}

// SpeedupTable holds the points of one number of ranks.
type SpeedupTable struct {
	Ranks   int // 0 if a side does not say it
	Lines   []Speedup
	Geomean judge.Ratio
	Least   judge.Outcome // Goals.Least at every point
	Mean    judge.Outcome // Goals.Mean
}

// times maps each trial to its time in microseconds.
type times map[int]float64

func (t times) median() float64 { return stats.Median(slices.Collect(maps.Values(t))) }

// peerTimes are the times of a peer at one point with one setting.
type peerTimes struct {
	name string // of the run and the setting
	times
}

// workload is one point: our times and those of all peers that did the same work.
type workload struct {
	ranks   int
	point   point.Point
	ours    times
	ofLimit float64
	peers   []peerTimes // sorted by name
}

// bestPeer returns the peer with the least median time.
func (w workload) bestPeer() peerTimes {
	return slices.MinFunc(w.peers, func(a, b peerTimes) int { return cmp.Compare(a.median(), b.median()) })
}

// Speedups returns how many times faster our run is at each point than the best peer,
// with an interval, and whether that meets the goals. Runs need Name and Rows only.
//
// Rows do the same work if they have the same number of ranks, as far as every side says
// it, and the same values of all axes that every side has. Axes of one side only, and its
// environment, are a setting. A peer counts once per setting; the best of them at each
// point, by its median, is the one to beat.
//
// Trials are pairs: the runs were interleaved, so trial k of both sides was measured
// within the same minute and slow drift cancels in their ratio. Compare, in contrast,
// judges two builds of one bench, whose trials are not paired.
func Speedups(ours Run, peers []Run, goals Goals) ([]SpeedupTable, error) {
	sides := append([]Run{ours}, peers...)
	runs := make([]rowset.Set, len(sides))
	for i, s := range sides {
		runs[i] = rowset.Good(s.Rows).Where(func(r *journal.Row) bool { return r.Metrics[DefaultMetric] > 0 })
		if len(runs[i]) == 0 {
			return nil, fmt.Errorf("%s holds no good row with a %s", s.Name, DefaultMetric)
		}
	}
	common := rowset.FindCommonAxes(runs, goals.Except)
	settings := make([]func(*journal.Row) string, len(sides))
	for i, s := range sides {
		fixed := append(constantAxes(s.Rows), goals.Except...)
		settings[i] = func(r *journal.Row) string { return setting(s.Name, r, common.Rest(r, fixed...)) }
	}
	if mine := rowset.GroupBy(runs[0], settings[0]); len(mine) != 1 {
		names := lists.Map(mine, func(g rowset.Group[string]) string { return g.Key })
		slices.Sort(names)
		return nil, fmt.Errorf("%s holds %d settings (%s): want one, so that each point is one time", ours.Name, len(mine),
			strings.Join(names, "; "))
	}
	workloads, err := findWorkloads(rowset.Match(common.Work, runs...), common, settings)
	switch {
	case err != nil:
		return nil, err
	case len(workloads) == 0 && rowset.SharingDiffers(runs...):
		return nil, fmt.Errorf("ranks shared a GPU in some of %s and its peers and not in others: times of one GPU's "+
			"memory are not compared with those of links", ours.Name)
	case len(workloads) == 0:
		return nil, fmt.Errorf("no point of %s was measured by a peer with as many ranks; they have these axes in common: %s",
			ours.Name, strings.Join(common.Axes, ", "))
	}
	slices.SortStableFunc(workloads, func(a, b workload) int {
		return cmp.Or(cmp.Compare(a.ranks, b.ranks), rowset.ComparePoints(a.point, b.point))
	})
	byRanks := lists.GroupBy(workloads, func(w workload) int { return w.ranks })
	return lists.Map(byRanks, func(g lists.Group[int, workload]) SpeedupTable {
		return newSpeedupTable(g.Items, goals)
	}), nil
}

// findWorkloads returns the points that we and at least one peer have measured. settings
// has the function that names the setting of a row, for each side.
func findWorkloads(matched []rowset.Matched, common rowset.CommonAxes, settings []func(*journal.Row) string) (
	[]workload, error) {
	var out []workload
	for _, m := range matched {
		r := m.AnyRow()
		w := workload{ranks: common.Work(r).Ranks, point: common.Point(r), ofLimit: m[0].Median("pct_of_limit")}
		for i, rows := range m {
			for _, g := range rowset.GroupBy(rows, settings[i]) {
				t, err := timesByTrial(g, w.ranks)
				if err != nil {
					return nil, err
				}
				if i == 0 {
					w.ours = t
				} else {
					w.peers = append(w.peers, peerTimes{g.Key, t})
				}
			}
		}
		slices.SortStableFunc(w.peers, func(a, b peerTimes) int { return strings.Compare(a.name, b.name) })
		if w.ours != nil && w.peers != nil {
			out = append(out, w)
		}
	}
	return out, nil
}

func timesByTrial(g rowset.Group[string], ranks int) (times, error) {
	t := times{}
	for _, r := range g.Rows {
		if _, twice := t[r.Trial]; twice {
			return nil, fmt.Errorf("%s: two rows of %s on %d ranks in trial %d", g.Key, r.Point, ranks, r.Trial)
		}
		t[r.Trial] = r.Metrics[DefaultMetric]
	}
	return t, nil
}

// newSpeedupTable judges the workloads of one number of ranks. The mean over points is computed for
// each trial, so that its interval comes from paired trials too.
func newSpeedupTable(workloads []workload, goals Goals) SpeedupTable {
	t := SpeedupTable{Ranks: workloads[0].ranks, Least: judge.Met}
	logs := map[int]float64{} // by trial: sum of the logarithms over points
	seen := map[int]int{}     // by trial: number of points
	for _, w := range workloads {
		best := w.bestPeer()
		var ratios []float64
		for trial, us := range w.ours {
			if theirs, ok := best.times[trial]; ok {
				ratios = append(ratios, theirs/us)
				logs[trial] += math.Log(theirs / us)
				seen[trial]++
			}
		}
		s := Speedup{Point: w.point, Ours: w.ours.median(), Theirs: best.median(), Peer: best.name,
			Ratio: judge.NewRatio(ratios), OfLimit: w.ofLimit}
		s.Outcome = s.Ratio.Reaches(goals.least())
		t.Least = t.Least.Worse(s.Outcome)
		t.Lines = append(t.Lines, s)
	}
	var means []float64
	for trial, sum := range logs {
		if seen[trial] == len(t.Lines) { // the mean over fewer points is not comparable
			means = append(means, math.Exp(sum/float64(len(t.Lines))))
		}
	}
	t.Geomean = judge.NewRatio(means)
	t.Mean = t.Geomean.Reaches(goals.Mean)
	return t
}

// setting names a run with the row's own axes and its environment.
func setting(name string, r *journal.Row, ownAxes point.Point) string {
	set := lists.Filter(r.Env, func(e point.EnvVar) bool { return e.Set })
	return strings.Join(lists.NonEmpty(name, ownAxes.String(), set.String()), " ")
}

// constantAxes returns the coordinates that have the same value in all rows.
func constantAxes(rows []journal.Row) (names []string) {
	for name, values := range rowset.CoordTexts(rows) {
		if len(values) == 1 {
			names = append(names, name)
		}
	}
	return names
}

// Write prints the table, headed by the name of our run, and the outcomes of the goals
// below it. Width is the width of the terminal, 0 for no limit.
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
	numbers := append(slices.Clip(axes), "ours us", "peer us", "times faster", "95% interval", "pairs", "% of limit")
	columns := lists.Map(numbers, func(name string) texttab.Column { return texttab.Column{Title: name, Right: true} })
	return Document{
		Heading: []string{heading + ":"},
		Columns: append(columns, texttab.Column{Title: title}, texttab.Column{Title: "best peer", Shrink: true}),
		Lines:   lists.Map(t.Lines, func(s Speedup) Line { return Line{Cells: s.cells(axes)} }),
		Remarks: []string{
			fmt.Sprintf("%s: %s", every, t.Least),
			fmt.Sprintf("geometric mean %s times faster (%s), goal %s: %s (%d pairs)", unit.FormatSig(t.Geomean.Median, 3),
				intervalText(t.Geomean), unit.FormatSig(goals.Mean, 3), t.Mean, t.Geomean.Pairs),
			"",
		},
	}.Write(w, "", width)
}

func (s Speedup) cells(axes []string) []string {
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
	return append(cells, unit.FormatSig(s.Ours, 3), unit.FormatSig(s.Theirs, 3), unit.FormatSig(s.Ratio.Median, 3),
		intervalText(s.Ratio), fmt.Sprint(s.Ratio.Pairs), limit, string(s.Outcome), texttab.Plain(s.Peer))
}

// varyingAxes returns the axes whose values differ between the lines, or all axes if there
// is one line.
func varyingAxes(lines []Speedup) (names []string) {
	for i, c := range lines[0].Point {
		if len(lines) == 1 || slices.ContainsFunc(lines, func(s Speedup) bool { return s.Point[i].Value != c.Value }) {
			names = append(names, c.Name)
		}
	}
	return names
}

func intervalText(r judge.Ratio) string {
	if math.IsNaN(r.Low) {
		return "too few pairs"
	}
	return unit.FormatSig(r.Low, 3) + " to " + unit.FormatSig(r.High, 3)
}
