package remeasure

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// measuredRow is a row with its time as it would be judged under so much stolen time.
func measuredRow(key string, status journal.Status, us, steal float64) journal.Row {
	r := journal.Row{Key: key, Status: status, Kind: journal.Measured, Load: &journal.Load{Steal: steal}}
	if status == journal.OK {
		r.Metrics, r.Samples = map[string]float64{"time_us": us}, 20
	}
	r.Judge()
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
		kept, rows := Keep(tt.all)
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
	// Of a program's table the most disturbed row speaks for the launch, and rows find
	// their own.
	table := func(us, steal float64) []journal.Row {
		return []journal.Row{measuredRow("a", journal.OK, us, 0), measuredRow("b", journal.OK, 2*us, steal)}
	}
	kept, rows := Keep([][]journal.Row{table(1, 0.3), table(2, 0.1)})
	if kept != 1 || len(rows) != 2 || rows[1].Measurements[0].Metrics.Get("time_us") != 2 ||
		rows[1].Measurements[1].Metrics.Get("time_us") != 4 {
		t.Errorf("of two tables %d is kept: %+v", kept, rows)
	}
}

func TestBudget(t *testing.T) {
	b := Budget{Most: 3}
	b.Spend(0, time.Second)
	if !b.Allows(1, time.Second, time.Minute) || !b.Allows(3, time.Second, time.Minute) {
		t.Error("a first disturbed row may not be measured again")
	}
	if b.Allows(4, time.Second, time.Minute) {
		t.Error("a fifth measurement of a point")
	}
	if b.Allows(1, time.Second, time.Millisecond) {
		t.Error("measured again beyond the point's time limit")
	}
	// However disturbed a run is, it takes at most twice as long, and the grace.
	for point := range 100 {
		for n := 1; b.Allows(n, time.Second, time.Minute); n++ {
			b.Spend(n, time.Second)
		}
		if b.again > b.first+grace {
			t.Fatalf("after %d points: %v for the first measurements, %v for more", point, b.first, b.again)
		}
		b.Spend(0, time.Second)
	}
	if b.again < b.first/2 {
		t.Errorf("%v of %v used: rows stay disturbed though there is time", b.again, b.first)
	}
	if none := (&Budget{}); none.Allows(1, 0, time.Minute) {
		t.Error("measured again, though it is not to be")
	}
}

// Of three that measure, the first ends. Those that are left know of each other at once, also where one of them
// is in the middle of a measurement and looks only at its end.
func TestCrowdOfThree(t *testing.T) {
	name := fmt.Sprintf("@kernbench-test-%d", os.Getpid())
	watch := func() *Watch {
		w := NewWatch(name, Subject{})
		t.Cleanup(w.Close)
		return w
	}
	first, busy, looks := watch(), watch(), watch()
	if first.Crowd() == "" || busy.Crowd() == "" || looks.Crowd() == "" {
		t.Fatalf("three at once: %q, %q, %q", first.Crowd(), busy.Crowd(), looks.Crowd())
	}
	first.Close()
	for until := time.Now().Add(time.Minute); looks.Crowd() == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("who is left does not know that somebody else is")
		}
	}
	if busy.Crowd() == "" {
		t.Error("the other one does not know")
	}
}
