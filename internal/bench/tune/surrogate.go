package tune

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

// surrogate is a Gaussian process over settings. The covariance of two settings depends on the
// variables that they have in common: a term for each variable (main effects), one for each pair of
// variables (interactions), and one for identical settings.
type surrogate struct {
	scale     float64   // variance of the effects
	pair, own float64   // shares of interactions and of individual settings in scale
	relevance []float64 // weight of each variable, from 0 to 1
	noise     float64   // variance between launches of a setting
	centre    float64
	points    [][]int           // levels of the launched settings
	y         []float64         // mean log value of each point, minus centre
	launches  []float64         // total weight of the launches of each point
	chol      blas64.Triangular // lower Cholesky factor of the covariance matrix
	alpha     []float64         // inverse of the covariance matrix times y

	// main is the variance of each variable's main effect. The variance of the interaction of two
	// variables is the product of their roots.
	main, root []float64
}

// setVariances computes main and root from the shares.
func (g *surrogate) setVariances() {
	d := len(g.relevance)
	g.main, g.root = make([]float64, d), make([]float64, d)
	sum, sq := 0.0, 0.0
	for _, m := range g.relevance {
		sum, sq = sum+m, sq+m*m
	}
	pair := g.pair
	if d < 2 {
		pair = 0
	}
	for v, m := range g.relevance {
		g.main[v] = g.scale * (1 - pair) * m / sum
		if pair > 0 {
			g.root[v] = m * math.Sqrt(2*g.scale*pair/(sum*sum-sq))
		}
	}
}

// kernel returns the covariance of two settings.
func (g *surrogate) kernel(a, b []int) float64 {
	k, sum, sq, same := g.scale, 0.0, 0.0, 0 // the constant term stands for the unknown mean
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

// factor factorizes the covariance matrix and computes alpha. It returns the log likelihood of the values, up to a
// constant, for choosing the shares.
func (g *surrogate) factor() float64 {
	g.setVariances()
	n := len(g.points)
	cov := blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Lower}
	for i := range n {
		row := cov.Data[i*n:]
		for j := range i + 1 {
			row[j] = g.kernel(g.points[i], g.points[j])
		}
		row[i] += g.noise/g.launches[i] + 1e-9*g.scale
	}
	g.chol, _ = lapack64.Potrf(cov) // succeeds, because of the terms on the diagonal
	logDet := 0.0
	for i := range n {
		logDet += math.Log(g.chol.Data[i*(n+1)])
	}
	g.alpha = g.forward(g.y)
	fit := floats.Dot(g.alpha, g.alpha)
	blas64.Trsv(blas.Trans, g.chol, blas64.Vector{N: n, Data: g.alpha, Inc: 1})
	return -fit/2 - logDet
}

// forward solves L x = b with the Cholesky factor L.
func (g *surrogate) forward(b []float64) []float64 {
	x := slices.Clone(b)
	blas64.Trsv(blas.NoTrans, g.chol, blas64.Vector{N: len(x), Data: x, Inc: 1})
	return x
}

// mean returns the expected log value of a setting.
func (g *surrogate) mean(levels []int) float64 {
	sum := g.centre
	for i, p := range g.points {
		sum += g.alpha[i] * g.kernel(levels, p)
	}
	return sum
}

// sd returns the standard deviation of a setting's expected value.
func (g *surrogate) sd(levels []int) float64 {
	k := lists.Map(g.points, func(p []int) float64 { return g.kernel(levels, p) })
	x := g.forward(k)
	return math.Sqrt(max(g.kernel(levels, levels)-floats.Dot(x, x), 0))
}

// maxSD returns the standard deviation of a setting about which nothing is known.
func (g *surrogate) maxSD() float64 { return math.Sqrt(g.scale * (2 + g.own)) }

// refit fits the surrogate again once there are a tenth more launches. Single rounds of the race
// hardly change it.
func (r *Race) refit() {
	if 10*(len(r.history)-r.modelSize) >= r.modelSize {
		r.fit()
	}
}

// fit fits the surrogate to all launches so far.
func (r *Race) fit() {
	if r.modelSize == len(r.history) {
		return
	}
	r.modelSize = len(r.history)
	all := r.training(true)
	if len(all) < 4 {
		return
	}
	g := &surrogate{pair: 0.5, own: 0.02, relevance: slices.Repeat([]float64{1}, len(r.space.Levels))}
	if old := r.model; old != nil {
		g.pair, g.own, g.relevance = old.pair, old.own, slices.Clone(old.relevance)
	}
	g.centre = stats.Median(lists.Map(all, func(o record) float64 { return o.Log }))
	g.noise = math.Pow(r.noiseAt(0.75), 2)
	g.scale = max(r.spread(g.noise), 1e-12)
	if len(r.deviations()) == 0 {
		g.noise = g.scale / 10
	}
	g.noise = max(g.noise, 1e-6*g.scale)
	if r.shareFits < 2 && (r.model == nil || r.phase == Contend) {
		g.gather(r.training(false), r.space, nil, nil)
		g.fitShares(r.model == nil)
		r.shareFits++
	}
	g.train(all, r.space)
	r.model = g
}

// training returns the launches to fit. Unless all is set, it leaves out a confounded default,
// because the effects of its levels cannot be separated.
func (r *Race) training(all bool) []record {
	return lists.Filter(r.history, func(o record) bool {
		return o.Failed == "" && o.phase != Confirm && (all || o.Setting != r.space.Default || !r.confounded)
	})
}

// confounded reports whether no other setting shares the default's levels of two or more variables,
// for example because the sweep does not list "unset". Then the effects of these levels cannot be
// separated.
func (s Space) confounded() bool {
	base, unshared := s.Settings[s.Default], 0
	for v := range s.Levels {
		if !slices.ContainsFunc(s.Settings, func(l []int) bool { return l[v] == base[v] && !slices.Equal(l, base) }) {
			unshared++
		}
	}
	return unshared > 1
}

// train fits the process to launches in two passes: the second one reduces the weight of outliers
// and removes common offsets of rounds.
func (g *surrogate) train(all []record, space Space) {
	weight, offset := slices.Repeat([]float64{1}, len(all)), map[int]float64{}
	const passes = 2
	for pass := range passes {
		g.gather(all, space, weight, offset)
		g.factor()
		if pass < passes-1 {
			g.reweigh(all, space, weight, offset)
		}
	}
}

// spread returns the variance of the settings' medians minus the contribution of the noise.
func (r *Race) spread(noise float64) float64 {
	var levels []float64
	added := 0.0
	for s := range r.space.Settings {
		if s == r.space.Default && r.confounded {
			continue
		}
		if _, logs := r.samples(s); len(logs) > 0 {
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

// gather averages the launches of each setting to one point. A nil weight means equal weights.
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

// fitShares chooses the shares that maximise the likelihood of the values. It optimises one share
// after the other over a few candidates. On the first fit it also chooses the noise, for which there
// is no good estimate yet.
func (g *surrogate) fitShares(first bool) {
	const enough = 200 // the first points are a random sample, so they are representative
	points, y, launches := g.points, g.y, g.launches
	if len(points) > enough {
		g.points, g.y, g.launches = points[:enough], y[:enough], launches[:enough]
	}
	defer func() { g.points, g.y, g.launches = points, y, launches }()
	bestLikelihood := math.Inf(-1)
	try := func(at *float64, values ...float64) {
		best := *at
		for _, *at = range values {
			if l := g.factor(); l > bestLikelihood {
				bestLikelihood, best = l, *at
			}
		}
		*at = best
	}
	if first {
		try(&g.noise, g.scale/3000, g.scale/300, g.scale/30, g.scale/3, g.scale)
	}
	try(&g.pair, 0.1, 0.5)
	for v := range g.relevance {
		try(&g.relevance[v], 1, 0.1, 0.01)
	}
	try(&g.own, 0.002, 0.02, 0.1)
}

// reweigh reduces the weight of outliers: launches that are slower than expected by more than far
// standard deviations, by the square of the distance. A launch that is faster than expected keeps
// its weight: disturbances only slow launches down, and an optimum that needs a pair of values looks
// just like that when it is seen first. If a third of a setting's launches are slow, they are no
// outliers but a second mode, and count in full. It also estimates the offset that all launches of
// a round have in common.
func (g *surrogate) reweigh(all []record, space Space, weight []float64, offset map[int]float64) {
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
	const enough = 6 // launches needed to estimate the offset of a round
	for round, values := range rounds {
		if len(values) >= enough {
			offset[round] = stats.Median(values)
		}
	}
	sd := math.Sqrt(g.noise)
	slow, total := map[int]int{}, map[int]int{} // by setting
	for i, o := range all {
		weight[i] = max(1e-3, min(1, math.Pow(far*sd/max(left[i]-offset[o.Round], 1e-300), 2)))
		total[o.Setting]++
		if weight[i] < 1 {
			slow[o.Setting]++
		}
	}
	for i, o := range all {
		if n := slow[o.Setting]; n >= 2 && 3*n >= total[o.Setting] {
			weight[i] = 1
		}
	}
}
