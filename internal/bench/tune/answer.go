package tune

import (
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Answer is the result of a race, which may still be running. Differences are log ratios; negative is better.
type Answer struct {
	Best int `json:"best"` // setting, or -1 if none works
	// Raced lists the settings that the race did not separate from the best, without the best itself. They may
	// still differ: a comparison of all launches of two settings may show it. Open lists settings outside
	// the race that the surrogate does not rule out.
	Raced []int `json:"raced"`
	Open  []int `json:"open"`
	// Confirmed is the difference between the best and the default in pairs that had no influence on the
	// choice. It is nil before the confirmation, and if the default fails.
	Confirmed *judge.Interval `json:"confirmed,omitempty"`
	// Expected is the same estimate from the launches before the confirmation. It is biased in
	// favour of the winner, so it is never claimed.
	Expected float64         `json:"expected"`
	Level    *judge.Interval `json:"level,omitempty"` // value of the best itself, from the confirmation
	// Modes has the two modes of the launches of the best, if they have two. The centers are values, not
	// logarithms.
	Modes []stats.Mode `json:"modes,omitempty"`
	Done  bool         `json:"done"`
	// Rounds is the number of rounds of the race. If it is 0 because time or launches ran out, the
	// best was chosen by its ChosenBy launches alone, and no setting was dropped.
	Rounds   int `json:"rounds"`
	ChosenBy int `json:"chosen_by"`
	// Refuted means that the race dropped the default but the confirmation shows no gain.
	Refuted bool `json:"refuted,omitempty"`

	Launches int       `json:"launches"`
	Full     int       `json:"full"` // launches of the full sweep
	Started  int       `json:"started"`
	Dropped  int       `json:"dropped"` // by the race
	Failed   []Failure `json:"failed,omitempty"`
	Noise    float64   `json:"noise"`   // standard deviation between launches of a setting
	Repeats  int       `json:"repeats"` // number of repeated launches behind Noise
	Trace    []Step    `json:"trace,omitempty"`
}

// Failure is an excluded setting with its reason.
type Failure struct {
	Setting int    `json:"setting"`
	Reason  string `json:"reason"`
}

// confident is a distance in standard deviations that noise exceeds in one direction once in 200 cases.
const confident = 2.6

// Answer returns the result of the race so far.
func (r *Race) Answer() Answer {
	a := Answer{Best: -1, Done: r.phase == Done, Launches: len(r.history), Full: Trials * len(r.space.Settings),
		Rounds: r.raceRounds(), Trace: r.trace}
	a.Noise, a.Repeats = r.repeats()
	for s, why := range r.failure {
		if len(r.bySetting[s]) > 0 {
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
	best, ok := r.best, r.best >= 0 && r.failure[max(r.best, 0)] == ""
	if !ok {
		best, ok = r.leader()
	}
	if !ok {
		return a
	}
	a.Best = best
	a.Expected = r.logRatio(best, r.space.Default)
	a.Confirmed, a.Level = r.confirmed(best)
	_, own := r.samples(best)
	a.ChosenBy = len(own)
	a.Modes = r.modes(best)
	a.Raced, a.Open = r.undecided(best)
	if a.Done && a.Confirmed != nil {
		a.applyConfirmation(r.space.Default, r.dropped[r.space.Default])
	}
	return a
}

// applyConfirmation lets the confirmation decide whether the best differs from the default. It
// overrides the race.
func (a *Answer) applyConfirmation(base int, dropped bool) {
	c := a.Confirmed
	if c.Known && c.High < 0 {
		a.Raced = slices.DeleteFunc(a.Raced, func(s int) bool { return s == base })
		a.Open = slices.DeleteFunc(a.Open, func(s int) bool { return s == base })
		return
	}
	if dropped {
		a.Dropped--
		// A wide interval that contains the expected gain neither confirms nor refutes it.
		a.Refuted = c.Known && c.Low > a.Expected || !c.Known && c.Mid >= 0
	}
	if !slices.Contains(a.Raced, base) && !slices.Contains(a.Open, base) {
		a.Raced = append(a.Raced, base)
		slices.Sort(a.Raced)
	}
}

// confirmed returns the gain and the value of the winner from its confirmation.
func (r *Race) confirmed(best int) (gain, level *judge.Interval) {
	if r.best != best {
		return nil, nil
	}
	at := map[int]float64{}
	var own, d []float64
	for _, o := range r.history {
		if o.phase == Confirm && o.Setting == r.space.Default && o.Failed == "" {
			at[o.Round] = o.Log
		}
	}
	for _, o := range r.history {
		if o.phase != Confirm || o.Setting != best || o.Round < r.confirmFrom {
			continue
		}
		own = append(own, o.Log)
		if base, paired := at[o.Round]; paired {
			d = append(d, o.Log-base)
		}
	}
	if len(d) > 0 {
		gain = &judge.Interval{Count: len(d)}
		gain.Mid, gain.Low, gain.High, gain.Known = stats.PairedShift(d)
	}
	if len(own) > 0 {
		slices.Sort(own)
		level = &judge.Interval{Mid: stats.Median(own), Count: len(own)}
		level.Low, level.High, level.Known = stats.MedianInterval(own)
	}
	return gain, level
}

// modes returns the modes of the launches of a setting, confirmation included, or nil.
func (r *Race) modes(s int) []stats.Mode {
	var values []float64
	for _, i := range r.bySetting[s] {
		if o := r.history[i]; o.Failed == "" {
			values = append(values, math.Exp(o.Log))
		}
	}
	return stats.FindModes(values)
}

// undecided returns the settings that may be as good as the best: contenders that were not dropped,
// and settings outside the race whose expected value is not clearly higher.
func (r *Race) undecided(best int) (raced, open []int) {
	inRace := make([]bool, len(r.space.Settings))
	for _, o := range r.history {
		if o.phase == Contend {
			inRace[o.Setting] = true
		}
	}
	if r.model == nil {
		for s := range r.space.Settings {
			if s != best && r.failure[s] == "" && !r.dropped[s] {
				raced = append(raced, s)
			}
		}
		return raced, nil
	}
	sure := confident * r.tailFactor()
	lead := r.model.mean(r.space.Settings[best])
	own := r.model.sd(r.space.Settings[best])
	bad := r.failingLevels()
	for s, levels := range r.space.Settings {
		if s == best || r.failure[s] != "" || r.dropped[s] {
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
		if lost || above > sure*math.Hypot(r.model.maxSD(), own) {
			continue // cheap test first: maxSD bounds the setting's own, costly deviation
		}
		if above <= sure*math.Hypot(r.model.sd(levels), own) {
			open = append(open, s)
		}
	}
	return raced, open
}

// Result is the result of a study as stored in the journal. Tables, figures and configuration files
// are made from it.
type Result struct {
	Metric    string     `json:"metric"`
	Unit      string     `json:"unit,omitempty"`
	Maximise  bool       `json:"maximise,omitempty"`
	Over      []string   `json:"over,omitempty"`
	Per       []string   `json:"per,omitempty"`
	Variables []Variable `json:"variables"`
	Findings  []Finding  `json:"findings"` // one for every value of Per
	Seconds   float64    `json:"seconds"`  // total time of all launches
}

// Finding is the result of one race.
type Finding struct {
	Per     string        `json:"per,omitempty"` // such as "size=4096"
	Default int           `json:"default"`
	Cells   int           `json:"cells"`          // rows per launch of a setting
	Levels  map[int][]int `json:"levels"`         // levels of the settings that the answer names
	Size    int           `json:"settings"`       // number of settings
	Each    int           `json:"each,omitempty"` // launches per setting and round; 0 means 1
	Answer  Answer        `json:"answer"`

	Rows        int                `json:"rows,omitempty"`
	Disturbed   int                `json:"disturbed,omitempty"`    // number of disturbed rows
	DisturbedBy *journal.Condition `json:"disturbed_by,omitempty"` // strongest disturbance
}

// Result returns what is known from the rows so far.
func (s *Study) Result(rows []journal.Row, starts []time.Time) Result {
	s.addRows(rows, starts)
	times := secondsOf(rows, starts)
	out := Result{Metric: s.goal.Metric, Unit: s.unit, Maximise: s.goal.Maximise, Over: s.goal.Over, Per: s.goal.Per,
		Variables: s.variables}
	for _, t := range times {
		out.Seconds += t
	}
	for _, f := range s.parts {
		if f.pending { // an interrupted round: use its completed launches
			s.observe(f, times)
			f.pending = false
		}
		a := f.race.Answer()
		found := Finding{Per: f.per, Default: f.space.Default, Cells: max(1, len(f.cells)), Levels: map[int][]int{},
			Size: len(f.space.Settings), Each: f.launches}
		s.countDisturbed(f, &found)
		failed := lists.Map(a.Failed, func(x Failure) int { return x.Setting })
		named := slices.Concat([]int{f.space.Default}, a.Raced, a.Open, failed)
		if a.Best >= 0 {
			named = append(named, a.Best)
		}
		for _, n := range named {
			found.Levels[n] = f.space.Settings[n]
		}
		found.Answer = a
		out.Findings = append(out.Findings, found)
	}
	return out
}

// countDisturbed counts the rows of a race that something disturbed.
func (s *Study) countDisturbed(f *subStudy, found *Finding) {
	keys := map[string]bool{}
	for _, tasks := range f.tasks {
		for _, t := range tasks {
			keys[t.task.Key] = true
		}
	}
	for at, rows := range s.rows {
		if !keys[at.key] {
			continue
		}
		for i := range rows {
			found.Rows++
			if rows[i].Disturbed() {
				found.Disturbed++
				if why := rows[i].Conditions.Strongest(); found.DisturbedBy == nil || why.Compare(*found.DisturbedBy) > 0 {
					found.DisturbedBy = &why
				}
			}
		}
	}
}
