package model

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A line is the planted one under noise, and also when one size in five is far
// off, which would bend a least-squares line.
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

// leastDeviations is never worse than any other line: a search of its neighbourhood
// finds nothing better.
func TestLeastDeviationsIsLeast(t *testing.T) {
	cost := func(ds []fitPoint, a, m float64) (sum float64) {
		for _, d := range ds {
			sum += math.Abs(a+m*d.x-d.t) / d.t
		}
		return sum
	}
	rapid.Check(t, func(t *rapid.T) {
		var ds []fitPoint
		x := 0.0
		for range rapid.IntRange(2, 12).Draw(t, "dots") {
			x += rapid.Float64Range(1, 100).Draw(t, "dx")
			ds = append(ds, fitPoint{x, rapid.Float64Range(1, 100).Draw(t, "t")})
		}
		alpha, slope, _ := leastDeviations(ds, math.Inf(1))
		best := cost(ds, alpha, slope)
		for range 200 {
			a := math.Max(0, alpha+rapid.Float64Range(-20, 20).Draw(t, "da"))
			m := math.Max(0, slope+rapid.Float64Range(-2, 2).Draw(t, "dm"))
			if got := cost(ds, a, m); got < best-1e-9 {
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
	// A stray size is no segment: the fit says where, and nothing is said of it alone.
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

// Many sizes are fitted through anchors.
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
