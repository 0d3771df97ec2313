package plan

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// partOutline records which combinations of a part run, in which launch, and which are dropped. It
// stores only numbers, because a sweep may have a million points; tasks are computed on demand.
type partOutline struct {
	product
	keys     *journal.Keyer
	keyed    func(point.Point) point.Point // replaces files by their SHA-256; see keyPoint
	inputs   *partInputs
	world    *World // nil if any number of ranks can be started
	backend  string
	maxRanks int // of the backend; 0: no limit
	threads  int
	trials   int
	bind     Bind

	separate []pointRef   // points of a program: one launch each, because argv contains the point
	shared   [][]pointRef // launches of points that share processes
	dropped  []pointRef
	reasons  []error // why each of them is dropped
}

// pointRef refers to a point of a part.
type pointRef struct {
	combination int32 // number in the product
	index       int32 // position in declared order, over all parts
}

// launch is one launch of a part in one trial.
type launch struct {
	trial  int
	points []pointRef
}

// expand finds the points of a part. Points with the same rank count and environment go into the same
// launch, because they can share processes.
func (p *Plan) expand(part *decl.Part, req Request, only []dataset.Expr) error {
	o := &partOutline{backend: p.Backend, maxRanks: dist.Describe(p.Backend).MaxRanks, threads: req.Threads,
		bind: req.Bind, keyed: func(q point.Point) point.Point { return p.resolved.keyPoint(q, req.Files) }}
	var err error
	if o.product, err = newProduct(part); err != nil {
		return err
	}
	skips, err := skipSets(part, req.Skips)
	if err != nil {
		return err
	}
	if !p.InProcess {
		o.world = req.World
	}
	version := cmp.Or(p.Bench.Version, dist.Describe(p.Backend).Model)
	o.inputs = p.newPartInputs(part, req, version)
	o.keys = journal.NewKeyer(p.Bench.Name, part.Name, version, p.Backend, p.Identity(), o.inputs.common)
	options := p.withBackend()
	launchOf := map[string]int{} // index in o.shared, by rank count and environment
	for n := range o.total {
		t := o.task(n)
		if p.otherMachineRanks(t) || skips.has(t) || len(only) > 0 && !dataset.AllHold(only, p.lookup(part, t)) {
			continue
		}
		for _, mistake := range part.Refusals {
			if err := p.refuse(mistake(t.withRanks(), options)); err != nil {
				return err
			}
		}
		at := pointRef{int32(n), int32(p.found)}
		p.found++
		if reason := o.dropReason(t); reason != nil {
			o.dropped, o.reasons = append(o.dropped, at), append(o.reasons, reason)
			continue
		}
		p.Points++
		if p.Bench.Content != nil {
			o.inputs.fingerprint(p.contents(t.Point)) // so that Files is complete before anybody asks for the tasks
		}
		if part.Command != nil {
			o.separate = append(o.separate, at)
			continue
		}
		processes := fmt.Sprintf("%d %s", t.Ranks, t.Env)
		i, ok := launchOf[processes]
		if !ok {
			i = len(o.shared)
			launchOf[processes] = i
			o.shared = append(o.shared, nil)
		}
		o.shared[i] = append(o.shared[i], at)
	}
	p.parts = append(p.parts, o)
	return nil
}

// refuse handles what a refusal function returned. A [decl.Note] is added to the plan's notes; any other
// error is returned.
func (p *Plan) refuse(err error) error {
	note, isNote := errors.AsType[decl.Note](err)
	if !isNote {
		return err
	}
	if text := string(note); !slices.Contains(p.Notes, text) {
		p.Notes = append(p.Notes, text)
	}
	return nil
}

// dropReason returns why a point is dropped, or nil.
func (o *partOutline) dropReason(t Task) error {
	if err := dropError(o.part, t, o.backend); err != nil {
		return err
	}
	if o.maxRanks > 0 && t.Ranks > o.maxRanks && o.part.Command == nil {
		return fmt.Errorf("backend %s supports at most %d ranks", o.backend, o.maxRanks)
	}
	if w := o.world; w != nil && t.Ranks > 0 && t.Ranks != w.Ranks {
		return errors.New(w.Reason)
	}
	return nil
}

// launches returns the number of launches of the part in one trial.
func (o *partOutline) launches() int { return len(o.separate) + len(o.shared) }

// group returns a launch without its tasks. The rank count and environment of the first task hold for
// all tasks of the launch.
func (o *partOutline) group(l launch, first Task) *Group {
	return &Group{Part: o.part, Trial: l.trial, Ranks: first.Ranks, Env: first.Env, Threads: o.threads, Bind: o.bind}
}

// tasks computes the tasks of a launch. Keys are optional because they take most of the time.
func (o *partOutline) tasks(l launch, keys bool) iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, at := range l.points {
			t := o.task(int(at.combination))
			t.Index, t.Trial = int(at.index), l.trial
			if keys {
				contents := o.inputs.plan.contents(t.Point)
				t.Key = o.keys.Key(addContent(o.keyed(t.Point), contents), ranksPtr(t.Ranks), t.Env)
				t.Inputs = o.inputs.fingerprint(contents)
			}
			if !yield(t) {
				return
			}
		}
	}
}

// outline yields the launches of the plan in execution order. Parts with a single trial come
// first, in declared order. The launches of the other parts are shuffled in each trial, so that a
// slow drift of the machine affects all of them equally.
func (p *Plan) outline() iter.Seq2[*partOutline, launch] {
	return func(yield func(*partOutline, launch) bool) {
		for trial := range p.Trials {
			order := p.launchesOf(func(o *partOutline) bool { return o.trials > 1 && o.trials > trial })
			rng := rand.New(rand.NewPCG(p.Seed, uint64(trial)))
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			if trial == 0 {
				order = append(p.launchesOf(func(o *partOutline) bool { return o.trials == 1 }), order...)
			}
			for _, i := range order {
				if o, l := p.launch(int(i)); !yield(o, launch{trial, l}) {
					return
				}
			}
		}
	}
}

// launchesOf numbers the launches of the parts that match, in declared order.
func (p *Plan) launchesOf(match func(*partOutline) bool) (numbers []int32) {
	first := 0
	for _, o := range p.parts {
		n := o.launches()
		if match(o) {
			numbers = slices.Grow(numbers, n)
			for i := range n {
				numbers = append(numbers, int32(first+i))
			}
		}
		first += n
	}
	return numbers
}

// launch returns launch i in declared order.
func (p *Plan) launch(i int) (*partOutline, []pointRef) {
	k := 0
	for ; i >= p.parts[k].launches(); k++ {
		i -= p.parts[k].launches()
	}
	o := p.parts[k]
	if len(o.separate) > 0 {
		return o, o.separate[i : i+1]
	}
	return o, o.shared[i]
}

// EnvTrials is the default number of trials of a sweep over environment variables. Each value runs in
// its own launch, and launches differ even with equal settings. With a single trial, that difference
// would look like an effect of the variable.
const EnvTrials = 4

// setTrials sets the number of trials of each part: as requested, else as declared, else EnvTrials if
// the part measures launches with different environments. Simulated times are exact, so their default
// is one trial.
func (p *Plan) setTrials() {
	requested := p.Trials
	p.DefaultTrials, p.Trials, p.trialsOf = requested == 0, 1, map[string]int{}
	for _, o := range p.parts {
		o.trials = 1
		switch {
		case requested > 0:
			o.trials = requested
		case p.Simulated:
		case o.part.Trials > 0:
			o.trials = o.part.Trials
			if o.part.Name != "" && o.trials > 1 && o.launches() > 0 {
				p.Notes = append(p.Notes, fmt.Sprintf("%d trials of %s, because one launch does not show how much launches "+
					"differ (--trials 1 runs only one)", o.trials, o.part.Name))
			}
		case o.sweepsEnv():
			o.trials = EnvTrials
			p.Notes = append(p.Notes, fmt.Sprintf("%d trials, because one launch of each environment does not show how much "+
				"launches differ (--trials 1 runs only one)", EnvTrials))
		}
		p.trialsOf[o.part.Name] = o.trials
		if o.launches() > 0 {
			p.Trials = max(p.Trials, o.trials)
		}
	}
	p.Notes = lists.Distinct(p.Notes)
}

// TrialsOf returns the number of trials of a part.
func (p *Plan) TrialsOf(part string) int { return p.trialsOf[part] }

// sweepsEnv reports whether two launches of the part have different environments.
func (o *partOutline) sweepsEnv() bool {
	first := -1
	differs := func(at pointRef) bool {
		n := int(at.combination)
		if first < 0 {
			first = n
		}
		return slices.ContainsFunc(o.envs, func(s stride) bool { return s.position(n) != s.position(first) })
	}
	return slices.ContainsFunc(o.separate, differs) ||
		slices.ContainsFunc(o.shared, func(points []pointRef) bool { return differs(points[0]) })
}

// materialize computes Groups and Dropped, which a run needs. Afterwards the outline is not used any more.
func (p *Plan) materialize() {
	for o, l := range p.outline() {
		tasks := slices.AppendSeq(make([]Task, 0, len(l.points)), o.tasks(l, true))
		g := o.group(l, tasks[0])
		g.Tasks = tasks
		p.Groups = append(p.Groups, g)
	}
	p.Dropped = slices.Collect(p.AllDropped())
	p.parts = nil
}

// All yields the launches in execution order with their tasks. It works for plans of Make and of
// Outline; tasks of the latter have no keys.
func (p *Plan) All() iter.Seq2[*Group, iter.Seq[Task]] { return p.all(false) }

func (p *Plan) all(keys bool) iter.Seq2[*Group, iter.Seq[Task]] {
	return func(yield func(*Group, iter.Seq[Task]) bool) {
		for _, g := range p.Groups {
			if !yield(g, slices.Values(g.Tasks)) {
				return
			}
		}
		for o, l := range p.outline() {
			if !yield(o.group(l, o.task(int(l.points[0].combination))), o.tasks(l, keys)) {
				return
			}
		}
	}
}

// AllDropped yields the dropped points with their reasons.
func (p *Plan) AllDropped() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, t := range p.Dropped {
			if !yield(t) {
				return
			}
		}
		for t := range p.refused(true) {
			if !yield(t) {
				return
			}
		}
	}
}

// refused yields the dropped points of the outline, with the errors that drop them.
func (p *Plan) refused(keys bool) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		for _, o := range p.parts {
			i := 0
			for t := range o.tasks(launch{points: o.dropped}, keys) {
				t.Reason = o.reasons[i].Error()
				if !yield(t, o.reasons[i]) {
					return
				}
				i++
			}
		}
	}
}

// launchSizes yields the part and the number of points of each launch.
func (p *Plan) launchSizes() iter.Seq2[*decl.Part, int] {
	return func(yield func(*decl.Part, int) bool) {
		for _, g := range p.Groups {
			if !yield(g.Part, len(g.Tasks)) {
				return
			}
		}
		for o, l := range p.outline() {
			if !yield(o.part, len(l.points)) {
				return
			}
		}
	}
}

// Launches returns the number of launches.
func (p *Plan) Launches() (n int) {
	for range p.launchSizes() {
		n++
	}
	return n
}

// RunsPrograms reports whether the first launch runs a program instead of a body.
func (p *Plan) RunsPrograms() bool {
	for part := range p.launchSizes() {
		return part.Command != nil
	}
	return false
}

// A dimension is an independent direction of the sweep: a single axis or environment variable,
// or several zipped together.
type dimension struct {
	axes []decl.Axis
	envs []decl.EnvAxis
	size int // number of positions; zipped axes have equally many values
}

// dimensions returns the dimensions of a part, outermost first: environment variables, because
// changing them costs a launch, then the axes as declared. A zip takes the place of its first
// member.
func dimensions(part *decl.Part) ([]dimension, error) {
	zipOf := map[string]int{}
	for i, z := range part.Zips {
		for _, name := range z {
			zipOf[name] = i
		}
	}
	var dims []dimension
	placed := map[int]int{} // index of a zip -> index of its dimension
	slot := func(name string, size int) *dimension {
		z, zipped := zipOf[name]
		if at, ok := placed[z]; zipped && ok {
			return &dims[at]
		}
		if zipped {
			placed[z] = len(dims)
		}
		dims = append(dims, dimension{size: size})
		return &dims[len(dims)-1]
	}
	for _, e := range part.Envs {
		d := slot(e.Name, len(e.Values))
		d.envs = append(d.envs, e)
	}
	for _, a := range part.Axes {
		d := slot(a.Name, len(a.Values))
		d.axes = append(d.axes, a)
	}
	total := 1
	for _, d := range dims {
		if total *= d.size; total > maxPoints {
			return nil, fmt.Errorf("the axes multiply to more than %d points: zip some, or narrow them", maxPoints)
		}
	}
	return dims, nil
}

// product enumerates the combinations of a part's values. A combination is only a number below total,
// because there may be a million of them. The method task computes its point.
type product struct {
	part       *decl.Part
	total      int
	axes, envs []stride // of the part's axes and variables, in declared order
	pointAxes  int      // number of axes besides num_ranks
}

// stride converts the number of a combination to the position along one dimension.
type stride struct{ every, size int }

func (s stride) position(n int) int { return n / s.every % s.size }

// newProduct numbers the combinations; the last dimension varies fastest.
func newProduct(part *decl.Part) (product, error) {
	dims, err := dimensions(part)
	if err != nil {
		return product{}, err
	}
	p := product{part: part, total: 1}
	strides := map[string]stride{} // by axis or variable
	for k := len(dims) - 1; k >= 0; k-- {
		s := stride{p.total, dims[k].size}
		for _, a := range dims[k].axes {
			strides[a.Name] = s
		}
		for _, e := range dims[k].envs {
			strides[e.Name] = s
		}
		p.total *= s.size
	}
	for _, a := range part.Axes {
		p.axes = append(p.axes, strides[a.Name])
		if a.Name != bench.RanksAxis {
			p.pointAxes++
		}
	}
	for _, e := range part.Envs {
		p.envs = append(p.envs, strides[e.Name])
	}
	return p, nil
}

// task returns the values of combination n, in declared order regardless of zips.
func (p product) task(n int) Task {
	t := Task{Part: p.part.Name, Point: make(point.Point, 0, p.pointAxes)}
	for k, a := range p.part.Axes {
		value := a.Values[p.axes[k].position(n)]
		if a.Name == bench.RanksAxis {
			t.Ranks = int(value.Int())
			continue
		}
		t.Point = append(t.Point, point.Coord{Name: a.Name, Value: value})
	}
	for k, e := range p.part.Envs {
		t.Env = append(t.Env, e.Values[p.envs[k].position(n)])
	}
	return t
}
