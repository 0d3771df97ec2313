package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

const (
	alpha = 0.05 // the chance that the race drops the best, over all its looks
	// Floor is the smallest relative difference worth a launch, as in compare.
	Floor = 0.02
	// exploreShare of the launches before the confirmation look for contenders,
	// pilotShare of these at random.
	exploreShare, pilotShare = 0.65, 0.5
	// hopeless is after how many failures without a success a level is left alone.
	hopeless = 3
	// timed settings and the default show how long a launch takes, where time is limited.
	timed = 2
)

// explore proposes the next settings to start, none when the race begins.
func (r *Race) explore() []int {
	if len(r.seen) == 0 && r.cfg.Seconds > 0 { // how long does a launch take?
		return r.withDefault(r.propose(timed, r.fresh()))
	}
	if n := len(r.space.Settings); n*minRounds <= r.raceBudget() {
		r.phase = Contend
		r.alive = lists.Range[int](n)
		return nil
	}
	budget := int(exploreShare * float64(r.raceBudget()))
	room := min(budget-len(r.seen), r.left())
	fresh := r.fresh()
	if room <= 0 || len(fresh) == 0 {
		r.startRace()
		return nil
	}
	if r.cfg.Seconds > 0 { // nobody looks at the clock within a round
		room = min(room, len(r.seen), max(minRounds, r.launches()/16))
	}
	if pilot := int(pilotShare * float64(budget)); len(r.seen) < max(1, pilot) {
		return r.withDefault(r.propose(max(1, min(room, pilot-len(r.seen))), fresh))
	}
	r.fit()
	r.mark()
	batch := min(room, max(4, budget/8))
	return r.withDefault(r.propose(batch, fresh))
}

// withDefault adds the default, which every round of the exploration has.
func (r *Race) withDefault(list []int) []int {
	if d := r.space.Default; !slices.Contains(list, d) && r.reason[d] == "" {
		return append(slices.Clone(list), d)
	}
	return slices.Clone(list)
}

// fresh are the settings that were never started and have a chance.
func (r *Race) fresh() []int {
	bad := r.hopelessLevels()
	var out []int
	for s, levels := range r.space.Settings {
		if len(r.of[s]) > 0 {
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
	// Of very many a sample is as good.
	const most = 20_000
	if len(out) > most {
		r.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		out = out[:most]
	}
	return out
}

// hopelessLevels are those with which no setting has worked yet, and several failed.
func (r *Race) hopelessLevels() [][]bool {
	bad := make([][]bool, len(r.space.Levels))
	for v, n := range r.space.Levels {
		good, failed := make([]int, n), make([]int, n)
		for _, o := range r.seen {
			if l := r.space.Settings[o.Setting][v]; o.Failed == "" {
				good[l]++
			} else {
				failed[l]++
			}
		}
		bad[v] = make([]bool, n)
		for l := range n {
			bad[v][l] = good[l] == 0 && failed[l] >= hopeless
		}
	}
	return bad
}

// propose picks so many of the settings by how low they may lie: the expected
// value less one standard deviation.
func (r *Race) propose(many int, among []int) []int {
	if r.model == nil {
		r.rng.Shuffle(len(among), func(i, j int) { among[i], among[j] = among[j], among[i] })
		return among[:min(many, len(among))]
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

// startRace chooses the contenders: as many as the launches that are left can tell
// apart.
func (r *Race) startRace() {
	r.phase = Contend
	r.fit()
	var measured []int
	for s := range r.space.Settings {
		if _, logs := r.good(s); len(logs) > 0 && r.reason[s] == "" {
			measured = append(measured, s)
		}
	}
	many := max(2, r.left()/8)
	r.alive = r.propose(many, append(measured, r.fresh()...))
}

// contend drops who has lost and lets the others run once more; none when the race
// is decided or the launches are spent.
func (r *Race) contend() []int {
	r.alive = slices.DeleteFunc(r.alive, func(s int) bool { return r.reason[s] != "" })
	if r.raced() > 0 {
		r.refit()
		r.eliminate()
		r.mark()
	}
	next := slices.Clone(r.alive)
	if r.left() < len(next) || r.decided() {
		switch { // a budget below one round: whoever comes first
		case r.raced() == 0 && r.left() > 1:
			return r.withDefault(next[:min(len(next), r.left()-1)])
		case r.raced() == 0 && r.left() == 1 && len(next) > 0:
			return next[:1]
		}
		r.startConfirm()
		return nil
	}
	return next
}

// raced is how many rounds of the race there were.
func (r *Race) raced() int {
	n, last := 0, -1
	for _, o := range r.seen {
		if o.phase == Contend && o.Round != last {
			n, last = n+1, o.Round
		}
	}
	return n
}

// eliminate drops the contenders that are slower than the leader beyond doubt. The
// level is corrected for the pairs of contenders, any of which might have been
// compared, and for the looks: the k-th may spend 6/(pi k)^2 of it, which sums to one.
func (r *Race) eliminate() {
	lead, ok := r.leader()
	if !ok || len(r.alive) < 2 {
		return
	}
	r.looks++
	k := float64(r.looks)
	n := float64(len(r.alive))
	level := alpha * 6 / (math.Pi * math.Pi * k * k) / (n * (n - 1) / 2)
	away := r.away()
	usual := noiseOf(away, 0.9) * math.Sqrt2
	dof := max(3, float64(len(away))/2) // what a quantile is worth against a standard deviation
	r.alive = slices.DeleteFunc(r.alive, func(s int) bool {
		d := r.differences(s, lead)
		if s == lead || len(d) < minRounds {
			return false
		}
		mid, _, _, _ := stats.PairedShift(d)
		r.dropped[s] = mid > 0 && stats.PairedP(d, usual, dof)/2 <= level
		return r.dropped[s]
	})
}

// differences are the logarithms of a setting over those of another in the rounds
// that both have.
func (r *Race) differences(s, base int) (d []float64) {
	rounds, logs := r.good(s)
	others, theirs := r.good(base)
	for i, round := range rounds {
		if at := slices.Index(others, round); at >= 0 {
			d = append(d, logs[i]-theirs[at])
		}
	}
	return d
}

// decided tells whether more launches would change nothing: nobody is left to beat,
// or all who are left are equal within the floor.
func (r *Race) decided() bool {
	if len(r.alive) < 2 {
		return true
	}
	lead, ok := r.leader()
	if !ok {
		return false
	}
	for _, s := range r.alive {
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

// leader is the best setting so far: the lowest contender, or where none of them has run
// the lowest of all, by what is expected of it from its own launches and its relatives'.
func (r *Race) leader() (best int, ok bool) {
	if best, ok = r.lowest(r.alive); ok {
		return best, ok
	}
	return r.lowest(lists.Range[int](len(r.space.Settings)))
}

func (r *Race) lowest(among []int) (best int, ok bool) {
	least := math.Inf(1)
	for _, s := range among {
		_, logs := r.good(s)
		if len(logs) == 0 || r.reason[s] != "" {
			continue
		}
		if v := r.expected(s); v < least {
			best, least, ok = s, v, true
		}
	}
	return best, ok
}

// expected is the level of a setting that has been launched.
func (r *Race) expected(s int) float64 {
	if r.model != nil {
		return r.model.mean(r.space.Settings[s])
	}
	_, logs := r.good(s)
	return stats.Median(logs)
}

// against is a setting over another, as known so far.
func (r *Race) against(s, base int) float64 {
	_, a := r.good(s)
	_, b := r.good(base)
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	return r.expected(s) - r.expected(base)
}

// repeats is by how much two launches of one setting differ, those of the confirmation
// too: the standard deviation of one, without regard to outliers, and from how many
// launches after another it is known.
func (r *Race) repeats() (noise float64, count int) {
	var away []float64
	for _, of := range r.of {
		last := -1
		for _, i := range of {
			if r.seen[i].Failed != "" {
				continue
			}
			if last >= 0 {
				away = append(away, math.Abs(r.seen[i].Log-r.seen[last].Log)/math.Sqrt2)
			}
			last = i
		}
	}
	slices.Sort(away)
	return noiseOf(away, 0.5), len(away)
}

// noiseAt is the same of the launches that count for the choice, where so large a share
// of them is as near to each other.
func (r *Race) noiseAt(share float64) float64 { return noiseOf(r.away(), share) }

// away is how far successive launches of a setting are from each other, as if each
// were from the true value, in order.
func (r *Race) away() (out []float64) {
	for s := range r.space.Settings {
		_, logs := r.good(s)
		for i := 1; i < len(logs); i++ {
			out = append(out, math.Abs(logs[i]-logs[i-1])/math.Sqrt2)
		}
	}
	slices.Sort(out)
	return out
}

// noiseOf is the standard deviation of the normal distribution of which so large a
// share lies as near as here. Where outliers are frequent a larger share gives more.
func noiseOf(away []float64, share float64) float64 {
	if len(away) == 0 {
		return 0
	}
	return stats.Percentile(away, share) / (math.Sqrt2 * math.Erfinv(share))
}

// tail is by how much the usual standard deviation falls short of the outliers: 1
// where launches differ normally, 2 to 4 where one in eight is far off.
func (r *Race) tail() float64 {
	away := r.away()
	if mid := noiseOf(away, 0.5); mid > 0 {
		return max(1, noiseOf(away, 0.9)/mid)
	}
	return 1
}

// startConfirm picks the winner.
func (r *Race) startConfirm() {
	r.phase = Confirm
	r.best, r.from = -1, r.round
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

// confirm is the next fresh pair of winner and default. A winner that fails is out,
// and the next best takes its place.
func (r *Race) confirm() []int {
	if r.reason[r.best] != "" {
		r.alive = slices.DeleteFunc(r.alive, func(s int) bool { return r.reason[s] != "" })
		if len(r.seen)+2*minPairs > r.launches() {
			r.best, _ = r.leader()
			r.phase = Done
			return nil
		}
		if r.startConfirm(); r.phase == Done {
			return nil
		}
		return r.confirm()
	}
	done := r.round - r.from
	if done >= r.pairs || len(r.seen)+2 > r.launches() {
		r.phase = Done
		return nil
	}
	if r.reason[r.space.Default] != "" { // a default that fails has no time to gain on
		return []int{r.best}
	}
	return []int{r.best, r.space.Default}
}
