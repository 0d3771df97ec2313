// Package accelwhatif is the bench `accel-whatif`, a sensitivity analysis of the simulated accelerator. It lowers
// and raises each number of a topology file by a percentage, one at a time, and reports how the times of the
// all-reduce and of the matrix product change.
package accelwhatif

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist/ahbm"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
)

// The parts, and the axis that they share.
const (
	allReducePart = "allreduce"
	gemmPart      = "gemm"
	parameterAxis = "parameter"
)

// Bench declares accel-whatif.
func Bench() *bench.Bench {
	common := []bench.Clause{
		bench.Metric("effect_pct", "%", "",
			"larger of the two changes, without its sign"), bench.Metric("base_ns", "ns", "lower",
			"time of the slowest PE on the unchanged machine"),
		bench.Metric("lower_ns", "ns", "lower",
			"the same with the parameter lowered"), bench.Metric("higher_ns", "ns", "lower",
			"the same with the parameter raised"),
		bench.Metric("lower_pct", "%", "",
			"change of the time with the parameter lowered"), bench.Metric("higher_pct", "%", "",
			"change of the time with the parameter raised"),
		bench.Headline("effect_pct=effect (%)", "base_ns=time_ns", "lower_pct=if lower (%)",
			"higher_pct=if higher (%)"),
		bench.Strings(parameterAxis, keys()...), decl.OneOf(parameterAxis, keys()...), bench.Refuse(validate),
	}
	return bench.Suite("accel-whatif", append(machine.AcceleratorOptions(),
		bench.Help("which numbers of a topology file the all-reduce and the matrix product of the simulated "+
			"accelerator depend on"),
		bench.Doc(`Simulates an all-reduce and a matrix product with each number of the topology file
lowered and raised by --percent, one at a time. lower_pct and higher_pct are the
changes of the time of the slowest PE, effect_pct is the larger of the two. The
report sorts them, as a figure and as a table, and lists parameters without a
visible effect. Nothing is random, so a single trial is exact.

parameter is a key of the file. If it holds several numbers (a position, a tile),
all are changed together. Parameters that cannot change by so much are skipped with
the reason: values of 0, counts that are too small, values that a file may not hold.

The SIPs are those of the file. No data is computed; milestone-1h-ccl and
milestone-1h-gemm verify the data.

  kernbench run --bench accel-whatif
  kernbench run --bench accel-whatif --topology built-in,my.yaml --percent 50
  kernbench run --bench accel-whatif --parameter system.link.latency_ns,cube.ucie.bw_gbs --n_elem 8:32768:x4 --shapes 512`),
		bench.Version(accel.Version()),
		bench.Backends(ahbm.Name),
		decl.Within(decl.Between(0, 100), bench.Option("percent", bench.KindFloat, "20",
			"by how much each number is lowered and raised")),
		bench.Part(allReducePart, body(allReduce), append(slices.Clone(common),
			bench.Help("the all-reduce over all cubes of all SIPs"),
			bench.Ints("n_elem", "128,16384"))...),
		bench.Part(gemmPart, body(product), append(slices.Clone(common),
			bench.Help("a product on one PE"),
			bench.Tuples("shapes", "32x3072x32"),
			bench.Strings("variant", string(kernels.LoadRef)), decl.OneOf("variant", kernels.Variants()...))...),
		decl.Figures(figures),
		bench.Sections(sections),
	)...)
}

// keys returns all numeric keys of topology files, including optional ones that the built-in file omits.
func keys() []string {
	list, err := topo.Parameters("the built-in topology", topo.DefaultFile())
	if err != nil {
		panic(err) // a test reads it
	}
	return lists.Map(list, func(p topo.Parameter) string { return p.Key })
}

// validate rejects points that cannot be simulated before anything runs.
func validate(p, options bench.Point) error {
	if shape, has := p.Get("shapes"); has {
		if _, _, _, err := machine.Product(shape); err != nil {
			return err
		}
	}
	if n, has := p.Get("n_elem"); has && n.Int() < 1 {
		return fmt.Errorf("n_elem is %d: want at least 1", n.Int())
	}
	_, _, err := accel.Load(bench.FilePath(p, options, machine.Option), options.At("ccl").String())
	return err
}

// The details of a row.
const (
	valueDetail  = "value"  // the parameter in the file
	lowerDetail  = "lower"  // the lowered value, or the reason why there is none
	higherDetail = "higher" // the raised value, or the reason why there is none
	// oppositeDetail is the suffix of the detail that explains why a change had the opposite of the
	// expected effect. The name of the side, lowerDetail or higherDetail, comes before it.
	oppositeDetail = "_opposite"
)

// simulation simulates a point on a machine.
type simulation func(s *bench.State, t *topo.Topology, c *ccl.Config) (*accel.Result, error)

// errNotChanged marks a parameter that cannot be changed by the given percentage.
var errNotChanged = errors.New("not changed")

// body returns a body that simulates a point with the machine of the file and with its two variants.
func body(simulate simulation) bench.Body {
	return func(_ context.Context, s *bench.State) error {
		m, err := machine.ReadAccelerator(s)
		if err != nil {
			return err
		}
		run := func(t *topo.Topology) (*accel.Result, error) {
			t.Fabric = m.Topo.Fabric
			return simulate(s, t, m.CCL)
		}
		s.Kind(bench.Simulated)
		before, err := run(m.Topo)
		if err != nil {
			return err
		}
		s.Record("base_ns", before.Crit.Nanoseconds())
		return vary(s, m, before, run)
	}
}

// vary simulates the machine with the lowered and the raised parameter.
func vary(s *bench.State, m machine.Accelerator, before *accel.Result,
	run func(*topo.Topology) (*accel.Result, error)) error {
	key, share := s.Str(parameterAxis), s.Float("percent")/100
	list, err := topo.Parameters(m.Name, m.File)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(p topo.Parameter) bool { return p.Key == key }); i >= 0 {
		s.Detail(valueDetail, strings.Join(list[i].Values, ", "))
	}
	effect := 0.0
	var failures []error
	for _, side := range []struct {
		detail string
		factor float64
	}{{lowerDetail, 1 - share}, {higherDetail, 1 + share}} {
		t, values, err := topo.Vary(m.Name, m.File, key, side.factor)
		if err != nil {
			failures = append(failures, fmt.Errorf("%w: %w", errNotChanged, err))
			s.Detail(side.detail, err.Error())
			continue
		}
		took, err := run(t)
		if err != nil {
			failures = append(failures, err)
			s.Detail(side.detail, fmt.Sprintf("%s does not run: %v", strings.Join(values, ", "), err))
			continue
		}
		change := 100 * (float64(took.Crit) - float64(before.Crit)) / float64(before.Crit)
		s.Detail(side.detail, strings.Join(values, ", "))
		s.Record(side.detail+"_ns", took.Crit.Nanoseconds())
		s.Record(side.detail+"_pct", change)
		if expected := float64(topo.Effect(key)) * (side.factor - 1); expected*change < 0 {
			s.Detail(side.detail+oppositeDetail, opposite(t, before, took))
		}
		effect = max(effect, change, -change)
	}
	switch {
	case len(failures) < 2:
		s.Record("effect_pct", effect)
		return nil
	case errors.Is(failures[0], errNotChanged) && errors.Is(failures[1], errNotChanged):
		return bench.Skip("%s", reasons(failures))
	}
	return errors.Join(failures...)
}

// opposite explains why a change had the opposite of the expected effect: which cause on the critical
// path changed most, and which link was busiest.
func opposite(t *topo.Topology, before, after *accel.Result) string {
	was, is := before.Breakdown.Parts(), after.Breakdown.Parts()
	cause := sim.Cause(0)
	for c := range sim.Causes {
		if abs(is[c]-was[c]) > abs(is[cause]-was[cause]) {
			cause = c
		}
	}
	text := fmt.Sprintf("%v %v instead of %v on the critical path", cause, is[cause], was[cause])
	if busiest := after.Busiest(t, 1); len(busiest) > 0 {
		text += fmt.Sprintf("; the busiest link is %s", busiest[0].Name)
	}
	return text
}

func abs(t accel.Time) accel.Time { return max(t, -t) }

// reasons returns the distinct reasons why a parameter was not changed.
func reasons(failures []error) string {
	all := lists.Map(failures, func(err error) string {
		return strings.TrimPrefix(err.Error(), errNotChanged.Error()+": ")
	})
	return strings.Join(lists.Distinct(all), "; ")
}

// allReduce simulates the all-reduce of the collectives file, with receive slots large enough for the tile.
func allReduce(s *bench.State, t *topo.Topology, c *ccl.Config) (*accel.Result, error) {
	n := s.Int("n_elem")
	c, err := c.With(c.Algorithm, func(set *ccl.Settings) { set.SlotBytes = max(set.SlotBytes, 2*n) })
	if err != nil {
		return nil, err
	}
	system := accel.New(t, c)
	system.TimingOnly = true
	var tensors []*accel.Tensor
	for sip := range t.SIPs.Count {
		x, err := system.Zeros(sip, t.Cubes.Count(), n, accel.PerCube)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, x)
	}
	return system.AllReduce(tensors)
}

// product simulates a composite product on one PE.
func product(s *bench.State, t *topo.Topology, c *ccl.Config) (*accel.Result, error) {
	m, k, n, err := machine.Product(s.Value("shapes"))
	if err != nil {
		return nil, err
	}
	system := accel.New(t, c)
	system.TimingOnly = true
	matmul := kernels.Matmul{M: m, K: k, N: n, Variant: kernels.Variant(s.Str("variant"))}
	p, err := matmul.Run(system, kernels.Operands{})
	if err != nil {
		return nil, err
	}
	return p.Result, nil
}
