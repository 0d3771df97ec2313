package journal

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/point"
)

func inputsRow(part string, size int64, in Inputs, us float64) Row {
	p := point.Point{{Name: "size", Value: point.IntValue(size)}}
	return Row{Run: "r", Bench: "b", Part: part, Backend: "cpu", Point: p, Status: OK, Index: int(size),
		Metrics: map[string]float64{"time_us": us}, Inputs: in.Fingerprint(),
		Key: Key("b", part, "", p, nil, "cpu", nil, nil, in)}
}

// startRun returns a run with a header for each list of inputs, as runs that were resumed have.
func startRun(invocations ...[]Inputs) *Run {
	r := &Run{open: map[pointTrial]int{}}
	for i, list := range invocations {
		h := Header{Run: "r", Bench: "b", Time: time.Unix(int64(i), 0), Fingerprints: map[string]Inputs{}}
		for _, in := range list {
			h.Fingerprints[in.Fingerprint()] = in
		}
		r.addHeader(h)
	}
	return r
}

func times(rows []Row) (out []float64) {
	for _, r := range rows {
		out = append(out, r.Metrics["time_us"])
	}
	return out
}

func TestInputsChanged(t *testing.T) {
	a := Inputs{"command": "1", "file x": "2", "unit lat": "us"}
	b := Inputs{"command": "1", "file x": "3", "variable OMP_NUM_THREADS": "7"}
	if d := cmp.Diff([]string{"file x", "unit lat", "variable OMP_NUM_THREADS"}, a.Changed(b)); d != "" {
		t.Error(d)
	}
	if a.Fingerprint() == b.Fingerprint() || Inputs(nil).Fingerprint() != "" || (Inputs{}).Fingerprint() == "" {
		t.Error("fingerprints of different inputs are equal, or of equal ones different")
	}
}

func TestLatestShowsTheCurrentBuild(t *testing.T) {
	old, new := Inputs{"program ./p": "1"}, Inputs{"program ./p": "2"}
	rows := []Row{inputsRow("", 1, old, 100), inputsRow("", 2, old, 101), inputsRow("", 1, new, 200)}

	edited := startRun([]Inputs{old}, []Inputs{new})
	edited.Rows = rows
	if d := cmp.Diff([]float64{200}, times(edited.Latest())); d != "" {
		t.Errorf("after an edit: %s", d)
	}
	if got := len(edited.LatestOfAllBuilds()); got != 3 {
		t.Errorf("all builds have %d rows, want 3", got)
	}
	builds := edited.Builds()
	if len(builds) != 2 || !slices.Equal(ChangedInputs(builds[1], builds[0]), []string{"program ./p"}) {
		t.Errorf("%d builds, changed %q", len(builds), ChangedInputs(builds[1], builds[0]))
	}

	reverted := startRun([]Inputs{old}, []Inputs{new}, []Inputs{old})
	reverted.Rows = rows
	if d := cmp.Diff([]float64{100, 101}, times(reverted.Latest())); d != "" {
		t.Errorf("after the edit was undone: %s", d)
	}

	killed := startRun([]Inputs{old}, []Inputs{new})
	killed.Rows = rows[:2]
	if d := cmp.Diff([]float64{100, 101}, times(killed.Latest())); d != "" {
		t.Errorf("resumed with an edited program and killed before its first row: %s", d)
	}

	damaged := startRun([]Inputs{old}) // the second header could not be read
	damaged.Rows = rows
	if d := cmp.Diff([]float64{100, 101}, times(damaged.Latest())); d != "" {
		t.Errorf("without the header of the last build: %s", d)
	}

	unknown := startRun(nil, []Inputs{new})
	unknown.Rows = []Row{inputsRow("", 1, nil, 100), inputsRow("", 1, new, 200)}
	if d := cmp.Diff([]float64{200}, times(unknown.Latest())); d != "" {
		t.Errorf("rows of an old journal: %s", d)
	}
}

// TestBuildOfSeveralParts checks that parts and points with inputs of their own belong to one
// build as long as nothing that they share differs.
func TestBuildOfSeveralParts(t *testing.T) {
	one := Inputs{"program p": "1", "--cadence": "cold"}
	two := Inputs{"program p": "1", "content of --curve a.csv": "3"}
	three := Inputs{"program p": "1", "content of --curve b.csv": "4"}
	r := startRun([]Inputs{one, two, three})
	r.Rows = []Row{inputsRow("x", 1, one, 1), inputsRow("y", 2, two, 2), inputsRow("y", 3, three, 3)}
	if d := cmp.Diff([]float64{1, 2, 3}, times(r.Latest())); d != "" {
		t.Errorf("one build: %s", d)
	}

	edited := Inputs{"program p": "1", "content of --curve a.csv": "5"}
	r = startRun([]Inputs{one, two, three}, []Inputs{edited})
	r.Rows = []Row{inputsRow("x", 1, one, 1), inputsRow("y", 2, two, 2), inputsRow("y", 3, three, 3),
		inputsRow("y", 2, edited, 20)}
	if d := cmp.Diff([]float64{1, 20, 3}, times(r.Latest())); d != "" {
		t.Errorf("one file edited: %s", d)
	}

	more := Inputs{"program p": "1", "content of --curve a.csv": "3", "variable GOGC": "50"}
	r = startRun([]Inputs{two, three}, []Inputs{more})
	r.Rows = []Row{inputsRow("y", 2, two, 2), inputsRow("y", 3, three, 3), inputsRow("y", 2, more, 20)}
	if d := cmp.Diff([]float64{20}, times(r.Latest())); d != "" {
		t.Errorf("a variable set: %s", d)
	}
	if got := ChangedInputs(r.Builds()[1], r.Builds()[0]); strings.Join(got, " ") != "variable GOGC" {
		t.Errorf("changed %q", got)
	}

	// The inputs of later rows count too, and contents that only one run has do not.
	later := Inputs{"program p": "1", "content of --curve b.csv": "6"}
	a, b := startRun([]Inputs{two, three}), startRun([]Inputs{two, later})
	a.Rows = []Row{inputsRow("y", 2, two, 2), inputsRow("y", 3, three, 3)}
	b.Rows = []Row{inputsRow("y", 2, two, 2), inputsRow("y", 3, later, 3)}
	if got := ChangedInputs(a, b); strings.Join(got, ", ") != "content of --curve b.csv" {
		t.Errorf("changed %q", got)
	}
	b.Rows = b.Rows[:1]
	if got := ChangedInputs(a, b); len(got) != 0 {
		t.Errorf("a file that only one run uses changed: %q", got)
	}
}

func TestPreviousBuild(t *testing.T) {
	old, new := Inputs{"program ./p": "1"}, Inputs{"program ./p": "2"}
	first, second, third := startRun([]Inputs{old}), startRun([]Inputs{new}), startRun([]Inputs{new})
	first.Rows = []Row{inputsRow("", 1, old, 100)}
	second.Rows, third.Rows = []Row{inputsRow("", 1, new, 200)}, []Row{inputsRow("", 1, new, 201)}
	j := &Journal{Runs: []*Run{first, second, third}}
	if got := j.PreviousBuild(third); got != first {
		t.Errorf("the build before the current one is %v", got)
	}
	if got := j.PreviousBuild(first); got != nil {
		t.Errorf("there is a build before the first: %v", got)
	}
}

func TestDescribeOthers(t *testing.T) {
	old := Inputs{"a": "1", "b": "1", "c": "1", "d": "1"}
	for want, in := range map[string]Inputs{
		"":                          old,
		"a differs":                 {"a": "2", "b": "1", "c": "1", "d": "1"},
		"a, b, c differ":            {"a": "2", "b": "2", "c": "2", "d": "1"},
		"a, b, c and 1 more differ": {"a": "2", "b": "2", "c": "2", "d": "2"},
	} {
		first, last := startRun([]Inputs{old}), startRun([]Inputs{in})
		first.Rows, last.Rows = []Row{inputsRow("", 1, old, 1)}, []Row{inputsRow("", 1, in, 1)}
		got := (&Journal{Path: "out/journal.jsonl", Runs: []*Run{first, last}}).DescribeOthers(last)
		if (got == "") != (want == "") || !strings.Contains(got, want) ||
			want != "" && !strings.HasPrefix(got, "1 other build ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAllBuilds(t *testing.T) {
	old, new := Inputs{"program ./p": "1"}, Inputs{"program ./p": "2"}
	first, last := startRun([]Inputs{old}), startRun([]Inputs{new})
	first.Rows = []Row{inputsRow("", 1, old, 100)}
	last.Rows = []Row{inputsRow("", 1, new, 200), inputsRow("", 2, new, 201)}
	first.Rows[0].Key, first.Rows[0].Task = last.Rows[0].Key, "task" // only the build tells them apart
	all := (&Journal{Runs: []*Run{first, last}}).AllBuilds(last)
	var got []string
	for _, r := range all.Latest() {
		got = append(got, fmt.Sprintf("%s %s %v %q", r.Point.At(BuildAxis), r.Point.At("size"), r.Metrics["time_us"], r.Task))
	}
	slices.Sort(got)
	want := []string{`1 1 100 "1\x00task"`, `2 (current) 1 200 ""`, `2 (current) 2 201 ""`}
	if d := cmp.Diff(want, got); d != "" || all.Header.Axes[0].Name != BuildAxis || len(all.Header.Fingerprints) != 2 {
		t.Errorf("%s, header %+v", d, all.Header)
	}
}
