package bandwidth

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Every loop passes its check after calls but not before, so a loop that does nothing is found. So is a loop that
// leaves out the last word.
func TestLoopsAreChecked(t *testing.T) {
	for _, op := range memoryOps {
		for _, size := range []int64{8, 64, 1000, 4096, blockBytes + 24} {
			w := loopOnHost(op, size, 1, 7)
			if w.bytes <= 0 || op != update && w.check() == nil {
				t.Errorf("%s of %d bytes: %d bytes moved, or the check passes before any call", op, size, w.bytes)
			}
			for range 2 {
				must.Do(t, errors.Join(w.call(), w.call(), w.check()))
			}
		}
	}
	h := &hostArrays{c: make([]float64, 100), parts: [][2]int{{0, 99}}}
	h.each(h.loop(update))
	if words := asWords(h.c); words[98] != 1 || words[99] != 0 {
		t.Error("increment touched more than it was given")
	}
	if sum([]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}) != 45 {
		t.Error("sum loses the tail")
	}
}

// A row of the bench has the bytes of all ranks and the level of memory that they work from.
func TestMemory(t *testing.T) {
	rows := must.Get(benchtest.Rows(t, Memory(), "cpu", "num_ranks=2", "size=16K"))(t)
	for _, r := range rows {
		want := 2 * float64(arraysOf(dataset.Text(r, "op"))) * 16384 / r.Metrics["time_us"] / 1e3
		if dataset.Text(r, "op") == copyLoop { // of half the working set
			want /= 2
		}
		if r.Status != journal.OK || math.Abs(r.Metrics["gbps"]/want-1) > 1e-6 ||
			r.Details[levelDetail] != hostinfo.Local().CPU.Level(16384, 2) {
			t.Errorf("%v: %s %s, %v, %v", r.Point, r.Status, r.Reason, r.Metrics, r.Details)
		}
	}
	if _, err := benchtest.Rows(t, Memory(), "cpu", "op=shuffle"); err == nil {
		t.Error("an unknown operation was accepted")
	}
}

func memoryRow(op string, size int64, gbps float64) journal.Row {
	two := 2
	return journal.Row{Key: op + fmt.Sprint(size), Status: journal.OK, NumRanks: &two,
		Point:   point.Point{{Name: "op", Value: point.StringValue(op)}, {Name: "size", Value: point.BytesValue(size)}},
		Metrics: map[string]float64{"gbps": gbps, "time_us": 1}}
}

func TestMemoryViews(t *testing.T) {
	rows := []journal.Row{memoryRow("copy", 1<<14, 300), memoryRow("copy", 1<<20, 60),
		memoryRow("read", 1<<14, 50), memoryRow("read", 1<<20, 25)}
	figs := benchtest.Figures(t, Memory(), dataset.All(rows))
	if len(figs) != 1 || len(figs[0].Panels) != 2 || len(figs[0].Panels[0].Series[0].Points) != 2 {
		t.Fatalf("%+v", figs)
	}
	if err := figs[0].Validate(); err != nil {
		t.Error(err)
	}
	if len(benchtest.Figures(t, Memory(), nil)) != 0 {
		t.Error("a figure of nothing")
	}
	sec := memorySections(dataset.All(rows))
	if len(sec) != 1 || len(sec[0].Table) != 3 || sec[0].Table[1][4] != "5.0" || sec[0].Table[1][3] != "60.0 GB/s" {
		t.Errorf("%+v", sec)
	}
	if len(memorySections(dataset.All(rows[:1]))) != 0 {
		t.Error("a section about one size compares nothing")
	}
}

// Only rows whose level is known say what they work from, and the section marks rows that were disturbed.
func TestLevels(t *testing.T) {
	small, large := memoryRow("copy", 1<<14, 300), memoryRow("copy", 16<<20, 60)
	small.Details = map[string]string{levelDetail: hostinfo.L1}
	large.Details = map[string]string{levelDetail: hostinfo.L3}
	large.Quality = journal.QualityDisturbed
	sec := memorySections(dataset.All([]journal.Row{small, large}))
	if got := strings.Join(sec[0].Table[1], " | "); got != "copy | 2 | 300.0 GB/s, L1 | (60.0 GB/s, L3) | (5.0)" {
		t.Error(got)
	}
	if strings.Contains(sec[0].Text, "works from main memory") {
		t.Error(sec[0].Text)
	}
}
