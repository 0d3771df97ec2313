package findings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	_ "github.com/kernbench/kernbench/dist/cpu" // registers the backend of the samples
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// timedAt returns a measured sample with an interval of 2 % to either side.
func timedAt(algorithm, executed string, bytes int64, us float64) model.Sample {
	s := model.Sample{Bytes: bytes, TimeUS: us, LowUS: us * 0.98, HighUS: us * 1.02, Samples: 40, Kind: "measured",
		Executed: executed}
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
		got := autoAdvice(c.auto.Series, []model.Sample{ring, c.auto})
		if len(got) > 0 != c.want {
			t.Errorf("%s: %v", what, got)
		}
		if c.want && (!strings.Contains(got[0].text, kib) ||
			!strings.Contains(got[0].text, "auto took two-stage (20 us, 95 % from") ||
			!strings.Contains(got[0].text, "40 samples")) {
			t.Errorf("%s: %q lacks size, what auto took, interval or samples", what, got[0].text)
		}
	}
}

// resultsOf returns the results of samples, as Sections makes them of rows.
func resultsOf(samples ...model.Sample) *results {
	var rows []journal.Row
	for i := range samples {
		samples[i].Rows = []int{i}
		ranks := samples[i].Ranks
		rows = append(rows, journal.Row{Part: matrix.Performance, Status: journal.OK, Backend: samples[i].Backend,
			NumRanks: &ranks, Point: point.Point{{Name: "algorithm", Value: point.StringValue(samples[i].Algorithm)}}})
	}
	r := &results{rows: rows, samples: samples, contests: contests(rows, samples), curves: model.Fit(samples),
		warnings: model.Check(samples)}
	r.advice = recommend(r)
	return r
}

// The summary calls a time impossible exactly when the physics check does. A probed
// limit may be off by a fifth.
func TestSummaryAndCheckAgree(t *testing.T) {
	for _, percent := range []float64{80, 109, 118, 130, 200} {
		s := timedAt("ring", "ring", 64<<10, 100)
		s.Limits = map[string]float64{"bandwidth": percent}
		line := strings.Join(resultsOf(s).timeLines(), "")
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
	if line := strings.Join(resultsOf(good).timeLines(), ""); !strings.Contains(line,
		"the fastest is ring with 100 us, 95 % from 98 us to 102 us, 40 samples") {
		t.Error(line)
	}
	if line := strings.Join(resultsOf(lucky, good).timeLines(), ""); line !=
		"- **Speed:** fastest at 64Ki not resolved: tree has not settled." {
		t.Error(line)
	}
	// An interrupted run: two-stage has no time at the largest size, and naive has the larger limit.
	naive, two := timedAt("naive", "naive", 16<<20, 33400), timedAt("two-stage", "two-stage", 1<<20, 1000)
	naive.Limits, two.Limits = map[string]float64{"bandwidth": 39200}, map[string]float64{"bandwidth": 400}
	if line := strings.Join(resultsOf(naive, two).timeLines(), ""); line !=
		"- **Speed:** fastest at 16Mi not resolved: two-stage did not run." {
		t.Error(line)
	}
	two = timedAt("two-stage", "two-stage", 16<<20, 42000)
	two.Limits, naive.Limits = map[string]float64{"bandwidth": 6400}, map[string]float64{"bandwidth": 30000}
	if line := strings.Join(resultsOf(naive, two).timeLines(), ""); !strings.Contains(line,
		"19 % of the limit bandwidth for the least traffic that any of the algorithms needs (90 % for its own)") {
		t.Error(line)
	}
	auto := timedAt("auto", "two-stage", 16<<20, 23600)
	if line := strings.Join(resultsOf(naive, two, auto).timeLines(), ""); !strings.Contains(line,
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
		"resolved at 1Mi (tree has not settled); one launch each. [fastest-1]"
	if got := strings.Join(r.choiceLines(), "\n"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := r.cited.list[len(r.cited.list)-1]; got.ID != "fastest-1" || fmt.Sprint(got.Rows) != "[0 1 2 3 4 5]" {
		t.Errorf("the rows of the sentence are %+v", got)
	}
	table := r.bestSections()[0].Table
	if line := strings.Join(table[2], "|"); !strings.Contains(line,
		"|ring or tree|10 us, 95 % from 9.8 us to 10.2 us, 40 samples|") {
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
	if got := strings.Join(none.choiceLines(), "\n"); got != "- **Fastest:** not resolved: tree has not settled." {
		t.Error(got)
	}
}

// The tuning table lists exactly the entries that the run adds to tuning.json.
func TestTuningTable(t *testing.T) {
	samples := []model.Sample{timedAt("ring", "ring", 1<<10, 10), timedAt("two-stage", "two-stage", 1<<10, 20),
		timedAt("auto", "two-stage", 1<<10, 20), timedAt("ring", "ring", 1<<20, 30),
		timedAt("two-stage", "two-stage", 1<<20, 20),
		timedAt("auto", "two-stage", 1<<20, 20)}
	text := must.Get(model.Tuning(tunable(samples)))(t)
	stored := must.Get(tuning.Parse(text))(t).Entries()
	table := tuningSections(samples)[0].Table[1:]
	if len(table)+len(tuning.Default().Entries()) != len(stored) || len(table) == 0 {
		t.Fatalf("%d lines, %d entries in the file", len(table), len(stored))
	}
	for i, line := range table {
		e := stored[i]
		if line[4] != e.Algorithm || line[3] != unit.FormatBytes(int64(e.MaxBytes)) || line[1] != fmt.Sprint(e.MinRanks) {
			t.Errorf("line %q, entry %+v", line, e)
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
		text := strings.Join(notCovered([]journal.Row{{Backend: "cpu"}}, nil, []model.Sample{s}), "\n")
		if strings.Contains(text, "times in place") == inPlace || !strings.Contains(text, "times outside 1Mi to 1Mi") {
			t.Errorf("times in place: %v, gaps:\n%s", inPlace, text)
		}
	}
}
