package tune

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Goal is what a study is asked for.
type Goal struct {
	Metric   string
	Maximise bool
	Over     []string // axes and columns over which the geometric mean of ratios counts
	Per      []string // axes that have a winner for each of their values
}

// Study tunes a planned bench: a race for every value of Goal.Per. It turns plans
// into spaces, launches into groups of the plan, and rows into outcomes.
type Study struct {
	goal      Goal
	variables []Variable
	fields    []*field
	rng       *rand.Rand
	rows      map[taskTrial][]journal.Row
	taken     int // rows so far
	unit      string
	held      []*plan.Group // of the round under way, not yet given
	measured  bool          // the metric is declared, or a row has it
	lacking   string        // a good row has not, in words
}

// field is one race with the tasks of its settings.
type field struct {
	per      string
	race     *Race
	space    Space
	tasks    [][]placed // of each setting
	asked    []Launch   // the round under way
	cells    []string   // that the default has, if it works; else those of the first that does
	at       map[string]int
	pending  bool
	launches int // processes started together for one setting
}

type placed struct {
	group *plan.Group
	task  plan.Task
}

type taskTrial struct {
	key   string
	trial int
}

// NewStudy makes a study of the planned points; base has those of the default.
func NewStudy(p, base *plan.Plan, goal Goal, cfg Config) (*Study, error) {
	s := &Study{goal: goal, rows: map[taskTrial][]journal.Row{}, rng: rand.New(rand.NewPCG(cfg.Seed, 0x7374756479))}
	if err := s.check(p); err != nil {
		return nil, err
	}
	all, defaults := tasksOf(p), tasksOf(base)
	known := map[string]bool{}
	for _, t := range all {
		known[t.task.Key] = true
	}
	for i := range defaults {
		if t := defaults[i]; !known[t.task.Key] {
			t.task.Index += p.Points + len(p.Dropped)
			all = append(all, t)
		}
	}
	s.variables = variablesOf(all, slices.Concat(goal.Over, goal.Per))
	s.goal.Per = slices.DeleteFunc(slices.Clone(goal.Per), func(name string) bool { // that has one value names nothing
		first, _, _, _ := value(all[0].task, name)
		return !slices.ContainsFunc(all, func(t placed) bool { text, _, _, _ := value(t.task, name); return text != first })
	})
	goal = s.goal
	byPer := map[string]*field{}
	for _, t := range all {
		name := describe(t.task, goal.Per)
		f := byPer[name]
		if f == nil {
			f = &field{per: name, at: map[string]int{}}
			byPer[name] = f
			s.fields = append(s.fields, f)
		}
		f.add(t, s.variables)
	}
	if err := s.start(byPer, defaults, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// start sets the default of each field and makes its race.
func (s *Study) start(byPer map[string]*field, defaults []placed, cfg Config) error {
	for _, f := range s.fields {
		f.space.Default = -1
	}
	for _, t := range defaults {
		f := byPer[describe(t.task, s.goal.Per)]
		f.space.Default = f.at[fmt.Sprint(levelsOf(t.task, s.variables))]
	}
	levels := lists.Map(s.variables, func(v Variable) int { return len(v.Values) })
	total := cfg.Launches
	for i, f := range s.fields {
		switch {
		case f.space.Default < 0:
			return fmt.Errorf("the default setting has no point%s: name one that has, --default AXIS=VALUE", at(f.per))
		case len(f.space.Settings) < 2:
			return fmt.Errorf("nothing to tune%s: no axis and no variable has two values besides those of --over and --per",
				at(f.per))
		}
		own := cfg
		own.Seed = cfg.Seed + uint64(i)<<32
		own.Seconds = cfg.Seconds / float64(len(s.fields))
		if total > 0 {
			own.Launches = total / len(s.fields) / f.launches
			if own.Launches < leastLaunches {
				return fmt.Errorf("--launches %d are too few%s: %d races of %d launches a setting take at least %d", total,
					at(f.per),
					len(s.fields), f.launches, leastLaunches*len(s.fields)*f.launches)
			}
		}
		f.space.Levels = levels
		f.race = New(f.space, own)
	}
	return nil
}

func at(per string) string {
	if per == "" {
		return ""
	}
	return " at " + per
}

// check finds names that the plan does not have.
func (s *Study) check(p *plan.Plan) error {
	parts := lists.Distinct(lists.Map(p.Groups, func(g *plan.Group) string { return g.Part.Name }))
	if len(parts) > 1 {
		return fmt.Errorf("bench %s has the parts %s: tune one, such as --only 'part==%q'", p.Bench.Name,
			strings.Join(parts, ", "), parts[0])
	}
	part := p.Groups[0].Part
	names := lists.Map(part.Axes, func(a decl.Axis) string { return a.Name })
	var errs []error
	for _, n := range s.goal.Over {
		if !slices.Contains(names, n) && part.Command == nil {
			errs = append(errs, fmt.Errorf("--over: %w", suggest.Unknown("axis", n, names)))
		}
		if slices.Contains(s.goal.Per, n) {
			errs = append(errs, fmt.Errorf("%s is in --over and in --per: one winner over all its values, or one for each", n))
		}
	}
	for _, n := range s.goal.Per {
		if !slices.Contains(names, n) {
			errs = append(errs, fmt.Errorf("--per: %w", suggest.Unknown("axis", n, names)))
		}
	}
	for _, z := range part.Zips {
		for _, n := range z {
			if slices.Contains(s.goal.Over, n) || slices.Contains(s.goal.Per, n) {
				errs = append(errs, fmt.Errorf("%s is zipped with %s, so it cannot be held while they vary: leave the zip or "+
					"--over and --per out",
					n, strings.Join(z, ", ")))
			}
		}
	}
	metrics, all := p.Bench.Metrics()
	have := lists.Map(metrics, func(m journal.MetricInfo) string { return m.Name })
	s.measured = slices.Contains(have, s.goal.Metric)
	if all && !s.measured {
		errs = append(errs, suggest.Unknown("metric", s.goal.Metric, have))
	}
	return errors.Join(errs...)
}

// add puts a task to its setting.
func (f *field) add(t placed, variables []Variable) {
	levels := levelsOf(t.task, variables)
	key := fmt.Sprint(levels)
	s, has := f.at[key]
	if !has {
		s = len(f.space.Settings)
		f.at[key] = s
		f.space.Settings = append(f.space.Settings, levels)
		f.tasks = append(f.tasks, nil)
	}
	f.tasks[s] = append(f.tasks[s], t)
	groups := map[string]bool{}
	for _, x := range f.tasks[s] {
		groups[x.share()] = true
	}
	f.launches = max(f.launches, len(groups))
}

// share is equal for tasks that one launch may run.
func (t placed) share() string {
	if t.group.Part.Command != nil {
		return t.task.Key
	}
	return fmt.Sprint(t.task.Ranks, t.task.Env)
}

// Expected is about how many rows a study will record.
func (s *Study) Expected() (rows int) {
	for _, f := range s.fields {
		rows += f.race.cfg.Launches * len(f.tasks[0])
	}
	return rows
}

// Next takes all rows so far and gives the launches to make now. Starts are when the
// run was started and resumed, from which the time of its first launches counts.
//
// Until a row has a metric that is not declared, launches are given one by one, and a good
// row without it is the last: a name that a bench does not report is noticed at once.
func (s *Study) Next(rows []journal.Row, starts []time.Time) []*plan.Group {
	s.take(rows, starts)
	if len(s.held) == 0 {
		s.held = s.round(rows, starts)
	}
	if s.lacking != "" && !s.measured {
		return nil
	}
	next := s.held
	if !s.measured && len(next) > 1 {
		next = next[:1]
	}
	s.held = s.held[len(next):]
	return next
}

// round is the next of all races that wait for none.
func (s *Study) round(rows []journal.Row, starts []time.Time) []*plan.Group {
	for {
		var groups []*plan.Group
		waiting := false
		shared := map[string]*plan.Group{}
		for _, f := range s.fields {
			if f.pending {
				waiting = true
				continue
			}
			f.asked = f.race.Next()
			f.pending = len(f.asked) > 0
			for _, l := range f.asked {
				groups = f.launch(l, groups, shared)
			}
		}
		if len(groups) == 0 && !waiting {
			return nil
		}
		s.rng.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
		// What a resumed run has done already is answered at once.
		if fresh := s.missing(groups); len(fresh) > 0 || waiting {
			return groups
		}
		s.take(rows, starts)
	}
}

// launch adds the tasks of a setting to groups that share processes.
func (f *field) launch(l Launch, groups []*plan.Group, shared map[string]*plan.Group) []*plan.Group {
	for _, t := range f.tasks[l.Setting] {
		task := t.task
		task.Trial = l.Round
		key := fmt.Sprint(l.Round, " ", f.space.Settings[l.Setting], " ", t.share())
		g := shared[key]
		if g == nil {
			g = &plan.Group{Part: t.group.Part, Trial: l.Round, Ranks: task.Ranks, Env: task.Env, Threads: t.group.Threads,
				Bind: t.group.Bind}
			shared[key] = g
			groups = append(groups, g)
		}
		g.Tasks = append(g.Tasks, task)
	}
	return groups
}

// missing are the groups with a task that has no row yet.
func (s *Study) missing(groups []*plan.Group) []*plan.Group {
	none := func(t plan.Task) bool { return len(s.rows[taskTrial{t.Key, t.Trial}]) == 0 }
	return lists.Filter(groups, func(g *plan.Group) bool { return slices.ContainsFunc(g.Tasks, none) })
}

// Describe says what a study will do.
func (s *Study) Describe() string {
	var b strings.Builder
	f := s.fields[0]
	least, most, launches, full := math.MaxInt, 0, 0, 0
	for _, f := range s.fields {
		n := len(f.space.Settings)
		least, most = min(least, n), max(most, n)
		launches, full = launches+f.race.cfg.Launches*f.launches, full+Trials*n*f.launches
	}
	settings := unit.Plural(most, "setting")
	if least < most {
		settings = fmt.Sprintf("%d to %s", least, settings)
	}
	races := ""
	if n := len(s.fields); n > 1 {
		races = fmt.Sprintf(" in each of %d races", n)
	}
	fmt.Fprintf(&b, "%s of %s%s: at most %d launches; the full sweep at %d trials takes %d\n",
		settings, unit.Plural(len(s.variables), "variable"), races, launches, Trials, full)
	for _, v := range s.variables {
		fmt.Fprintf(&b, "  %s: %d values\n", strings.Join(v.Names, ","), len(v.Values))
	}
	fmt.Fprintf(&b, "default: %s\n", describe(f.tasks[f.space.Default][0].task, slices.Concat(s.names()...)))
	return b.String()
}

func (s *Study) names() [][]string {
	return lists.Map(s.variables, func(v Variable) []string { return v.Names })
}
