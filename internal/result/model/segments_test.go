package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// switched is a series whose protocol changes: lines of {alpha, beta}, each from its
// first size on.
func switched(lines map[int64][2]float64, sizes []int64, noise float64, rnd *rand.Rand) (out []Sample) {
	at := [2]float64{}
	for _, b := range sizes {
		if l, ok := lines[b]; ok {
			at = l
		}
		out = append(out, line(series("ring", 4), at[0], at[1], noise, []int64{b}, rnd)...)
	}
	return out
}

// Planted segments are found, each with its range and its line, and no more than were
// planted.
func TestSegmentsArePlanted(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines map[int64][2]float64 // first size: alpha us, beta GB/s
		want  string
	}{
		{"one", map[int64][2]float64{1 << 10: {10, 50}},
			"latency-bound from 1Ki to 128Ki, mixed-bound from 256Ki to 512Ki, bandwidth-bound from 1Mi to 1Gi"},
		{"a protocol with more latency and more bandwidth", map[int64][2]float64{1 << 10: {5, 4}, 1 << 17: {40, 40}},
			"latency-bound from 1Ki to 8Ki, mixed-bound from 16Ki to 32Ki, bandwidth-bound at 64Ki, latency-bound from 128Ki " +
				"to 512Ki, mixed-bound from 1Mi to 2Mi, bandwidth-bound from 4Mi to 1Gi"},
		{"a cache that is left", map[int64][2]float64{1 << 10: {2, 80}, 1 << 22: {0, 10}},
			"latency-bound from 1Ki to 64Ki, mixed-bound from 128Ki to 256Ki, bandwidth-bound from 512Ki to 1Gi"},
		{"three", map[int64][2]float64{1 << 10: {3, math.Inf(1)}, 1 << 15: {9, math.Inf(1)}, 1 << 21: {0, 20}},
			"latency-bound from 1Ki to 1Mi, bandwidth-bound from 2Mi to 1Gi"},
	} {
		for _, noise := range []float64{0, 0.02} {
			curve := Fit(switched(c.lines, powers(10, 30), noise, rand.New(rand.NewPCG(1, 2))))[0]
			var starts []int64
			for i, s := range curve.Segments {
				starts = append(starts, s.Min)
				want, planted := c.lines[s.Min]
				if !planted || noise == 0 && (math.Abs(s.AlphaUS-want[0]) > 1e-6*(1+want[0]) ||
					math.Abs(s.BetaGBs/want[1]-1) > 1e-6 && !math.IsInf(want[1], 1)) {
					t.Errorf("%s, noise %v: segment %d is %+v", c.name, noise, i, s)
				}
			}
			if len(starts) != len(c.lines) || curve.Fault != "" {
				t.Errorf("%s, noise %v: segments begin at %v, want %d (%s)", c.name, noise, starts, len(c.lines), curve.Fault)
			}
			if got := curve.Bounds(); noise == 0 && got != c.want {
				t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
			}
		}
	}
}

// One line under noise stays one in nearly all series: a cut must pay.
func TestNoSegmentOutOfNoise(t *testing.T) {
	cut := 0
	for seed := range uint64(200) {
		samples := line(series("ring", 4), 10, 50, 0.05, powers(10, 30), rand.New(rand.NewPCG(seed, 9)))
		cut += len(Fit(samples)[0].Segments) - 1
	}
	if cut > 4 {
		t.Errorf("%d cuts in 200 series of one line", cut)
	}
}

// Segments cover all sizes, in order, each of three at least, and never cost more than
// one line by the criterion.
func TestSegmentsPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ds []fitPoint
		x := 0.0
		for range rapid.IntRange(2, 14).Draw(t, "dots") {
			x += rapid.Float64Range(1, 100).Draw(t, "dx")
			ds = append(ds, fitPoint{x, rapid.Float64Range(1, 100).Draw(t, "t")})
		}
		parts := segments(ds, minNoise)
		if !slices.Equal(slices.Concat(parts...), ds) {
			t.Fatalf("%v is cut into %v", ds, parts)
		}
		cost := func(parts [][]fitPoint) (sum float64) {
			for _, p := range parts {
				_, _, off := leastDeviations(p, math.Inf(1))
				sum += 2/minNoise*off + 3*math.Log(float64(len(ds)))
			}
			return sum
		}
		if cost(parts) > cost([][]fitPoint{ds})+1e-9 {
			t.Fatalf("%d segments cost %v, one %v", len(parts), cost(parts), cost([][]fitPoint{ds}))
		}
		for _, p := range parts {
			if len(parts) > 1 && len(p) < minSegmentSizes {
				t.Fatalf("a segment of %d sizes", len(p))
			}
		}
	})
}

// What no line fits, and what some sizes would turn round, is not resolved.
func TestNotResolved(t *testing.T) {
	jagged := line(series("ring", 4), 10, 1, 0, powers(10, 14), nil)
	for i := range jagged {
		jagged[i].TimeUS *= []float64{1, 3, 1, 3, 1}[i]
	}
	curve := Fit(jagged)[0]
	for _, bytes := range curve.Measured {
		if b := curve.Bound(bytes); b != Unresolved {
			t.Errorf("%d bytes of a jagged series are %s-bound", bytes, b)
		}
	}
	if !strings.HasPrefix(curve.Bounds(), "not resolved from 1Ki to 16Ki") {
		t.Error(curve.Bounds())
	}
	// Between two lines nothing was measured.
	two := Fit(switched(map[int64][2]float64{1 << 10: {5, math.Inf(1)}, 1 << 20: {0, 1}}, powers(10, 26), 0, nil))[0]
	if b := two.Bound(1<<19 + 1<<18); b != Unresolved || len(two.Segments) != 2 {
		t.Errorf("between the lines: %s, %v", b, two)
	}
	// Of a claim that some sizes leave open nothing follows.
	answer, why := judgeBound(Claim{Bound: Latency}, jagged)
	if answer != Undecided || !strings.Contains(why, "does not tell") {
		t.Errorf("%s: %s", answer, why)
	}
}
