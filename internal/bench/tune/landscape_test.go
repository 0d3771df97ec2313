package tune

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/base/stats"
)

// seeds is the number of studies of each landscape: go test -run Landscapes -v -seeds 200
// makes the table of docs/statistics.md.
var seeds = flag.Int("seeds", 30, "number of simulated studies of each landscape")

// landscape simulates a bench. Its settings are all combinations of levels.
type landscape struct {
	space  Space
	log    []float64 // true log value
	fails  []bool
	second []float64 // distance of a second mode, in which half of the launches are; 0 for most settings
	noise  float64
}

// newLandscape returns a landscape of independent levels without any effect.
func newLandscape(levels []int, noise float64) *landscape {
	l := &landscape{space: Space{Levels: levels}, noise: noise}
	for i := range combinations(levels) {
		setting := make([]int, len(levels))
		for v, rest := 0, i; v < len(levels); v++ {
			setting[v] = rest % levels[v]
			rest /= levels[v]
		}
		l.space.Settings = append(l.space.Settings, setting)
	}
	n := len(l.space.Settings)
	l.log, l.fails, l.second = make([]float64, n), make([]bool, n), make([]float64, n)
	return l
}

func combinations(levels []int) int {
	n := 1
	for _, l := range levels {
		n *= l
	}
	return n
}

// addMain adds a random effect of every level of every variable.
func (l *landscape) addMain(rng *rand.Rand, sd float64) {
	for v, n := range l.space.Levels {
		effect := make([]float64, n)
		for i := range effect {
			effect[i] = sd * rng.NormFloat64()
		}
		for s, levels := range l.space.Settings {
			l.log[s] += effect[levels[v]]
		}
	}
}

// pairOnly has small main effects, and an optimum that needs one pair of values: with either
// of them alone the bench is slower than usual.
func pairOnly(rng *rand.Rand) *landscape {
	l := newLandscape([]int{8, 8, 3, 3}, 0.03)
	l.addMain(rng, 0.01)
	a, b := 1+rng.IntN(7), 1+rng.IntN(7)
	for s, v := range l.space.Settings {
		switch {
		case v[0] == a && v[1] == b:
			l.log[s] -= 0.5
		case v[0] == a || v[1] == b:
			l.log[s] += 0.1
		}
	}
	return l
}

// rugged has interactions of two and of three variables, and a region that crashes beside the best.
func rugged(rng *rand.Rand) *landscape {
	l := newLandscape([]int{5, 5, 4, 3, 2}, 0.03)
	l.addMain(rng, 0.1)
	pair, triple := map[[4]int]float64{}, map[[3]int]float64{}
	for s, v := range l.space.Settings {
		for a := range v {
			for b := range a {
				k := [4]int{a, b, v[a], v[b]}
				if _, has := pair[k]; !has {
					pair[k] = 0.08 * rng.NormFloat64()
				}
				l.log[s] += pair[k]
			}
		}
		k := [3]int{v[0], v[1], v[2]}
		if _, has := triple[k]; !has {
			triple[k] = 0.15 * rng.NormFloat64()
		}
		l.log[s] += triple[k]
	}
	best := l.space.Settings[l.best()]
	for s, v := range l.space.Settings { // the neighbours of the best with another value of variable 0 crash
		l.fails[s] = s > 0 && v[0] != best[0] && v[1] == best[1] && v[2] == best[2] ||
			s > 0 && v[0] == (best[0]+1)%5 && v[3] == 2
	}
	return l
}

// bimodal has settings that are fast in every other launch and slow otherwise, so that a lucky
// launch looks best.
func bimodal(rng *rand.Rand) *landscape {
	l := newLandscape([]int{6, 5, 5, 4}, 0.02)
	l.addMain(rng, 0.12)
	level := rng.IntN(6)
	for s, v := range l.space.Settings {
		if v[0] == level {
			l.second[s] = math.Log(2)
			l.log[s] -= 0.15 // the fast mode is faster than most settings; the mean of both is not
		}
	}
	return l
}

// value is the mean time of a setting over its modes, which a user gets in the long run.
func (l *landscape) value(s int) float64 {
	if l.fails[s] {
		return math.Inf(1)
	}
	return l.log[s] + math.Log((1+math.Exp(l.second[s]))/2)
}

func (l *landscape) best() int {
	best := 0
	for s := range l.log {
		if l.value(s) < l.value(best) {
			best = s
		}
	}
	return best
}

func (l *landscape) launch(rng *rand.Rand, s int) Outcome {
	if l.fails[s] {
		return Outcome{Failed: "it crashed", Seconds: 1}
	}
	v := l.log[s] + l.noise*rng.NormFloat64()
	if rng.IntN(2) == 0 {
		v += l.second[s]
	}
	return Outcome{Log: v, Seconds: 1}
}

// study returns the setting that a study recommends.
func (l *landscape) study(rng *rand.Rand, launches int, seed uint64) int {
	r := New(l.space, Config{Launches: launches, Seed: seed})
	for next := r.Next(); next != nil; next = r.Next() {
		for _, n := range next {
			r.Observe(n, l.launch(rng, n.Setting))
		}
	}
	return r.Answer().Best
}

// random returns the setting that random search recommends. It launches random settings once, and
// uses the last launches, as many as a confirmation takes, to repeat the best four.
func (l *landscape) random(rng *rand.Rand, launches int) int {
	const finalists, repeats = 4, 4
	logs := map[int][]float64{}
	for _, s := range rng.Perm(len(l.log))[:min(len(l.log), launches-finalists*repeats)] {
		if o := l.launch(rng, s); o.Failed == "" {
			logs[s] = []float64{o.Log}
		}
	}
	var tried []int
	for s := range logs {
		tried = append(tried, s)
	}
	byValue := func(a, b int) int {
		if stats.Median(logs[a]) < stats.Median(logs[b]) {
			return -1
		}
		return 1
	}
	slices.SortFunc(tried, byValue)
	tried = tried[:finalists]
	for range repeats {
		for _, s := range tried {
			logs[s] = append(logs[s], l.launch(rng, s).Log)
		}
	}
	return slices.MinFunc(tried, byValue)
}

// TestLandscapes checks that a study does not trail random search at the same number of launches: the
// share of seeds within 5 % of the best is at most 2 points lower.
func TestLandscapes(t *testing.T) {
	const launches, within = 200, 0.05
	for _, c := range []struct {
		name string
		make func(*rand.Rand) *landscape
	}{{"a pair of values", pairOnly}, {"three-way interactions and crashes", rugged}, {"two modes", bimodal}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			study, random, far, randomFar := 0, 0, 0, 0
			for seed := range uint64(*seeds) {
				l := c.make(rand.New(rand.NewPCG(seed, 3)))
				best := l.value(l.best())
				got := l.value(l.study(rand.New(rand.NewPCG(seed, 4)), launches, seed)) - best
				study += count(got <= math.Log1p(within))
				far += count(got > 0.2)
				got = l.value(l.random(rand.New(rand.NewPCG(seed, 5)), launches)) - best
				random += count(got <= math.Log1p(within))
				randomFar += count(got > 0.2)
			}
			t.Logf("%s, %d seeds: within 5 %% of the best: study %d, random search %d; more than 20 %% off: study %d, "+
				"random search %d",
				c.name, *seeds, study, random, far, randomFar)
			// Two points, and one study for chance if there are few seeds.
			if 100*study < 100*random-2**seeds-100*count(*seeds < 100) {
				t.Errorf("study %d, random search %d of %d", study, random, *seeds)
			}
		})
	}
}

// TestModesOfTheBest checks that a best setting with two modes is mostly reported as such, although
// it has few launches, and one without is not.
func TestModesOfTheBest(t *testing.T) {
	for _, second := range []float64{0, math.Log(2)} {
		found, studies := 0, 20
		for seed := range uint64(studies) {
			rng := rand.New(rand.NewPCG(seed, 6))
			l := newLandscape([]int{3, 3}, 0.02)
			l.log[4], l.second[4] = -2, second // the best by far, in either mode
			r := New(l.space, Config{Launches: 120, Seed: seed})
			for next := r.Next(); next != nil; next = r.Next() {
				for _, n := range next {
					r.Observe(n, l.launch(rng, n.Setting))
				}
			}
			if a := r.Answer(); a.Best == 4 && len(a.Modes) == 2 {
				found++
			}
		}
		if second == 0 && found > 1 || second > 0 && found < studies/2 {
			t.Errorf("modes %.2f apart: two modes reported in %d of %d studies", second, found, studies)
		}
	}
}
