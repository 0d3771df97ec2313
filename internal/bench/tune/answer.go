package tune

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/stats"
)

// Answer is what a study found, at its end or so far. Differences are logarithms;
// below zero is better.
type Answer struct {
	Best int `json:"best"` // setting; -1: none works
	// Raced are the settings that the race could not tell from the best, the best
	// left out; Open those that it never had and the surrogate does not rule out.
	Raced []int `json:"raced"`
	Open  []int `json:"open"`
	// Confirmed is the best against the default in pairs that had no part in the
	// choice; nil before that, or where there is no default to compare with.
	Confirmed *Interval `json:"confirmed,omitempty"`
	// Expected is the same from the launches that the choice was made by. It is
	// flattered by that choice, and nobody's claim.
	Expected float64   `json:"expected"`
	Level    *Interval `json:"level,omitempty"` // of the best itself, from the same launches as Confirmed
	Done     bool      `json:"done"`
	// Rounds are those of the race. Where time or launches ended before the first, the
	// best is chosen by ChosenBy launches of its own, and nobody lost to it.
	Rounds   int `json:"rounds"`
	ChosenBy int `json:"chosen_by"`
	// Refuted: the race dropped the default, and the confirmation saw nothing of that.
	Refuted bool `json:"refuted,omitempty"`

	Launches int       `json:"launches"`
	Full     int       `json:"full"` // launches of the full sweep
	Started  int       `json:"started"`
	Dropped  int       `json:"dropped"` // by the race
	Failed   []Failure `json:"failed,omitempty"`
	Noise    float64   `json:"noise"`   // standard deviation between launches of a setting
	Repeats  int       `json:"repeats"` // launches after another of the same setting, that it is from
	Effects  []Effect  `json:"effects"` // of the variables, in their order
	Pairs    []Pair    `json:"pairs,omitempty"`
	Trace    []Step    `json:"trace,omitempty"`
}

// Interval is an estimate with its 95 % interval; without one Low and High are
// infinite in either direction, and Known is false.
type Interval struct {
	Mid   float64 `json:"mid"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Known bool    `json:"known"`
	Count int     `json:"count"` // launches or pairs it is from
}

// Failure is a setting that is out.
type Failure struct {
	Setting int    `json:"setting"`
	Reason  string `json:"reason"`
}

// sure is a distance in standard deviations that chance gives once in 200 cases to
// one side.
const sure = 2.6

// Answer tells what is known so far.
func (r *Race) Answer() Answer {
	a := Answer{Best: -1, Done: r.phase == Done, Launches: len(r.seen), Full: Trials * len(r.space.Settings),
		Rounds: r.raced(), Trace: r.trace}
	a.Noise, a.Repeats = r.repeats()
	for s, why := range r.reason {
		if len(r.of[s]) > 0 {
			a.Started++
		}
		if why != "" {
			a.Failed = append(a.Failed, Failure{s, why})
		}
		if r.dropped[s] {
			a.Dropped++
		}
	}
	r.fit()
	best, ok := r.best, r.best >= 0 && r.reason[max(r.best, 0)] == ""
	if !ok {
		best, ok = r.leader()
	}
	if !ok {
		return a
	}
	a.Best = best
	a.Expected = r.against(best, r.space.Default)
	a.Confirmed, a.Level = r.confirmed(best)
	_, own := r.good(best)
	a.ChosenBy = len(own)
	a.Raced, a.Open = r.undecided(best)
	if a.Done && a.Confirmed != nil {
		a.abide(r.space.Default, r.dropped[r.space.Default])
	}
	a.Effects, a.Pairs = r.effects()
	return a
}

// abide makes the confirmation the last word on whether the best can be told from the
// default, whatever the launches said that the choice was made by.
func (a *Answer) abide(base int, dropped bool) {
	c := a.Confirmed
	if c.Known && c.High < 0 {
		a.Raced = slices.DeleteFunc(a.Raced, func(s int) bool { return s == base })
		a.Open = slices.DeleteFunc(a.Open, func(s int) bool { return s == base })
		return
	}
	if dropped {
		a.Dropped--
		// A wide interval around what was expected confirms nothing, but refutes nothing.
		a.Refuted = c.Known && c.Low > a.Expected || !c.Known && c.Mid >= 0
	}
	if !slices.Contains(a.Raced, base) && !slices.Contains(a.Open, base) {
		a.Raced = append(a.Raced, base)
		slices.Sort(a.Raced)
	}
}

// confirmed is the gain and the level of the winner by its confirmation.
func (r *Race) confirmed(best int) (gain, level *Interval) {
	if r.best != best {
		return nil, nil
	}
	at := map[int]float64{}
	var own, d []float64
	for _, o := range r.seen {
		if o.phase == Confirm && o.Setting == r.space.Default && o.Failed == "" {
			at[o.Round] = o.Log
		}
	}
	for _, o := range r.seen {
		if o.phase != Confirm || o.Setting != best || o.Round < r.from {
			continue
		}
		own = append(own, o.Log)
		if base, paired := at[o.Round]; paired {
			d = append(d, o.Log-base)
		}
	}
	if len(d) > 0 {
		gain = &Interval{Count: len(d)}
		gain.Mid, gain.Low, gain.High, gain.Known = stats.PairedShift(d)
	}
	if len(own) > 0 {
		slices.Sort(own)
		level = &Interval{Mid: stats.Median(own), Count: len(own)}
		level.Low, level.High, level.Known = stats.MedianInterval(own)
	}
	return gain, level
}

// undecided are the settings that may be as good as the best: contenders that were
// not dropped, and those outside the race whose expected value is not clearly above.
func (r *Race) undecided(best int) (raced, open []int) {
	inRace := make([]bool, len(r.space.Settings))
	for _, o := range r.seen {
		if o.phase == Contend {
			inRace[o.Setting] = true
		}
	}
	if r.model == nil {
		for s := range r.space.Settings {
			if s != best && r.reason[s] == "" && !r.dropped[s] {
				raced = append(raced, s)
			}
		}
		return raced, nil
	}
	sure := sure * r.tail()
	lead := r.model.mean(r.space.Settings[best])
	own := r.model.sd(r.space.Settings[best])
	bad := r.hopelessLevels()
	for s, levels := range r.space.Settings {
		if s == best || r.reason[s] != "" || r.dropped[s] {
			continue
		}
		if inRace[s] {
			raced = append(raced, s)
			continue
		}
		lost := false
		for v, l := range levels {
			lost = lost || bad[v][l]
		}
		above := r.model.mean(levels) - lead
		if lost || above > sure*math.Hypot(r.model.most(), own) {
			continue // without its own deviation, which is costly and at most that
		}
		if above <= sure*math.Hypot(r.model.sd(levels), own) {
			open = append(open, s)
		}
	}
	return raced, open
}
