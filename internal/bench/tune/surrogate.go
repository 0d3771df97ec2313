package tune

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

// surrogate is a Gaussian process over settings. The covariance of two depends on
// which variables they have in common: a share for each (main effects), one for each
// pair (interactions), and one that is the setting's own.
type surrogate struct {
	scale     float64   // variance of the effects
	pair, own float64   // shares of the interactions and of what is the setting's own in it
	matter    []float64 // how much each variable counts, from 0 to 1
	noise     float64   // variance of a launch
	centre    float64
	points    [][]int
	y         []float64 // mean of each, less the centre
	launches  []float64 // of each, by weight
	chol      [][]float64
	alpha     []float64 // the inverse of the covariance times y

	main, root []float64 // of each variable: variance of its main effect, root of its part in pairs
}

// weigh makes the variances of the shares.
func (g *surrogate) weigh() {
	d := len(g.matter)
	g.main, g.root = make([]float64, d), make([]float64, d)
	sum, sq := 0.0, 0.0
	for _, m := range g.matter {
		sum, sq = sum+m, sq+m*m
	}
	pair := g.pair
	if d < 2 {
		pair = 0
	}
	for v, m := range g.matter {
		g.main[v] = g.scale * (1 - pair) * m / sum
		if pair > 0 {
			g.root[v] = m * math.Sqrt(2*g.scale*pair/(sum*sum-sq))
		}
	}
}

// kernel is the covariance of two settings' levels.
func (g *surrogate) kernel(a, b []int) float64 {
	k, sum, sq, same := g.scale, 0.0, 0.0, 0 // the mean is not known either
	for v, l := range a {
		if l == b[v] {
			same++
			k += g.main[v]
			sum += g.root[v]
			sq += g.root[v] * g.root[v]
		}
	}
	k += (sum*sum - sq) / 2
	if same == len(a) {
		k += g.own * g.scale
	}
	return k
}

// factor prepares the process for its points; the result is the logarithm of the
// likelihood of their values, to choose the shares by.
func (g *surrogate) factor() float64 {
	g.weigh()
	n := len(g.points)
	g.chol = make([][]float64, n)
	for i := range n {
		g.chol[i] = make([]float64, i+1)
		for j := range i + 1 {
			g.chol[i][j] = g.kernel(g.points[i], g.points[j])
		}
		g.chol[i][i] += g.noise/g.launches[i] + 1e-9*g.scale
	}
	logDet := 0.0
	for i, row := range g.chol {
		for j := range i + 1 {
			other := g.chol[j]
			sum := row[j]
			for k, x := range other[:j] {
				sum -= row[k] * x
			}
			if j < i {
				row[j] = sum / other[j]
				continue
			}
			row[i] = math.Sqrt(max(sum, 1e-12*g.scale))
			logDet += math.Log(row[i])
		}
	}
	half := g.forward(g.y)
	fit := 0.0
	for _, x := range half {
		fit += x * x
	}
	g.alpha = half
	for i := n - 1; i >= 0; i-- {
		g.alpha[i] /= g.chol[i][i]
		for j := range i {
			g.alpha[j] -= g.chol[i][j] * g.alpha[i]
		}
	}
	return -fit/2 - logDet
}

// forward solves the lower triangle.
func (g *surrogate) forward(b []float64) []float64 {
	x := slices.Clone(b)
	for i, row := range g.chol {
		sum := x[i]
		for k, v := range row[:i] {
			sum -= v * x[k]
		}
		x[i] = sum / row[i]
	}
	return x
}

// mean is what is expected of a setting.
func (g *surrogate) mean(levels []int) float64 {
	sum := g.centre
	for i, p := range g.points {
		sum += g.alpha[i] * g.kernel(levels, p)
	}
	return sum
}

// sd is how far a setting may be from its mean.
func (g *surrogate) sd(levels []int) float64 {
	k := lists.Map(g.points, func(p []int) float64 { return g.kernel(levels, p) })
	left := g.kernel(levels, levels)
	for _, x := range g.forward(k) {
		left -= x * x
	}
	return math.Sqrt(max(left, 0))
}

// most is the deviation of a setting of which nothing is known.
func (g *surrogate) most() float64 { return math.Sqrt(g.scale * (2 + g.own)) }

// refit renews the surrogate once a tenth more is known: a round of a few
// contenders hardly changes it.
func (r *Race) refit() {
	if 10*(len(r.seen)-r.modelAt) >= r.modelAt {
		r.fit()
	}
}

// fit makes the surrogate of all launches so far.
func (r *Race) fit() {
	if r.modelAt == len(r.seen) {
		return
	}
	r.modelAt = len(r.seen)
	all := r.records(true)
	if len(all) < 4 {
		return
	}
	g := &surrogate{pair: 0.5, own: 0.02, matter: slices.Repeat([]float64{1}, len(r.space.Levels))}
	if old := r.model; old != nil {
		g.pair, g.own, g.matter = old.pair, old.own, slices.Clone(old.matter)
	}
	g.centre = stats.Median(lists.Map(all, func(o record) float64 { return o.Log }))
	g.noise = math.Pow(r.noiseAt(0.75), 2)
	g.scale = max(r.spread(g.noise), 1e-12)
	if len(r.away()) == 0 {
		g.noise = g.scale / 10
	}
	g.noise = max(g.noise, 1e-6*g.scale)
	if r.chosen < 2 && (r.model == nil || r.phase == Contend) {
		g.gather(r.records(false), r.space, nil, nil)
		g.choose(r.model == nil)
		r.chosen++
	}
	g.train(all, r.space)
	r.model = g
}

// records are the launches to learn from, without those of the default on request where
// it is confounded: which of its values makes it faster or slower nobody can tell.
func (r *Race) records(all bool) []record {
	return lists.Filter(r.seen, func(o record) bool {
		return o.Failed == "" && o.phase != Confirm && (all || o.Setting != r.space.Default || !r.confounded)
	})
}

// confounded reports whether the default alone has its levels of several variables, as
// where a sweep does not list "unset" for them.
func (s Space) confounded() bool {
	base, alone := s.Settings[s.Default], 0
	for v := range s.Levels {
		if !slices.ContainsFunc(s.Settings, func(l []int) bool { return l[v] == base[v] && !slices.Equal(l, base) }) {
			alone++
		}
	}
	return alone > 1
}

// train fits the process to launches: outliers lose weight and rounds their offset.
func (g *surrogate) train(all []record, space Space) {
	weight, offset := slices.Repeat([]float64{1}, len(all)), map[int]float64{}
	const passes = 2
	for pass := range passes {
		g.gather(all, space, weight, offset)
		g.factor()
		if pass < passes-1 {
			g.review(all, space, weight, offset)
		}
	}
}

// spread is the variance of the settings' levels, each by its median, less what the
// noise adds to it.
func (r *Race) spread(noise float64) float64 {
	var levels []float64
	added := 0.0
	for s := range r.space.Settings {
		if s == r.space.Default && r.confounded {
			continue
		}
		if _, logs := r.good(s); len(logs) > 0 {
			levels = append(levels, stats.Median(logs))
			added += noise / float64(len(logs))
		}
	}
	if len(levels) < 2 {
		return 0
	}
	all := stat.Variance(levels, nil)
	return max(all-added/float64(len(levels)), all/20)
}

// gather makes one point of each setting's launches; without weights all count alike.
func (g *surrogate) gather(all []record, space Space, weight []float64, offset map[int]float64) {
	at := map[int]int{}
	g.points, g.y, g.launches = nil, nil, nil
	for i, o := range all {
		k, has := at[o.Setting]
		if !has {
			k = len(g.points)
			at[o.Setting] = k
			g.points, g.y, g.launches = append(g.points, space.Settings[o.Setting]), append(g.y, 0), append(g.launches, 0)
		}
		w := 1.0
		if weight != nil {
			w = weight[i]
		}
		g.y[k] += w * (o.Log - offset[o.Round] - g.centre)
		g.launches[k] += w
	}
	for k := range g.y {
		g.y[k] /= g.launches[k]
	}
}

// choose takes the shares under which the values are likeliest, one after the other
// from a few; at first it is hardly known how much launches differ.
func (g *surrogate) choose(first bool) {
	const enough = 200 // points, the first of which are a random sample
	points, y, launches := g.points, g.y, g.launches
	if len(points) > enough {
		g.points, g.y, g.launches = points[:enough], y[:enough], launches[:enough]
	}
	defer func() { g.points, g.y, g.launches = points, y, launches }()
	most := math.Inf(-1)
	try := func(at *float64, values ...float64) {
		best := *at
		for _, *at = range values {
			if l := g.factor(); l > most {
				most, best = l, *at
			}
		}
		*at = best
	}
	if first {
		try(&g.noise, g.scale/3000, g.scale/300, g.scale/30, g.scale/3, g.scale)
	}
	try(&g.pair, 0.1, 0.5)
	for v := range g.matter {
		try(&g.matter[v], 1, 0.1, 0.01)
	}
	try(&g.own, 0.002, 0.02, 0.1)
}

// review takes weight from launches far from what is expected, the more the farther,
// and from rounds what their launches have in common.
func (g *surrogate) review(all []record, space Space, weight []float64, offset map[int]float64) {
	const far = 2.5 // standard deviations
	left := make([]float64, len(all))
	mean := map[int]float64{}
	rounds := map[int][]float64{}
	for i, o := range all {
		if _, has := mean[o.Setting]; !has {
			mean[o.Setting] = g.mean(space.Settings[o.Setting])
		}
		left[i] = o.Log - mean[o.Setting]
		rounds[o.Round] = append(rounds[o.Round], left[i])
	}
	const enough = 6 // launches that show what their round has in common
	for round, values := range rounds {
		if len(values) >= enough {
			offset[round] = stats.Median(values)
		}
	}
	sd := math.Sqrt(g.noise)
	for i, o := range all {
		weight[i] = max(1e-3, min(1, math.Pow(far*sd/max(math.Abs(left[i]-offset[o.Round]), 1e-300), 2)))
	}
}
