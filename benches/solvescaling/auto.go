package solvescaling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/system"
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

// A trial is an attempt to solve the system by one method with one preconditioner. Rows keep it as JSON.
type trial struct {
	Method, Precond string
	Setup           float64 // cost of the set-up
	Iteration       float64 // cost of an iteration
	Iterations      int
	Residual        float64
	Solved          bool
	Refused         string // why the method or the preconditioner does not suit the system
}

func (t trial) name() string { return solverName(t.Method, t.Precond) }

// cost returns the cost of set-up and solve.
func (t trial) cost() float64 { return t.Setup + float64(t.Iterations)*t.Iteration }

// describe states the result of a trial. best is the lowest cost of all trials, in seconds.
func (t trial) describe(best float64) string {
	switch {
	case t.Refused != "":
		return fmt.Sprintf("%s: %s", t.name(), t.Refused)
	case t.Solved:
		return fmt.Sprintf("%s: %s, %s of it set-up, %s", t.name(), seconds(t.cost()), seconds(t.Setup),
			unit.Plural(t.Iterations, "iteration"))
	case t.Setup >= best:
		return fmt.Sprintf("%s: its set-up alone took %s", t.name(), seconds(t.Setup))
	}
	return fmt.Sprintf("%s: stopped after %s and %s, at a relative residual of %.2g", t.name(), seconds(t.cost()),
		unit.Plural(t.Iterations, "iteration"), t.Residual)
}

// attempt makes a trial that ends when it has cost more than a budget.
type attempt func(method, precond string, budget float64) (trial, error)

// choose makes trials and returns them, with the cheapest first. method and precond may be auto. Methods for symmetric
// positive definite matrices come first, the others only if no solver with them works. At last come methods and
// preconditioners that improve on the best. Each trial ends when it has cost as much as the best one before it, so all
// together cost little more than their number times the best.
func choose(method, precond string, ranks int, try attempt) (all []trial, err error) {
	best, budget := -1, math.Inf(1)
	run := func(method, precond string) {
		var t trial
		if err == nil {
			t, err = try(method, precond, budget)
		}
		if all = append(all, t); t.Solved && t.cost() < budget {
			best, budget = len(all)-1, t.cost()
		}
	}
	methods := tried(krylov.Methods.All(), method, func(m krylov.Method) (string, int) { return m.Name, m.Trial })
	preconds := tried(precondition.Preconditioners.All(), precond,
		func(p precondition.Preconditioner) (string, int) { return p.Name, p.Trial })
	definite := func(m krylov.Method) bool { return m.Needs == krylov.SymmetricDefinite }
	for _, first := range []bool{true, false} {
		if best >= 0 {
			break
		}
		for _, m := range lists.Filter(methods, func(m krylov.Method) bool { return definite(m) == first }) {
			for _, p := range preconds {
				run(m.Name, p.Name)
			}
		}
	}
	if err != nil || best < 0 {
		return all, cmp.Or(err, errors.New("none of the solvers that were tried solves the system"))
	}
	now := all[best]
	for _, p := range precondition.Preconditioners.All() {
		if precond == auto && p.Improves == now.Precond {
			run(now.Method, p.Name)
		}
	}
	now = all[best]
	for _, m := range krylov.Methods.All() {
		if method == auto && ranks > 1 && m.Improves == now.Method {
			run(m.Name, now.Precond)
		}
	}
	all[0], all[best] = all[best], all[0]
	return all, err
}

// tried returns the entries of a registry to try: the chosen one or, for auto, those with a place in the order.
func tried[T any](all []T, chosen string, of func(T) (name string, place int)) []T {
	out := lists.Filter(all, func(x T) bool {
		name, place := of(x)
		return name == chosen || chosen == auto && place > 0
	})
	slices.SortStableFunc(out, func(a, b T) int {
		_, before := of(a)
		_, after := of(b)
		return before - after
	})
	return out
}

// probed is the number of iterations of a trial before its cost is first compared with the budget.
const probed = 8

// costs measures a system: the cost of its set-up, and of an iteration of a solve.
type costs func(sys *system.System, out solve.Outcome) (setup, iteration float64, err error)

// measured takes the seconds of this rank as costs.
func measured(sys *system.System, out solve.Outcome) (setup, iteration float64, err error) {
	return sys.Times.Precondition, out.Seconds / float64(max(1, out.Iterations)), nil
}

// attempts returns an attempt that solves the system of a spec. All ranks make the same trials and get the same result:
// costs are the highest of any rank.
func attempts(g *dist.Group, spec solve.Spec, cost costs, phase func(string)) attempt {
	return func(method, precond string, budget float64) (t trial, err error) {
		t = trial{Method: method, Precond: precond}
		phase("trial of " + t.name())
		spec.Method, spec.Preconditioner = method, precond
		sys, err := system.New(g, spec)
		if refusal, refused := errors.AsType[*solve.Refusal](err); refused { // on all ranks
			t.Refused = refusal.Error()
			return t, nil
		}
		if err != nil {
			return t, fmt.Errorf("trial of %s: %w", t.name(), err)
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
			t.Setup, t.Iteration, t.Iterations, t.Residual = slowest[0], slowest[1], out.Iterations, out.Residual
			t.Solved = out.Status == krylov.Converged
			affordable := int(min((budget-t.Setup)/t.Iteration, math.MaxInt32))
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
		return spec, fmt.Errorf("%w; %s", err, describe(trials, math.Inf(1)))
	}
	best := trials[0]
	spec.Method, spec.Preconditioner = best.Method, best.Precond
	s.Detail(chosenDetail, best.name())
	recordFacts(s, trialsDetail, trials)
	slowest, err := maxOverRanks(ctx, s, float64(g.Clock().Now()-began)/1e12)
	if err != nil {
		return spec, err
	}
	s.Record("trials_s", slowest)
	return spec, nil
}

// describe states the results of trials. best is the lowest cost of all.
func describe(trials []trial, best float64) string {
	return strings.Join(lists.Map(trials, func(t trial) string { return t.describe(best) }), "; ")
}

// trialsOf states what auto chose for each row of a curve, and why.
func trialsOf(c *curve) (out []statement) {
	for _, r := range c.rows {
		if trials := factsOf[[]trial](r, trialsDetail); len(trials) > 0 {
			out = append(out, statement{text: fmt.Sprintf("On %s, auto chose %s. Time to solution in the trials: %s.",
				unit.Plural(dataset.Ranks(r), "rank"), r.Details[chosenDetail], describe(trials, trials[0].cost()))})
		}
	}
	return out
}
