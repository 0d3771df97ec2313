package dataset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func inputsRow(part string, size int64, in journal.Inputs, us float64) journal.Row {
	p := point.Point{{Name: "size", Value: point.IntValue(size)}}
	return journal.Row{Run: "r", Bench: "b", Part: part, Backend: "cpu", Point: p, Status: journal.OK, Index: int(size),
		Metrics: map[string]float64{"time_us": us}, Inputs: in.Fingerprint(),
		Key: journal.Key("b", part, "", p, nil, "cpu", nil, nil, in)}
}

// startRun returns a run with a header for each list of inputs, as runs that were resumed have.
func startRun(invocations ...[]journal.Inputs) *journal.Run {
	r := &journal.Run{}
	for i, list := range invocations {
		h := journal.Header{Run: "r", Bench: "b", Time: time.Unix(int64(i), 0), Fingerprints: map[string]journal.Inputs{}}
		for _, in := range list {
			h.Fingerprints[in.Fingerprint()] = in
		}
		r.Headers = append(r.Headers, h)
		if i == 0 {
			r.Header = h
		}
		r.Header.Add(h)
	}
	return r
}

func times(rows Set) (out []float64) {
	for _, r := range rows {
		out = append(out, r.Metrics["time_us"])
	}
	return out
}

func TestLatestShowsTheCurrentBuild(t *testing.T) {
	old, new := journal.Inputs{"program ./p": "1"}, journal.Inputs{"program ./p": "2"}
	rows := []journal.Row{inputsRow("", 1, old, 100), inputsRow("", 2, old, 101), inputsRow("", 1, new, 200)}

	edited := startRun([]journal.Inputs{old}, []journal.Inputs{new})
	edited.Rows = rows
	if d := cmp.Diff([]float64{200}, times(Of(edited).Rows)); d != "" {
		t.Errorf("after an edit: %s", d)
	}
	if got := len(Latest(edited)); got != 3 {
		t.Errorf("all builds have %d rows, want 3", got)
	}
	builds := Builds(edited)
	if len(builds) != 2 || !slices.Equal(ChangedInputs(builds[1], builds[0]), []string{"program ./p"}) {
		t.Errorf("%d builds, changed %q", len(builds), ChangedInputs(builds[1], builds[0]))
	}

	reverted := startRun([]journal.Inputs{old}, []journal.Inputs{new}, []journal.Inputs{old})
	reverted.Rows = rows
	if d := cmp.Diff([]float64{100, 101}, times(Of(reverted).Rows)); d != "" {
		t.Errorf("after the edit was undone: %s", d)
	}

	killed := startRun([]journal.Inputs{old}, []journal.Inputs{new})
	killed.Rows = rows[:2]
	if d := cmp.Diff([]float64{100, 101}, times(Of(killed).Rows)); d != "" {
		t.Errorf("resumed with an edited program and killed before its first row: %s", d)
	}

	damaged := startRun([]journal.Inputs{old}) // the second header could not be read
	damaged.Rows = rows
	if d := cmp.Diff([]float64{100, 101}, times(Of(damaged).Rows)); d != "" {
		t.Errorf("without the header of the last build: %s", d)
	}

	unknown := startRun(nil, []journal.Inputs{new})
	unknown.Rows = []journal.Row{inputsRow("", 1, nil, 100), inputsRow("", 1, new, 200)}
	if d := cmp.Diff([]float64{200}, times(Of(unknown).Rows)); d != "" {
		t.Errorf("rows of an old journal: %s", d)
	}
}

// TestBuildOfSeveralParts checks that parts and points with inputs of their own belong to one
// build as long as nothing that they share differs.
func TestBuildOfSeveralParts(t *testing.T) {
	one := journal.Inputs{"program p": "1", "--cadence": "cold"}
	two := journal.Inputs{"program p": "1", "content of --curve a.csv": "3"}
	three := journal.Inputs{"program p": "1", "content of --curve b.csv": "4"}
	r := startRun([]journal.Inputs{one, two, three})
	r.Rows = []journal.Row{inputsRow("x", 1, one, 1), inputsRow("y", 2, two, 2), inputsRow("y", 3, three, 3)}
	if d := cmp.Diff([]float64{1, 2, 3}, times(Of(r).Rows)); d != "" {
		t.Errorf("one build: %s", d)
	}

	edited := journal.Inputs{"program p": "1", "content of --curve a.csv": "5"}
	r = startRun([]journal.Inputs{one, two, three}, []journal.Inputs{edited})
	r.Rows = []journal.Row{inputsRow("x", 1, one, 1), inputsRow("y", 2, two, 2), inputsRow("y", 3, three, 3),
		inputsRow("y", 2, edited, 20)}
	if d := cmp.Diff([]float64{1, 20, 3}, times(Of(r).Rows)); d != "" {
		t.Errorf("one file edited: %s", d)
	}

	more := journal.Inputs{"program p": "1", "content of --curve a.csv": "3", "variable GOGC": "50"}
	r = startRun([]journal.Inputs{two, three}, []journal.Inputs{more})
	r.Rows = []journal.Row{inputsRow("y", 2, two, 2), inputsRow("y", 3, three, 3), inputsRow("y", 2, more, 20)}
	if d := cmp.Diff([]float64{20}, times(Of(r).Rows)); d != "" {
		t.Errorf("a variable set: %s", d)
	}
	if got := ChangedInputs(Builds(r)[1], Builds(r)[0]); strings.Join(got, " ") != "variable GOGC" {
		t.Errorf("changed %q", got)
	}

	// The inputs of later rows count too, and contents that only one run has do not.
	later := journal.Inputs{"program p": "1", "content of --curve b.csv": "6"}
	a, b := startRun([]journal.Inputs{two, three}), startRun([]journal.Inputs{two, later})
	a.Rows = []journal.Row{inputsRow("y", 2, two, 2), inputsRow("y", 3, three, 3)}
	b.Rows = []journal.Row{inputsRow("y", 2, two, 2), inputsRow("y", 3, later, 3)}
	if got := ChangedInputs(Of(a), Of(b)); strings.Join(got, ", ") != "content of --curve b.csv" {
		t.Errorf("changed %q", got)
	}
	b.Rows = b.Rows[:1]
	if got := ChangedInputs(Of(a), Of(b)); len(got) != 0 {
		t.Errorf("a file that only one run uses changed: %q", got)
	}
}

func TestOtherBuilds(t *testing.T) {
	old, new := journal.Inputs{"program ./p": "1"}, journal.Inputs{"program ./p": "2"}
	first, second, third := startRun([]journal.Inputs{old}), startRun([]journal.Inputs{new}),
		startRun([]journal.Inputs{new})
	first.Rows = []journal.Row{inputsRow("", 1, old, 100)}
	second.Rows, third.Rows = []journal.Row{inputsRow("", 1, new, 200)}, []journal.Row{inputsRow("", 1, new, 201)}
	j := &journal.Journal{Runs: []*journal.Run{first, second, third}}
	if got := OtherBuilds(j, third); len(got) != 1 || got[0].Run() != first {
		t.Errorf("the builds besides the current one are %v", got)
	}
	if got := OtherBuilds(j, first); len(got) != 0 {
		t.Errorf("there is a build before the first: %v", got)
	}
}

func TestDescribeOthers(t *testing.T) {
	old := journal.Inputs{"a": "1", "b": "1", "c": "1", "d": "1"}
	for want, in := range map[string]journal.Inputs{
		"":                          old,
		"a differs":                 {"a": "2", "b": "1", "c": "1", "d": "1"},
		"a, b, c differ":            {"a": "2", "b": "2", "c": "2", "d": "1"},
		"a, b, c and 1 more differ": {"a": "2", "b": "2", "c": "2", "d": "2"},
	} {
		first, last := startRun([]journal.Inputs{old}), startRun([]journal.Inputs{in})
		first.Rows, last.Rows = []journal.Row{inputsRow("", 1, old, 1)}, []journal.Row{inputsRow("", 1, in, 1)}
		got := DescribeOthers(&journal.Journal{Path: "out/journal.jsonl", Runs: []*journal.Run{first, last}}, last)
		if (got == "") != (want == "") || !strings.Contains(got, want) ||
			want != "" && !strings.HasPrefix(got, "1 other build ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAllBuilds(t *testing.T) {
	old, new := journal.Inputs{"program ./p": "1"}, journal.Inputs{"program ./p": "2"}
	first, last := startRun([]journal.Inputs{old}), startRun([]journal.Inputs{new})
	first.Rows = []journal.Row{inputsRow("", 1, old, 100)}
	last.Rows = []journal.Row{inputsRow("", 1, new, 200), inputsRow("", 2, new, 201)}
	first.Rows[0].Key = last.Rows[0].Key // only the build tells them apart
	all := AllBuilds(&journal.Journal{Runs: []*journal.Run{first, last}}, last)
	var got []string
	for _, r := range all.Rows {
		got = append(got, fmt.Sprintf("%s: %s %v", fields[Build](r).Text(), r.Point.At("size"), r.Metrics["time_us"]))
	}
	want := []string{"1: 1 100", "2 (current): 1 200", "2 (current): 2 201"}
	if d := cmp.Diff(want, got); d != "" || len(all.Header.Fingerprints) != 2 || len(last.Header.Fingerprints) != 1 {
		t.Errorf("%s, header %+v", d, all.Header)
	}
	if n := len(all.Rows.Points()); n != 3 {
		t.Errorf("%d points, want 3: trials of two builds are not one point", n)
	}
}
