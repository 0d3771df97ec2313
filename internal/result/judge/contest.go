package judge

import (
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kernbench/kernbench/internal/base/stats"
)

// Trials maps the number of a trial to the logarithm of a peer's time over ours in that trial.
type Trials map[int]float64

// Contest is one point: our program paired with each of its peers.
type Contest []Trials

// contestAlpha is the level of the intervals of a table: the probability that any of them misses the
// true ratio. It is below 5 % because a table has two goals: at every point and for the mean. The
// outcome "not met" is wrong at most 2 % of the time for each goal, and at most 5 % for either.
const contestAlpha = 0.04

// RankPeers returns how many times faster our program is than the best peer of each point, and the
// geometric mean of these ratios over the points. A ratio is the peer's time over ours: above 1, ours is
// faster.
//
// It is unknown which peer is best, and the peer that looks best does so partly by luck. A ratio to its
// time would make our program look slower than it is. So the trials are split into two halves, and the
// ratio in a trial is to the peer that was best in the other half. This choice has no such bias.
//
// The interval of a point needs no choice of a peer. Our program is faster than the best peer if it is
// faster than every peer, so the lower end is the smallest lower end over the peers. The upper end is
// the smallest upper end. For it, the level is divided by the number of peers, because any of them may
// be low by chance. For both ends, the level is also divided by the number of points. If a peer has fewer
// than MinPairs trials, the lower end is unknown.
//
// The interval of the mean comes from the mean over all points in each trial, with peers chosen from the
// other half. Its lower end is not above the one for the peers that look best in all trials.
func RankPeers(points []Contest) (ratios []Ratio, mean Ratio) {
	choices := make([]choice, len(points))
	for i, c := range points {
		choices[i] = newChoice(c)
		ratios = append(ratios, choices[i].ratio(len(points)))
	}
	mean = newRatio(meansByTrial(choices, choice.inOtherHalf), 1)
	naive := newRatio(meansByTrial(choices, func(c choice, _ int) int { return c.best }), 1)
	mean.Low = min(mean.Low, naive.Low)
	for _, r := range ratios {
		if math.IsNaN(r.Low) { // a peer with too few trials may be the best
			mean.Low = r.Low
		}
	}
	return ratios, mean
}

// choice holds the indices of the best peers of a contest, or -1 if no peer has a trial.
type choice struct {
	Contest
	trials     []int       // trials of all peers, in order
	half       map[int]int // the half of each trial, alternating between 0 and 1
	bestInHalf [2]int      // best peer in each half
	best       int         // best peer in all trials
}

func newChoice(c Contest) choice {
	out := choice{Contest: c, half: map[int]int{}}
	for _, peer := range c {
		out.trials = slices.AppendSeq(out.trials, maps.Keys(peer))
	}
	slices.Sort(out.trials)
	out.trials = slices.Compact(out.trials)
	for i, t := range out.trials {
		out.half[t] = i % 2
	}
	for h := range out.bestInHalf {
		out.bestInHalf[h] = c.bestIn(func(t int) bool { return out.half[t] == h })
	}
	out.best = c.ClosestPeer()
	return out
}

// inOtherHalf returns the peer that was best in the half to which a trial does not belong.
func (c choice) inOtherHalf(trial int) int { return c.bestInHalf[1-c.half[trial]] }

// ClosestPeer returns the index of the peer with the smallest median ratio, or -1 if no peer has a trial.
func (c Contest) ClosestPeer() int { return c.bestIn(func(int) bool { return true }) }

// bestIn returns the peer with the smallest median over the trials for which use returns true, or -1.
func (c Contest) bestIn(use func(trial int) bool) int {
	best, smallest := -1, math.Inf(1)
	for k, peer := range c {
		var values []float64
		for t, v := range peer {
			if use(t) {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			continue
		}
		if m := stats.Median(values); m < smallest {
			best, smallest = k, m
		}
	}
	return best
}

// ratio returns the result of the point. points is the number of points that are judged together.
func (c choice) ratio(points int) Ratio {
	chosen := meansByTrial([]choice{c}, choice.inOtherHalf)
	if len(chosen) == 0 && c.best >= 0 { // a single trial has no other half
		chosen = slices.Collect(maps.Values(c.Contest[c.best]))
	}
	out := newRatio(chosen, 1)
	out.Low, out.High = math.Inf(1), math.Inf(1)
	for _, peer := range c.Contest {
		logs := slices.Collect(maps.Values(peer))
		if len(logs) < MinPairs {
			out.Low = math.NaN() // stays: min with NaN is NaN
			continue
		}
		out.Low = min(out.Low, newRatio(logs, points).Low)
		out.High = min(out.High, newRatio(logs, points*len(c.Contest)).High)
	}
	if math.IsInf(out.High, 1) {
		out.High = math.NaN()
	}
	return out
}

// meansByTrial returns, for each trial, the mean over the points of the logarithm for the peer that
// choose returns. Trials in which a point is missing are left out: points have different ratios, so a
// mean over fewer points is another quantity.
func meansByTrial(points []choice, choose func(c choice, trial int) int) []float64 {
	if len(points) == 0 {
		return nil
	}
	var means []float64
	for _, trial := range points[0].trials {
		sum := 0.0
		for _, c := range points {
			k := choose(c, trial)
			v, has := 0.0, false
			if k >= 0 {
				v, has = c.Contest[k][trial]
			}
			if !has {
				v = math.NaN()
			}
			sum += v
		}
		if !math.IsNaN(sum) {
			means = append(means, sum/float64(len(points)))
		}
	}
	return means
}

// newRatio returns the median of logarithms as a ratio, with its interval at confidence
// 1-contestAlpha/tests. Low and High are NaN if there are fewer than MinPairs values.
//
// If there are enough values, the interval is between two order statistics, which holds for every
// distribution. But ten values, for example, are too few for forty tests. Then the interval is Student's
// t interval, extended to contain the interval of the order statistics for a single test. The choice of
// the method depends only on counts, never on the values.
func newRatio(logs []float64, tests int) Ratio {
	r := Ratio{Median: math.NaN(), Low: math.NaN(), High: math.NaN(), Pairs: len(logs)}
	if len(logs) == 0 {
		return r
	}
	logs = slices.Sorted(slices.Values(logs))
	r.Median = math.Exp(stats.Median(logs))
	n := len(logs)
	if n < MinPairs {
		return r
	}
	level := contestAlpha / float64(tests)
	low, high := orderInterval(n, level)
	least := math.Exp2(float64(1 - n)) // level of the interval from the least to the greatest value
	if tests == 1 || least <= level/rankReserve {
		r.Low, r.High = math.Exp(logs[low]), math.Exp(logs[high])
		return r
	}
	low, high = orderInterval(n, contestAlpha)
	half := stat.StdDev(logs, nil) / math.Sqrt(float64(n)) *
		distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(1-level/2)
	mid := stat.Mean(logs, nil)
	r.Low, r.High = math.Exp(min(mid-half, logs[low])), math.Exp(max(mid+half, logs[high]))
	return r
}

// orderInterval returns two indices of n sorted values between which the median of the distribution lies
// with confidence 1-level. If there are too few values, it returns the first and the last index.
func orderInterval(n int, level float64) (low, high int) {
	low = stats.OrderIndex(n, level/2)
	return low, n - 1 - low
}
