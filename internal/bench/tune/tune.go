// Package tune finds the best of many settings in few launches. It is pure: it takes observations
// and returns the launches to make next. Therefore a study can be replayed exactly from its rows
// (for --resume) and tested without processes.
//
// A study has three phases, each made of rounds. A round launches each of its settings once, in a
// random order drawn from the seed, so that a drift of the machine affects all settings equally.
//
//   - Explore, if there are too many settings to launch all: first a random sample, then settings
//     proposed by a surrogate. The surrogate is a Gaussian process whose covariance counts the
//     variables that two settings have in common; it models main effects and pairwise
//     interactions (surrogate.go).
//   - Race: the contenders of each round are compared with the leader over their common rounds.
//     Contenders that are significantly slower are dropped (race.go).
//   - Confirm: the winner and the default run in new pairs that had no influence on the choice.
//     The claimed gain is the gain of these pairs.
//
// A setting that fails once is excluded.
package tune

import (
	"math"
	"math/rand/v2"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Space is the search space.
type Space struct {
	Levels   []int   // number of levels of each variable
	Settings [][]int // level of every variable, by setting
	Default  int     // the setting that gains refer to
}

// Config limits the cost of a study.
type Config struct {
	Launches int     // largest number of launches, confirmation included; 0 means DefaultLaunches
	Seconds  float64 // time limit; 0 means none
	Seed     uint64
}

// Trials is the number of launches per setting in a full sweep, with which a study is compared.
const Trials = 6

// Numbers of launches that are needed to estimate their variation.
const (
	minRounds = 4
	minPairs  = 6 // smallest number of pairs with a 95 % confidence interval
	maxPairs  = 20
	// minLaunches is the smallest budget: a contender, the default, and their confirmation.
	minLaunches = 2 + 2*minPairs
)

// DefaultLaunches returns the default budget: a tenth of the full sweep, or up to 100 launches if
// there are few settings, and the confirmation.
func DefaultLaunches(settings int) int {
	full := Trials * settings
	return max(full/10, min(full, 100)) + 2*minPairs
}

// Launch is one setting in one round.
type Launch struct{ Setting, Round int }

// Outcome is the result of a launch.
type Outcome struct {
	Log     float64 // logarithm of the quantity to minimise
	Failed  string  // why there is no result, or ""
	Seconds float64 // duration
}

// Phase is a phase of a study.
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
	confounded bool // see Space.confounded

	phase        Phase
	round        int // rounds so far
	looks        int // significance tests so far, for the correction of the level
	history      []record
	bySetting    [][]int  // indexes into history, by setting
	failure      []string // reason for excluding each setting, or ""
	dropped      []bool   // whether each setting is significantly slower than the leader
	contenders   []int    // settings still in the race
	secondsSpent float64
	model        *surrogate
	modelSize    int // length of history when the model was fitted
	shareFits    int // how often the model's shares were fitted
	best         int // the winner that is being confirmed, or -1
	confirmFrom  int // first round of its confirmation
	pairs        int // planned number of confirmation pairs
	trace        []Step
}

// record is an observed launch.
type record struct {
	Launch
	Outcome
	phase Phase
}

// Step is the state after a round, for the figure of convergence.
type Step struct {
	Launches int   `json:"launches"`
	Phase    Phase `json:"phase"`
	Best     int   `json:"best"` // setting
	// Log is the estimated log ratio of the best to the default; negative is better.
	Log float64 `json:"log"`
}

// New starts a study.
func New(space Space, cfg Config) *Race {
	if cfg.Launches == 0 {
		cfg.Launches = DefaultLaunches(len(space.Settings))
	}
	n := len(space.Settings)
	return &Race{space: space, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x74756e65)), phase: Explore,
		bySetting: make([][]int, n),
		failure:   make([]string, n), dropped: make([]bool, n), best: -1, confounded: space.confounded()}
}

// launches returns the current budget: the configured number, or fewer if time is short.
func (r *Race) launches() int {
	if r.cfg.Seconds > 0 && r.secondsSpent > 0 {
		return min(r.cfg.Launches, len(r.history)+max(0, int((r.cfg.Seconds-r.secondsSpent)/r.pace())))
	}
	return r.cfg.Launches
}

// pace returns the expected seconds of a launch: the mean so far, or the mean of the latest launches
// if that is longer. A machine that has become slow stays slow for a while, and the overall mean
// would promise too many launches.
func (r *Race) pace() float64 {
	const latest = 2 * minRounds
	recent := 0.0
	for _, o := range r.history[max(0, len(r.history)-latest):] {
		recent += o.Seconds
	}
	return max(r.secondsSpent/float64(len(r.history)), recent/float64(min(latest, len(r.history))))
}

// confirmPairs returns how many pairs to reserve for the confirmation: enough that, given the
// noise, their interval becomes half as wide as the gain, but at most a quarter of all launches.
// The number is fixed before the first pair runs.
func (r *Race) confirmPairs() int {
	pairs := max(r.launches()/24, minPairs)
	if best, ok := r.leader(); ok {
		gain := r.logRatio(best, r.space.Default) / 2    // halved: selection favours lucky settings
		reach := confident * math.Sqrt2 * r.noiseAt(0.9) // of the interval of one pair, to either side
		if need := math.Pow(2*reach/gain, 2); gain < 0 && need > float64(pairs) {
			pairs = max(pairs, int(min(need, float64(r.launches())/8)))
		}
	}
	return min(pairs, maxPairs)
}

// raceBudget returns the number of launches before the confirmation.
func (r *Race) raceBudget() int { return max(0, r.launches()-2*r.confirmPairs()) }

// Observe records the outcome of a launch.
func (r *Race) Observe(l Launch, o Outcome) {
	r.secondsSpent += o.Seconds
	if o.Failed != "" && r.failure[l.Setting] == "" {
		r.failure[l.Setting] = o.Failed
	}
	r.bySetting[l.Setting] = append(r.bySetting[l.Setting], len(r.history))
	r.history = append(r.history, record{l, o, r.phase})
}

// Next returns the next round, or nil when the study is done. All launches of the previous round
// must have been observed.
func (r *Race) Next() []Launch {
	var next []int
	for len(next) == 0 && r.phase != Done {
		switch before := r.phase; before {
		case Explore:
			if next = r.explore(); len(next) == 0 && r.phase == before {
				r.startRace()
			}
		case Contend:
			if next = r.raceRound(); len(next) == 0 && r.phase == before {
				r.startConfirm()
			}
		case Confirm:
			if next = r.confirm(); len(next) == 0 {
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

// launchesLeft returns how many launches the race may still make.
func (r *Race) launchesLeft() int { return r.raceBudget() - len(r.history) }

// addStep appends the current leader to the trace.
func (r *Race) addStep() {
	if best, ok := r.leader(); ok {
		r.trace = append(r.trace, Step{len(r.history), r.phase, best, r.logRatio(best, r.space.Default)})
	}
}

// samples returns the rounds and log results of a setting's launches before the confirmation.
func (r *Race) samples(s int) (rounds []int, logs []float64) {
	for _, i := range r.bySetting[s] {
		if o := r.history[i]; o.Failed == "" && o.phase != Confirm {
			rounds, logs = append(rounds, o.Round), append(logs, o.Log)
		}
	}
	return rounds, logs
}
