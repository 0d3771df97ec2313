package hostinfo

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSnapshot(t *testing.T) {
	root := tree(map[string]string{
		"proc/loadavg": "0.52 1.25 2.00 3/456 7890\n",
		"proc/stat":    "cpu  100 20 30 400 50 6 7 80 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
	})
	got, err := Snapshot(root)
	want := Load{Load1: 0.52, Load5: 1.25, Load15: 2, Times: Times{User: 120, System: 43, Idle: 450, Steal: 80}}
	if err != nil || got != want {
		t.Errorf("Snapshot = %+v, %v; want %+v", got, err, want)
	}
	if _, err := Snapshot(Root()); err != nil {
		t.Errorf("of this machine: %v", err)
	}
}

func TestSnapshotErrors(t *testing.T) {
	const averages, stat = "0.5 1 2 3/4 5\n", "cpu 1 2 3 4 5 6 7 8\n"
	tests := map[string]struct{ averages, stat, names string }{
		"no averages":    {"", stat, "/proc/loadavg"},
		"two averages":   {"1 2\n", stat, "/proc/loadavg"},
		"no number":      {"1 x 3\n", stat, "/proc/loadavg"},
		"no times":       {averages, "", "/proc/stat"},
		"few times":      {averages, "cpu 1 2 3 4\n", "/proc/stat"},
		"one processor":  {averages, "cpu0 1 2 3 4 5 6 7 8\n", "/proc/stat"},
		"negative ticks": {averages, "cpu 1 2 3 -4 5 6 7 8\n", "/proc/stat"},
	}
	for name, tt := range tests {
		_, err := Snapshot(tree(map[string]string{"proc/loadavg": tt.averages, "proc/stat": tt.stat}))
		if err == nil || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("%s: error %v does not name %s", name, err, tt.names)
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

// Whatever the counters do, the shares are shares.
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
	f.Fuzz(func(t *testing.T, l string) {
		if times, err := parseTimes(l); err != nil && times != (Times{}) {
			t.Fatalf("%q gave both %+v and %v", l, times, err)
		}
	})
}

func TestForeign(t *testing.T) {
	before := Load{Times: Times{User: 1000, System: 500, Idle: 8000, Steal: 100}}
	after := Load{Times: Times{User: 1150, System: 550, Idle: 8200, Steal: 100}} // 200 busy of 400
	for name, tt := range map[string]struct {
		own       uint64
		processes int
		want      float64
	}{
		"all is ours":              {200, 4, 0},
		"more than all":            {300, 4, 0},
		"too little to tell":       {185, 4, 0},
		"half of it is others'":    {100, 4, 0.25},
		"many processes' rounding": {100, 50, 0},
	} {
		if got := Foreign(before, after, tt.own, tt.processes); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if got := Foreign(after, before, 0, 1); got != 0 {
		t.Errorf("counters that step back: %v", got)
	}
}
