package model

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
)

// rivalsAt are two algorithms whose lines cross at 50 kB: less latency against
// more bandwidth.
func rivalsAt(s Series) []Sample {
	small, large := s, s
	small.Algorithm, large.Algorithm = "one-stage", "ring"
	return slices.Concat(line(small, 5, 10, 0, powers(10, 24), nil), line(large, 9.5, 100, 0, powers(10, 24), nil))
}

func TestBestAndCrossovers(t *testing.T) {
	samples := rivalsAt(series("", 4))
	auto := series(Auto, 4)
	samples = append(samples, line(auto, 1, 1000, 0, powers(10, 24), nil)...) // never an algorithm of its own
	for _, c := range Best(samples) {
		want, second := "one-stage", "ring"
		if c.Bytes > 50_000 {
			want, second = second, want
		}
		if c.Best != want || c.Second != second || !(c.Margin > 0) {
			t.Errorf("%d bytes: %+v, want %s before %s", c.Bytes, c, want, second)
		}
	}
	xs := Crossovers(samples)
	if len(xs) != 1 || xs[0].From != "one-stage" || xs[0].To != "ring" || xs[0].Bytes < 47_000 || xs[0].Bytes > 53_000 {
		t.Errorf("crossovers are %+v, want one at 50 kB", xs)
	}
	// A lead of one per cent is not worth a switch.
	near := slices.Concat(line(series("a", 2), 10, 100, 0, powers(10, 24), nil), line(series("b", 2), 10.05, 101, 0, powers(10, 24), nil))
	if xs := Crossovers(near); len(xs) != 0 {
		t.Errorf("switches for one per cent: %+v", xs)
	}
}

// The table chooses, at every measured point, an algorithm within the lead that
// is not worth a switch of the best.
func TestTuningChoosesTheBest(t *testing.T) {
	names := []string{"one-stage", "two-stage", "ring", "tree"}
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		var samples []Sample
		for _, ranks := range []int{2, 4, 6} {
			for _, d := range []string{"f32", "bf16"} {
				for _, buffers := range []string{"symmetric", "private"} {
					for _, name := range names {
						s := Series{Algorithm: name, DType: d, Backend: "cpu", Ranks: ranks, Buffers: buffers}
						for _, m := range line(s, 1+10*rnd.Float64(), 1+20*rnd.Float64(), 0, powers(8, 20), nil) {
							m.LowUS, m.HighUS = 0, 0
							samples = append(samples, m)
						}
					}
				}
			}
		}
		text, err := Tuning(samples)
		if err != nil {
			t.Fatal(err)
		}
		table, err := dist.ParseTuning(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		times := map[Series]map[int64]float64{}
		for _, s := range samples {
			if times[s.Series] == nil {
				times[s.Series] = map[int64]float64{}
			}
			times[s.Series][s.Bytes] = s.TimeUS
		}
		for _, c := range Best(samples) {
			d, _ := dtype.Parse(c.Setting.DType)
			got := c.Setting
			got.Algorithm = table.Choose("cpu", dist.AllReduce, c.Setting.Ranks, d, int(c.Bytes), c.Setting.Buffers == "symmetric").Algorithm
			if us, ok := times[got][c.Bytes]; !ok || us > c.TimeUS*(1+evenLead)*1.000001 {
				t.Fatalf("%s at %d: the table says %q (%v us), best is %s (%v us)\n%s", c.Setting, c.Bytes, got.Algorithm, us, c.Best, c.TimeUS, text)
			}
		}
	})
}

// What was not measured falls through to the built-in table.
func TestTuningLeavesTheRest(t *testing.T) {
	s := Series{DType: "f32", Backend: "cpu", Ranks: 4, Buffers: "private"}
	text, err := Tuning(rivalsAt(s))
	if err != nil {
		t.Fatal(err)
	}
	table, err := dist.ParseTuning(text)
	if err != nil {
		t.Fatal(err)
	}
	want := dist.DefaultTuning().Choose("cpu", dist.AllReduce, 4, dtype.F32, 1<<20, true)
	if got := table.Choose("cpu", dist.AllReduce, 4, dtype.F32, 1<<20, true); got.Algorithm != want.Algorithm || got.ChunkBytes != want.ChunkBytes {
		t.Errorf("symmetric buffers: %+v, want the built-in %+v", got, want)
	}
	for ranks, bytes := range map[int]int{3: 1 << 10, 4: 1 << 20, 64: 1 << 30} { // between, at and beyond what was measured
		algorithm := "one-stage"
		if bytes > 50_000 {
			algorithm = "ring"
		}
		if got := table.Choose("cpu", dist.AllReduce, ranks, dtype.BF16, bytes, false).Algorithm; got != algorithm {
			t.Errorf("%d ranks, %d bytes: %s, want %s\n%s", ranks, bytes, got, algorithm, text)
		}
	}
	if _, err := Tuning(line(series(Auto, 2), 1, 1, 0, powers(8, 9), nil)); err == nil || !strings.Contains(err.Error(), "no named algorithm") {
		t.Errorf("nothing but auto: %v", err)
	}
}
