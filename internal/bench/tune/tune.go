// Package tune finds the best of many settings in few launches. It is pure: it
// takes observations and says which launches to make next, so that a study is
// repeated exactly from its rows, whoever made them, and tested without a process.
//
// A study has three phases, each made of rounds; a round launches each of its
// settings once, in an order drawn from the seed, so that a drift of the machine
// lands on none of them alone.
//
//   - Explore, where the product is too large to start every setting: a random
//     sample first, then settings that a surrogate proposes. It is a Gaussian
//     process over the number of variables that two settings have in common, which
//     stands for main effects and pairwise interactions (surrogate.go).
//   - Race: the contenders of each round are compared with the leader over the
//     rounds they share. One that is slower beyond doubt is dropped (race.go).
//   - Confirm: the winner and the default in fresh pairs that had no part in the
//     choice. The gain that is claimed is the gain of these.
//
// A setting that fails once is out.
package tune

import (
	"math"
	"math/rand/v2"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Space is what can be chosen.
type Space struct {
	Levels   []int   // of each variable, how many it has
	Settings [][]int // of each setting, the level of every variable
	Default  int     // the setting that gains are over
}

// Config is what a study may cost.
type Config struct {
	Launches int     // at most, confirmation included; 0: DefaultLaunches
	Seconds  float64 // at most; 0: no limit
	Seed     uint64
}

// Trials is what a full sweep would take of each setting, to compare with.
const Trials = 6

// The least that show how launches differ, as in package compare.
const (
	minRounds = 4
	minPairs  = 6 // of a confirmation, the least with a 95 % interval
	maxPairs  = 20
	// leastLaunches are a contender, the default, and their confirmation.
	leastLaunches = 2 + 2*minPairs
)

// DefaultLaunches is a tenth of the full sweep, and for a few settings as much as
// it takes to tell them apart.
func DefaultLaunches(settings int) int {
	full := Trials * settings
	return max(full/10, min(full, 100)) + 2*minPairs
}

// Launch is one setting in one round.
type Launch struct{ Setting, Round int }

// Outcome is what became of a launch.
type Outcome struct {
	Log     float64 // of what is minimised
	Failed  string  // why there is none
	Seconds float64 // that it took
}

// Phase is the part of a study that a launch belongs to.
type Phase string

// The phases, in their order.
const (
	Explore Phase = "explore"
	Contend Phase = "race"
	Confirm Phase = "confirm"
	Done    Phase = "done"
)

// Race is the state of a study.
type Race struct {
	space      Space
	cfg        Config
	rng        *rand.Rand
	confounded bool // the default's levels are its alone

	phase   Phase
	round   int // rounds so far
	looks   int // at contenders, for the correction
	seen    []record
	of      [][]int  // of each setting, its records
	reason  []string // of each setting, why it is out; "" is none
	dropped []bool   // slower beyond doubt
	alive   []int    // contenders of the race
	spent   float64
	model   *surrogate
	modelAt int // records the model knows
	chosen  int // times its shares were chosen
	best    int // the winner that is being confirmed
	from    int // the round from which on launches confirm it
	pairs   int // that are planned
	trace   []Step
}

// record is one observation.
type record struct {
	Launch
	Outcome
	phase Phase
}

// Step is the state after a round, for the figure of convergence.
type Step struct {
	Launches int   `json:"launches"`
	Phase    Phase `json:"phase"`
	Best     int   `json:"best"` // the setting
	// Log is the best against the default, as known then; negative is better.
	Log float64 `json:"log"`
}

// New starts a study.
func New(space Space, cfg Config) *Race {
	if cfg.Launches == 0 {
		cfg.Launches = DefaultLaunches(len(space.Settings))
	}
	n := len(space.Settings)
	return &Race{space: space, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x74756e65)), phase: Explore,
		of:     make([][]int, n),
		reason: make([]string, n), dropped: make([]bool, n), best: -1, confounded: space.confounded()}
}

// launches is how many there may be: those that were asked for, or as many as there
// is time for.
func (r *Race) launches() int {
	if r.cfg.Seconds > 0 && r.spent > 0 {
		return min(r.cfg.Launches, len(r.seen)+max(0, int((r.cfg.Seconds-r.spent)/r.pace())))
	}
	return r.cfg.Launches
}

// pace is how long a launch takes, in seconds: the mean so far, or that of the latest
// where it is longer. A machine that has become slow stays so for a while, and then the
// mean promises launches for which there is no time.
func (r *Race) pace() float64 {
	const latest = 2 * minRounds
	recent := 0.0
	for _, o := range r.seen[max(0, len(r.seen)-latest):] {
		recent += o.Seconds
	}
	return max(r.spent/float64(len(r.seen)), recent/float64(min(latest, len(r.seen))))
}

// confirmPairs is how many pairs are kept for the confirmation: so many that their
// interval will be half as wide as the gain, by how much launches differ, and at most a
// quarter of all launches. It is settled before the first of them.
func (r *Race) confirmPairs() int {
	pairs := max(r.launches()/24, minPairs)
	if best, ok := r.leader(); ok {
		gain := r.against(best, r.space.Default) / 2 // the winner of noisy launches was lucky
		reach := sure * math.Sqrt2 * r.noiseAt(0.9)  // of the interval of one pair, to either side
		if need := math.Pow(2*reach/gain, 2); gain < 0 && need > float64(pairs) {
			pairs = max(pairs, int(min(need, float64(r.launches())/8)))
		}
	}
	return min(pairs, maxPairs)
}

// raceBudget is what may be launched before the confirmation.
func (r *Race) raceBudget() int { return max(0, r.launches()-2*r.confirmPairs()) }

// Observe takes what became of a launch.
func (r *Race) Observe(l Launch, o Outcome) {
	r.spent += o.Seconds
	if o.Failed != "" && r.reason[l.Setting] == "" {
		r.reason[l.Setting] = o.Failed
	}
	r.of[l.Setting] = append(r.of[l.Setting], len(r.seen))
	r.seen = append(r.seen, record{l, o, r.phase})
}

// Next is the next round, none when the study is done. Every launch of the round
// before it has been observed.
func (r *Race) Next() []Launch {
	var next []int
	for len(next) == 0 && r.phase != Done {
		switch before := r.phase; before {
		case Explore:
			if next = r.explore(); len(next) == 0 && r.phase == before {
				r.startRace()
			}
		case Contend:
			if next = r.contend(); len(next) == 0 && r.phase == before {
				r.startConfirm()
			}
		case Confirm:
			if next = r.confirm(); len(next) == 0 { // then it has ended
				r.phase = Done
			}
		}
	}
	if len(next) == 0 {
		return nil
	}
	r.rng.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	out := lists.Map(next, func(s int) Launch { return Launch{s, r.round} })
	r.round++
	return out
}

// left is how many launches the race may still make.
func (r *Race) left() int { return r.raceBudget() - len(r.seen) }

// mark adds a step to the trace.
func (r *Race) mark() {
	if best, ok := r.leader(); ok {
		r.trace = append(r.trace, Step{len(r.seen), r.phase, best, r.against(best, r.space.Default)})
	}
}

// good are the logarithms of a setting's launches that count for the choice, by
// round, apart from what the rounds have in common.
func (r *Race) good(s int) (rounds []int, logs []float64) {
	for _, i := range r.of[s] {
		if o := r.seen[i]; o.Failed == "" && o.phase != Confirm {
			rounds, logs = append(rounds, o.Round), append(logs, o.Log)
		}
	}
	return rounds, logs
}
