package journal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/point"
)

// TestRunAgainstReference records random begins and rows of a few points and compares the
// methods of Run with a simple search through the sequence.
func TestRunAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			begin      bool
			key, trial int
		}
		events := rapid.SliceOf(rapid.Custom(func(t *rapid.T) event {
			return event{rapid.Bool().Draw(t, "begin"), rapid.IntRange(0, 2).Draw(t, "key"),
				rapid.IntRange(0, 1).Draw(t, "trial")}
		})).Draw(t, "events")
		recs := []any{Header{Run: "r"}}
		for i, e := range events {
			key := fmt.Sprint(e.key)
			if e.begin {
				recs = append(recs, Begin{Run: "r", Key: key, Trial: e.trial, Attempt: i})
			} else {
				recs = append(recs, Row{Run: "r", Key: key, Trial: e.trial, Attempt: i, Status: OK})
			}
		}
		run := parseBytes(t, encodeAll(t, recs...)).Runs[0]

		// Attempt identifies each record by its position.
		var unfinished []int
		for i, e := range events {
			lastBegin, followed := true, false
			for k, o := range events {
				if o.key != e.key || o.trial != e.trial {
					continue
				}
				if k > i && o.begin {
					lastBegin = false
				}
				if k > i && !o.begin {
					followed = true
				}
			}
			if e.begin && lastBegin && !followed {
				unfinished = append(unfinished, i)
			}
		}
		var gotUnfinished []int
		for _, b := range run.Unfinished() {
			gotUnfinished = append(gotUnfinished, b.Attempt)
		}
		if diff := cmp.Diff(unfinished, gotUnfinished); diff != "" {
			t.Fatalf("unfinished: %s", diff)
		}
	})
}

func TestEndBelongsToLatestPart(t *testing.T) {
	h, end := Header{Run: "r"}, End{Run: "r", Outcome: "interrupted"}
	if run := parseBytes(t, encodeAll(t, h, end)).Runs[0]; run.End == nil || run.End.Outcome != "interrupted" {
		t.Errorf("end %v", run.End)
	}
	if run := parseBytes(t, encodeAll(t, h, end, h)).Runs[0]; run.End != nil {
		t.Errorf("resumed and not ended, but end is %v", run.End)
	}
	done := End{Run: "r", Outcome: "complete"}
	if run := parseBytes(t, encodeAll(t, h, end, h, done)).Runs[0]; run.End == nil || run.End.Outcome != "complete" {
		t.Errorf("end %v", run.End)
	}
}

// TestAxisOfItsPart has an axis whose kind differs in one part, and rows of both parts at the same point.
func TestAxisOfItsPart(t *testing.T) {
	header := Header{Run: "r", Axes: []AxisInfo{{Name: "n", Kind: point.Bytes}, {Part: "p", Name: "n", Kind: point.Float}}}
	row := func(part string) Row {
		return Row{Run: "r", Key: "k", Part: part,
			Point: point.Point{{Name: "n", Value: point.IntValue(64)}, {Name: "undeclared", Value: point.IntValue(1)}}}
	}
	rows := parseBytes(t, encodeAll(t, header, row("p"), row("other"))).Runs[0].Rows
	for i, want := range []point.Kind{point.Float, point.Bytes} {
		if got := rows[i].Point[0].Value.Kind(); got != want {
			t.Errorf("part %q: kind %v, want %v", rows[i].Part, got, want)
		}
		if got := rows[i].Point[1].Value.Kind(); got != point.Int {
			t.Errorf("an axis that no header has became %v", got)
		}
	}
}

// TestDamagedHeader checks that a damaged field is a Problem and the other fields are used.
func TestDamagedHeader(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(string(encodeAll(t,
		Header{Run: "r", Schema: 1, Bench: "b", Points: 3, Axes: []AxisInfo{{Name: "size", Kind: point.Bytes}}},
		Row{Run: "r", Key: "k", Status: OK, Point: point.Point{{Name: "size", Value: point.BytesValue(4096)}}}))), "\n")
	lines[0] = strings.Replace(lines[0], `"host":{`, `"host":7,"was":{`, 1)
	// by another program
	lines[0] = strings.TrimSpace(string(seal([]byte(lines[0][:len(lines[0])-crcLen]+"}\n"), "")))
	j := parseBytes(t, []byte(strings.Join(lines, "\n")))
	if len(j.Problems) != 1 || len(j.Runs) != 1 || j.Runs[0].Header.Points != 3 {
		t.Fatalf("%v, %+v", j.Problems, j.Runs)
	}
	if v, _ := j.Runs[0].Rows[0].Point.Get("size"); v.Pretty() != "4Ki" {
		t.Errorf("size %v", v.Pretty())
	}
}
