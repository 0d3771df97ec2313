package plan

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// outlined is one part of a plan: which of its combinations run and which are dropped. What
// they are is derived.
type outlined struct {
	product
	keys    *journal.Keyer
	keyed   func(point.Point) point.Point // as keys know it
	world   *World                        // nil: any number of ranks can be had
	threads int
	bind    Bind

	alone   []place   // points that have a launch each: a program's argv holds the point
	shared  [][]place // launches of points that share processes
	dropped []place
}

// place is where a point stands.
type place struct {
	combination int32
	index       int32 // in the declared order, over all parts
}

// launch is what one launch of a part runs.
type launch struct {
	trial  int
	places []place
}

// expand finds a part's points and groups them by what their processes need.
func (p *Plan) expand(part *decl.Part, req Request, only []expr) error {
	o := &outlined{threads: req.Threads, bind: req.Bind, keyed: func(q point.Point) point.Point {
		return p.withContent(p.swept.keyed(q, req.Files), q)
	}}
	var err error
	if o.product, err = newProduct(part); err != nil {
		return err
	}
	skips, err := skipSets(part, req.Skips)
	if err != nil {
		return err
	}
	if !p.Shape.InProcess {
		o.world = req.World
	}
	inputs := p.Inputs
	if c := part.Command; c != nil && len(c.Inputs) > 0 {
		inputs = maps.Clone(p.Inputs)
		maps.Copy(inputs, c.Inputs)
	}
	inputs = req.Sampling.kind(declaredMeasure(p.Bench, part), inputs)
	version := cmp.Or(p.Bench.Version, dist.Describe(p.Backend).Model)
	o.keys = journal.NewKeyer(p.Bench.Name, part.Name, version, p.Backend, p.Options, inputs)
	options := p.withBackend()
	byNeed := map[string]int{} // launches
	for n := range o.total {
		t := o.task(n)
		if p.otherMachine(t) || skips.has(t) || len(only) > 0 && !all(only, p.values(part, t)) {
			continue
		}
		for _, mistake := range part.Refusals {
			if err := mistake(t.whole(), options); err != nil {
				return err
			}
		}
		at := place{int32(n), int32(p.found)}
		p.found++
		if o.refuses(t) != nil {
			o.dropped = append(o.dropped, at)
			continue
		}
		p.Points++
		if part.Command != nil {
			o.alone = append(o.alone, at)
			continue
		}
		need := fmt.Sprintf("%d %s", t.Ranks, t.Env)
		i, ok := byNeed[need]
		if !ok {
			i = len(o.shared)
			byNeed[need] = i
			o.shared = append(o.shared, nil)
		}
		o.shared[i] = append(o.shared[i], at)
	}
	p.parts = append(p.parts, o)
	return nil
}

// refuses is why a point is dropped.
func (o *outlined) refuses(t Task) error {
	if err := dropped(o.part, t); err != nil {
		return err
	}
	if w := o.world; w != nil && t.Ranks > 0 && t.Ranks != w.Ranks {
		return errors.New(w.Reason)
	}
	return nil
}

// launches is how often the part is launched in a trial.
func (o *outlined) launches() int { return len(o.alone) + len(o.shared) }

// group is a launch of a first task and others alike.
func (o *outlined) group(l launch, first Task) *Group {
	return &Group{Part: o.part, Trial: l.trial, Ranks: first.Ranks, Env: first.Env, Threads: o.threads, Bind: o.bind}
}

// tasks are those of a launch, one after the other. Keys take longest to derive.
func (o *outlined) tasks(l launch, keys bool) iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, at := range l.places {
			t := o.task(int(at.combination))
			t.Index, t.Trial = int(at.index), l.trial
			if keys {
				t.Key = o.keys.Key(o.keyed(t.Point), ranksPtr(t.Ranks), t.Env)
			}
			if !yield(t) {
				return
			}
		}
	}
}

// outline has the launches of the plan in the order of execution. One trial keeps the declared
// order; several are shuffled, so that a slow drift of the machine does not
// land on one environment alone.
func (p *Plan) outline() iter.Seq2[*outlined, launch] {
	total := 0
	for _, o := range p.parts {
		total += o.launches()
	}
	return func(yield func(*outlined, launch) bool) {
		order := make([]int32, total)
		for trial := range p.Trials {
			for i := range order {
				order[i] = int32(i)
			}
			if p.Trials > 1 {
				rng := rand.New(rand.NewPCG(p.Seed, uint64(trial)))
				rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			}
			for _, i := range order {
				if o, l := p.launch(int(i)); !yield(o, launch{trial, l}) {
					return
				}
			}
		}
	}
}

// launch finds a launch by its number in the declared order.
func (p *Plan) launch(i int) (*outlined, []place) {
	k := 0
	for ; i >= p.parts[k].launches(); k++ {
		i -= p.parts[k].launches()
	}
	o := p.parts[k]
	if len(o.alone) > 0 {
		return o, o.alone[i : i+1]
	}
	return o, o.shared[i]
}

// repeat decides how many trials there are where nobody has.
func (p *Plan) repeat() {
	if p.Trials > 0 {
		return
	}
	for _, o := range p.parts {
		if o.launches() > 0 {
			p.Trials = max(p.Trials, o.part.Trials, 1)
		}
	}
}

// hold derives everything, for a run.
func (p *Plan) hold() {
	for o, l := range p.outline() {
		tasks := slices.AppendSeq(make([]Task, 0, len(l.places)), o.tasks(l, true))
		g := o.group(l, tasks[0])
		g.Tasks = tasks
		p.Groups = append(p.Groups, g)
	}
	p.Dropped = slices.Collect(p.AllDropped())
	p.parts = nil
}

// All are the launches in the order of execution, and their points, whether the plan holds
// them or not. Those that are derived have no key.
func (p *Plan) All() iter.Seq2[*Group, iter.Seq[Task]] { return p.all(false) }

func (p *Plan) all(keys bool) iter.Seq2[*Group, iter.Seq[Task]] {
	return func(yield func(*Group, iter.Seq[Task]) bool) {
		for _, g := range p.Groups {
			if !yield(g, slices.Values(g.Tasks)) {
				return
			}
		}
		for o, l := range p.outline() {
			if !yield(o.group(l, o.task(int(l.places[0].combination))), o.tasks(l, keys)) {
				return
			}
		}
	}
}

// AllDropped are the points that were dropped, with the reason.
func (p *Plan) AllDropped() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, t := range p.Dropped {
			if !yield(t) {
				return
			}
		}
		for _, o := range p.parts {
			for t := range o.tasks(launch{places: o.dropped}, true) {
				t.Reason = o.refuses(t).Error()
				if !yield(t) {
					return
				}
			}
		}
	}
}

// sizes are the parts and numbers of points of all launches.
func (p *Plan) sizes() iter.Seq2[*decl.Part, int] {
	return func(yield func(*decl.Part, int) bool) {
		for _, g := range p.Groups {
			if !yield(g.Part, len(g.Tasks)) {
				return
			}
		}
		for o, l := range p.outline() {
			if !yield(o.part, len(l.places)) {
				return
			}
		}
	}
}

// Launches is the number of process groups that will be started.
func (p *Plan) Launches() (n int) {
	for range p.sizes() {
		n++
	}
	return n
}

// Programs tells whether the plan launches programs.
func (p *Plan) Programs() bool {
	for part := range p.sizes() {
		return part.Command != nil
	}
	return false
}
