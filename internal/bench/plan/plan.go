// Package plan turns a declaration and the command line's overrides into the
// points to run and the launches they need. It is pure: it uses no clock, files or
// processes, so --plan can show a sweep, and tests can check it, without running it.
//
//	declaration + overrides -> parts with final axes
//	                        -> points: the product of the axes, zipped axes together
//	                        -> minus the points that Drop, --skip and --only remove
//	                        -> launch groups: points that can share processes
//	                        -> trials: the groups repeated, in a seeded random order
package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// maxPoints limits a sweep. A larger product is most likely a mistake.
const maxPoints = 1_000_000

// Plan lists everything that a run will do, in order.
type Plan struct {
	Bench   *bench.Bench
	Backend string
	// InProcess, Simulated and Virtual are copied from the [dist.Description] of the backend.
	InProcess, Simulated, Virtual bool

	Options point.Point
	Trials  int // largest number of trials of a part; see TrialsOf
	// DefaultTrials means that the request does not set the number of trials.
	DefaultTrials bool

	Seed    uint64
	Groups  []*Group // all trials, in execution order
	Dropped []Task   // dropped points, with the reason
	Points  int      // distinct points, not counting trials

	// Axes and Envs are the columns of all parts, in order.
	Axes []journal.AxisInfo
	Envs []string
	// Notes tell the user which values the plan chose, and why.
	Notes []string
	// Undeclared lists the swept variables that the bench does not declare.
	Undeclared []string
	// Inputs holds the SHA-256 sums of the files that options name.
	Inputs map[string]string
	// Fingerprints maps the fingerprints in Task.Inputs to the inputs that they stand for.
	Fingerprints map[string]journal.Inputs

	resolved     *resolvedOptions
	machineRanks bool // rank counts come from Bench.RanksOf

	trialsOf map[string]int // by part
	// parts is set until materialize has filled Groups and Dropped from it.
	parts []*partOutline
	found int // number of points found so far, including dropped ones
}

// Group is one launch: a new set of processes that runs its tasks in order.
type Group struct {
	Part  *decl.Part
	Trial int
	Ranks int // 0: the program starts its own
	Env   point.Env
	Tasks []Task
	// Threads and Bind apply to the processes. They are the same for all groups of a run.
	Threads int
	Bind    Bind
}

// Bind is a policy for pinning ranks to cores.
type Bind = cores.Bind

// BindNone does not pin ranks.
const BindNone = cores.None

// Task is one point in one trial.
type Task struct {
	Part   string
	Point  point.Point // without num_ranks
	Ranks  int
	Env    point.Env
	Trial  int
	Index  int    // position in declared order, over all parts
	Key    string // identity of the point, for --resume; the same in all trials
	Inputs string // fingerprint of everything that will produce its rows; see Plan.Fingerprints
	Reason string // why the point was dropped, or ""
}

// Label describes the point, without its trial, for messages.
func (t Task) Label() string {
	s := t.Point.String()
	if t.Part != "" {
		s = t.Part + " " + s
	}
	if t.Ranks > 0 {
		s += fmt.Sprintf(" ranks=%d", t.Ranks)
	}
	if len(t.Env) > 0 {
		s += " " + t.Env.String()
	}
	return s
}

// Request holds the overrides from the command line.
type Request struct {
	Axes     []Assign // --axis K=SPEC, --K SPEC, --ranks
	Envs     []Assign // --env K=SPEC
	Zips     [][]string
	Skips    []Assign // --skip K=SPEC
	Only     []string // expressions that must all hold
	Options  []Assign // --K VALUE
	Backend  string   // one that the bench supports
	Trials   int      // 0 means as declared
	Seed     uint64
	Threads  int
	Bind     Bind
	Inputs   map[string]string // SHA-256 of option files, by option
	Files    map[string]string // SHA-256 of files of sweepable options, by path
	Build    journal.Inputs    // programs and files that all points depend on
	Environ  map[string]string // variables that affect results, swept or not
	Sampling Sampling
	World    *World // nil if any number of ranks can be started
	Hosts    string // explains why the ranks are on several hosts; "" if they are on one
}

// World is a job of another launcher. Its processes already exist, so the number of ranks is fixed. It
// does not affect backends that run all ranks in one process.
type World struct {
	Ranks  int
	Reason string // drop reason for points with another number of ranks
}

// Assign is one NAME=TEXT of the command line.
type Assign struct{ Name, Text string }

// Make plans a bench. Every error is a mistake in the request or the declaration, and lists the
// valid names.
func Make(b *bench.Bench, req Request) (*Plan, error) {
	p, err := Outline(b, req)
	if err != nil {
		return nil, err
	}
	p.materialize()
	return p, nil
}

// Outline is like Make but leaves Groups and Dropped empty, which saves memory if the plan is
// only displayed. All and AllDropped compute the groups and dropped points one at a time.
func Outline(b *bench.Bench, req Request) (*Plan, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	backend := dist.Describe(req.Backend)
	p := &Plan{Bench: b, Backend: req.Backend, InProcess: backend.InProcess, Simulated: backend.Simulated,
		Virtual: backend.Virtual, Trials: req.Trials, Seed: req.Seed, Undeclared: undeclared(b, req)}
	var err error
	if p.resolved, err = resolveOptions(b, req); err != nil {
		return nil, err
	}
	p.Options, p.Inputs = p.resolved.options, p.resolved.inputs
	if err := checkOneHost(b, req); err != nil {
		return nil, err
	}
	parts, err := p.override(req)
	if err != nil {
		return nil, err
	}
	p.Notes = append(hostNotes(b, req), p.resolved.notes...)
	only, err := dataset.CompileAll(req.Only, scopeOf(b, parts, p.Options))
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := p.expand(part, req, only); err != nil {
			return nil, err
		}
		p.addColumns(part)
	}
	p.setTrials()
	if err := p.unknownValues(req); err != nil {
		return nil, err
	}
	if p.Points == 0 {
		return nil, p.emptySelection(parts, req)
	}
	return p, nil
}

// Processes returns how many processes a launch of the group starts: one if the backend runs all
// ranks in one process, else one per rank. A command is always started once per rank.
func (p *Plan) Processes(g *Group) int {
	if p.InProcess && g.Part.Command == nil {
		return 1
	}
	return max(g.Ranks, 1)
}

// BodyRanks returns how many ranks of a launch execute the body: one on a backend with virtual
// ranks, else all.
func (p *Plan) BodyRanks(g *Group) int {
	if p.Virtual {
		return 1
	}
	return g.Ranks
}

// PreferredBackend returns the backend that the bench prefers for all points of the plan, or ""
// if it has no preference or the points disagree.
func (p *Plan) PreferredBackend() (backend string) {
	if p.Bench.Prefer == nil {
		return ""
	}
	first := true
	for _, tasks := range p.All() {
		for t := range tasks {
			name := p.Bench.Prefer(t.withRanks())
			if !first && name != backend || name == "" {
				return ""
			}
			first, backend = false, name
		}
	}
	return backend
}

// Tasks returns the number of points times their trials.
func (p *Plan) Tasks() (n int) {
	for _, points := range p.launchSizes() {
		n += points
	}
	return n
}

// Rows returns the number of rows of a complete run.
func (p *Plan) Rows() int {
	n := 0
	for _, t := range p.Dropped {
		n += p.TrialsOf(t.Part)
	}
	return n + p.Tasks()
}

// declaredMeasure returns the declared sampling of a part, before overrides.
func declaredMeasure(b *bench.Bench, part *decl.Part) bench.Config {
	if p, ok := b.Part(part.Name); ok {
		return p.Measure
	}
	return bench.Config{}
}

// isDefault reports whether an axis of a run has one value, and the bench declares the same one.
func isDefault(b *bench.Bench, part string, a decl.Axis) bool {
	p, ok := b.Part(part)
	if !ok {
		return false
	}
	declared, ok := p.Axis(a.Name)
	return ok && len(a.Values) == 1 && slices.Equal(declared.Values, a.Values)
}

// AtDefault returns the names of the axes that have one value in all parts of the run, their default.
func (p *Plan) AtDefault() (names []string) {
	varies := map[string]bool{}
	for _, a := range p.Axes {
		varies[a.Name] = varies[a.Name] || !a.AtDefault
	}
	for _, a := range p.Axes {
		if !varies[a.Name] {
			names = append(names, a.Name)
		}
	}
	return lists.Distinct(names)
}

// addColumns adds the axes and variables of the rows of a part.
func (p *Plan) addColumns(part *decl.Part) {
	for _, a := range part.Axes {
		if a.Name != bench.RanksAxis {
			p.Axes = append(p.Axes, journal.AxisInfo{Part: part.Name, Name: a.Name, Kind: a.Kind,
				AtDefault: isDefault(p.Bench, part.Name, a)})
		}
	}
	if part.Command != nil {
		for _, c := range part.Command.Columns {
			if _, own := part.Axis(c.Name); !own {
				p.Axes = append(p.Axes, journal.AxisInfo{Part: part.Name, Name: c.Name, Kind: c.Kind})
			}
		}
	}
	p.Envs = lists.Distinct(append(p.Envs, envNames([]*decl.Part{part})...))
}

// Estimate returns the bounds that the stopping rules set on the sampling time of the run. The set-up
// of the bodies is not included.
func (p *Plan) Estimate() (shortest, longest time.Duration) {
	const start = 20 * time.Millisecond // approximate time to start the processes of a launch
	for part, points := range p.launchSizes() {
		n := time.Duration(points)
		shortest += start
		longest += start
		if part.Command != nil {
			longest += n * Timeout(part) * time.Duration(part.Command.Launches())
			continue
		}
		m := part.Measure
		shortest += n * m.Stop.MinTime
		longest += n * min(m.Warmup.MaxTime+m.Stop.MaxTime, Timeout(part))
	}
	return shortest, longest
}

// EstimateFrom estimates the time of the run from earlier durations of points, by key. It also
// returns for how many distinct points a duration is known. Unknown points are assumed to take
// as long as the mean of their part, or of the whole plan if no point of the part is known.
func (p *Plan) EstimateFrom(took map[string]time.Duration) (total time.Duration, known int) {
	type sum struct {
		time  time.Duration
		n     int // tasks with a known duration
		other int // tasks without
	}
	if len(took) == 0 {
		return 0, 0
	}
	parts := map[*decl.Part]*sum{}
	seen := map[string]bool{}
	for g, tasks := range p.all(true) {
		s := parts[g.Part]
		if s == nil {
			s = &sum{}
			parts[g.Part] = s
		}
		for t := range tasks {
			d, ok := took[t.Key]
			if !ok {
				s.other++
				continue
			}
			s.time, s.n = s.time+d, s.n+1
			if !seen[t.Key] {
				seen[t.Key] = true
				known++
			}
		}
	}
	var all sum
	for _, s := range parts {
		all.time, all.n = all.time+s.time, all.n+s.n
	}
	if all.n == 0 {
		return 0, 0
	}
	for _, s := range parts {
		mean := all
		if s.n > 0 {
			mean = *s
		}
		total += s.time + mean.time*time.Duration(s.other)/time.Duration(mean.n)
	}
	return total, known
}

// Timeout returns a part's time limit per point.
func Timeout(part *decl.Part) time.Duration {
	if part.Timeout > 0 {
		return part.Timeout
	}
	return decl.DefaultTimeout
}

func ranksPtr(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// dropError returns the reason why a part drops a point on a backend, or nil. If backend is "", the drop
// functions are called without one.
func dropError(part *decl.Part, t Task, backend string) error {
	if len(part.Drops) > 0 {
		at := t.withRanks()
		if backend != "" {
			at = at.With(bench.BackendName, point.StringValue(backend))
		}
		for _, where := range part.Drops {
			if err := where(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// withRanks returns the point including num_ranks, as the functions of a bench expect it.
func (t Task) withRanks() point.Point {
	if t.Ranks > 0 {
		return t.Point.With(bench.RanksAxis, point.IntValue(int64(t.Ranks)))
	}
	return t.Point
}
