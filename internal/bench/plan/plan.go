// Package plan turns a declaration and the command line's overrides into the
// points to run and the launches they need. It is pure: no clock, no files, no
// processes, so that what a sweep will do can be shown (--plan) and tested
// without doing it.
//
//	declaration + overrides -> parts with final axes
//	                        -> points (product of the axes, zipped ones together)
//	                        -> without those that Drop, --skip and --only leave out
//	                        -> launch groups: points that may share processes
//	                        -> trials: the groups again, in a seeded order
package plan

import (
	"fmt"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/host/cores"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// maxPoints bounds a sweep: a larger product is a mistake.
const maxPoints = 1_000_000

// Plan is everything a run will do, in order.
type Plan struct {
	Bench   *bench.Bench
	Backend string
	Shape   dist.Shape // of the backend
	Options point.Point
	Trials  int
	Seed    uint64
	Groups  []*Group // all trials, in execution order
	Dropped []Task   // points that were dropped, with the reason
	Points  int      // distinct points, not counting trials

	// Axes and Envs are the columns in order, over all parts.
	Axes []journal.AxisInfo
	Envs []string
	// Notes are what the plan has chosen otherwise than elsewhere, and why.
	Notes []string
	// Undeclared are those of Envs that only the request knows.
	Undeclared []string
	// Inputs are the SHA-256 of the files that options name.
	Inputs map[string]string

	swept        *sweep
	machineRanks bool // the ranks are those of the machines that options describe

	parts []*outlined // of a plan that is only looked at
	found int         // points, also those that were dropped
}

// Group is one launch: a fresh set of processes that runs its tasks in order.
type Group struct {
	Part  *decl.Part
	Trial int
	Ranks int // 0: the program starts its own
	Env   point.Env
	Tasks []Task
	// Threads and Bind are properties of the processes, the same for all
	// groups of a run.
	Threads int
	Bind    Bind
}

// Bind says how ranks are tied to cores.
type Bind = cores.Bind

// BindNone leaves ranks where the system puts them.
const BindNone = cores.None

// Task is one point in one trial.
type Task struct {
	Part   string
	Point  point.Point // without num_ranks
	Ranks  int
	Env    point.Env
	Trial  int
	Index  int // position in the declared order, over all parts
	Key    string
	Reason string // why it was dropped
}

// Words name the point, whichever trial of it.
func (t Task) Words() string {
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

// Request is what the command line asks of a bench.
type Request struct {
	Axes     []Assign // --axis K=SPEC, --K SPEC, --ranks
	Envs     []Assign // --env K=SPEC
	Zips     [][]string
	Skips    []Assign // --skip K=SPEC
	Only     []string // expressions, all must hold
	Options  []Assign // --K VALUE
	Backend  string   // resolved; must be one the bench runs on
	Trials   int      // 0: the bench's own
	Seed     uint64
	Threads  int
	Bind     Bind
	Inputs   map[string]string // SHA-256 of option files, by option
	Files    map[string]string // SHA-256 of files of options that may be swept, by path
	Sampling Sampling
	World    *World // nil: any number of ranks can be started
	Hosts    string // why the ranks are taken to be on several hosts; empty: they are on one
}

// World is a job whose processes exist already: no other number of ranks can be
// had. Ranks that are not processes do not count.
type World struct {
	Ranks  int
	Reason string // what to say of a point with another number
}

// Assign is one NAME=TEXT of the command line.
type Assign struct{ Name, Text string }

// Make plans a bench. Every error is a mistake in the request or the declaration,
// and names what exists.
func Make(b *bench.Bench, req Request) (*Plan, error) {
	p, err := Outline(b, req)
	if err != nil {
		return nil, err
	}
	p.hold()
	return p, nil
}

// Outline is Make for who only looks: the plan holds neither Groups nor Dropped, of which
// All and AllDropped derive one after the other.
func Outline(b *bench.Bench, req Request) (*Plan, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Bench: b, Backend: req.Backend, Shape: dist.Describe(req.Backend).Shape, Trials: req.Trials, Seed: req.Seed,
		Undeclared: undeclared(b, req)}
	var err error
	if p.swept, err = settle(b, req); err != nil {
		return nil, err
	}
	p.Options, p.Inputs = p.swept.options, p.swept.inputs
	if err := oneHost(b, req); err != nil {
		return nil, err
	}
	parts, err := p.override(req)
	if err != nil {
		return nil, err
	}
	p.Notes = append(hostNotes(b, req), p.swept.notes...)
	only, err := compileAll(req.Only, scopeOf(b, parts, p.Options))
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := p.expand(part, req, only); err != nil {
			return nil, err
		}
		p.columns(part)
	}
	p.repeat()
	if err := p.unknownWords(parts, req); err != nil {
		return nil, err
	}
	if p.Points == 0 {
		return nil, p.emptySelection(parts, req)
	}
	return p, nil
}

// Processes is how many processes a launch of the group starts. A backend that
// has its ranks in one process has one; a program is started for every rank.
func (p *Plan) Processes(g *Group) int {
	if p.Shape.InProcess && g.Part.Command == nil {
		return 1
	}
	return max(g.Ranks, 1)
}

// Bodies is how many ranks of a launch execute the body: all, unless one stands for them.
func (p *Plan) Bodies(g *Group) int {
	if p.Shape.Virtual {
		return 1
	}
	return g.Ranks
}

// Prefers is the backend on which the bench would rather have all of these points, ""
// where there is none.
func (p *Plan) Prefers() (backend string) {
	if p.Bench.Prefer == nil {
		return ""
	}
	first := true
	for _, tasks := range p.All() {
		for t := range tasks {
			name := p.Bench.Prefer(t.whole())
			if !first && name != backend || name == "" {
				return ""
			}
			first, backend = false, name
		}
	}
	return backend
}

// Rows is how many rows a complete run records.
func (p *Plan) Rows() int {
	n := len(p.Dropped) * p.Trials
	for _, g := range p.Groups {
		n += len(g.Tasks)
	}
	return n
}

// declaredMeasure is how a part is sampled before anything is asked for.
func declaredMeasure(b *bench.Bench, part *decl.Part) bench.Config {
	if p, ok := b.Part(part.Name); ok {
		return p.Measure
	}
	return bench.Config{}
}

// columns collects the names that rows of this part have.
func (p *Plan) columns(part *decl.Part) {
	for _, a := range part.Axes {
		if a.Name != bench.RanksAxis {
			p.Axes = append(p.Axes, journal.AxisInfo{Part: part.Name, Name: a.Name, Kind: a.Kind})
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

// Estimate is how long the sampling takes at least and at most, not counting
// the bodies' own set-up.
func (p *Plan) Estimate() (least, most time.Duration) {
	const start = 20 * time.Millisecond // of the processes of a group
	for part, points := range p.sizes() {
		n := time.Duration(points)
		least += start
		most += start
		if part.Command != nil {
			most += n * Timeout(part) * time.Duration(part.Command.Launches())
			continue
		}
		m := part.Measure
		least += n * m.Stop.MinTime
		most += n * (m.Warmup.MaxTime + m.Stop.MaxTime)
	}
	return least, most
}

// Foresee is how long the run takes by how long points took before, by key, and of how
// many points that is known. The others are taken to be as those of their part.
func (p *Plan) Foresee(took map[string]time.Duration) (total time.Duration, known int) {
	type sum struct {
		time  time.Duration
		n     int
		other int
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
		mean := all // of a part of which nothing is known
		if s.n > 0 {
			mean = *s
		}
		total += s.time + mean.time*time.Duration(s.other)/time.Duration(mean.n)
	}
	return total, known
}

// Timeout is a part's time-out per point.
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

func dropped(part *decl.Part, t Task) error {
	for _, where := range part.Drops {
		if err := where(t.whole()); err != nil {
			return err
		}
	}
	return nil
}

// whole is the point with its number of ranks.
func (t Task) whole() point.Point {
	if t.Ranks > 0 {
		return t.Point.With(bench.RanksAxis, point.IntValue(int64(t.Ranks)))
	}
	return t.Point
}
