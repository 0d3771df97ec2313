package precondition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/suggest"
)

// Multigrid holds the settings of a multigrid preconditioner. A zero field stands for the default.
type Multigrid struct {
	Smoother string // one of Smoothers
	// Sweeps is the number of smoothing steps before and after the coarse correction. For chebyshev it is the degree of
	// the polynomial.
	Sweeps     int
	Cycle      string // one of Cycles
	Coarsening string // one of Coarsenings; amg only
	// Strength is the size of a coupling, relative to the largest couplings of its two rows, from which it is strong; amg
	// only.
	Strength float64
	// Aggressive is the number of levels, counted from the finest, on which aggregates are aggregated once more; amg only.
	Aggressive int
	Coarsest   string // one of CoarsestSolvers
}

// The smoothers.
const (
	SmoothChebyshev   = "chebyshev"    // a polynomial in the Jacobi-scaled matrix
	SmoothJacobi      = "jacobi"       // damped Jacobi steps
	SmoothGaussSeidel = "gauss-seidel" // Gauss-Seidel within a rank, with the old values of other ranks
)

// The cycles: how often a level is visited on the way to the coarsest.
const (
	CycleV = "v" // once
	CycleW = "w" // twice, each time with a W-cycle
	CycleF = "f" // twice, first with an F-cycle, then with a V-cycle
	CycleK = "k" // up to twice, combined by conjugate gradients
)

// The ways to choose coarse unknowns.
const (
	CoarsenAuto        = "auto"        // classical if many couplings are strong for one of the two rows only
	CoarsenAggregation = "aggregation" // smoothed aggregation
	CoarsenClassical   = "classical"   // an independent set of rows, and weights from the couplings
)

// The solvers of the coarsest level.
const (
	CoarsestDirect   = "direct"   // factored on one rank
	CoarsestSmoother = "smoother" // smoothed like any other level
)

// The values of the text fields of Multigrid, the default first.
var (
	Smoothers       = []string{SmoothChebyshev, SmoothJacobi, SmoothGaussSeidel}
	Cycles          = []string{CycleV, CycleW, CycleF, CycleK}
	Coarsenings     = []string{CoarsenAuto, CoarsenAggregation, CoarsenClassical}
	CoarsestSolvers = []string{CoarsestDirect, CoarsestSmoother}
)

// DefaultMultigrid holds the default settings.
var DefaultMultigrid = Multigrid{Smoother: SmoothChebyshev, Sweeps: 2, Cycle: CycleV, Coarsening: CoarsenAuto,
	Strength: 0.25, Coarsest: CoarsestDirect}

// WithDefaults replaces zero fields by their defaults.
func (m Multigrid) WithDefaults() Multigrid {
	d := DefaultMultigrid
	text := func(field *string, other string) {
		if *field == "" {
			*field = other
		}
	}
	text(&m.Smoother, d.Smoother)
	text(&m.Cycle, d.Cycle)
	text(&m.Coarsening, d.Coarsening)
	text(&m.Coarsest, d.Coarsest)
	if m.Sweeps == 0 {
		m.Sweeps = d.Sweeps
	}
	if m.Strength == 0 {
		m.Strength = d.Strength
	}
	return m
}

// Flexible reports whether the cycle is not the same symmetric operator in every application, so that the method around
// it must allow for that. An F-cycle is not symmetric, and a K-cycle depends on the vector.
func (m Multigrid) Flexible() bool { return m.Cycle == CycleF || m.Cycle == CycleK }

// Changed lists the settings that differ from the defaults, by the names of their flags. algebraic selects the ones
// that only an algebraic hierarchy has.
func (m Multigrid) Changed(algebraic bool) (names []string) {
	m, d := m.WithDefaults(), DefaultMultigrid
	add := func(changed bool, name string) {
		if changed {
			names = append(names, name)
		}
	}
	if !algebraic {
		add(m.Smoother != d.Smoother, "smoother")
		add(m.Sweeps != d.Sweeps, "sweeps")
		add(m.Cycle != d.Cycle, "cycle")
		add(m.Coarsest != d.Coarsest, "coarsest")
	}
	add(m.Coarsening != d.Coarsening, "coarsening")
	add(m.Strength != d.Strength, "strength")
	add(m.Aggressive != d.Aggressive, "aggressive")
	return names
}

// Valid returns an error for a setting that is out of range or unknown.
func (m Multigrid) Valid() error {
	m = m.WithDefaults()
	for _, c := range []struct {
		name, value string
		known       []string
	}{{"smoother", m.Smoother, Smoothers}, {"cycle", m.Cycle, Cycles}, {"coarsening", m.Coarsening, Coarsenings},
		{"coarsest", m.Coarsest, CoarsestSolvers}} {
		if !slices.Contains(c.known, c.value) {
			return suggest.Unknown(c.name, c.value, c.known)
		}
	}
	switch {
	case m.Sweeps < 1 || m.Sweeps > 16:
		return fmt.Errorf("%d sweeps: want 1 to 16", m.Sweeps)
	case !(m.Strength > 0 && m.Strength < 1):
		return fmt.Errorf("strength %g: want a number above 0 and below 1", m.Strength)
	case m.Aggressive < 0:
		return fmt.Errorf("%d aggressive levels: want at least 0", m.Aggressive)
	case m.Aggressive > 0 && m.Coarsening != CoarsenAggregation:
		return fmt.Errorf("aggressive levels need coarsening %s", CoarsenAggregation)
	}
	return nil
}

// Levels describes the hierarchy of a preconditioner. Zero means that it has none that can be tuned.
type Levels uint8

// The properties of a hierarchy.
const (
	Tunable         Levels = 1 << iota // its cycle can be tuned
	AlgebraicLevels                    // its levels come from the couplings of the matrix, and can be tuned too
	RoundedLevels                      // its values are stored in less than double precision
)

// CheckMultigrid returns an error if the preconditioner does not have a setting that differs from its default.
func CheckMultigrid(p Preconditioner, m Multigrid) error {
	if err := m.Valid(); err != nil {
		return err
	}
	changed := func(names []string) string { return strings.Join(names, ", ") }
	switch all, algebraic := m.Changed(false), m.Changed(true); {
	case len(all) == 0:
		return nil
	case p.Levels&Tunable == 0:
		return fmt.Errorf("preconditioner %s has no %s: use %s", p.Name, changed(all), changed(withLevels(Tunable)))
	case p.Levels&AlgebraicLevels == 0 && len(algebraic) > 0:
		return fmt.Errorf("preconditioner %s takes its levels from the grid and has no %s: use %s", p.Name,
			changed(algebraic), changed(withLevels(AlgebraicLevels)))
	case p.Levels&RoundedLevels != 0 && m.Smoother == SmoothGaussSeidel:
		base, _, _ := strings.Cut(p.Name, "-")
		return fmt.Errorf("preconditioner %s stores rounded values, but smoother %s reads doubles: use %s", p.Name,
			SmoothGaussSeidel, base)
	}
	return nil
}

// withLevels lists the preconditioners whose hierarchy has a property.
func withLevels(property Levels) []string {
	return Preconditioners.NamesWhere(func(p Preconditioner) bool { return p.Levels&property != 0 })
}
