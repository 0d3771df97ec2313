package solvescaling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// The axes that tune gmg and amg. Their names are the names in precondition.Multigrid.Changed.
const (
	smootherAxis   = "smoother"
	sweepsAxis     = "sweeps"
	cycleAxis      = "cycle"
	coarseningAxis = "coarsening"
	strengthAxis   = "strength"
	aggressiveAxis = "aggressive"
	coarsestAxis   = "coarsest"
)

// tuningAxes lists these axes.
var tuningAxes = []string{smootherAxis, sweepsAxis, cycleAxis, coarseningAxis, strengthAxis, aggressiveAxis,
	coarsestAxis}

// multigridAxes declares the axes that tune gmg and amg.
func multigridAxes() []bench.Clause {
	d := precondition.DefaultMultigrid
	return []bench.Clause{
		bench.Strings(smootherAxis, d.Smoother),
		bench.Ints(sweepsAxis, fmt.Sprint(d.Sweeps)),
		bench.Strings(cycleAxis, d.Cycle),
		bench.Strings(coarseningAxis, d.Coarsening),
		bench.Floats(strengthAxis, fmt.Sprint(d.Strength)),
		bench.Ints(aggressiveAxis, fmt.Sprint(d.Aggressive)),
		bench.Strings(coarsestAxis, d.Coarsest),
	}
}

// multigridOf returns the settings of gmg and amg at a point.
func multigridOf(p point.Point) precondition.Multigrid {
	text := func(axis string) string { return p.At(axis).String() }
	return precondition.Multigrid{Smoother: text(smootherAxis), Sweeps: int(p.At(sweepsAxis).Int()),
		Cycle: text(cycleAxis), Coarsening: text(coarseningAxis), Strength: p.At(strengthAxis).Float(),
		Aggressive: int(p.At(aggressiveAxis).Int()), Coarsest: text(coarsestAxis)}
}

// checkMultigrid returns an error if the preconditioner of a point does not have one of the settings, or if the problem
// has no contrast to set.
func checkMultigrid(p point.Point) error {
	settings := multigridOf(p)
	if n := p.At(sweepsAxis).Int(); n < 1 {
		return fmt.Errorf("--%s %d: want at least 1", sweepsAxis, n)
	}
	if !(p.At(strengthAxis).Float() > 0) {
		return fmt.Errorf("--%s %s: want a number above 0 and below 1", strengthAxis, p.At(strengthAxis))
	}
	if err := checkContrast(p); err != nil {
		return err
	}
	if automatic(p) {
		if changed := settings.Changed(false); len(changed) > 0 {
			return fmt.Errorf("%s chooses among solvers with default settings: leave out --%s", auto,
				strings.Join(changed, ", --"))
		}
		return nil
	}
	pre, err := precondition.Preconditioners.Lookup(p.At(precondAxis).String())
	if err != nil {
		return err
	}
	return precondition.CheckMultigrid(pre, settings)
}

// checkContrast returns an error if --contrast has no effect or is out of range.
func checkContrast(p point.Point) error {
	contrast, kind := p.At(contrastAxis), p.At(problemAxis).String()
	contrasted := sparse.Kinds.NamesWhere(func(k sparse.Kind) bool { return k.Contrast })
	switch {
	case contrast.Float() == 0:
		return nil
	case !(contrast.Float() >= 1):
		return fmt.Errorf("--%s %s: want at least 1, or 0 for the default of the problem", contrastAxis, contrast)
	case !slices.Contains(contrasted, kind):
		return fmt.Errorf("--%s %s: problem %s has no coefficients that differ: use %s", contrastAxis, contrast, kind,
			strings.Join(contrasted, " or "))
	}
	return nil
}
