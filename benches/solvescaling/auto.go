package solvescaling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/solve"
)

// automatic reports whether the bench chooses the method or the preconditioner of a point.
func automatic(p point.Point) bool {
	return p.At(methodAxis).String() == auto || p.At(precondAxis).String() == auto
}

// checkAutomatic returns an error for options with which auto cannot compare solvers.
func checkAutomatic(p, options point.Point) error {
	if automatic(p) && options.At(stopOption).Int() > 0 {
		return fmt.Errorf("--%s %s: with --%s %s or --%s %s the shortest solve is chosen, so solves must not stop early",
			stopOption, options.At(stopOption), methodAxis, auto, precondAxis, auto)
	}
	return nil
}

// A trial is an attempt to solve the system by one method with one preconditioner.
type trial struct {
	method, precond string
	setup           float64 // cost of the set-up
	iteration       float64 // cost of an iteration
	iterations      int
	residual        float64
	solved          bool
	reason          string // why it was not tried
}

func (t trial) name() string { return solverName(t.method, t.precond) }

// cost returns the cost of set-up and solve.
func (t trial) cost() float64 { return t.setup + float64(t.iterations)*t.iteration }

// describe states the result of a trial. show formats a cost, and best is the lowest of all trials.
func (t trial) describe(show func(float64) string, best float64) string {
	switch {
	case t.reason != "":
		return fmt.Sprintf("%s: %s", t.name(), t.reason)
	case t.solved:
		return fmt.Sprintf("%s: %s, %s of it set-up, %s", t.name(), show(t.cost()), show(t.setup),
			unit.Plural(t.iterations, "iteration"))
	case t.setup >= best:
		return fmt.Sprintf("%s: its set-up alone took %s", t.name(), show(t.setup))
	}
	return fmt.Sprintf("%s: stopped after %s and %s, at a relative residual of %.2g", t.name(), show(t.cost()),
		unit.Plural(t.iterations, "iteration"), t.residual)
}

// attempt makes a trial that ends when it has cost more than a budget.
type attempt func(method, precond string, budget float64) (trial, error)

// family is a group of methods that suit the same matrices, with preconditioners to try: the most promising first, so
// that the others can be stopped early.
type family struct{ methods, preconds []string }

// families lists the methods for symmetric positive definite matrices, then the others, which are tried only if no
// solver of the first family works.
var families = []family{
	{[]string{krylov.Default}, []string{"gmg", "amg", "jacobi", "bjacobi"}},
	{[]string{"minres", "bicgstab", "gmres"}, []string{"bjacobi", "jacobi", precondition.None}},
}

// variants lists methods and preconditioners that are tried instead of the best, because they can do the same work with
// fewer reductions or fewer bytes.
var variants = map[string][]string{
	krylov.Default: {"cg-single"},
	"gmg":          {"gmg-f32"},
	"amg":          {"amg-f32"},
}

// choose makes trials and returns them, with the cheapest first. method and precond may be auto. Each trial ends when
// it has cost as much as the best one before it, so all together cost little more than their number times the best.
func choose(method, precond string, ranks int, try attempt) ([]trial, error) {
	var all []trial
	best := -1
	budget := math.Inf(1)
	run := func(method, precond string) error {
		t, err := try(method, precond, budget)
		if err != nil {
			return err
		}
		all = append(all, t)
		if t.solved && t.cost() < budget {
			best, budget = len(all)-1, t.cost()
		}
		return nil
	}
	for _, f := range families {
		methods, preconds := f.methods, f.preconds
		if method != auto {
			methods = []string{method}
		}
		if precond != auto {
			preconds = []string{precond}
		}
		for _, m := range methods {
			for _, p := range preconds {
				if err := run(m, p); err != nil {
					return nil, err
				}
			}
		}
		if best >= 0 || method != auto && precond != auto {
			break
		}
	}
	if best < 0 {
		return all, errors.New("none of the solvers that were tried solves the system")
	}
	if now := all[best]; precond == auto {
		for _, p := range variants[now.precond] {
			if err := run(now.method, p); err != nil {
				return nil, err
			}
		}
	}
	if now := all[best]; method == auto && ranks > 1 {
		for _, m := range variants[now.method] {
			if err := run(m, now.precond); err != nil {
				return nil, err
			}
		}
	}
	all[0], all[best] = all[best], all[0]
	return all, nil
}

// probed is the number of iterations of a trial before its cost is first compared with the budget.
const probed = 8

// costs measures a system: the cost of its set-up, and of an iteration of a solve.
type costs func(sys *solve.System, out solve.Outcome) (setup, iteration float64, err error)

// measured takes the seconds of this rank as costs.
func measured(sys *solve.System, out solve.Outcome) (setup, iteration float64, err error) {
	return sys.Internals().Times.Precondition, out.Seconds / float64(max(1, out.Iterations)), nil
}

// attempts returns an attempt that solves the system of a spec. All ranks make the same trials and get the same result:
// costs are the highest of any rank.
func attempts(g *dist.Group, spec solve.Spec, cost costs, phase func(string)) attempt {
	return func(method, precond string, budget float64) (t trial, err error) {
		t = trial{method: method, precond: precond}
		phase("trial of " + t.name())
		spec.Method, spec.Preconditioner = method, precond
		sys, err := solve.New(g, spec)
		if err != nil { // of all ranks
			t.reason = err.Error()
			return t, nil
		}
		for limit := probed; ; {
			if math.IsInf(budget, 1) {
				limit = 0 // nothing to compare with
			}
			out, err := sys.Solve(limit)
			if err != nil {
				return t, fmt.Errorf("trial of %s: %w", t.name(), err)
			}
			setup, iteration, err := cost(sys, out)
			if err != nil {
				return t, err
			}
			slowest := []float64{setup, iteration}
			if err := g.AllReduce(dist.Of(slowest), dist.Of(slowest), dist.Max); err != nil {
				return t, err
			}
			t.setup, t.iteration, t.iterations, t.residual = slowest[0], slowest[1], out.Iterations, out.Residual
			t.solved = out.Status == krylov.Converged
			affordable := int(min((budget-t.setup)/t.iteration, math.MaxInt32))
			if out.Status != krylov.TooManyIterations || affordable <= limit || limit == 0 {
				return t, nil
			}
			limit = affordable
		}
	}
}

// chooseSolver replaces auto in a spec by the solver with the shortest time to the solution, and records the trials.
func chooseSolver(ctx context.Context, s *bench.State, g *dist.Group, spec solve.Spec) (solve.Spec, error) {
	if err := s.Barrier(ctx); err != nil {
		return spec, err
	}
	began := g.Clock().Now()
	trials, err := choose(spec.Method, spec.Preconditioner, g.Size(), attempts(g, spec, measured, s.Phase))
	if err != nil {
		for _, t := range trials {
			err = fmt.Errorf("%w; %s", err, t.describe(seconds, math.Inf(1)))
		}
		return spec, err
	}
	best := trials[0]
	spec.Method, spec.Preconditioner = best.method, best.precond
	var words []string
	for _, t := range trials {
		words = append(words, t.describe(seconds, best.cost()))
	}
	s.Detail(chosenDetail, best.name())
	s.Detail(trialsDetail, strings.Join(words, "; "))
	slowest, err := maxOverRanks(ctx, s, float64(g.Clock().Now()-began)/1e12)
	if err != nil {
		return spec, err
	}
	s.Record("trials_s", slowest)
	return spec, nil
}

// trialsOf states what auto chose for each row of a curve, and why.
func trialsOf(c *curve) (out []string) {
	for _, r := range c.rows {
		if chosen := r.Details[chosenDetail]; chosen != "" {
			out = append(out, fmt.Sprintf("On %s, auto chose %s. Time to solution in the trials: %s.",
				unit.Plural(dataset.Ranks(r), "rank"), chosen, r.Details[trialsDetail]))
		}
	}
	return out
}
