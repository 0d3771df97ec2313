package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

const (
	alpha = 0.05 // probability that the race drops the best setting, over all its tests
	// Floor is the smallest relative difference that matters, as in compare.
	Floor = 0.02
	// exploreShare is the fraction of the race budget for exploring. pilotShare is the smallest fraction of
	// the exploration for settings that cover the space, and maxPilotShare the largest, even if more
	// settings would be needed to launch all pairs of levels.
	exploreShare, pilotShare, maxPilotShare = 0.75, 0.5, 0.75
	// coverShare is the fraction of each later batch that continues to cover the space, because the model
	// may know nothing about the best region.
	coverShare = 0.25
	// maxLevelFailures is the number of failures, without a success, after which a level is no longer
	// tried.
	maxLevelFailures = 3
	// timingSettings is the number of settings, besides the default, in the first round of a study
	// with a time limit. That round shows how long a launch takes.
	timingSettings = 2
)

// explore returns the next settings to launch, or nil when the race begins.
func (r *Race) explore() []int {
	if len(r.history) == 0 && r.cfg.Seconds > 0 { // find out how long a launch takes
		others := slices.DeleteFunc(r.unlaunched(), func(s int) bool { return s == r.space.Default })
		return r.withDefault(r.propose(timingSettings, others))
	}
	if n := len(r.space.Settings); n*minRounds <= r.raceBudget() {
		r.phase = Contend
		r.contenders = lists.Range[int](n)
		return nil
	}
	budget := int(exploreShare * float64(r.raceBudget()))
	room := min(budget-len(r.history), r.launchesLeft())
	fresh := r.unlaunched()
	if room <= 0 || len(fresh) == 0 {
		r.startRace()
		return nil
	}
	if r.cfg.Seconds > 0 { // the time limit is checked only between rounds, so keep them short
		room = min(room, len(r.history), max(minRounds, r.launches()/16))
	}
	if pilot := r.pilot(budget); len(r.history) < max(1, pilot) {
		return r.withDefault(r.propose(max(1, min(room, pilot-len(r.history))), fresh))
	}
	r.fit()
	r.addStep()
	batch := min(room, max(4, budget/8))
	next := r.propose(batch-int(coverShare*float64(batch)), slices.Clone(fresh))
	fresh = slices.DeleteFunc(fresh, func(s int) bool { return slices.Contains(next, s) })
	return r.withDefault(append(next, r.cover(batch-len(next), fresh)...))
}

// pilot returns how many settings to launch before the first model: enough to see every pair of
// levels of two variables, which takes about a third more settings than the largest number of pairs.
func (r *Race) pilot(budget int) int {
	pairs := 0
	for a, n := range r.space.Levels {
		for _, m := range r.space.Levels[:a] {
			pairs = max(pairs, n*m)
		}
	}
	low, high := int(pilotShare*float64(budget)), int(maxPilotShare*float64(budget))
	return min(max(low, pairs+pairs/3), high)
}

// withDefault adds the default setting, which takes part in every round of the exploration.
func (r *Race) withDefault(list []int) []int {
	if d := r.space.Default; !slices.Contains(list, d) && r.failure[d] == "" {
		return append(slices.Clone(list), d)
	}
	return slices.Clone(list)
}

// unlaunched returns the settings that were never launched and have no failing level.
func (r *Race) unlaunched() []int {
	bad := r.failingLevels()
	var out []int
	for s, levels := range r.space.Settings {
		if len(r.bySetting[s]) > 0 {
			continue
		}
		ok := true
		for v, l := range levels {
			ok = ok && !bad[v][l]
		}
		if ok {
			out = append(out, s)
		}
	}
	// A random sample of very many settings is enough.
	const sampleSize = 20_000
	if len(out) > sampleSize {
		r.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		out = out[:sampleSize]
	}
	return out
}

// failingLevels reports, by variable and level, whether several settings with this level have failed
// and none has worked.
func (r *Race) failingLevels() [][]bool {
	bad := make([][]bool, len(r.space.Levels))
	for v, n := range r.space.Levels {
		good, failed := make([]int, n), make([]int, n)
		for _, o := range r.history {
			if l := r.space.Settings[o.Setting][v]; o.Failed == "" {
				good[l]++
			} else {
				failed[l]++
			}
		}
		bad[v] = make([]bool, n)
		for l := range n {
			bad[v][l] = good[l] == 0 && failed[l] >= maxLevelFailures
		}
	}
	return bad
}

// propose chooses the most promising settings by their lower confidence bound: the expected value
// minus one standard deviation. Without a model it covers the space.
func (r *Race) propose(many int, among []int) []int {
	if r.model == nil {
		return r.cover(many, among)
	}
	value := make(map[int]float64, len(among))
	for _, s := range among {
		value[s] = r.model.mean(r.space.Settings[s])
	}
	byValue := func(a, b int) int { return cmp.Or(cmp.Compare(value[a], value[b]), cmp.Compare(a, b)) }
	slices.SortFunc(among, byValue)
	among = among[:min(len(among), 4*many)]
	for _, s := range among {
		value[s] -= r.model.sd(r.space.Settings[s])
	}
	slices.SortFunc(among, byValue)
	return slices.Clone(among[:min(many, len(among))])
}

// coverTries is the number of random settings from which cover chooses each one.
const coverTries = 128

// cover chooses settings at random, but so that all pairs of levels of two variables occur about
// equally often. An optimum that needs one pair of values is then seen with few settings, which
// a plain random sample often misses (a pairwise covering design, Cohen et al. 1997). It changes the
// order of among.
func (r *Race) cover(many int, among []int) (out []int) {
	d := len(r.space.Levels)
	seen := make([][]float64, d*d) // launches by pair of variables and pair of levels
	for a, n := range r.space.Levels {
		for b, m := range r.space.Levels[:a] {
			seen[a*d+b] = make([]float64, n*m)
		}
	}
	count := func(l []int, a, b int) *float64 { return &seen[a*d+b][l[a]*r.space.Levels[b]+l[b]] }
	add := func(s int) {
		for a := range d {
			for b := range a {
				*count(r.space.Settings[s], a, b)++
			}
		}
	}
	gain := func(s int) (sum float64) { // large for pairs that were seen rarely
		for a := range d {
			for b := range a {
				n := 1 + *count(r.space.Settings[s], a, b)
				sum += 1 / (n * n * n)
			}
		}
		return sum
	}
	for s, of := range r.bySetting {
		if len(of) > 0 {
			add(s)
		}
	}
	for len(out) < many && len(among) > 0 {
		best, bestGain := 0, -1.0
		for range min(coverTries, len(among)) {
			i := r.rng.IntN(len(among))
			if g := gain(among[i]); g > bestGain {
				best, bestGain = i, g
			}
		}
		add(among[best])
		out = append(out, among[best])
		among[best] = among[len(among)-1]
		among = among[:len(among)-1]
	}
	return out
}

// startRace chooses the contenders: as many as the remaining launches can distinguish.
func (r *Race) startRace() {
	r.phase = Contend
	r.fit()
	var measured []int
	for s := range r.space.Settings {
		if _, logs := r.samples(s); len(logs) > 0 && r.failure[s] == "" {
			measured = append(measured, s)
		}
	}
	many := max(2, r.launchesLeft()/8)
	r.contenders = r.propose(many, append(slices.Clone(measured), r.unlaunched()...))
	// The model may treat the good value of a setting as noise if it cannot explain it. Random search would
	// not, so the settings with the fastest launches always enter the race.
	own := map[int]float64{}
	for _, s := range measured {
		_, logs := r.samples(s)
		own[s] = stats.Median(logs)
	}
	slices.SortFunc(measured, func(a, b int) int { return cmp.Or(cmp.Compare(own[a], own[b]), cmp.Compare(a, b)) })
	for _, s := range measured[:min(len(measured), ownContenders)] {
		if !slices.Contains(r.contenders, s) {
			r.contenders = append(r.contenders, s)
		}
	}
}

// ownContenders is the number of settings that enter the race because of their own launches, whatever the
// model expects of them.
const ownContenders = 3

// raceRound drops the losers and returns the remaining contenders for another round. It returns nil
// if the race is decided or the budget is used up.
func (r *Race) raceRound() []int {
	r.contenders = slices.DeleteFunc(r.contenders, func(s int) bool { return r.failure[s] != "" })
	if r.raceRounds() > 0 {
		r.refit()
		r.eliminate()
		r.addStep()
	}
	next := slices.Clone(r.contenders)
	if r.launchesLeft() < len(next) || r.decided() {
		switch { // the budget is too small for a complete round: launch the first contenders
		case r.raceRounds() == 0 && r.launchesLeft() > 1:
			return r.withDefault(next[:min(len(next), r.launchesLeft()-1)])
		case r.raceRounds() == 0 && r.launchesLeft() == 1 && len(next) > 0:
			return next[:1]
		}
		r.startConfirm()
		return nil
	}
	return next
}

// raceRounds returns the number of rounds of the race so far.
func (r *Race) raceRounds() int {
	n, last := 0, -1
	for _, o := range r.history {
		if o.phase == Contend && o.Round != last {
			n, last = n+1, o.Round
		}
	}
	return n
}

// eliminate drops the contenders that are significantly slower than the leader. The level is
// corrected for the pairs of contenders (Bonferroni), because any two might have been compared,
// and for repeated testing: the k-th test spends 6/(pi k)^2 of it, which sums to one.
func (r *Race) eliminate() {
	lead, ok := r.leader()
	if !ok || len(r.contenders) < 2 {
		return
	}
	r.looks++
	k := float64(r.looks)
	n := float64(len(r.contenders))
	level := alpha * 6 / (math.Pi * math.Pi * k * k) / (n * (n - 1) / 2)
	away := r.deviations()
	usual := noiseQuantile(away, 0.9) * math.Sqrt2
	dof := max(3, float64(len(away))/2) // a quantile is about half as informative as a standard deviation
	r.contenders = slices.DeleteFunc(r.contenders, func(s int) bool {
		d := r.differences(s, lead)
		if s == lead || len(d) < minRounds {
			return false
		}
		mid, _, _, _ := stats.PairedShift(d)
		r.dropped[s] = mid > 0 && stats.PairedP(d, usual, dof)/2 <= level
		return r.dropped[s]
	})
}

// differences returns the log ratios of a setting to another in their common rounds.
func (r *Race) differences(s, base int) (d []float64) {
	rounds, logs := r.samples(s)
	others, theirs := r.samples(base)
	for i, round := range rounds {
		if at := slices.Index(others, round); at >= 0 {
			d = append(d, logs[i]-theirs[at])
		}
	}
	return d
}

// decided reports whether more launches would not change the result: only one contender is left, or
// all are equal within the floor.
func (r *Race) decided() bool {
	if len(r.contenders) < 2 {
		return true
	}
	lead, ok := r.leader()
	if !ok {
		return false
	}
	for _, s := range r.contenders {
		if s == lead {
			continue
		}
		_, low, high, ok := stats.PairedShift(r.differences(s, lead))
		if !ok || max(high, -low) > math.Log1p(Floor)/2 {
			return false
		}
	}
	return true
}

// leader returns the best setting so far: the contender with the lowest expected value, or the best
// of all settings if no contender has run.
func (r *Race) leader() (best int, ok bool) {
	if best, ok = r.bestOf(r.contenders); ok {
		return best, ok
	}
	return r.bestOf(lists.Range[int](len(r.space.Settings)))
}

func (r *Race) bestOf(among []int) (best int, ok bool) {
	lowest := math.Inf(1)
	for _, s := range among {
		_, logs := r.samples(s)
		if len(logs) == 0 || r.failure[s] != "" {
			continue
		}
		if v := r.expected(s); v < lowest {
			best, lowest, ok = s, v, true
		}
	}
	return best, ok
}

// expected returns the estimated log value of a launched setting. The model also uses the launches
// of similar settings.
func (r *Race) expected(s int) float64 {
	if r.model != nil {
		return r.model.mean(r.space.Settings[s])
	}
	_, logs := r.samples(s)
	return stats.Median(logs)
}

// logRatio returns the estimated log ratio of a setting to another, or 0 if one has no launches.
func (r *Race) logRatio(s, base int) float64 {
	_, a := r.samples(s)
	_, b := r.samples(base)
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	return r.expected(s) - r.expected(base)
}

// repeats returns the standard deviation between launches of the same setting, confirmation
// included. It is robust against outliers. count is the number of successive pairs behind it.
func (r *Race) repeats() (noise float64, count int) {
	var away []float64
	for _, of := range r.bySetting {
		last := -1
		for _, i := range of {
			if r.history[i].Failed != "" {
				continue
			}
			if last >= 0 {
				away = append(away, math.Abs(r.history[i].Log-r.history[last].Log)/math.Sqrt2)
			}
			last = i
		}
	}
	slices.Sort(away)
	return noiseQuantile(away, 0.5), len(away)
}

// noiseAt estimates the same standard deviation from a quantile of the launches that count for the
// choice.
func (r *Race) noiseAt(share float64) float64 { return noiseQuantile(r.deviations(), share) }

// deviations returns the sorted differences between successive launches of a setting, divided by
// sqrt 2 to give the deviation of a single launch.
func (r *Race) deviations() (out []float64) {
	for s := range r.space.Settings {
		_, logs := r.samples(s)
		for i := 1; i < len(logs); i++ {
			out = append(out, math.Abs(logs[i]-logs[i-1])/math.Sqrt2)
		}
	}
	slices.Sort(out)
	return out
}

// noiseQuantile returns the standard deviation of the normal distribution that has the same quantile
// of absolute deviations. Higher quantiles include more of the outliers.
func noiseQuantile(away []float64, share float64) float64 {
	if len(away) == 0 {
		return 0
	}
	return stats.Percentile(away, share) / (math.Sqrt2 * math.Erfinv(share))
}

// tailFactor returns the ratio of the standard deviations at the 90 % quantile and at the median: 1
// for normally distributed noise, 2 to 4 if one launch in eight is an outlier.
func (r *Race) tailFactor() float64 {
	away := r.deviations()
	if mid := noiseQuantile(away, 0.5); mid > 0 {
		return max(1, noiseQuantile(away, 0.9)/mid)
	}
	return 1
}

// startConfirm picks the winner and starts its confirmation.
func (r *Race) startConfirm() {
	r.phase = Confirm
	r.best, r.confirmFrom = -1, r.round
	r.fit()
	best, ok := r.leader()
	if !ok {
		r.phase = Done
		return
	}
	r.best = best
	r.pairs = r.confirmPairs()
	if best == r.space.Default {
		r.phase = Done // there is no gain to confirm
	}
}

// confirm returns the next pair of winner and default. A winner that fails is replaced by the next
// best setting.
func (r *Race) confirm() []int {
	if r.failure[r.best] != "" {
		r.contenders = slices.DeleteFunc(r.contenders, func(s int) bool { return r.failure[s] != "" })
		if len(r.history)+2*minPairs > r.launches() {
			r.best, _ = r.leader()
			r.phase = Done
			return nil
		}
		if r.startConfirm(); r.phase == Done {
			return nil
		}
		return r.confirm()
	}
	done := r.round - r.confirmFrom
	if done >= r.pairs || len(r.history)+2 > r.launches() {
		r.phase = Done
		return nil
	}
	if r.failure[r.space.Default] != "" { // there is no default to compare with
		return []int{r.best}
	}
	return []int{r.best, r.space.Default}
}
