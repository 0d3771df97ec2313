package model

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Between two points the time lies between theirs and is exact for power laws. At a point it is the
// point's, and outside there is none.
func TestInterpolation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		power := rapid.Float64Range(0, 1.2).Draw(t, "power")
		law := func(b int64) float64 { return 3 * math.Pow(float64(b), power) }
		table := &Table{Name: "law", Ranks: map[int][]TablePoint{2: nil}}
		at := int64(64)
		for range rapid.IntRange(1, 6).Draw(t, "points") {
			table.Ranks[2] = append(table.Ranks[2], TablePoint{at, law(at)})
			at += rapid.Int64Range(1, 5000).Draw(t, "step")
		}
		points := table.Ranks[2]
		last := points[len(points)-1].Bytes
		b := rapid.Int64Range(64, last).Draw(t, "bytes")
		got, err := table.US(2, b)
		if err != nil || math.Abs(got/law(b)-1) > 1e-9 {
			t.Fatalf("%d bytes: %v, %v, want %v", b, got, err, law(b))
		}
		for _, out := range []int64{63, last + 1, 0} {
			if _, err := table.US(2, out); err == nil || !strings.Contains(err.Error(), "nothing is extrapolated") {
				t.Fatalf("%d bytes are outside 64..%d: %v", out, last, err)
			}
		}
	})
}

func TestNamedCurves(t *testing.T) {
	for _, name := range CurveNames() {
		c, err := NamedCurve(name)
		if err != nil || c.Source == "" || len(c.Ranks) == 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
			continue
		}
		for ranks, points := range c.Ranks {
			for i, p := range points {
				if i > 0 && (p.Bytes <= points[i-1].Bytes || p.US < 0.85*points[i-1].US) {
					t.Errorf("%s, %d ranks: %+v after %+v", name, ranks, p, points[i-1])
				}
			}
		}
	}
	// The bus bandwidths that the sources print next to their times.
	for _, c := range []struct {
		curve string
		ranks int
		bytes int64
		busbw float64
	}{{"nccl-h100", 2, 64 * mib, 264}, {"nccl-h100", 8, 512 * mib, 445}, {"nccl-h200", 4, 16 * mib, 255},
		{"nccl-h200", 8, 512 * mib, 461}, {"nccl-h100", 4, mib, 87}} {
		table, _ := NamedCurve(c.curve)
		us, err := table.US(c.ranks, c.bytes)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := (Sample{Series: series("", c.ranks), Bytes: c.bytes, TimeUS: us}).BusBW(); math.Abs(got/c.busbw-1) > 0.01 {
			t.Errorf("%s, %d ranks, %d bytes: busbw %v, published %v", c.curve, c.ranks, c.bytes, got, c.busbw)
		}
	}
	if _, err := NamedCurve("nccl-h10"); err == nil || !strings.Contains(err.Error(), "nccl-h100") {
		t.Errorf("a misspelt curve: %v", err)
	}
	staged, _ := NamedCurve("staged-h100")
	if _, err := staged.US(8, 64*mib); err == nil || !strings.Contains(err.Error(), "no 8 ranks, only 2") {
		t.Errorf("ranks that were not measured: %v", err)
	}
}

func TestTableOf(t *testing.T) {
	rows := []journal.Row{row("ring", dtype.BF16, 2, 1024, 9), row("tree", dtype.BF16, 2, 1024, 7),
		row("ring", dtype.F32, 2, 1024, 1),
		row("ring", dtype.BF16, 2, 4096, 11), row("ring", dtype.BF16, 4, 1024, 20)}
	samples := SamplesOf(dataset.All(rows))
	best := must.Get(TableOf("t", "s", BestAlgorithm, samples))(t)
	if us, _ := best.US(2, 1024); us != 7 { // of the 16-bit types
		t.Errorf("the best at 1 KiB is %v", us)
	}
	// A curve of the run's own times has a warning if the times are from few launches or have not settled.
	for want, change := range map[string]func(*Sample){"s": func(*Sample) {},
		"s, the fastest of few launches at 3 of 3 sizes": func(s *Sample) { s.Launches = 1 },
		"s, of whose 3 times 3 have not settled":         func(s *Sample) { s.HighUS = 9 * s.TimeUS }} {
		own := line(series("ring", 2), 5, 1, 0, powers(10, 12), nil)
		for i := range own {
			change(&own[i])
		}
		if got := must.Get(TableOf("t", "s", BestAlgorithm, own))(t).Source; got != want {
			t.Errorf("source %q, want %q", got, want)
		}
	}
	several := slices.Clone(samples)
	for i := range several {
		several[i].Device = []string{"NVIDIA H100", "AMD MI300X"}[i%2]
	}
	if _, err := TableOf("t", "s", "ring", several); err == nil || !strings.Contains(err.Error(), "is of one device") {
		t.Errorf("two devices made a curve: %v", err)
	}
	ring := must.Get(TableOf("t", "s", "ring", samples))(t)
	if us, _ := ring.US(2, 1024); us != 9 || ring.Floor(2) != 9 {
		t.Errorf("ring at 1 KiB is %v", us)
	}
	if _, err := TableOf("t", "s", "rng", samples); err == nil || !strings.Contains(err.Error(), "ring, tree") {
		t.Errorf("an algorithm that did not run: %v", err)
	}
	for i := range rows[:2] {
		rows[i].Details = map[string]string{journal.SharingDetail: "2"}
	}
	if _, err := TableOf("t", "s", BestAlgorithm, SamplesOf(dataset.All(rows))); err == nil ||
		!strings.Contains(err.Error(), "a curve cannot mix them") {
		t.Errorf("ranks that shared a GPU and ranks that did not make a curve: %v", err)
	}
	shared, err := TableOf("t", "s", BestAlgorithm, SamplesOf(dataset.All(rows[:2])))
	if err != nil || !shared.Shared || !strings.Contains(shared.Source, "not of a link") {
		t.Errorf("a curve of a shared GPU: %+v, %v", shared, err)
	}
	a, b := SamplesOf(dataset.All(rows[1:2]))[0], SamplesOf(dataset.All(rows[2:3]))[0]
	if a.Series == b.Series || !a.ThroughMemory() || b.ThroughMemory() {
		t.Errorf("%v and %v are one series", a.Series, b.Series)
	}
}
