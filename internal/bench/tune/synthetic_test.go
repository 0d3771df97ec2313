package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// synthetic is a bench of a thousand settings in memory: main effects, pairwise
// interactions, and some settings that fail. One variable does nothing, so settings
// that differ in it alone are identical.
type synthetic struct {
	space Space
	log   []float64
	fails []bool
	noise func(rng *rand.Rand) float64
	best  int
}

var syntheticLevels = []int{5, 5, 5, 4, 2}

func newSynthetic(rng *rand.Rand, noise func(*rand.Rand) float64) *synthetic {
	b := &synthetic{space: Space{Levels: syntheticLevels}, noise: noise}
	main := make([][]float64, len(syntheticLevels))
	for v, n := range syntheticLevels[:4] {
		for range n {
			main[v] = append(main[v], 0.25*rng.NormFloat64())
		}
	}
	pair := map[[4]int]float64{}
	for a := range 4 {
		for c := a + 1; c < 4; c++ {
			for x := range syntheticLevels[a] {
				for y := range syntheticLevels[c] {
					pair[[4]int{a, c, x, y}] = 0.1 * rng.NormFloat64()
				}
			}
		}
	}
	for i := range 1000 {
		var l []int
		for rest, v := i, 0; v < len(syntheticLevels); v++ {
			l = append(l, rest%syntheticLevels[v])
			rest /= syntheticLevels[v]
		}
		y := 0.0
		for a := range 4 {
			y += main[a][l[a]]
			for c := a + 1; c < 4; c++ {
				y += pair[[4]int{a, c, l[a], l[c]}]
			}
		}
		b.space.Settings = append(b.space.Settings, l)
		b.log = append(b.log, y)
		// Failing ones: where two variables meet, which single levels do not tell.
		b.fails = append(b.fails, i > 0 && (l[0] == 1 && l[1] == 2 || rng.IntN(50) == 0))
	}
	b.best = -1
	for i, y := range b.log {
		if !b.fails[i] && (b.best < 0 || y < b.log[b.best]) {
			b.best = i
		}
	}
	return b
}

func (b *synthetic) launch(rng *rand.Rand, s int) Outcome {
	if b.fails[s] {
		return Outcome{Failed: "it failed", Seconds: 1}
	}
	return Outcome{Log: b.log[s] + b.noise(rng), Seconds: 1}
}

// run makes a whole study.
func (b *synthetic) run(rng *rand.Rand, cfg Config) (*Race, Answer) {
	r := New(b.space, cfg)
	for next := r.Next(); next != nil; next = r.Next() {
		for _, l := range next {
			r.Observe(l, b.launch(rng, l.Setting))
		}
	}
	return r, r.Answer()
}

// normal launches differ by the standard deviation; heavy ones too, but for one in
// eight, which is far slower.
func normal(sd float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 { return sd * rng.NormFloat64() }
}

func heavy(sd float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 {
		v := sd * rng.NormFloat64()
		if rng.IntN(8) == 0 {
			v += 8 * sd * rng.ExpFloat64()
		}
		return v
	}
}

// repetitions is how often a study is repeated: KERNBENCH_TUNE_REPETITIONS, or few.
func repetitions(t *testing.T, few int) int {
	if n, err := strconv.Atoi(os.Getenv("KERNBENCH_TUNE_REPETITIONS")); err == nil {
		return n
	}
	return few
}

func TestShares(t *testing.T) {
	for name, noise := range map[string]func(*rand.Rand) float64{"1 %": normal(0.01), "5 %": normal(0.05), "20 %": normal(0.2), "1 % heavy": heavy(0.01), "5 % heavy": heavy(0.05), "20 % heavy": heavy(0.2)} {
		reps := repetitions(t, 10)
		var regret []float64
		cover, in, size, most := 0, 0, 0, 0
		raced := 0
		verd := map[string]int{}
		for i := range reps {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			b := newSynthetic(rng, noise)
			_, a := b.run(rng, Config{Launches: 600, Seed: uint64(i)})
			regret = append(regret, b.log[a.Best]-b.log[b.best])
			most = max(most, a.Launches)
			c := a.Confirmed
			truth := b.log[a.Best] - b.log[0]
			if c != nil && c.Low <= truth && truth <= c.High {
				cover++
			}
			if a.Best == b.best || slices.Contains(a.Raced, b.best) || slices.Contains(a.Open, b.best) {
				in++
			}
			size += len(a.Raced) + len(a.Open)
			raced += len(a.Raced)
			if b.fails[a.Best] {
				t.Errorf("failing")
			}
			for v, e := range a.Effects {
				verd[fmt.Sprint(v == 4, e.Verdict)]++
				if i < 2 && v == 4 {
					t.Logf("%+v", e)
				}
			}
		}
		slices.Sort(regret)
		w := func(f float64) int {
			n := 0
			for _, x := range regret {
				if x <= math.Log1p(f) {
					n++
				}
			}
			return n
		}
		t.Logf("%s: within 2%%: %d, 5%%: %d of %d; median %.3f p95 %.3f; cover %d; in set %d, mean set %d raced %d; launches %d %v", name, w(0.02), w(0.05), reps,
			regret[reps/2], regret[reps*95/100], cover, in, size/reps, raced/reps, most, verd)
	}
}
