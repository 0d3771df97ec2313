package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDip compares with values that are known exactly, and the quantiles of uniform values with the table of
// Hartigan and Hartigan (1985).
func TestDip(t *testing.T) {
	even := make([]float64, 40)
	for i := range even {
		even[i] = float64(i)
	}
	for _, test := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"one value", []float64{3}, 0.5}, {"equal values", []float64{3, 3, 3, 3}, 0.125},
		{"evenly spread values", even, 1.0 / 80}, {"two pairs", []float64{0, 0, 1, 1}, 0.25},
		{"a fifth apart", []float64{0, 0, 0, 0, 1}, 0.1},
		{"two far clusters", slices.Concat(evenly(20, 0, 1e-3), evenly(20, 10, 1e-3)), 0.25},
	} {
		if got := Dip(test.values); math.Abs(got-test.want) > 0.002 {
			t.Errorf("%s: dip %v, want %v", test.name, got, test.want)
		}
	}
	r := rand.New(rand.NewPCG(2, 2))
	for n, want := range map[int]float64{10: 0.1391, 50: 0.0702, 200: 0.0370} {
		dips := make([]float64, 3000)
		for i := range dips {
			dips[i] = Dip(slices.Sorted(slices.Values(draw(n, r.Float64))))
		}
		slices.Sort(dips)
		if got := Percentile(dips, 0.95); math.Abs(got/want-1) > 0.03 {
			t.Errorf("%d uniform values: the 95th percentile of the dip is %.4f, published %.4f", n, got, want)
		}
	}
}

// evenly returns n values from start with a step.
func evenly(n int, start, step float64) (out []float64) {
	for i := range n {
		out = append(out, start+float64(i)*step)
	}
	return out
}

func draw(n int, from func() float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = from()
	}
	return out
}

// TestOneMode states the false rate: unimodal samples are found to have two modes in at most 2 % of
// the rows. The table is in docs/statistics.md.
func TestOneMode(t *testing.T) {
	r := rand.New(rand.NewPCG(heldOut, 0))
	normal := func() float64 { return 1 + 0.1*r.NormFloat64() }
	for _, test := range []struct {
		name   string
		series func(n int) []float64
	}{
		{"uniform", func(n int) []float64 { return draw(n, func() float64 { return 1 + r.Float64() }) }},
		{"normal", func(n int) []float64 { return draw(n, normal) }},
		{"log-normal", func(n int) []float64 { return draw(n, func() float64 { return math.Exp(r.NormFloat64()) }) }},
		{"normal, 10 % outliers", func(n int) []float64 {
			return draw(n, func() float64 {
				if r.Float64() < 0.1 {
					return 1 + 5*r.ExpFloat64()
				}
				return normal()
			})
		}},
		{"rounded to 3 %", func(n int) []float64 {
			return draw(n, func() float64 { return math.Round(normal()/0.03) * 0.03 })
		}},
		{"dependent, 0.9", func(n int) []float64 { return shifted(autoregressive(r, n, 0.9)) }},
		{"dependent, 0.99", func(n int) []float64 { return shifted(autoregressive(r, n, 0.99)) }},
	} {
		for _, n := range []int{10, 50, 1000} {
			rows, found := min(*simulated, *simulated*100/n), 0
			for range rows {
				if FindModes(test.series(n)) != nil {
					found++
				}
			}
			rate := float64(found) / float64(rows)
			t.Logf("| %s | %d | %.1f %% |", test.name, n, 100*rate)
			if rate > 0.02+2*math.Sqrt(0.02*0.98/float64(rows)) { // up to two standard errors of the simulation
				t.Errorf("%s, %d samples: two modes in %.1f %% of the rows", test.name, n, 100*rate)
			}
		}
	}
}

func shifted(values []float64) []float64 {
	for i := range values {
		values[i] = 10 + values[i]
	}
	return values
}

// TestTwoModes states the power: two equal modes are found in at least 95 % of the rows with 50 samples.
func TestTwoModes(t *testing.T) {
	r := rand.New(rand.NewPCG(heldOut, 1))
	for _, test := range []struct {
		name         string
		n            int
		second, sd   float64 // center of the second mode and relative deviation of both
		share, least float64
	}{
		{"1 and 2, deviation 3 %", 50, 2, 0.03, 0.5, 0.95},
		{"1 and 2, deviation 7 %", 50, 2, 0.07, 0.5, 0.95},
		{"1 and 2, deviation 10 %", 50, 2, 0.10, 0.5, 0.93},
		{"1 and 1.1, deviation 1 %", 50, 1.1, 0.01, 0.5, 0.95},
		{"1 and 1.1, deviation 2 %", 50, 1.1, 0.02, 0.5, 0},
		{"1 and 2 in a quarter of the samples, deviation 3 %", 50, 2, 0.03, 0.25, 0},
		{"1 and 2, deviation 3 %", 10, 2, 0.03, 0.5, 0},
		{"1 and 1.3 in a fifth of the samples, deviation 3 %", 1000, 1.3, 0.03, 0.2, 0.95},
	} {
		rows, found := *simulated, 0
		for range rows {
			series := draw(test.n, func() float64 {
				center := 1.0
				if r.Float64() < test.share {
					center = test.second
				}
				return center * (1 + test.sd*r.NormFloat64())
			})
			m := FindModes(series)
			if m == nil {
				continue
			}
			if math.Abs(m[0].Center-1) < 0.15 && math.Abs(m[1].Center-test.second) < 0.15*test.second {
				found++
			}
		}
		t.Logf("| %s | %d | %.0f %% |", test.name, test.n, 100*float64(found)/float64(rows))
		if float64(found)/float64(rows) < test.least {
			t.Errorf("%s: found in %.1f %% of the rows, want %.0f %%", test.name, 100*float64(found)/float64(rows),
				100*test.least)
		}
	}
	exact := slices.Concat(slices.Repeat([]float64{2}, 30), slices.Repeat([]float64{4}, 20))
	r.Shuffle(len(exact), func(i, j int) { exact[i], exact[j] = exact[j], exact[i] })
	if m := FindModes(exact); !slices.Equal(m, []Mode{{2, 0.6}, {4, 0.4}}) {
		t.Errorf("two exact values: %v", m)
	}
	for apart, want := range map[float64]int{3: 0, 4.9: 0, 5: 2, 6: 2, -3: 0, -10: 2} { // percent
		if m := FindModes(slices.Repeat([]float64{100, 100 + apart}, 30)); len(m) != want {
			t.Errorf("two values %v %% apart: %v", apart, m)
		}
	}
	rounded := slices.Repeat([]float64{2, 3, 3, 3, 4}, 20)
	r.Shuffle(len(rounded), func(i, j int) { rounded[i], rounded[j] = rounded[j], rounded[i] })
	if m := FindModes(rounded); m != nil {
		t.Errorf("three values of one rounded mode: %v", m)
	}
}

// TestIntervalOfTwoModes simulates rows whose calls take 1 or 2 with equal chance. An interval that contains only
// one mode would claim that the median is known.
func TestIntervalOfTwoModes(t *testing.T) {
	r := rand.New(rand.NewPCG(heldOut, 2))
	narrow := 0
	const rows = 300
	for range rows {
		series := draw(200, func() float64 { return (1 + float64(r.IntN(2))) * (1 + 0.01*r.NormFloat64()) })
		if s := SummarizeSeries(series); s.CIHigh-s.CILow < 0.9 {
			narrow++
		}
	}
	if narrow > rows/100 {
		t.Errorf("%d of %d intervals contain one mode only", narrow, rows)
	}
	series := draw(200, func() float64 { return 1 + 0.01*r.NormFloat64() + math.Floor(r.Float64()+0.2) })
	if s := SummarizeSeries(series); s.CIHigh > 1.1 || len(s.Modes) != 2 {
		t.Errorf("a fifth is slow: %+v: the median is certainly in the first mode", s)
	}
}

// dipByDefinition returns the dip of a few sorted values by its definition, up to 1e-7: the least distance at which a
// distribution fits that is convex below one of the values and concave above it. Dip is at least 1/(2n).
func dipByDefinition(sorted []float64) float64 {
	n := float64(len(sorted))
	var x, before, after []float64 // distinct values, and the distribution on both sides of each
	for i, v := range sorted {
		if i == 0 || v > sorted[i-1] {
			x, before, after = append(x, v), append(before, float64(i)/n), append(after, 0)
		}
		after[len(after)-1] = float64(i+1) / n
	}
	// leastAt returns the least value at x[mode] of a convex distribution that is at distance d or less below it,
	// or infinity if there is none. A line through two bounds limits all values outside of them.
	leastAt := func(x, before, after []float64, mode int, d float64) float64 {
		least := before[mode] - d
		for k := range mode {
			least = max(least, after[k]-d)
			for i := range k {
				slope := (after[k] - d - before[i] - d) / (x[k] - x[i])
				for l := k + 1; l <= mode; l++ {
					reached := after[k] - d + slope*(x[l]-x[k])
					if l == mode {
						least = max(least, reached)
					}
					if reached > before[l]+d+1e-12 {
						return math.Inf(1)
					}
				}
			}
			if after[k]-d > before[k]+d {
				return math.Inf(1)
			}
		}
		if least > before[mode]+d+1e-12 {
			return math.Inf(1)
		}
		return least
	}
	// The concave part above the mode is the convex part of the mirrored values.
	mirror := func(values []float64, f func(float64) float64) (out []float64) {
		for _, v := range slices.Backward(values) {
			out = append(out, f(v))
		}
		return out
	}
	negative, rest := func(v float64) float64 { return -v }, func(v float64) float64 { return 1 - v }
	fits := func(d float64) bool {
		for mode := range x {
			low := leastAt(x, before, after, mode, d)
			high := 1 - leastAt(mirror(x, negative), mirror(after, rest), mirror(before, rest), len(x)-1-mode, d)
			if low <= high+1e-12 {
				return true
			}
		}
		return false
	}
	none, all := 0.0, 1.0
	for all-none > 1e-7 {
		if d := (none + all) / 2; fits(d) {
			all = d
		} else {
			none = d
		}
	}
	return max(all, 1/(2*n))
}

// TestDipAgainstDefinition draws few values, with and without ties.
func TestDipAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for i := range 2000 {
		values := draw(2+r.IntN(9), func() float64 {
			if i%2 == 0 {
				return float64(r.IntN(12))
			}
			return r.NormFloat64() + 4*float64(r.IntN(2))
		})
		slices.Sort(values)
		if got, want := Dip(values), dipByDefinition(values); math.Abs(got-want) > 1e-6 {
			t.Fatalf("%v: dip %v, want %v", values, got, want)
		}
	}
}

// TestTwoGroups compares with a search of all splits.
func TestTwoGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 1000 {
		n := 8 + r.IntN(20)
		sorted := slices.Sorted(slices.Values(draw(n, func() float64 { return float64(r.IntN(30)) })))
		within := func(group []float64) (squares float64) {
			mean := 0.0
			for _, v := range group {
				mean += v / float64(len(group))
			}
			for _, v := range group {
				squares += (v - mean) * (v - mean)
			}
			return squares
		}
		best, least := 0, math.Inf(1)
		for i := 1; i < n; i++ {
			if 10*min(i, n-i) < n || sorted[i] == sorted[i-1] { // less than a tenth, or a split of equal values
				continue
			}
			if w := within(sorted[:i]) + within(sorted[i:]); w < least-1e-9 {
				best, least = i, w
			}
		}
		if got := twoGroups(sorted); best > 0 && got != best {
			t.Fatalf("%v: split at %d, want %d", sorted, got, best)
		}
	}
}

// TestFewestModes checks that two modes take eight values, and that one mode has at least a tenth of them.
func TestFewestModes(t *testing.T) {
	for n, want := range map[int]int{minModeValues - 1: 0, minModeValues: 2} {
		if m := FindModes(slices.Repeat([]float64{1, 2}, n)[:n]); len(m) != want {
			t.Errorf("%d values: %v", n, m)
		}
	}
	for slow, want := range map[int]int{99: 0, 100: 2} {
		series := slices.Repeat([]float64{1}, 1000)
		for i := range slow {
			series[10*i] = 2
		}
		if m := FindModes(series); len(m) != want {
			t.Errorf("%d of 1000 values are slow: %v", slow, m)
		}
	}
}

// TestCoverModes checks the share from which 100 effective values tell in which mode the median is: half and 3.29
// standard errors, which is 0.6645.
func TestCoverModes(t *testing.T) {
	for share, both := range map[float64]bool{0.5: true, 0.664: true, 0.665: false, 0.336: true, 0.335: false} {
		modes := []Mode{{1, share}, {2, 1 - share}}
		low, high := CoverModes(1.4, 1.6, modes, 100)
		if covers := low == 1 && high == 2; covers != both || !covers && (low != 1.4 || high != 1.6) {
			t.Errorf("share %v: %v to %v", share, low, high)
		}
	}
	if low, high := CoverModes(0.5, 2.5, []Mode{{1, 0.5}, {2, 0.5}}, 100); low != 0.5 || high != 2.5 {
		t.Errorf("a wide interval becomes %v to %v", low, high)
	}
	if low, high := CoverModes(1, 2, nil, 100); low != 1 || high != 2 {
		t.Errorf("without two modes: %v to %v", low, high)
	}
}

func TestSpreadTies(t *testing.T) {
	for _, c := range []struct{ sorted, want []float64 }{
		{[]float64{1, 1, 2, 4}, []float64{1.25, 1.75, 2.5, 4.5}},
		{[]float64{1, 3, 3, 7, 7}, []float64{2, 3.5, 4.5, 7.5, 8.5}},
		{[]float64{1, 1, 2}, []float64{1, 1, 2}}, // two distinct values may be two modes
		{[]float64{1, 2, 3}, []float64{1, 2, 3}},
	} {
		if got := spreadTies(c.sorted); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.sorted, got, c.want)
		}
	}
}
