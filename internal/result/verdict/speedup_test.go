package verdict

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// peerRows returns 12 trials with a time for each size. Both sides of a pair share a drift; their
// noise is independent.
func peerRows(peer bool, noise float64, us map[int64]float64) (rows []journal.Row) {
	ranks := 2
	for trial := range 12 {
		drift := 1 + 0.3*math.Sin(float64(trial))
		wobble := 1 + noise*float64((trial*7+len(us))%5-2)
		for size, t := range us {
			r := journal.Row{Status: journal.OK, Trial: trial, Metrics: map[string]float64{"time_us": t * drift * wobble}}
			r.Point = point.Point{{Name: "size", Value: point.BytesValue(size)}}
			if peer {
				r.Point = append(r.Point, point.Coord{Name: "np", Value: point.IntValue(2)})
			} else {
				r.NumRanks = &ranks
				r.Metrics["pct_of_limit"] = 80
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func TestSpeedups(t *testing.T) {
	ours := sideOf("ours", nil, dataset.All(peerRows(false, 0, map[int64]float64{4: 1, 1024: 2, 4096: 10})))
	fast := sideOf("fast", nil, dataset.All(peerRows(true, 0.001, map[int64]float64{4: 4, 1024: 8, 4096: 9, 1 << 20: 1})))
	slow := sideOf("slow", nil, dataset.All(peerRows(true, 0.001, map[int64]float64{4: 5, 1024: 6, 4096: 50})))
	tables := must.Get(Speedups(ours, []dataset.Named{fast, slow}, Goals{Mean: 2}))(t)
	if len(tables) != 1 || tables[0].Ranks != 2 || len(tables[0].Lines) != 3 {
		t.Fatalf("tables are %+v", tables)
	}
	tab := tables[0]
	want := []struct {
		peer    string
		ratio   float64
		outcome judge.Outcome
	}{{"fast", 4, judge.Met}, {"slow", 3, judge.Met}, {"fast", 0.9, judge.NotMet}}
	for i, w := range want {
		l := tab.Lines[i]
		if l.Peer != w.peer || math.Abs(l.Ratio.Median/w.ratio-1) > 0.01 || l.Outcome != w.outcome || l.Ratio.Pairs != 12 ||
			l.OfLimit != 80 {
			t.Errorf("%v: %+v, want %v by %s, %s", l.Point, l, w.ratio, w.peer, w.outcome)
		}
		// Every time has a drift of a third, which must cancel in the ratio.
		if l.Ratio.High-l.Ratio.Low > 0.02*w.ratio {
			t.Errorf("%v: the interval %v to %v has the drift in it", l.Point, l.Ratio.Low, l.Ratio.High)
		}
	}
	if got, want := tab.Geomean.Median, math.Cbrt(4*3*0.9); math.Abs(got/want-1) > 0.01 {
		t.Errorf("the geometric mean is %v, want %v", got, want)
	}
	if tab.Least != judge.NotMet || tab.Mean != judge.Met {
		t.Errorf("slower at no size: %s, twice as fast: %s", tab.Least, tab.Mean)
	}
	if tables, _ = Speedups(ours, []dataset.Named{fast, slow}, Goals{Mean: 3}); tables[0].Mean != judge.NotMet {
		t.Errorf("three times as fast: %s", tables[0].Mean)
	}
}

// TestSpeedupConvertsUnits checks that times in another unit are converted, or are not compared.
func TestSpeedupConvertsUnits(t *testing.T) {
	us := map[int64]float64{4: 1, 1024: 2}
	ours := sideOf("ours", nil, dataset.All(peerRows(false, 0, us)))
	for unit, want := range map[string]judge.Outcome{"ms": judge.NotMet, "cycles": judge.NotComparable} {
		peer := sideOf("peer", nil, dataset.All(peerRows(true, 0, map[int64]float64{4: 0.5e-3, 1024: 1e-3})))
		for i := range peer.Rows {
			peer.Rows[i].Units = map[string]string{"time_us": unit}
		}
		table := must.Get(Speedups(ours, []dataset.Named{peer}, Goals{Mean: 1}))(t)[0]
		if table.Least != want || table.Mean != want {
			t.Errorf("%s: %s and %s, want %s", unit, table.Least, table.Mean, want)
		}
		if r := table.Lines[0].Ratio.Median; unit == "ms" && math.Abs(r-0.5) > 1e-9 {
			t.Errorf("%s: ratio %v, want 0.5", unit, r)
		}
	}
}

// TestPeersOfOneName checks that two peers with the same name both count.
func TestPeersOfOneName(t *testing.T) {
	ours := sideOf("ours", nil, dataset.All(peerRows(false, 0, map[int64]float64{4: 1, 1024: 1})))
	first := sideOf("mpi", nil, dataset.All(peerRows(true, 0, map[int64]float64{4: 2})))
	second := sideOf("mpi", nil, dataset.All(peerRows(true, 0, map[int64]float64{4: 3, 1024: 5})))
	tables, err := Speedups(ours, []dataset.Named{first, second}, Goals{Mean: 1})
	if err != nil || len(tables[0].Lines) != 2 || math.Abs(tables[0].Lines[0].Ratio.Median-2) > 1e-9 ||
		math.Abs(tables[0].Lines[1].Ratio.Median-5) > 1e-9 {
		t.Errorf("%+v, %v", tables, err)
	}
}

// TestNotResolved checks that noise around the goal and too few pairs give no decision.
func TestNotResolved(t *testing.T) {
	ours := sideOf("ours", nil, dataset.All(peerRows(false, 0, map[int64]float64{4: 1})))
	equal := sideOf("equal", nil, dataset.All(peerRows(true, 0.05, map[int64]float64{4: 1})))
	tables, err := Speedups(ours, []dataset.Named{equal}, Goals{Mean: 1})
	if err != nil || tables[0].Lines[0].Outcome != judge.NotResolved {
		t.Errorf("noise around 1: %+v, %v", tables, err)
	}
	few := ours
	few.Rows = few.Rows[:judge.MinPairs-1]
	far := sideOf("far", nil, dataset.All(peerRows(true, 0, map[int64]float64{4: 100})))
	tables, err = Speedups(few, []dataset.Named{far}, Goals{Mean: 1})
	if err != nil || tables[0].Least != judge.NotResolved || tables[0].Mean != judge.NotResolved {
		t.Errorf("%d pairs: %+v, %v", judge.MinPairs-1, tables, err)
	}
}

func TestSettings(t *testing.T) {
	two := peerRows(true, 0, map[int64]float64{4: 2})
	for i := range two {
		two[i].Point = append(two[i].Point, point.Coord{Name: "seconds", Value: point.FloatValue(0.3)})
	}
	if tables, err := Speedups(sideOf("ours", nil, dataset.All(peerRows(false, 0, map[int64]float64{4: 1}))),
		[]dataset.Named{sideOf("mpi", nil, dataset.All(two))},
		Goals{Mean: 1}); err != nil || tables[0].Lines[0].Peer != "mpi" {
		t.Errorf("an axis that does not vary is in the name: %+v, %v", tables, err)
	}
	tuned := peerRows(true, 0, map[int64]float64{4: 2})
	for i := range tuned {
		tuned[i].Env = point.Env{{Name: "TUNED", Value: "1", Set: true}}
	}
	plain := peerRows(true, 0, map[int64]float64{4: 3})
	for i := range plain {
		plain[i].Env = point.Env{{Name: "TUNED"}}
	}
	tables, err := Speedups(sideOf("ours", nil, dataset.All(peerRows(false, 0, map[int64]float64{4: 1}))),
		[]dataset.Named{sideOf("mpi", nil, dataset.All(append(plain, tuned...)))},
		Goals{Mean: 1})
	if err != nil || tables[0].Lines[0].Peer != "mpi TUNED=1" {
		t.Errorf("the best setting of a peer: %+v, %v", tables, err)
	}
	if _, err := Speedups(sideOf("mpi", nil, dataset.All(append(plain, tuned...))),
		[]dataset.Named{sideOf("mpi", nil, dataset.All(plain))},
		Goals{Mean: 1}); err == nil ||
		!strings.Contains(err.Error(), "2 settings") {
		t.Errorf("two settings of ours give %v", err)
	}
	twice := append(peerRows(false, 0, map[int64]float64{4: 1}), peerRows(false, 0, map[int64]float64{4: 1})...)
	if _, err := Speedups(sideOf("ours", nil, dataset.All(twice)), []dataset.Named{sideOf("mpi", nil, dataset.All(plain))},
		Goals{Mean: 1}); err == nil || !strings.Contains(err.Error(), "two rows") {
		t.Errorf("rows given twice give %v", err)
	}
	if _, err := Speedups(sideOf("ours", nil, nil), []dataset.Named{sideOf("mpi", nil, dataset.All(plain))},
		Goals{Mean: 1}); err == nil || !strings.Contains(err.Error(), "ours has no ok row with the metric time_us") {
		t.Errorf("no rows give %v", err)
	}
	if tables, err := Speedups(sideOf("ours", nil, dataset.All(peerRows(false, 0, map[int64]float64{4: 1})[:1])),
		[]dataset.Named{sideOf("mpi", nil, dataset.All(plain))}, Goals{Mean: 1}); err != nil ||
		tables[0].Lines[0].Ratio.Pairs != 1 {
		t.Errorf("one row: %+v, %v", tables, err)
	}
	other := peerRows(true, 0, map[int64]float64{8: 3})
	if _, err := Speedups(sideOf("ours", nil, dataset.All(peerRows(false, 0, map[int64]float64{4: 1}))),
		[]dataset.Named{sideOf("mpi", nil, dataset.All(other))},
		Goals{Mean: 1}); err == nil {
		t.Error("nothing in common is no error")
	}
}

// shaped returns 12 trials of shapes and element types, with one more axis.
func shaped(extra string, us map[string]float64) (rows []journal.Row) {
	one := 1
	for trial := range 12 {
		for at, t := range us {
			f := strings.Fields(at)
			shape, err := point.Parse(point.Tuple, f[0])
			if err != nil {
				panic(err)
			}
			r := journal.Row{Status: journal.OK, Trial: trial, NumRanks: &one,
				Metrics: map[string]float64{"time_us": t * (1 + 0.001*float64(trial))}}
			r.Point = point.Point{{Name: "shape", Value: shape}, {Name: "dtype", Value: point.StringValue(f[1])},
				{Name: extra, Value: point.StringValue(extra)}}
			rows = append(rows, r)
		}
	}
	return rows
}

// TestCommonAxes checks that rows pair by all common axes, independent of their kinds and labels.
func TestCommonAxes(t *testing.T) {
	ours := sideOf("ours", nil, dataset.All(shaped("provider",
		map[string]float64{"64x64x64 f32": 1, "big=512x512x512 f32": 10, "64x64x64 f64": 2, "8x8x8 f32": 1})))
	peer := sideOf("peer", nil, dataset.All(shaped("seconds",
		map[string]float64{"64x64x64 f32": 3, "512x512x512 f32": 9.5, "64x64x64 f64": 4})))
	tables, err := Speedups(ours, []dataset.Named{peer}, Goals{Least: 0.9, Mean: 1})
	if err != nil || len(tables) != 1 {
		t.Fatalf("%+v, %v", tables, err)
	}
	want := []struct {
		point string
		ratio float64
	}{{"shape=64x64x64 dtype=f32", 3}, {"shape=64x64x64 dtype=f64", 2}, {"shape=big=512x512x512 dtype=f32", 0.95}}
	if len(tables[0].Lines) != len(want) {
		t.Fatalf("lines are %+v", tables[0].Lines)
	}
	for i, l := range tables[0].Lines {
		if l.Point.String() != want[i].point || math.Abs(l.Ratio.Median/want[i].ratio-1) > 1e-9 || l.Outcome != judge.Met {
			t.Errorf("line %d: %v, %v %s, want %v", i, l.Point, l.Ratio, l.Outcome, want[i])
		}
	}
	for i := range peer.Rows {
		peer.Rows[i].NumRanks = nil // like a program that starts its own ranks
	}
	tables, _ = Speedups(ours, []dataset.Named{peer}, Goals{Mean: 1})
	if tables[0].Ranks != 0 || tables[0].Least != judge.NotMet {
		t.Errorf("not slower anywhere: %s", tables[0].Least)
	}
}

// TestExcept checks that axes in Except need not agree.
func TestExcept(t *testing.T) {
	half := sideOf("bf16", nil, dataset.All(shaped("provider", map[string]float64{"64x64x64 bf16": 1})))
	full := sideOf("f32", nil, dataset.All(shaped("provider", map[string]float64{"64x64x64 f32": 2})))
	if _, err := Speedups(half, []dataset.Named{full}, Goals{}); err == nil ||
		!strings.Contains(err.Error(), "common axes are: shape, dtype") {
		t.Errorf("other types pair: %v", err)
	}
	tables, err := Speedups(half, []dataset.Named{full}, Goals{Mean: 1.6, Except: []string{"dtype"}})
	if err != nil || tables[0].Mean != judge.Met ||
		tables[0].Lines[0].Point.String() != "shape=64x64x64 provider=provider" {
		t.Errorf("%+v, %v", tables, err)
	}
}

// TestDisturbedPairs checks that disturbed trials of either side take no part: nothing is
// decided about a point if too few are left, and the table says why.
func TestDisturbedPairs(t *testing.T) {
	disturb := func(run dataset.Named, n int) dataset.Named {
		rows := run.Rows.Clone()
		for i := range rows {
			if rows[i].Trial < n {
				rows[i].Quality = journal.QualityDisturbed
				rows[i].Conditions = journal.Conditions{journal.NewCondition(journal.CodeSteal, journal.Named{"share": 0.5})}
				rows[i].Metrics = map[string]float64{dataset.TimeMetric: 1000}
			}
		}
		return sideOf(run.Name, nil, rows)
	}
	ours := sideOf("ours", nil, dataset.All(peerRows(false, 0, map[int64]float64{4: 1})))
	peer := sideOf("mpi", nil, dataset.All(peerRows(true, 0.001, map[int64]float64{4: 2})))
	other := sideOf("other", nil, dataset.All(peerRows(true, 0.001, map[int64]float64{4: 3})))
	for _, c := range []struct {
		name  string
		ours  dataset.Named
		peers []dataset.Named
		want  judge.Outcome
		note  string
	}{
		{"two of ours", disturb(ours, 2), []dataset.Named{peer}, judge.Met,
			"ours: 2 of 12 trials left out (steal)"},
		{"all of ours", disturb(ours, 12), []dataset.Named{peer}, judge.NotResolved,
			"not resolved: 0 undisturbed pairs with mpi, and at least 10 are needed"},
		{"all of one peer", ours, []dataset.Named{disturb(peer, 12), other}, judge.NotResolved,
			"not resolved: 0 undisturbed pairs with mpi"},
		{"three of a peer", ours, []dataset.Named{disturb(peer, 3)}, judge.NotResolved,
			"not resolved: 9 undisturbed pairs with mpi"},
	} {
		tab := must.Get(Speedups(c.ours, c.peers, Goals{Mean: 1}))(t)[0]
		var b bytes.Buffer
		must.Do(t, tab.Write(&b, "ours", Goals{Mean: 1}, 0))
		if tab.Least != c.want || tab.Mean == judge.Met && c.want != judge.Met ||
			!strings.Contains(b.String(), c.note) {
			t.Errorf("%s: %s, mean %s, want %s and %q in\n%s", c.name, tab.Least, tab.Mean, c.want, c.note, b.String())
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "1000") {
			t.Errorf("%s: the table shows disturbed times:\n%s", c.name, b.String())
		}
	}
}

// TestFailedPoints checks that a point where our program failed keeps the goal from being met, and that a point where a
// peer failed is compared with the others.
func TestFailedPoints(t *testing.T) {
	us := map[int64]float64{4: 1, 1024: 2}
	ours := sideOf("ours", nil, dataset.All(peerRows(false, 0, us)))
	cutShort(ours)
	slow := sideOf("slow", nil, dataset.All(peerRows(true, 0, map[int64]float64{4: 3, 1024: 9})))
	other := sideOf("other", nil, dataset.All(peerRows(true, 0, map[int64]float64{4: 2, 1024: 1})))
	failing := func(rows dataset.Set) {
		for i, r := range rows {
			if r.Point.At("size").Int() == 1024 {
				rows[i].Status, rows[i].Reason, rows[i].Metrics = journal.Failed, "no memory", nil
			}
		}
	}
	failing(other.Rows)
	table := must.Get(Speedups(ours, []dataset.Named{slow, other}, Goals{Mean: 1}))(t)[0]
	if table.Least != judge.Met || len(table.Lines) != 2 || table.Lines[1].Peer != "slow" {
		t.Errorf("a peer failed: %+v", table)
	}
	var b bytes.Buffer
	must.Do(t, table.Write(&b, "ours", Goals{Mean: 1}, 0))
	if !strings.Contains(b.String(), "\nwarning: ours: "+isCutShort+"\n") {
		t.Errorf("an incomplete run is not told:\n%s", b.String())
	}
	failing(ours.Rows)
	table = must.Get(Speedups(ours, []dataset.Named{slow}, Goals{Mean: 1}))(t)[0]
	if table.Least != judge.NotResolved || len(table.Lines) != 2 || table.Lines[0].Outcome != judge.Met ||
		!slices.Contains(table.Lines[1].Notes, "ours: 12 of 12 trials left out (failed: no memory)") {
		t.Errorf("our program failed: %+v", table)
	}
}

// TestSpeedupAcrossMachines checks that peers on another CPU are not comparable.
func TestSpeedupAcrossMachines(t *testing.T) {
	ours := sideOf("ours", machineHeader("a"), dataset.All(peerRows(false, 0, map[int64]float64{4: 1})))
	peer := sideOf("mpi", machineHeader("b"), dataset.All(peerRows(true, 0.001, map[int64]float64{4: 2})))
	peer.Header.Host.CPU.Model = "EPYC 9654"
	tab := must.Get(Speedups(ours, []dataset.Named{peer}, Goals{Mean: 1}))(t)[0]
	var b bytes.Buffer
	must.Do(t, tab.Write(&b, "ours", Goals{Mean: 1}, 0))
	if tab.Least != judge.NotComparable || tab.Mean != judge.NotComparable ||
		!strings.Contains(b.String(), "mpi differs in cpu: Xeon 6338 -> EPYC 9654 (not comparable") {
		t.Errorf("%s, %s:\n%s", tab.Least, tab.Mean, b.String())
	}
	if tab := must.Get(Speedups(ours, []dataset.Named{peer},
		Goals{Mean: 1, Ignore: []string{"cpu"}}))(t)[0]; tab.Least != judge.Met {
		t.Errorf("ignored: %s", tab.Least)
	}
	if _, err := Speedups(ours, []dataset.Named{peer}, Goals{Ignore: []string{"cpuu"}}); err == nil ||
		!strings.Contains(err.Error(), `did you mean "cpu"?`) {
		t.Errorf("an unknown difference gives %v", err)
	}
}

func TestSpeedupTableWrite(t *testing.T) {
	nan := math.NaN()
	size := func(n int64) point.Point { return point.Point{{Name: "size", Value: point.BytesValue(n)}} }
	table := SpeedupTable{Ranks: 2, Lines: []Speedup{
		{Point: size(1 << 20), Ours: 70, Theirs: 281, Peer: "openmpi",
			Ratio: judge.Ratio{Median: 4.01, Low: 3.8765, High: 4.2345, Pairs: 10}, OfLimit: 81.4, Outcome: judge.Met},
		{Point: size(4), Ours: 0.256, Theirs: 0.51234, Peer: "mpich",
			Ratio: judge.Ratio{Median: 2, Low: nan, High: nan, Pairs: 2}, Outcome: judge.NotResolved},
	}, Geomean: judge.Ratio{Median: 2.83, Low: 2.7, High: 2.9, Pairs: 10}, Least: judge.NotResolved, Mean: judge.NotMet}
	var b bytes.Buffer
	must.Do(t, table.Write(&b, "symmetric", Goals{Least: 1, Mean: 3.5}, 0))
	for _, want := range []string{
		"symmetric, 2 ranks:", "1Mi         70        281          4.01   3.88 to 4.23     10          81  met              " +
			"    openmpi",
		"4      0.256      0.512             2  too few pairs      2              not resolved         mpich",
		"not slower at any point: not resolved",
		"geometric mean 2.83 times faster (2.7 to 2.9), goal 3.5: not met (10 pairs)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing from\n%s", want, b.String())
		}
	}
}
