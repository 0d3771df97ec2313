package tune

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Verdict states whether a variable has an effect.
type Verdict string

// The verdicts.
const (
	Matters    Verdict = "matters"
	NoEffect   Verdict = "no visible effect"
	Unresolved Verdict = "not resolved"
)

// Effect is the effect of one variable over all settings.
type Effect struct {
	Variable int     `json:"variable"`
	Share    float64 `json:"share"` // of the variance that the surrogate explains, interactions included
	Verdict  Verdict `json:"verdict"`
	// Levels holds the mean of each level relative to the best level, with simultaneous 99 %
	// intervals. A level without a successful launch has no interval.
	Levels    []judge.Interval `json:"levels"`
	BestLevel int              `json:"best_level"`
}

// Pair is the interaction of two variables.
type Pair struct {
	A     int         `json:"a"`
	B     int         `json:"b"`
	Share float64     `json:"share"`
	Log   [][]float64 `json:"log"` // mean relative to the lowest cell, by level of A and of B; -1 if never launched
}

// effects decomposes the surrogate into the contributions of each variable and each pair.
func (r *Race) effects() (out []Effect, pairs []Pair) {
	g := r.effectModel()
	if g == nil {
		return nil, nil
	}
	vars, tail, differ := len(r.space.Levels), r.tailFactor(), r.settingsDiffer()
	seen := make([][]int, vars) // number of points by variable and level
	for v, n := range r.space.Levels {
		seen[v] = make([]int, n)
	}
	for _, p := range g.points {
		for v, l := range p {
			seen[v][l]++
		}
	}
	main := make([][]float64, vars)
	for v := range vars {
		main[v] = g.component(v, r.space.Levels[v])
	}
	of, total := make([]float64, vars), 0.0
	inter := make([]interaction, vars) // strongest interaction by variable
	for a := range vars {
		for b := a + 1; b < vars; b++ {
			joint := g.component2(a, b, r.space.Levels[a], r.space.Levels[b])
			centre(joint, main[a], main[b], seen[a], seen[b])
			v := variance2(joint, seen[a], seen[b])
			of[a], of[b], total = of[a]+v, of[b]+v, total+v
			i := interaction{math.Sqrt(v), v > tail*tail*g.chanceVariance(a, b, seen[a], seen[b])}
			inter[a], inter[b] = inter[a].or(i), inter[b].or(i)
			pairs = append(pairs, Pair{A: a, B: b, Share: v, Log: joint})
		}
	}
	for v := range vars {
		s := variance(main[v], seen[v])
		of[v], total = of[v]+s, total+s
	}
	for i := range pairs {
		p := &pairs[i]
		p.Share /= max(total, 1e-300)
		for x, row := range p.Log {
			for y := range row {
				row[y] += main[p.A][x] + main[p.B][y]
			}
		}
		relativeToLeast(p.Log, g.launchedPairs(p.A, p.B, p.Log))
	}
	slices.SortStableFunc(pairs, func(a, b Pair) int { return cmp.Compare(b.Share, a.Share) })
	for v := range vars {
		e := g.effect(v, main[v], seen[v], r.space.Levels, tail)
		e.Share = of[v] / max(total, 1e-300)
		e.judge(inter[v], seen[v])
		if e.Verdict == Matters && !differ && g.chance(v, len(seen[v])) > mainChance {
			e.Verdict = Unresolved
		}
		out = append(out, e)
	}
	return out, pairs
}

// effectModel returns the surrogate for the effects of single variables, without a confounded
// default. It is nil if there is nothing to fit.
func (r *Race) effectModel() *surrogate {
	if r.model == nil || !r.confounded {
		return r.model
	}
	some := r.training(false)
	if len(some) == 0 {
		return nil
	}
	g := *r.model
	g.train(some, r.space)
	return &g
}

// component returns the contribution of each level of a variable to the expected value.
func (g *surrogate) component(v, levels int) []float64 {
	f := make([]float64, levels)
	for i, p := range g.points {
		f[p[v]] += g.main[v] * g.alpha[i]
	}
	return f
}

// component2 returns the contribution of each pair of levels.
func (g *surrogate) component2(a, b, na, nb int) [][]float64 {
	f := make([][]float64, na)
	for x := range f {
		f[x] = make([]float64, nb)
	}
	for i, p := range g.points {
		f[p[a]][p[b]] += g.root[a] * g.root[b] * g.alpha[i]
	}
	return f
}

// centre moves the row and column means of an interaction to the main effects, over the launched
// levels.
func centre(f [][]float64, rows, cols []float64, seenRows, seenCols []int) {
	mean := func(n int, seen []int, at func(int) float64) float64 {
		sum, count := 0.0, 0.0
		for i := range n {
			if seen[i] > 0 {
				sum, count = sum+at(i), count+1
			}
		}
		return sum / max(count, 1)
	}
	for x := range f {
		m := mean(len(f[x]), seenCols, func(y int) float64 { return f[x][y] })
		rows[x] += m
		for y := range f[x] {
			f[x][y] -= m
		}
	}
	for y := range cols {
		m := mean(len(f), seenRows, func(x int) float64 { return f[x][y] })
		cols[y] += m
		for x := range f {
			f[x][y] -= m
		}
	}
}

// variance returns the variance over the launched levels.
func variance(f []float64, seen []int) float64 {
	sum, sq, n := 0.0, 0.0, 0.0
	for i, x := range f {
		if seen[i] > 0 {
			sum, sq, n = sum+x, sq+x*x, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return max(0, sq/n-sum/n*sum/n)
}

func variance2(f [][]float64, rows, cols []int) float64 {
	sum, n := 0.0, 0.0
	for x, row := range f {
		if rows[x] > 0 {
			sum, n = sum+variance(row, cols), n+1
		}
	}
	return sum / max(n, 1)
}

// mainChance is the probability that a variable without an effect seems to have one, if nothing else shows that
// settings differ.
const mainChance = 0.01

// settingsDiffer reports whether new launches have shown that settings differ: the race dropped one, or the
// confirmation found a gain or a loss.
func (r *Race) settingsDiffer() bool {
	gain, _ := r.confirmed(r.best)
	return slices.Contains(r.dropped, true) || gain != nil && gain.Known && (gain.High < 0 || gain.Low > 0)
}

// chance returns the probability that a variable without an effect looks like this, by a rank test over the values of
// the settings. The intervals of the process assume normal noise. If most settings are launched only once, outliers
// cannot be recognized, and look like effects.
func (g *surrogate) chance(v, levels int) float64 {
	groups := make([][]float64, levels)
	for i, p := range g.points {
		groups[p[v]] = append(groups[p[v]], g.y[i])
	}
	return stats.KruskalWallis(slices.DeleteFunc(groups, func(values []float64) bool { return values == nil }))
}

// launchedPairs reports which pairs of levels were launched.
func (g *surrogate) launchedPairs(a, b int, like [][]float64) [][]bool {
	has := make([][]bool, len(like))
	for x := range like {
		has[x] = make([]bool, len(like[x]))
	}
	for _, p := range g.points {
		has[p[a]][p[b]] = true
	}
	return has
}

// relativeToLeast subtracts the smallest launched cell from all launched cells and sets the others to
// -1.
func relativeToLeast(f [][]float64, launched [][]bool) {
	lowest := math.Inf(1)
	for x, row := range f {
		for y, v := range row {
			if launched[x][y] {
				lowest = min(lowest, v)
			}
		}
	}
	for x, row := range f {
		for y := range row {
			if row[y] -= lowest; !launched[x][y] {
				row[y] = -1
			}
		}
	}
}

// effect returns the main effect of a variable with intervals: the mean over all values of the other
// variables, which for a Gaussian process is a sum over its points.
func (g *surrogate) effect(v int, main []float64, seen []int, sizes []int, tail float64) Effect {
	e := Effect{Variable: v, BestLevel: -1, Levels: make([]judge.Interval, len(main))}
	known := 0.0
	for l := range main {
		if seen[l] > 0 {
			known++
		}
		if seen[l] > 0 && (e.BestLevel < 0 || main[l] < main[e.BestLevel]) {
			e.BestLevel = l
		}
	}
	// Covariance of two settings that agree in this variable, with the other variables equal by
	// chance.
	w := g.main[v]
	for o, n := range sizes {
		if o != v {
			w += g.root[v] * g.root[o] / float64(n)
		}
	}
	// Bonferroni correction for all pairs of levels, because the best level is chosen from the data.
	wide := tail * distuv.UnitNormal.Quantile(1-0.005/max(1, known*(known-1)/2))
	for l := range main {
		if seen[l] == 0 || e.BestLevel < 0 {
			continue
		}
		i := judge.Interval{Mid: main[l] - main[e.BestLevel], Known: true, Count: seen[l]}
		if l != e.BestLevel {
			k := make([]float64, len(g.points))
			for j, p := range g.points {
				switch p[v] {
				case l:
					k[j] = w
				case e.BestLevel:
					k[j] = -w
				}
			}
			left := 2 * w
			for _, x := range g.forward(k) {
				left -= x * x
			}
			half := wide * math.Sqrt(max(left, 0))
			i.Low, i.High = i.Mid-half, i.Mid+half
		}
		e.Levels[l] = i
	}
	return e
}

// interaction is the strongest interaction of a variable: its standard deviation over the levels,
// and whether it exceeds what chance produces.
type interaction struct {
	rms     float64
	visible bool
}

func (i interaction) or(o interaction) interaction {
	return interaction{max(i.rms, o.rms), i.visible || o.visible}
}

// chanceVariance returns the variance that an estimated interaction rarely exceeds if there is no
// real one. If a component has prior variance p and posterior variance q, pure noise gives its
// estimate a variance of (1-q/p) q.
func (g *surrogate) chanceVariance(a, b int, seenA, seenB []int) float64 {
	p := g.root[a] * g.root[b]
	levels := func(seen []int) float64 { return float64(len(lists.Filter(seen, func(n int) bool { return n > 0 }))) }
	sum, cells := 0.0, 0.0
	for x := range seenA {
		for y := range seenB {
			if seenA[x] == 0 || seenB[y] == 0 {
				continue
			}
			k := make([]float64, len(g.points))
			for i, point := range g.points {
				if point[a] == x && point[b] == y {
					k[i] = p
				}
			}
			took := 0.0
			for _, v := range g.forward(k) {
				took += v * v
			}
			sum, cells = sum+took*(1-took/p), cells+1
		}
	}
	dof := max(1, (levels(seenA)-1)*(levels(seenB)-1))
	if p == 0 {
		return 0
	}
	return sum / max(cells, 1) * (1 + 4*math.Sqrt(2/dof)) // four standard deviations of a chi-squared variance
}

// judge decides whether the variable matters. NoEffect is an equivalence test: the intervals of all
// levels lie within the floor, and there is no visible interaction.
func (e *Effect) judge(inter interaction, seen []int) {
	floor := math.Log1p(Floor)
	equal, differ, levels := !inter.visible && inter.rms < floor, false, 0
	for l, i := range e.Levels {
		if seen[l] == 0 {
			continue
		}
		levels++
		if l == e.BestLevel {
			continue
		}
		equal = equal && i.High <= floor
		differ = differ || i.Low > 0 && i.Mid > floor/2
	}
	switch {
	case levels < 2:
		e.Verdict = Unresolved
	case equal:
		e.Verdict = NoEffect
	case differ, inter.visible && inter.rms > floor/2:
		e.Verdict = Matters
	default:
		e.Verdict = Unresolved
	}
}
