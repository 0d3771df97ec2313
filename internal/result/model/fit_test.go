package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The fit finds the planted line despite noise, and also if some sizes take three times as long, which
// would bend a least-squares line.
func TestFitRecoversPlantedLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		alpha := math.Exp(rapid.Float64Range(math.Log(0.5), math.Log(500)).Draw(t, "log alpha"))
		beta := math.Exp(rapid.Float64Range(math.Log(1), math.Log(500)).Draw(t, "log beta"))
		noise := rapid.Float64Range(0, 0.03).Draw(t, "noise")
		samples := line(series("ring", 4), alpha, beta, noise, powers(8, 32), rnd)
		for i := 2; i < len(samples); i += 6 {
			if rapid.Bool().Draw(t, "stray") {
				samples[i].TimeUS *= 3
			}
		}
		c := lineThrough(fitPoints(samples))
		tolerance := 2*noise + 1e-9
		if math.Abs(c.AlphaUS/alpha-1) > tolerance || math.Abs(c.BetaGBs/beta-1) > tolerance {
			t.Fatalf("planted %v us and %v GB/s under %v noise, found %v and %v", alpha, beta, noise, c.AlphaUS, c.BetaGBs)
		}
	})
}

// No line in the neighbourhood of the result of leastDeviations has a smaller sum.
func TestLeastDeviationsIsLeast(t *testing.T) {
	cost := func(points []fitPoint, a, m float64) (sum float64) {
		for _, d := range points {
			sum += math.Abs(a+m*d.x-d.t) / d.t
		}
		return sum
	}
	rapid.Check(t, func(t *rapid.T) {
		var points []fitPoint
		x := 0.0
		for range rapid.IntRange(2, 12).Draw(t, "points") {
			x += rapid.Float64Range(1, 100).Draw(t, "dx")
			points = append(points, fitPoint{x, rapid.Float64Range(1, 100).Draw(t, "t")})
		}
		alpha, slope, _ := leastDeviations(points, math.Inf(1))
		best := cost(points, alpha, slope)
		for range 200 {
			a := math.Max(0, alpha+rapid.Float64Range(-20, 20).Draw(t, "da"))
			m := math.Max(0, slope+rapid.Float64Range(-2, 2).Draw(t, "dm"))
			if got := cost(points, a, m); got < best-1e-9 {
				t.Fatalf("%v + %v x has %v, found %v + %v x with %v", a, m, got, alpha, slope, best)
			}
		}
	})
}

func TestBoundAndFaults(t *testing.T) {
	c := Fit(line(series("ring", 4), 10, 100, 0, powers(10, 30), nil))[0]
	for _, want := range []struct {
		bytes int64
		bound Bound
	}{{1 << 10, Latency}, {1 << 20, Mixed}, {1 << 30, Bandwidth}, {1, Unknown}, {1 << 40, Unknown}} {
		if got := c.Bound(want.bytes); got != want.bound {
			t.Errorf("%d bytes are %s-bound, want %s (%v)", want.bytes, got, want.bound, c)
		}
	}
	if worst, _ := c.WorstErr(); c.Fault != "" || worst > 1e-9 || len(c.Segments) != 1 {
		t.Errorf("a perfect line: %q, error %v, %d segments", c.Fault, worst, len(c.Segments))
	}
	// An outlier makes no segment of its own: the fault names it, and its bound is not resolved.
	steps := line(series("ring", 4), 10, 100, 0, powers(10, 30), nil)
	steps[10].TimeUS *= 1.8
	c = Fit(steps)[0]
	if _, at := c.WorstErr(); !strings.Contains(c.Fault, "44 %") || at != 1<<20 || c.Bound(1<<20) != Unresolved ||
		c.Bound(1<<10) != Latency {
		t.Errorf("80 %% too long at 1Mi: %q at %d, %s", c.Fault, at, c.Bounds())
	}
	one := Fit(steps[:1])[0]
	if one.Fitted() || one.Bound(1<<10) != Unknown || !strings.Contains(one.Fault, "one size") {
		t.Errorf("one size: %+v", one)
	}
	if two := Fit(steps[:2])[0]; !two.Fitted() || two.Bound(1<<10) != Unresolved ||
		!strings.Contains(two.Fault, "two sizes") {
		t.Errorf("two sizes: %+v", two)
	}
	flat := Fit(line(series("x", 2), 5, math.Inf(1), 0, powers(3, 10), nil))[0]
	if s := flat.Segments[0]; s.AlphaUS != 5 || !math.IsInf(s.BetaGBs, 1) || flat.Bound(64) != Latency {
		t.Errorf("size makes no difference: %+v", flat)
	}
}

// With more sizes than maxAnchors the line is still found.
func TestFitManySizes(t *testing.T) {
	var sizes []int64
	for i := int64(1); i <= 2000; i++ {
		sizes = append(sizes, i*4096)
	}
	c := Fit(line(series("ring", 2), 7, 50, 0.01, sizes, rand.New(rand.NewPCG(1, 2))))[0]
	if s := c.Segments[0]; s.Sizes != 2000 || math.Abs(s.AlphaUS/7-1) > 0.05 || math.Abs(s.BetaGBs/50-1) > 0.01 {
		t.Errorf("%+v", c)
	}
}

// switched returns a series whose protocol changes. lines maps the first size of each protocol to its
// {alpha, beta}.
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

// The fit finds the planted segments with their ranges and lines, and no others.
func TestSegmentsArePlanted(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines map[int64][2]float64 // first size: alpha in us, beta in GB/s
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

// A noisy line is hardly ever cut, because a cut must pay for its parameters.
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

// Segments cover all sizes in order, have at least three sizes each, and cost no more than a single
// line by the criterion.
func TestSegmentsPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var points []fitPoint
		x := 0.0
		for range rapid.IntRange(2, 14).Draw(t, "points") {
			x += rapid.Float64Range(1, 100).Draw(t, "dx")
			points = append(points, fitPoint{x, rapid.Float64Range(1, 100).Draw(t, "t")})
		}
		parts := segments(points, minNoise)
		if !slices.Equal(slices.Concat(parts...), points) {
			t.Fatalf("%v is cut into %v", points, parts)
		}
		cost := func(parts [][]fitPoint) (sum float64) {
			for _, p := range parts {
				_, _, off := leastDeviations(p, math.Inf(1))
				sum += 2/minNoise*off + 3*math.Log(float64(len(points)))
			}
			return sum
		}
		if cost(parts) > cost([][]fitPoint{points})+1e-9 {
			t.Fatalf("%d segments cost %v, one %v", len(parts), cost(parts), cost([][]fitPoint{points}))
		}
		for _, p := range parts {
			if len(parts) > 1 && len(p) < minSegmentSizes {
				t.Fatalf("a segment of %d sizes", len(p))
			}
		}
	})
}

// The bound is not resolved if no line fits, or if leaving out some sizes reverses it.
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
	// A size between two segments has no line.
	two := Fit(switched(map[int64][2]float64{1 << 10: {5, math.Inf(1)}, 1 << 20: {0, 1}}, powers(10, 26), 0, nil))[0]
	if b := two.Bound(1<<19 + 1<<18); b != Unresolved || len(two.Segments) != 2 {
		t.Errorf("between the lines: %s, %v", b, two)
	}
	// A claim about sizes that are not resolved is undecided.
	answer, why := judgeBound(Claim{Bound: Latency}, jagged)
	if answer != Undecided || !strings.Contains(why, "does not resolve it") {
		t.Errorf("%s: %s", answer, why)
	}
}
