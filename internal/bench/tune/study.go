package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Goal is the objective of a study.
type Goal struct {
	Metric   string
	Maximise bool
	Over     []string // axes and columns to average over, by the geometric mean of ratios
	Per      []string // axes with a separate winner for each value
}

// Study tunes a planned bench, with a race for every value of Goal.Per. It converts plans to search
// spaces, launches to groups of the plan, and rows to outcomes.
type Study struct {
	goal        Goal
	variables   []Variable
	parts       []*subStudy
	rng         *rand.Rand
	rows        map[taskTrial][]journal.Row
	taken       int // number of rows processed so far
	unit        string
	queued      []*plan.Group // launches of the current round that Next has not returned yet
	metricKnown bool          // the metric is declared, or a row has it
	metricFault string        // message about a successful row without the metric, or ""
}

// subStudy is one race with the tasks of its settings.
type subStudy struct {
	per      string
	race     *Race
	space    Space
	tasks    [][]plannedTask // by setting
	asked    []Launch        // current round
	cells    []string        // cells of the default, or of the first setting that works
	at       map[string]int  // setting by its levels as text
	pending  bool            // the current round is not complete
	launches int             // launches per setting and round
}

type plannedTask struct {
	group *plan.Group
	task  plan.Task
}

type taskTrial struct {
	key   string
	trial int
}

// NewStudy returns a study of the planned points. base contains the points of the default setting.
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
	// An axis with one value does not split the study.
	s.goal.Per = slices.DeleteFunc(slices.Clone(goal.Per), func(name string) bool {
		first, _, _, _ := value(all[0].task, name)
		return !slices.ContainsFunc(all, func(t plannedTask) bool {
			text, _, _, _ := value(t.task, name)
			return text != first
		})
	})
	goal = s.goal
	byPer := map[string]*subStudy{}
	for _, t := range all {
		name := describe(t.task, goal.Per)
		f := byPer[name]
		if f == nil {
			f = &subStudy{per: name, at: map[string]int{}}
			byPer[name] = f
			s.parts = append(s.parts, f)
		}
		f.add(t, s.variables)
	}
	if err := s.start(byPer, defaults, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// start sets the default of each part and creates its race.
func (s *Study) start(byPer map[string]*subStudy, defaults []plannedTask, cfg Config) error {
	for _, f := range s.parts {
		f.space.Default = -1
	}
	for _, t := range defaults {
		f := byPer[describe(t.task, s.goal.Per)]
		f.space.Default = f.at[fmt.Sprint(levelsOf(t.task, s.variables))]
	}
	levels := lists.Map(s.variables, func(v Variable) int { return len(v.Values) })
	total := cfg.Launches
	for i, f := range s.parts {
		switch {
		case f.space.Default < 0:
			return fmt.Errorf("the default setting has no point%s: choose another one with --default AXIS=VALUE", atText(f.per))
		case len(f.space.Settings) < 2:
			return fmt.Errorf("nothing to tune%s: besides --over and --per, no axis and no variable has two values",
				atText(f.per))
		}
		own := cfg
		own.Seed = cfg.Seed + uint64(i)<<32
		own.Seconds = cfg.Seconds / float64(len(s.parts))
		if total > 0 {
			own.Launches = total / len(s.parts) / f.launches
			if own.Launches < minLaunches {
				return fmt.Errorf("--launches %d are too few%s: %d races of %d launches a setting take at least %d", total,
					atText(f.per),
					len(s.parts), f.launches, minLaunches*len(s.parts)*f.launches)
			}
		}
		f.space.Levels = levels
		f.race = New(f.space, own)
	}
	return nil
}

func atText(per string) string {
	if per == "" {
		return ""
	}
	return " at " + per
}

// check returns an error for names that the plan does not have.
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
	s.metricKnown = slices.Contains(have, s.goal.Metric)
	if all && !s.metricKnown {
		errs = append(errs, suggest.Unknown("metric", s.goal.Metric, have))
	}
	return errors.Join(errs...)
}

// add adds a task to its setting.
func (f *subStudy) add(t plannedTask, variables []Variable) {
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
		groups[x.launchKey()] = true
	}
	f.launches = max(f.launches, len(groups))
}

// launchKey is equal for tasks that can share a launch.
func (t plannedTask) launchKey() string {
	if t.group.Part.Command != nil {
		return t.task.Key
	}
	return fmt.Sprint(t.task.Ranks, t.task.Env)
}

// Expected returns the approximate number of rows of the study.
func (s *Study) Expected() (rows int) {
	for _, f := range s.parts {
		rows += f.race.cfg.Launches * len(f.tasks[0])
	}
	return rows
}

// Next takes all rows so far and returns the launches to make now. starts holds the times at which
// the run was started and resumed, for the durations of the first launches.
//
// If the metric is not declared, tasks are returned one at a time until a row has it. The first
// successful row without it ends the study, so that a misspelt metric is noticed at once.
func (s *Study) Next(rows []journal.Row, starts []time.Time) []*plan.Group {
	s.addRows(rows, starts)
	if len(s.queued) == 0 {
		s.queued = s.round(rows, starts)
	}
	if s.metricFault != "" && !s.metricKnown {
		return nil
	}
	if !s.metricKnown && len(s.queued) > 0 {
		return []*plan.Group{s.firstTask()}
	}
	next := s.queued
	s.queued = nil
	return next
}

// firstTask takes the first task from the queue, as a launch of its own.
func (s *Study) firstTask() *plan.Group {
	first := *s.queued[0]
	if len(first.Tasks) > 1 {
		rest := first
		rest.Tasks = first.Tasks[1:]
		first.Tasks = first.Tasks[:1:1]
		s.queued[0] = &rest
	} else {
		s.queued = s.queued[1:]
	}
	return &first
}

// round returns the next launches of all races that have no round in progress.
func (s *Study) round(rows []journal.Row, starts []time.Time) []*plan.Group {
	for {
		var groups []*plan.Group
		waiting := false
		shared := map[string]*plan.Group{}
		for _, f := range s.parts {
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
		for _, g := range groups { // so that no setting is always the first of its launch
			s.rng.Shuffle(len(g.Tasks), func(i, j int) { g.Tasks[i], g.Tasks[j] = g.Tasks[j], g.Tasks[i] })
		}
		// A resumed run may have all rows of the round already: continue with the next round.
		if fresh := s.missing(groups); len(fresh) > 0 || waiting {
			return groups
		}
		s.addRows(rows, starts)
	}
}

// launch adds the tasks of a setting to groups that share processes. Settings that differ only in axes
// share the launches of a round: on a GPU a launch takes a second or more, and a measurement
// within it a millisecond. Every round has launches of its own, so they remain what is compared.
func (f *subStudy) launch(l Launch, groups []*plan.Group, shared map[string]*plan.Group) []*plan.Group {
	for _, t := range f.tasks[l.Setting] {
		task := t.task
		task.Trial = l.Round
		key := fmt.Sprint(l.Round, " ", t.launchKey())
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

// missing returns the groups that have a task without a row.
func (s *Study) missing(groups []*plan.Group) []*plan.Group {
	none := func(t plan.Task) bool { return len(s.rows[taskTrial{t.Key, t.Trial}]) == 0 }
	return lists.Filter(groups, func(g *plan.Group) bool { return slices.ContainsFunc(g.Tasks, none) })
}

// Describe summarises the study before it runs.
func (s *Study) Describe() string {
	var b strings.Builder
	f := s.parts[0]
	minSize, maxSize, launches, full := math.MaxInt, 0, 0, 0
	for _, f := range s.parts {
		n := len(f.space.Settings)
		minSize, maxSize = min(minSize, n), max(maxSize, n)
		launches, full = launches+f.race.cfg.Launches*f.launches, full+Trials*n*f.launches
	}
	settings := unit.Plural(maxSize, "setting")
	if minSize < maxSize {
		settings = fmt.Sprintf("%d to %s", minSize, settings)
	}
	races := ""
	if n := len(s.parts); n > 1 {
		races = fmt.Sprintf(" in each of %d races", n)
	}
	fmt.Fprintf(&b, "%s of %s%s: at most %d launches; the full sweep at %d trials takes %d\n",
		settings, unit.Plural(len(s.variables), "variable"), races, launches, Trials, full)
	for _, v := range s.variables {
		fmt.Fprintf(&b, "  %s: %d values\n", texttab.Plain(strings.Join(v.Names, ",")), len(v.Values))
	}
	preset := f.tasks[f.space.Default][0].task
	fmt.Fprintf(&b, "default: %s\n", texttab.Plain(describe(preset, slices.Concat(s.names()...))))
	return b.String()
}

func (s *Study) names() [][]string {
	return lists.Map(s.variables, func(v Variable) []string { return v.Names })
}

// Variable is an independent parameter: an axis, an environment variable, or several zipped ones.
type Variable struct {
	Names  []string   `json:"names"`
	Env    []bool     `json:"env"`    // by name, whether it is an environment variable
	Values [][]string `json:"values"` // by level and name, the value as text
	Unset  [][]bool   `json:"unset"`  // by level and name, whether the variable is unset
}

func tasksOf(p *plan.Plan) (out []plannedTask) {
	for _, g := range p.Groups {
		for _, t := range g.Tasks {
			if t.Trial == 0 {
				out = append(out, plannedTask{g, t})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b plannedTask) int { return cmp.Compare(a.task.Index, b.task.Index) })
	return out
}

// value returns an axis or variable of a task as text.
func value(t plan.Task, name string) (text string, env, unset, ok bool) {
	if v, has := t.Env.Get(name); has {
		return v.Text(), true, !v.Set, true
	}
	if name == bench.RanksAxis && t.Ranks > 0 {
		return fmt.Sprint(t.Ranks), false, false, true
	}
	v, has := t.Point.Get(name)
	return v.String(), false, false, has
}

// describe formats some of the axes of a task.
func describe(t plan.Task, names []string) string {
	var parts []string
	for _, n := range names {
		if text, _, _, ok := value(t, n); ok {
			parts = append(parts, n+"="+text)
		}
	}
	return strings.Join(parts, " ")
}

// variablesOf returns the variables with several values, except the held ones.
func variablesOf(all []plannedTask, held []string) (out []Variable) {
	first := all[0]
	names := append(lists.Map(first.task.Env, func(e point.EnvVar) string { return e.Name }), bench.RanksAxis)
	names = append(names, lists.Map(first.task.Point, func(c point.Coord) string { return c.Name })...)
	done := slices.Clone(held)
	for _, n := range names {
		if slices.Contains(done, n) {
			continue
		}
		members := []string{n}
		for _, z := range first.group.Part.Zips {
			if slices.Contains(z, n) {
				members = z
			}
		}
		done = append(done, members...)
		v := Variable{Names: members}
		for _, t := range all {
			v.level(t.task)
		}
		if len(v.Values) > 1 {
			out = append(out, v)
		}
	}
	return out
}

// level returns the task's level, which it adds if it is new.
func (v *Variable) level(t plan.Task) int {
	var texts []string
	var unsets, envs []bool
	for _, n := range v.Names {
		text, env, unset, _ := value(t, n)
		texts, envs, unsets = append(texts, text), append(envs, env), append(unsets, unset)
	}
	for i := range v.Values {
		if slices.Equal(v.Values[i], texts) && slices.Equal(v.Unset[i], unsets) {
			return i
		}
	}
	v.Env = envs
	v.Values, v.Unset = append(v.Values, texts), append(v.Unset, unsets)
	return len(v.Values) - 1
}

func levelsOf(t plan.Task, variables []Variable) (out []int) {
	for i := range variables {
		out = append(out, variables[i].level(t))
	}
	return out
}

// SweptName is an axis or variable with several values.
type SweptName struct {
	Name  string
	Env   bool
	First string // its first value, as a SPEC
}

// Swept returns the axes and variables of a plan with several values, except the held ones.
func Swept(p *plan.Plan, held []string) (out []SweptName) {
	all := tasksOf(p)
	for _, v := range variablesOf(all, held) {
		for i, n := range v.Names {
			first := v.Values[0][i]
			if x, has := all[0].task.Point.Get(n); has {
				first = point.FormatSpec([]point.Value{x})
			}
			out = append(out, SweptName{n, v.Env[i], first})
		}
	}
	return out
}
