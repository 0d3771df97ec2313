package findings

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	_ "github.com/kernbench/kernbench/dist/cpu" // registers the backend of the samples
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/views"
)

// timedAt returns a measured sample of four launches with a range of 2 % to either side.
func timedAt(algorithm, executed string, bytes int64, us float64) model.Sample {
	s := model.Sample{Bytes: bytes, TimeUS: us, LowUS: us * 0.98, HighUS: us * 1.02, Samples: 40,
		Launches: judge.MinLaunches, Kind: "measured", Executed: executed}
	s.Series = model.Series{Algorithm: algorithm, DType: "f32", Backend: "cpu", Ranks: 4, Buffers: "symmetric"}
	return s
}

// The tuning table is recommended only if auto took another algorithm than the best and
// was significantly slower.
func TestTuningAdvice(t *testing.T) {
	const kib, size = "64Ki", 64 << 10
	ring, auto := timedAt("ring", "ring", size, 10), timedAt("auto", "two-stage", size, 20)
	same := timedAt("auto", "ring", size, 20) // the same algorithm, but disturbed
	near := timedAt("auto", "two-stage", size, 10.3)
	unsure := auto
	unsure.LowUS, unsure.HighUS = 0, 0
	unknown := timedAt("auto", "", size, 20)
	for what, c := range map[string]struct {
		auto model.Sample
		want bool
	}{
		"slower by another algorithm": {auto, true}, "the same algorithm": {same, false},
		"intervals that meet": {near, false},
		"no interval":         {unsure, false}, "unknown algorithm": {unknown, false},
	} {
		got := autoAdvice(resultsOf(ring, c.auto).contests)
		if len(got) > 0 != c.want {
			t.Errorf("%s: %v", what, got)
		}
		if c.want && (!strings.Contains(got[0].text, kib) ||
			!strings.Contains(got[0].text, "auto took two-stage (20 µs (19.6 µs to 20.4 µs in 4 launches)")) {
			t.Errorf("%s: %q lacks size, what auto took, or range", what, got[0].text)
		}
	}
}

// resultsOf returns the results of samples, as Sections makes them of rows.
func resultsOf(samples ...model.Sample) *results {
	rows := make([]journal.Row, len(samples))
	for i := range samples {
		ranks := samples[i].Ranks
		rows[i] = journal.Row{Part: matrix.Performance, Status: journal.OK, Backend: samples[i].Backend,
			NumRanks: &ranks, Point: point.Point{{Name: "algorithm", Value: point.StringValue(samples[i].Algorithm)}}}
		samples[i].Rows = []*journal.Row{&rows[i]}
	}
	return newResults(dataset.All(rows), nil, samples)
}

// texts joins the texts of sentences.
func texts(list []views.Sentence) string {
	return strings.Join(lists.Map(list, func(s views.Sentence) string { return s.Text }), "\n")
}

// speedLines joins the lines about the fastest algorithms.
func speedLines(r *results) string {
	return texts(append(r.choiceLines(), r.timeLines()...))
}

// once returns the samples as a run with one trial has them.
func once(samples ...model.Sample) []model.Sample {
	return lists.Map(samples, func(s model.Sample) model.Sample { s.Launches = 1; return s })
}

// The summary calls a time impossible exactly when the physics check does. A probed
// limit may be off by a fifth.
func TestSummaryAndCheckAgree(t *testing.T) {
	for _, percent := range []float64{80, 109, 118, 130, 200} {
		s := timedAt("ring", "ring", 64<<10, 100)
		s.Limits = map[string]float64{"bandwidth": percent}
		line := texts(resultsOf(s).timeLines())
		if got, want := strings.Contains(line, "impossible"), len(model.Check([]model.Sample{s})) > 0; got != want ||
			want != (percent > 126) {
			t.Errorf("at %v %% the check warns: %v, the summary says %q", percent, want, line)
		}
	}
}

// The fastest algorithm is named only if all candidates ran and have settled, and is reported
// with its interval and number of samples. All shares are of one limit.
func TestFastest(t *testing.T) {
	lucky := timedAt("tree", "tree", 64<<10, 1) // a single sample, too short for the clock
	lucky.LowUS, lucky.HighUS, lucky.Samples = 0, 0, 1
	good := timedAt("ring", "ring", 64<<10, 100)
	if line := texts(resultsOf(good).timeLines()); !strings.Contains(line,
		"the fastest is ring with 100 µs (98 µs to 102 µs in 4 launches)") {
		t.Error(line)
	}
	if line := speedLines(resultsOf(lucky, good)); line != "- **Fastest:** not resolved: tree has not settled." {
		t.Error(line)
	}
	// An interrupted run: two-stage has no time at the largest size, and naive has the larger limit.
	naive, two := timedAt("naive", "naive", 16<<20, 33400), timedAt("two-stage", "two-stage", 1<<20, 1000)
	naive.Limits, two.Limits = map[string]float64{"bandwidth": 39200}, map[string]float64{"bandwidth": 400}
	if line := speedLines(resultsOf(naive, two)); line != "- **Fastest:** not resolved: naive was not timed at every "+
		"size and setting, and 1 other reason.\n- **Speed:** fastest at 16Mi not resolved: two-stage was not timed at every size and setting." {
		t.Error(line)
	}
	two = timedAt("two-stage", "two-stage", 16<<20, 42000)
	two.Limits, naive.Limits = map[string]float64{"bandwidth": 6400}, map[string]float64{"bandwidth": 30000}
	if line := texts(resultsOf(naive, two).timeLines()); !strings.Contains(line,
		"19 % of the limit bandwidth for the least traffic that any of the algorithms needs (90 % for its own)") {
		t.Error(line)
	}
	auto := timedAt("auto", "two-stage", 16<<20, 23600)
	if line := speedLines(resultsOf(naive, two, auto)); !strings.Contains(line,
		"not resolved: auto took 23.6 ms, less than every named algorithm") {
		t.Error(line)
	}
}

// The fastest algorithm at each size is chosen among settled times. If the intervals do
// not separate two algorithms, both are named.
func TestFastestBySize(t *testing.T) {
	wide := timedAt("tree", "tree", 1<<20, 5)
	wide.LowUS, wide.HighUS = 1, 9
	samples := []model.Sample{
		timedAt("ring", "ring", 1<<10, 10), timedAt("tree", "tree", 1<<10, 20),
		timedAt("ring", "ring", 1<<12, 10), timedAt("tree", "tree", 1<<12, 10.1),
		timedAt("ring", "ring", 1<<14, 30), timedAt("tree", "tree", 1<<14, 20),
		timedAt("ring", "ring", 1<<20, 100), wide,
	}
	r := resultsOf(samples...)
	const want = "- **Fastest, f32, 4 ranks, symmetric:** ring at 1Ki, ring or tree at 4Ki, tree at 16Ki, not " +
		"resolved at 1Mi (tree has not settled)."
	if got := texts(r.choiceLines()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := r.indices(r.choiceLines()[0].Rows); fmt.Sprint(got) != "[0 1 2 3 4 5]" {
		t.Errorf("the rows of the sentence are %v", got)
	}
	table := r.bestSections()[0].Table
	if line := strings.Join(table[2], "|"); !strings.Contains(line,
		"|ring or tree|10 µs (9.8 µs to 10.2 µs in 4 launches)|") {
		t.Errorf("the table's line: %s", line)
	}
	if line := strings.Join(table[4], "|"); !strings.Contains(line, "|not resolved: tree has not settled|") {
		t.Errorf("the table's line: %s", line)
	}
	// Without a settled time every section is one line.
	none := resultsOf(timedAt("ring", "ring", 1<<20, 100), wide)
	for _, s := range append(append(adviceSections(none), inferenceSections(none)...), none.bestSections()[0]) {
		if s.Text != "Not resolved: tree has not settled." || s.Table != nil {
			t.Errorf("%s: %q, %v", s.Title, s.Text, s.Table)
		}
	}
	if got := texts(none.choiceLines()); got != "- **Fastest:** not resolved: tree has not settled." {
		t.Error(got)
	}
}

// indices returns the sorted indices of cited rows.
func (r *results) indices(cited []*journal.Row) []int {
	return slices.Sorted(slices.Values(lists.Map(cited, func(c *journal.Row) int {
		return slices.IndexFunc(r.rows, func(r *journal.Row) bool { return r == c })
	})))
}

// A run with one launch each, or with too few undisturbed ones, names no fastest algorithm, and says why
// once for all sizes. Computed times are exact.
func TestFewLaunches(t *testing.T) {
	samples := []model.Sample{timedAt("ring", "ring", 1<<10, 10), timedAt("two-stage", "two-stage", 1<<10, 20),
		timedAt("auto", "two-stage", 1<<10, 20), timedAt("ring", "ring", 1<<14, 30),
		timedAt("two-stage", "two-stage", 1<<14, 90), timedAt("auto", "two-stage", 1<<14, 90)}
	r := resultsOf(once(samples...)...)
	if got := speedLines(r); got != "- **Fastest:** not resolved: one launch each; `--trials 4` gives more." {
		t.Error(got)
	}
	if len(r.advice) > 0 || bestFigure(r.contests).Panels != nil {
		t.Errorf("advice %+v, or a figure of the fastest", r.advice)
	}
	for _, s := range slices.Concat(adviceSections(r), inferenceSections(r), r.bestSections(), r.fitSections()) {
		want := "Not resolved: one launch each."
		if s.Title == "Tuning table" {
			want = "`tuning.json` has no entries: comparing algorithms takes 4 undisturbed launches of each."
		}
		if s.Text != want || s.Table != nil {
			t.Errorf("%s: %q, %v", s.Title, s.Text, s.Table)
		}
	}
	if got := timesVerdict(nil, r.samples); got != "times are **usable** (6 of 6 settled, one launch each)" {
		t.Error(got)
	}
	disturbed := slices.Clone(samples)
	disturbed[1].Launches = 3
	r = resultsOf(disturbed...)
	r.samples[1].Rows = make([]*journal.Row, 4)
	r.contests = contests(r.rows, r.samples)
	if got := r.contests[0].unresolved; got != "3 of 4 launches of two-stage were undisturbed, and 4 are needed" {
		t.Error(got)
	}
	disturbed[1].Rows = make([]*journal.Row, 3)
	if got := fewLaunches(disturbed); got != "3 launches of two-stage, and 4 are needed" {
		t.Error(got)
	}
	simulated := once(samples...)
	for i := range simulated {
		simulated[i].Kind, simulated[i].LowUS, simulated[i].HighUS = string(journal.Simulated), 0, 0
	}
	if got := speedLines(resultsOf(simulated...)); !strings.Contains(got, "ring from 1Ki to 16Ki") {
		t.Errorf("simulated: %s", got)
	}
}

// The tuning table lists exactly the entries of tuning.json.
func TestTuningTable(t *testing.T) {
	samples := []model.Sample{timedAt("ring", "ring", 1<<10, 10), timedAt("two-stage", "two-stage", 1<<10, 20),
		timedAt("auto", "two-stage", 1<<10, 20), timedAt("ring", "ring", 1<<20, 30),
		timedAt("two-stage", "two-stage", 1<<20, 20),
		timedAt("auto", "two-stage", 1<<20, 20)}
	text := must.Get(model.Tuning(samples, model.Sample.Comparable))(t)
	stored := must.Get(tuning.Parse(text))(t).Entries()
	r := resultsOf(samples...)
	table := r.tuningSections()[0].Table[1:]
	if len(table) != len(stored) || len(table) == 0 {
		t.Fatalf("%d lines, %d entries in the file", len(table), len(stored))
	}
	for i, line := range table {
		e := stored[i]
		if line[5] != e.Algorithm || line[3] != unit.FormatBytes(int64(e.MinBytes)) ||
			line[4] != unit.FormatBytes(int64(e.MaxBytes)) || line[1] != fmt.Sprint(e.MinRanks) {
			t.Errorf("line %q, entry %+v", line, e)
		}
	}
	lines := r.tuningSections()[0].Lines
	if first, second := r.indices(lines[0].Rows), r.indices(lines[1].Rows); fmt.Sprint(first, second) !=
		"[0 1 2] [3 4 5]" {
		t.Errorf("the rows of the entries are %v and %v", first, second)
	}
}

// No entry of the tuning table covers a measured size at which its algorithm did not run, or did not prove faster:
// such a size keeps the present choice.
func TestTuningTableKeepsOtherSizes(t *testing.T) {
	const small, middle, large = 1 << 10, 8 << 10, 64 << 10
	disturbed := timedAt("ring", "ring", middle, 10)
	disturbed.Launches = 1
	for what, c := range map[string]struct {
		middle []model.Sample
		want   string
	}{
		"nothing": {nil, "one-stage to 1Ki, ring to 64Ki"},
		"only a lossy algorithm": {[]model.Sample{timedAt("quickreduce", "", middle, 5)},
			"one-stage to 1Ki, two-stage to 8Ki, ring to 64Ki"},
		"only an algorithm that auto cannot choose": {[]model.Sample{timedAt("vendor", "", middle, 5)},
			"one-stage to 1Ki, two-stage to 8Ki, ring to 64Ki"},
		"only auto": {[]model.Sample{timedAt("auto", "tree", middle, 20)},
			"one-stage to 1Ki, tree to 8Ki, ring to 64Ki"},
		"not the fastest": {[]model.Sample{timedAt("two-stage", "two-stage", middle, 20),
			timedAt("quickreduce", "", middle, 5)}, "one-stage to 1Ki, two-stage to 8Ki, ring to 64Ki"},
		"the fastest in too few launches": {[]model.Sample{timedAt("two-stage", "two-stage", middle, 20), disturbed},
			"one-stage to 1Ki, two-stage to 8Ki, ring to 64Ki"},
		"all": {[]model.Sample{timedAt("two-stage", "two-stage", middle, 20), timedAt("ring", "ring", middle, 10),
			timedAt("quickreduce", "", middle, 5)}, "one-stage to 1Ki, ring to 64Ki"},
	} {
		samples := slices.Concat([]model.Sample{timedAt("ring", "ring", small, 10),
			timedAt("two-stage", "two-stage", small, 10)}, c.middle,
			[]model.Sample{timedAt("ring", "ring", large, 10), timedAt("two-stage", "two-stage", large, 20)})
		var got []string
		for _, line := range resultsOf(samples...).tuningSections()[0].Table[1:] {
			got = append(got, line[5]+" to "+line[4])
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s at 8Ki: %s, want %s", what, strings.Join(got, ", "), c.want)
		}
	}
}

// A run with times but no recommendations says so. A run without times has no section.
func TestNoAdvice(t *testing.T) {
	list := adviceSections(resultsOf(timedAt("ring", "ring", 64<<10, 10)))
	if len(list) != 1 || list[0].Title != "Recommendations" || !strings.Contains(list[0].Text, "None: ") {
		t.Errorf("%+v", list)
	}
	if list := adviceSections(resultsOf()); list != nil {
		t.Errorf("%+v", list)
	}
}

// Coverage gaps list what was not timed, and nothing else.
func TestGapsInTimes(t *testing.T) {
	s := timedAt("ring", "ring", 1<<20, 10)
	for _, inPlace := range []bool{false, true} {
		s.InPlace = inPlace
		text := strings.Join(notCovered(dataset.All([]journal.Row{{Backend: "cpu"}}), nil, []model.Sample{s}), "\n")
		if strings.Contains(text, "times in place") == inPlace || !strings.Contains(text, "times outside 1Mi to 1Mi") {
			t.Errorf("times in place: %v, gaps:\n%s", inPlace, text)
		}
	}
}
