package collectives

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Limits of a scripted host with 20 GB/s for two cores and 0.5 us per hop.
func TestLimits(t *testing.T) {
	of := func(op string, ranks int) shape {
		return shape{op: op, dtype: dtype.F32, count: 1000, ranks: ranks}
	}
	for _, c := range []struct {
		sh              shape
		algorithm       string
		bandwidth, hops float64
	}{
		// Both ranks load 1.5 vectors and store 1 vector of 4000 bytes: 20 kB at 20 GB/s.
		{of(allReduce, 2), "two-stage", 1, 1},
		// Both ranks load 2 vectors and store 1: 24 kB.
		{of(allReduce, 2), "one-stage", 1.2, 0.5},
		// More ranks than cores get no more bandwidth: 4 x (4 + 1) vectors.
		{of(allReduce, 4), "one-stage", 4, 0.5},
		{of(sendRecv, 2), "", 0.8, 0.5},
		{shape{op: barrier, dtype: dtype.F32, ranks: 2}, "direct", 0, 0.5},
		{shape{op: barrier, dtype: dtype.F32, ranks: 1}, "direct", 0, 0},
	} {
		l, err := limitsOf(scripted(), c.sh, c.algorithm)
		if err != nil {
			t.Errorf("%+v: %v", c.sh, err)
			continue
		}
		if len(l) != 2 || math.Abs(l[0].US-c.bandwidth) > 1e-9 || math.Abs(l[1].US-c.hops) > 1e-9 {
			t.Errorf("%s %s: limits %+v, want %v and %v", c.sh.op, c.algorithm, l, c.bandwidth, c.hops)
		}
	}
	if _, err := limitsOf(scripted(), of(allReduce, 2), "nonsense"); err == nil {
		t.Error("an unknown algorithm has a limit")
	}
}

// The limit of data that crosses between private memories, on a host that exchanges 8 GB/s per core
// between caches and 4 GB/s from memory.
func TestExchangeLimit(t *testing.T) {
	p := scripted()
	p.Exchange = []probe.Cell{{Cores: 2, Bytes: 1000, GBps: 8}, {Cores: 2, Bytes: 4000, GBps: 4}}
	for _, c := range []struct {
		op, algorithm, buffers string
		ranks                  int
		inPlace                bool
		want                   float64
	}{
		// A rank reads half of a vector of 4000 bytes, then half of the sum: 0.5 us. Its input and
		// output, 8000 bytes, add 4000 x (1/4 - 1/8) ns.
		{op: allReduce, algorithm: "two-stage", buffers: private, ranks: 2, want: 1},
		{op: allReduce, algorithm: "one-stage", buffers: private, ranks: 2, want: 1},
		{op: sendRecv, buffers: private, ranks: 2, want: 1},
		// In place, the buffers are half as large.
		{op: allReduce, algorithm: "two-stage", buffers: private, ranks: 2, inPlace: true, want: 0.75},
		{op: allReduce, algorithm: "two-stage", buffers: symmetric, ranks: 2},
		// Exchanges between more ranks than cores have not been probed.
		{op: allReduce, algorithm: "two-stage", buffers: private, ranks: 3},
	} {
		l, err := limitsOf(p, shape{op: c.op, dtype: dtype.F32, count: 1000, ranks: c.ranks, buffers: c.buffers,
			inPlace: c.inPlace}, c.algorithm)
		exchange := 0.0
		for _, limit := range l[min(2, len(l)):] {
			exchange += limit.US
		}
		if err != nil || math.Abs(exchange-c.want) > 1e-9 {
			t.Errorf("%+v: %+v and %v", c, l, err)
		}
	}
}

// owner is the inverse of dist.Block.
func TestOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 70).Draw(t, "ranks")
		count := rapid.IntRange(1, 5000).Draw(t, "count")
		position := rapid.IntRange(0, count-1).Draw(t, "position")
		rank := owner(count, ranks, position)
		if off, n := dist.Block(count, ranks, rank); position < off || position >= off+n {
			t.Fatalf("position %d of %d is not in block %d of %d: %d elements from %d", position, count, rank, ranks, n, off)
		}
	})
}

func timed(algorithm string, size int64, us float64) journal.Row {
	ranks := 2
	return journal.Row{Status: journal.OK, NumRanks: &ranks,
		Point: point.Point{{Name: "op", Value: point.StringValue(allReduce)},
			{Name: "algorithm", Value: point.StringValue(algorithm)},
			{Name: "dtype", Value: point.DTypeValue(dtype.F32)}, {Name: "reduction", Value: point.StringValue("sum")},
			{Name: "size", Value: point.BytesValue(size)},
			{Name: "inplace", Value: point.BoolValue(false)}, {Name: "buffers", Value: point.StringValue(symmetric)}},
		Metrics: map[string]float64{"time_us": us, "busbw": float64(size) / us / 1e3},
		Limits:  map[string]float64{"bandwidth": us / 2, "hops": 0.1},
		Details: map[string]string{"algorithm": "one-stage"}}
}

// settledRow returns a row whose interval is one per cent to either side.
func settledRow(algorithm string, size int64, us float64) journal.Row {
	r := timed(algorithm, size, us)
	low, high := us*0.99, us*1.01
	r.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {Min: low, P50: us, Max: high, CILow: &low,
		CIHigh: &high}})
	r.Samples, r.Kind = 40, journal.Measured
	return r
}

// repeated returns each row as four trials, one per cent to either side of its time.
func repeated(rows ...journal.Row) (out []journal.Row) {
	for trial, factor := range []float64{0.99, 1, 1, 1.01} {
		for _, r := range rows {
			r.Trial, r.Metrics = trial, map[string]float64{"time_us": r.Metrics["time_us"] * factor}
			out = append(out, r)
		}
	}
	return out
}

func TestRegret(t *testing.T) {
	once := []journal.Row{settledRow(auto, 1024, 3), settledRow("one-stage", 1024, 2), settledRow("ring", 1024, 9),
		settledRow(auto, 4096, 5), settledRow("one-stage", 4096, 6), settledRow(auto, 8192, 5.05),
		settledRow("one-stage", 8192, 5)}
	if secs := sections(dataset.All(once)); len(secs) != 1 || secs[0].Table != nil ||
		secs[0].Text != "Not known. 3 points not resolved: fewer than 4 undisturbed launches (--trials 4 makes more)." {
		t.Errorf("one launch of each: %+v", secs)
	}
	rows := repeated(once...)
	all, left := regrets(dataset.All(rows))
	if len(all) != 3 || left != (unranked{}) || all[0].best != "one-stage" || all[0].factor != 1.5 ||
		all[1].best != auto ||
		all[1].factor != 1 || all[2].factor != 1 {
		t.Errorf("regrets are %+v, left out %+v", all, left)
	}
	secs := sections(dataset.All(rows))
	if said := secs[0].Sentences; len(said) != 1 || said[0].ID != "regret" || len(said[0].Rows) != len(rows) {
		t.Errorf("the evidence is %+v", said)
	}
	if len(secs) != 1 || len(secs[0].Table) != 4 || secs[0].Table[1][5] != "50.0 %" ||
		secs[0].Table[1][6] != "+47.0 to +53.0 %" ||
		secs[0].Table[3][5] != "within noise" || !strings.Contains(benchtest.Text(secs[0]), "at most 50.0 %") {
		t.Errorf("sections are %+v", secs)
	}
	if sections(dataset.All(rows[:1])) != nil {
		t.Error("auto alone has a regret")
	}
	// A disturbed auto (a single sample, or a wide interval) causes no regret.
	single := timed(auto, 1024, 1000)
	single.Kind, single.Samples = journal.Measured, 1
	wide := settledRow(auto, 1024, 1000)
	low := 2.0
	st := wide.Stats.Get("time_us")
	st.CILow = &low
	wide.Stats = wide.Stats.With("time_us", st)
	for what, disturbed := range map[string]journal.Row{"a single sample": single, "a wide interval": wide} {
		rows := append([]journal.Row{disturbed, settledRow("one-stage", 1024, 2)},
			repeated(settledRow(auto, 4096, 5), settledRow("one-stage", 4096, 5))...)
		all, left := regrets(dataset.All(rows))
		text := benchtest.Text(sections(dataset.All(rows))[0])
		if len(all) != 1 || left.unsettled != 1 || !strings.Contains(text, "at most 0.0 %") ||
			!strings.Contains(text, "1 point left out") {
			t.Errorf("%s: %+v, %+v, %q", what, all, left, text)
		}
		if secs := sections(dataset.All(rows[:2])); len(secs) != 1 || !strings.HasPrefix(secs[0].Text,
			"Not known. 1 point left out") {
			t.Errorf("%s alone: %+v", what, secs)
		}
	}
}

func TestFigures(t *testing.T) {
	figs := benchtest.Figures(t, Bench(),
		dataset.All([]journal.Row{timed(auto, 4096, 5), timed(auto, 1024, 3), timed("ring", 1024, 9)}))
	if len(figs) != 2 {
		t.Fatalf("%d figures, want time and bandwidth", len(figs))
	}
	for _, f := range figs {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		p := f.Panels[0]
		if len(f.Panels) != 1 || len(p.Series) != 2 || len(p.Lines) != 1 || p.Series[0].Points[0].X != 1024 ||
			len(p.Lines[0].Points) != 2 {
			t.Errorf("%s: %+v", f.Name, p)
		}
	}
	if got := figs[0].Panels[0].Lines[0].Points[0].Y; got != 1.5 {
		t.Errorf("the limit at 1 KiB is drawn at %v us, want the least, 1.5", got)
	}
	if len(benchtest.Figures(t, Bench(), nil)) != 0 {
		t.Error("figures without rows")
	}
}
