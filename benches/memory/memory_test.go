package memory

import (
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestDeclaration(t *testing.T) {
	must.Do(t, Bench().Validate())
}

// Every operation passes its check after a call but not before, so a kernel that does nothing would
// be found.
func TestOperationsAreChecked(t *testing.T) {
	for _, name := range []string{"copy", "read", "update"} {
		for _, size := range []int{16, 64, 1000, 4096} {
			op, traffic, err := operation(name, size)
			if err != nil || traffic <= 0 {
				t.Fatalf("%s of %d bytes: %d bytes moved, %v", name, size, traffic, err)
			}
			if name != "update" && op.check() == nil {
				t.Errorf("%s of %d bytes: the check passes before any call", name, size)
			}
			op.run()
			op.run()
			if err := op.check(); err != nil {
				t.Errorf("%s of %d bytes: %v", name, size, err)
			}
		}
	}
	if _, _, err := operation("shuffle", 64); err == nil {
		t.Error("an unknown operation was accepted")
	}
}

// An update that skips its last word must be caught.
func TestPlantedErrorIsCaught(t *testing.T) {
	a := make([]uint64, 100)
	increment(a[:99])
	if a[98] != 1 || a[99] != 0 {
		t.Fatal("increment touched more than it was given")
	}
	if sum([]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}) != 45 {
		t.Error("sum loses the tail")
	}
}

func TestViews(t *testing.T) {
	two := 2
	row := func(op string, size int64, gbps float64) journal.Row {
		return journal.Row{Key: op + string(rune(size)), Status: journal.OK, NumRanks: &two,
			Point:   point.Point{{Name: "op", Value: point.StringValue(op)}, {Name: "size", Value: point.BytesValue(size)}},
			Metrics: map[string]float64{"gbps": gbps, "time_us": 1}}
	}
	rows := []journal.Row{row("copy", 1<<14, 300), row("copy", 1<<20, 60), row("read", 1<<14, 50), row("read", 1<<20, 25)}
	figs := figures(rows)
	if len(figs) != 1 || len(figs[0].Panels) != 2 || len(figs[0].Panels[0].Series[0].Points) != 2 {
		t.Fatalf("%+v", figs)
	}
	if err := figs[0].Validate(); err != nil {
		t.Error(err)
	}
	if len(figures(nil)) != 0 {
		t.Error("a figure of nothing")
	}
	sec := sections(rows)
	if len(sec) != 1 || len(sec[0].Table) != 3 || sec[0].Table[1][4] != "5.0" {
		t.Errorf("%+v", sec)
	}
	if len(sections(rows[:1])) != 0 {
		t.Error("a section about one size compares nothing")
	}
}
