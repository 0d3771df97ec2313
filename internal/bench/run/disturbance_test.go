package run

import (
	"fmt"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// measuredRow returns a judged row with the given time and share of stolen CPU time.
func measuredRow(key string, status journal.Status, us, steal float64) journal.Row {
	r := journal.Row{Key: key, Status: status, Kind: journal.Measured, Load: &journal.Load{Steal: steal}}
	if status == journal.OK {
		r.Metrics, r.Samples = map[string]float64{"time_us": us}, 20
	}
	journal.Judge(&r)
	return r
}

func TestKeep(t *testing.T) {
	one := func(us, steal float64) []journal.Row { return []journal.Row{measuredRow("a", journal.OK, us, steal)} }
	failed := []journal.Row{measuredRow("a", journal.Failed, 0, 0)}
	skipped := []journal.Row{measuredRow("a", journal.Skipped, 0, 0)}
	for name, tt := range map[string]struct {
		all    [][]journal.Row
		kept   int
		status journal.Status
		many   int // measurements recorded
	}{
		"one":                         {[][]journal.Row{one(5, 0.2)}, 0, journal.OK, 0},
		"the undisturbed one":         {[][]journal.Row{one(5, 0.2), one(9, 0)}, 1, journal.OK, 2},
		"the least disturbed one":     {[][]journal.Row{one(5, 0.2), one(9, 0.1), one(1, 0.3)}, 1, journal.OK, 3},
		"not the fastest":             {[][]journal.Row{one(1, 0.3), one(9, 0.2)}, 1, journal.OK, 2},
		"the first of alike ones":     {[][]journal.Row{one(5, 0.2), one(1, 0.2)}, 0, journal.OK, 2},
		"a failure":                   {[][]journal.Row{one(5, 0.2), failed}, 1, journal.Failed, 1},
		"a skip makes up for nothing": {[][]journal.Row{one(5, 0.2), skipped}, 0, journal.OK, 1},
	} {
		kept, rows := keepLeastDisturbed(tt.all)
		if kept != tt.kept || len(rows) != 1 || rows[0].Status != tt.status || len(rows[0].Measurements) != tt.many {
			t.Errorf("%s: kept %d, %+v", name, kept, rows)
			continue
		}
		for k, m := range rows[0].Measurements {
			if m.Kept != (k == kept && tt.status == journal.OK) || m.Metrics.Get("time_us") == 0 {
				t.Errorf("%s: measurement %d: %+v", name, k, m)
			}
		}
	}
	// In a program's table, the most disturbed row decides for the launch, and every row is matched with its
	// own measurements.
	table := func(us, steal float64) []journal.Row {
		return []journal.Row{measuredRow("a", journal.OK, us, 0), measuredRow("b", journal.OK, 2*us, steal)}
	}
	kept, rows := keepLeastDisturbed([][]journal.Row{table(1, 0.3), table(2, 0.1)})
	if kept != 1 || len(rows) != 2 || rows[1].Measurements[0].Metrics.Get("time_us") != 2 ||
		rows[1].Measurements[1].Metrics.Get("time_us") != 4 {
		t.Errorf("of two tables %d is kept: %+v", kept, rows)
	}
}

func TestBudget(t *testing.T) {
	b := remeasureBudget{maxRepeats: 3}
	b.spend(0, time.Second)
	if !b.allows(1, time.Second, time.Minute) || !b.allows(3, time.Second, time.Minute) {
		t.Error("a first disturbed row may not be measured again")
	}
	if b.allows(4, time.Second, time.Minute) {
		t.Error("a fifth measurement of a point")
	}
	if b.allows(1, time.Second, time.Millisecond) {
		t.Error("measured again beyond the point's time limit")
	}
	// A disturbed run takes at most twice as long, plus remeasureGrace.
	for point := range 100 {
		for n := 1; b.allows(n, time.Second, time.Minute); n++ {
			b.spend(n, time.Second)
		}
		if b.again > b.first+remeasureGrace {
			t.Fatalf("after %d points: %v for the first measurements, %v for more", point, b.first, b.again)
		}
		b.spend(0, time.Second)
	}
	if b.again < b.first/2 {
		t.Errorf("%v of %v used: rows stay disturbed though there is time", b.again, b.first)
	}
	if none := (&remeasureBudget{}); none.allows(1, 0, time.Minute) {
		t.Error("measured again, though it is not to be")
	}
}

// Ranks of another launcher are not descendants of this process. If processes of the host waited for a core most of the
// time, their rows are disturbed all the same.
func TestLoadOfAnotherLauncher(t *testing.T) {
	root := LoadRoot
	t.Cleanup(func() { LoadRoot = root })
	stalled := func(us int) {
		LoadRoot = fstest.MapFS{"proc/pressure/cpu": {Data: fmt.Appendf(nil, "some avg10=0.00 total=%d\n", us)}}
	}
	for _, c := range []struct {
		of   watchSubject
		want journal.Quality
	}{{watchSubject{}, journal.QualityDisturbed}, {watchSubject{Simulated: true}, journal.QualitySettled}} {
		w := &hostWatch{subject: c.of, closed: true}
		stalled(1)
		l := w.start()
		time.Sleep(time.Millisecond)
		stalled(1 + int(time.Hour.Microseconds())) // longer than the measurement
		row := journal.Row{Status: journal.OK, Kind: journal.Measured}
		row.Load, _ = l.end()
		if journal.Judge(&row); row.Quality != c.want {
			t.Errorf("%+v: %s under %+v", c.of, row.Quality, row.Load)
		}
	}
}

// Three runs measure, and the first one ends. The other two soon know of each other, even if one of them is in the
// middle of a measurement and checks only at its end.
func TestCrowdOfThree(t *testing.T) {
	name := fmt.Sprintf("@kernbench-test-%d", os.Getpid())
	watch := func() *hostWatch {
		w := newHostWatch(name, watchSubject{})
		t.Cleanup(w.close)
		return w
	}
	first, busy, looks := watch(), watch(), watch()
	if first.others() == nil || busy.others() == nil || looks.others() == nil {
		t.Fatalf("three at once: %v, %v, %v", first.others(), busy.others(), looks.others())
	}
	first.close()
	// One of the two may claim the host before the other one has seen that the first is gone.
	for until := time.Now().Add(time.Minute); looks.others() == nil || busy.others() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the two that are left know of %v and %v", looks.others(), busy.others())
		}
	}
}
