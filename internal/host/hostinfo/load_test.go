package hostinfo

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSnapshot(t *testing.T) {
	root := tree(map[string]string{
		"proc/loadavg": "0.52 1.25 2.00 3/456 7890\n",
		"proc/stat":    "cpu  100 20 30 400 50 6 7 80 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
	})
	want := Load{Load1: 0.52, Times: Times{User: 120, System: 43, Idle: 450, Steal: 80}}
	if got := Snapshot(root); got != want {
		t.Errorf("Snapshot = %+v, want %+v", got, want)
	}
	if got := Snapshot(Root()); got.Times.User == 0 || got.Times.Idle == 0 {
		t.Errorf("of this machine: %+v", got)
	}
}

// TestSnapshotWithout checks that facts that cannot be read are zero.
func TestSnapshotWithout(t *testing.T) {
	for _, stat := range []string{"", "cpu 1 2 3 4\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3 -4 5 6 7 8\n"} {
		got := Snapshot(tree(map[string]string{"proc/loadavg": "x\n", "proc/stat": stat}))
		if got != (Load{}) {
			t.Errorf("/proc/stat with %q: %+v", stat, got)
		}
		later := Load{Times: Times{User: 500, Idle: 500, Steal: 500}}
		f, _ := Foreign(got, later, 0, 1)
		if u := Between(got, later); u != (Usage{}) || f != 0 {
			t.Errorf("usage since a missing snapshot: %+v, %v by others", u, f)
		}
	}
}

func TestBetween(t *testing.T) {
	start := Load{Times: Times{User: 1000, System: 500, Idle: 8000, Steal: 100}}
	tests := []struct {
		name string
		end  Times
		want Usage
	}{
		{"nothing passed", start.Times, Usage{}},
		{"idle", Times{1000, 500, 8100, 100}, Usage{}},
		{"a quarter busy, an eighth stolen", Times{1010, 510, 8050, 110}, Usage{Busy: 0.25, Steal: 0.125}},
		{"all busy", Times{1060, 540, 8000, 100}, Usage{Busy: 1}},
		{"idle steps back", Times{1050, 500, 7990, 150}, Usage{Busy: 0.5, Steal: 0.5}},
	}
	for _, tt := range tests {
		if got := Between(start, Load{Times: tt.end}); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestBetweenGivesShares checks that shares are between 0 and 1 for arbitrary counters.
func TestBetweenGivesShares(t *testing.T) {
	times := rapid.Custom(func(t *rapid.T) Load {
		tick := rapid.Uint64()
		return Load{Times: Times{tick.Draw(t, "user"), tick.Draw(t, "system"), tick.Draw(t, "idle"), tick.Draw(t, "steal")}}
	})
	rapid.Check(t, func(t *rapid.T) {
		u := Between(times.Draw(t, "a"), times.Draw(t, "b"))
		if !(u.Busy >= 0 && u.Steal >= 0 && u.Busy+u.Steal <= 1+1e-12) {
			t.Fatalf("%+v", u)
		}
	})
}

func FuzzParseTimes(f *testing.F) {
	f.Add("cpu  100 20 30 400 50 6 7 80 9 10")
	f.Add("cpu")
	f.Fuzz(func(_ *testing.T, l string) { parseTimes(l) })
}

// Files of the kernel with any content give counts that are possible.
func FuzzProc(f *testing.F) {
	f.Add("cpu  100 20 30 400 50 6 7 80 9 10", "0-3,8,10-11")
	f.Add("0.5 total=12", "3-1")
	f.Add("NaN 1", "0-2147483647,")
	f.Fuzz(func(t *testing.T, load, cpus string) {
		now := Snapshot(tree(map[string]string{"proc/loadavg": load, "proc/stat": load, "proc/pressure/cpu": load}))
		if u := Between(Load{Times: Times{User: 1}}, now); !(u.Busy >= 0 && u.Steal >= 0 && u.Busy+u.Steal <= 1+1e-9) {
			t.Errorf("%q gives %+v and %+v", load, now, u)
		}
		if n := countCPUs(cpus); n < 0 || n == 0 && cpus == "0" {
			t.Errorf("%q: %d processors", cpus, n)
		}
	})
}

func TestStalled(t *testing.T) {
	root := tree(map[string]string{"proc/pressure/cpu": "some avg10=1.20 avg60=0.00 avg300=0.00 total=4711\n"})
	if got := Snapshot(root).Stalled; got != 4711 {
		t.Errorf("stalled %d", got)
	}
}

func TestForeign(t *testing.T) {
	before := Load{Times: Times{User: 1000, System: 500, Idle: 8000, Steal: 100}}
	after := Load{Times: Times{User: 1150, System: 550, Idle: 8200, Steal: 100}} // 200 busy of 400
	for name, tt := range map[string]struct {
		own       uint64
		processes int
		want      float64
		known     bool
	}{
		"all is ours":              {200, 4, 0, true},
		"more than all":            {300, 4, 0, true},
		"within the rounding":      {185, 4, 0, true},
		"half of it is others'":    {100, 4, 0.25, true},
		"many processes' rounding": {100, 50, 0, false},
	} {
		if got, known := Foreign(before, after, tt.own, tt.processes); got != tt.want || known != tt.known {
			t.Errorf("%s: %v, known %v, want %v", name, got, known, tt.want)
		}
	}
	if got, known := Foreign(after, before, 0, 1); got != 0 || known {
		t.Errorf("counters that step back: %v", got)
	}
	// A launch of a few milliseconds on a saturated host: the ticks cannot tell.
	soon := Load{Times: Times{User: 1002, System: 500, Idle: 8000, Steal: 100}}
	if got, known := Foreign(before, soon, 0, 3); got != 0 || known {
		t.Errorf("a short launch: %v is claimed to be known", got)
	}
}
