package findings

import (
	"strings"
	"testing"

	_ "github.com/kernbench/kernbench/dist/cpu" // registers the backend of the samples
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

// The summary calls a time impossible exactly when the physics check does. A probed
// limit may be off by a fifth.
func TestSummaryAndCheckAgree(t *testing.T) {
	for _, percent := range []float64{80, 109, 118, 130, 200} {
		s := timedAt("ring", "ring", 64<<10, 100)
		s.Limits = map[string]float64{"bandwidth": percent}
		line := strings.Join(timeLines([]model.Sample{s}, nil), "")
		if got, want := strings.Contains(line, "impossible"), len(model.Check([]model.Sample{s})) > 0; got != want ||
			want != (percent > 126) {
			t.Errorf("at %v %% the check warns: %v, the summary says %q", percent, want, line)
		}
	}
}

// The fastest algorithm is chosen among settled times and is reported with its interval
// and number of samples.
func TestFastestHasSettled(t *testing.T) {
	lucky := timedAt("tree", "tree", 64<<10, 1) // a single sample, too short for the clock
	lucky.LowUS, lucky.HighUS, lucky.Samples = 0, 0, 1
	good := timedAt("ring", "ring", 64<<10, 100)
	line := strings.Join(timeLines([]model.Sample{lucky, good}, nil), "")
	if !strings.Contains(line, "the fastest is ring with 100 us, 95 % from 98 us to 102 us, 40 samples") {
		t.Error(line)
	}
	if c := model.Best([]model.Sample{lucky, good}); len(c) != 1 || c[0].Best != "ring" {
		t.Errorf("best is %+v", c)
	}
	if line := strings.Join(timeLines([]model.Sample{lucky}, nil), ""); !strings.Contains(line, "an indication") {
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
		wide,
	}
	const want = "- **Fastest, f32, 4 ranks, symmetric:** ring at 1Ki, ring or tree at 4Ki, tree at 16Ki, not " +
		"known at 1Mi."
	if got := strings.Join(choiceLines(samples), "\n"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := strings.Join(choiceLines([]model.Sample{wide, wide}), "\n"); strings.Contains(got, "tree") {
		t.Errorf("an unsettled time is called the fastest: %s", got)
	}
	table := bestSections(samples)[0].Table
	if line := strings.Join(table[2], "|"); !strings.Contains(line,
		"|ring or tree|10 us, 95 % from 9.8 us to 10.2 us, 40 samples|") {
		t.Errorf("the table's line: %s", line)
	}
	if line := strings.Join(table[4], "|"); !strings.Contains(line, "|tree (not settled)|") {
		t.Errorf("the table's line: %s", line)
	}
}

// A run with times but no recommendations says so. A run without times has no section.
func TestNoAdvice(t *testing.T) {
	list := adviceSections(nil, []model.Sample{timedAt("ring", "ring", 64<<10, 10)})
	if len(list) != 1 || list[0].Title != "Recommendations" || !strings.Contains(list[0].Text, "None: ") {
		t.Errorf("%+v", list)
	}
	if list := adviceSections(nil, nil); list != nil {
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
