package dataset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func base() *journal.Row {
	n := 2
	return &journal.Row{Bench: "b", Part: "p", NumRanks: &n, Backend: "cpu",
		Point:   point.Point{{Name: "size", Value: point.BytesValue(65536)}, {Name: "s", Value: point.StringValue("x")}},
		Env:     point.Env{{Name: "E", Value: "1", Set: true}, {Name: "F"}},
		Options: point.Point{{Name: "o", Value: point.IntValue(1)}}}
}

// TestKey changes one coordinate at a time: the key must change, unless that one is ignored.
func TestKey(t *testing.T) {
	changes := []struct {
		name   string
		change func(*journal.Row)
		ignore string
	}{
		{"bench", func(r *journal.Row) { r.Bench = "c" }, ""},
		{"part", func(r *journal.Row) { r.Part = "" }, ""},
		{"bench and part run together", func(r *journal.Row) { r.Bench, r.Part = "bp", "" }, ""},
		{"ranks", func(r *journal.Row) { n := 4; r.NumRanks = &n }, "num_ranks"},
		{"no ranks", func(r *journal.Row) { r.NumRanks = nil }, "num_ranks"},
		{"backend", func(r *journal.Row) { r.Backend = "mpi" }, "backend"},
		{"axis", func(r *journal.Row) { r.Point[0].Value = point.BytesValue(1) }, "size"},
		{"axis missing", func(r *journal.Row) { r.Point = r.Point[:1] }, "s"},
		{"env", func(r *journal.Row) { r.Env[0].Value = "2" }, "E"},
		{"unset is not empty", func(r *journal.Row) { r.Env[1].Set = true }, "F"},
		{"option", func(r *journal.Row) { r.Options[0].Value = point.IntValue(2) }, "o"},
	}
	for _, c := range changes {
		r := base()
		c.change(r)
		if Key(r) == Key(base()) {
			t.Errorf("%s: the key stays the same", c.name)
		}
		if c.ignore != "" && Key(r, c.ignore) != Key(base(), c.ignore) {
			t.Errorf("%s: the key changes though %s is ignored", c.name, c.ignore)
		}
	}
}

// TestSharingIsNeverMixed checks that ranks sharing a GPU are never the same point as
// ranks with a GPU each, even if Sharing is in the ignore list.
func TestSharingIsNeverMixed(t *testing.T) {
	separate, shared := base(), base()
	separate.Details = map[string]string{journal.SharingDetail: "1"}
	shared.Details = map[string]string{journal.SharingDetail: "2"}
	if Key(separate) != Key(base()) {
		t.Error("one rank per GPU must have the same key as no sharing detail")
	}
	if Key(shared, Sharing) == Key(base(), Sharing) || !strings.Contains(Label(shared), "ranks_per_gpu=2") {
		t.Errorf("shared and separate GPUs have the same key; label %s", Label(shared))
	}
	runs := []Set{{shared}, {base()}}
	common := FindCommonAxes(runs, nil)
	if common.Work(shared) == common.Work(base()) {
		t.Error("shared and separate GPUs count as the same work")
	}
	if !SharingDiffers(runs...) || SharingDiffers(runs[0]) || SharingDiffers(runs[1], Set{separate}) {
		t.Error("SharingDiffers gives the wrong answer")
	}
}

func TestKeyIgnoresTrialRunAndOrder(t *testing.T) {
	r := base()
	r.Trial, r.Run, r.Key, r.Status = 3, "other", "k", journal.Failed
	r.Point[0], r.Point[1] = r.Point[1], r.Point[0]
	r.Point[1].Value = point.IntValue(65536) // a size as JSON gives it back
	if Key(r) != Key(base()) {
		t.Error("trial, run, status, order or the kind of number changes the key")
	}
}

func TestLabel(t *testing.T) {
	if got, want := Label(base()), "b/p num_ranks=2 backend=cpu size=64Ki s=x E=1 F=(unset)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Label(base(), "E", "s", "num_ranks", "backend"), "b/p size=64Ki F=(unset)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMatch(t *testing.T) {
	row := func(name string, trial int) *journal.Row {
		return &journal.Row{Trial: trial, Point: point.Point{{Name: "op", Value: point.StringValue(name)}}}
	}
	key := func(r *journal.Row) string { return r.Point.String() }
	got := Match(key, Set{row("b", 0), row("a", 0), row("b", 1)}, Set{row("c", 0), row("a", 0)})
	var words []string
	for _, m := range got {
		words = append(words, fmt.Sprintf("%s %d %d", m.AnyRow().Point, len(m[0]), len(m[1])))
	}
	if want := "op=b 2 0, op=a 1 1, op=c 0 1"; strings.Join(words, ", ") != want {
		t.Errorf("matched %s, want %s", strings.Join(words, ", "), want)
	}
}
