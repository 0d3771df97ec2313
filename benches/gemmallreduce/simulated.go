package gemmallreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/kernels"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/machine"
	"github.com/kernbench/kernbench/internal/comm/verify"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
	"github.com/kernbench/kernbench/internal/kernel/proof"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// accelerator is implemented by backends that are simulated machines. Each rank is a SIP.
type accelerator interface {
	// Machine returns the machine of a topology file, or the built-in one if file is "".
	Machine(file, arrangement string, ranks int) (*topo.Topology, *ccl.Config, error)
}

// newSimulator returns a machine with this number of ranks and this fabric.
func newSimulator(on accelerator, c machine.Chosen, fabric string, ranks int) (simulator, error) {
	t, config, err := on.Machine(c.File, c.Arrangement, ranks)
	if err != nil {
		return simulator{}, err
	}
	t = t.Clone()
	if fabric != machine.AsTopology {
		t.Fabric = topo.Fabric(fabric)
	}
	return simulator{t, config, c.File}, nil
}

// simulatorOf returns the machine that the options select, and records its properties.
func simulatorOf(s *bench.State, on accelerator) (simulator, error) {
	c, err := machine.Describe(s)
	if err != nil {
		return simulator{}, err
	}
	sim, err := newSimulator(on, c, s.Str(fabricOption), s.Size())
	if err == nil {
		s.Detail(machine.Fabric, string(sim.topo.Fabric))
		s.Detail(machine.Kind, string(sim.topo.SIPs.Kind))
	}
	return sim, err
}

// runSimulated simulates a point. All ranks are goroutines of one process.
func runSimulated(ctx context.Context, s *bench.State, plan fused.Plan, on accelerator) error {
	if d := s.DType(dtypeAxis); d != dtype.F16 {
		return bench.Skip("the simulated accelerator multiplies f16, not %v: --%s f16", d, dtypeAxis)
	}
	if plan.K == 0 || plan.M*plan.N == 0 {
		return bench.Skip("the simulated accelerator has no empty products")
	}
	sim, err := simulatorOf(s, on)
	if err != nil {
		return err
	}
	s.Phase("simulating")
	found, err := machine.OnRank0(ctx, s, func() (simulation, error) { return sim.plan(plan, s.Size(), s.Seed()) })
	if err != nil {
		return err
	}
	plan.Partitions = found.Partitions
	if found.Tried != "" {
		s.Detail("tried", found.Tried)
	}
	now := int64(0)
	s.UseClock(clock.Simulated(func() int64 { return now }))
	if found.Checked {
		s.Verify(found.Wrong.Err)
	} else {
		s.Warn("only times were computed: data is computed and checked up to %d multiplications", checkedWork)
	}
	o := found.outcome(plan)
	if err := s.Time(ctx, func() error { now += found.Time; return nil }); err != nil {
		return err
	}
	o.report(s)
	return nil
}

// simulation is the result of rank 0. Times are in picoseconds.
type simulation struct {
	Partitions                        int
	Time, Gemm, AllReduce, Sequential int64 // Gemm, AllReduce and Sequential are for one partition
	GemmParts, AllReduceParts         int64
	Wrong                             bench.Wrong // counts rows
	Tried                             string
	Checked                           bool
}

func (f *simulation) outcome(p fused.Plan) outcome {
	const us = 1e6
	o := outcome{plan: p, gemm: float64(f.Gemm) / us, allReduce: float64(f.AllReduce) / us,
		sequential: float64(f.Sequential) / us, time: float64(f.Time) / us}
	if p.Partitions > 1 {
		o.gemmParts, o.allReduceParts = float64(f.GemmParts)/us, float64(f.AllReduceParts)/us
	}
	o.timeRange, o.rangesKnown = judge.Range{Low: o.time, High: o.time}, true
	o.sequentialRange = judge.Range{Low: o.sequential, High: o.sequential}
	return o
}

// simulator runs plans on a simulated machine.
type simulator struct {
	topo *topo.Topology
	ccl  *ccl.Config
	file string // topology file
}

// plan simulates a plan and its sequential baseline. With 0 partitions it chooses a number first.
func (s simulator) plan(p fused.Plan, ranks int, seed uint64) (simulation, error) {
	one := p
	one.Partitions = 1
	single, err := s.times(one)
	if err != nil {
		return simulation{}, err
	}
	var f simulation
	if p.Partitions == 0 {
		if p.Partitions, f.Tried, err = s.choose(p); err != nil {
			return f, err
		}
	}
	parts, err := s.times(p)
	if err != nil {
		return f, err
	}
	f.Partitions = p.Partitions
	f.Gemm, f.AllReduce, f.Sequential = int64(single.Gemm), int64(single.AllReduce), int64(single.Sequential)
	f.GemmParts, f.AllReduceParts = int64(parts.Gemm), int64(parts.AllReduce)
	f.Time = int64(parts.Sequential)
	if p.Overlap {
		f.Time = int64(parts.Overlapped)
	}
	if p.M*p.N*p.K*ranks > checkedWork {
		return f, nil
	}
	f.Checked = true
	f.Wrong, err = wrongRows(p, ranks, seed, s.run)
	return f, err
}

// choose tries numbers of partitions, each of them once, because simulated times do not vary.
func (s simulator) choose(p fused.Plan) (int, string, error) {
	var trials []fused.Trial
	for _, n := range fused.Candidates(p, dtype.F16.Size()) {
		p.Partitions = n
		t, err := s.times(p)
		if err != nil {
			return 0, "", err
		}
		trials = append(trials, fused.Trial{Partitions: n, Times: []float64{float64(t.Overlapped) / 1e6}})
	}
	return fused.Choose(trials), formatTrials(trials), nil
}

// simulatedTimes caches the simulations of this process, because the points of a sweep share many of
// them.
var simulatedTimes sync.Map // of simulated plans

type simulatedPlan struct {
	fused.Plan
	file   string
	sips   topo.SIPs
	fabric topo.Fabric
}

// times simulates a plan, overlapped and not, and caches the result.
func (s simulator) times(p fused.Plan) (kernels.FusedTimes, error) {
	p.Overlap = true
	if p.Partitions == 1 {
		p.Split = fused.SplitM // the split makes no difference
	}
	key := simulatedPlan{p, s.file, s.topo.SIPs, s.topo.Fabric}
	if t, ok := simulatedTimes.Load(key); ok {
		return t.(kernels.FusedTimes), nil
	}
	t, _, err := s.run(kernelOf(p))
	if err == nil {
		simulatedTimes.Store(key, t)
	}
	return t, err
}

// kernelOf converts a plan for the simulator.
func kernelOf(p fused.Plan) kernels.Fused {
	return kernels.Fused{K: p.K, Parts: lists.Map(p.Parts(), func(part fused.Part) kernels.Partition {
		return kernels.Partition{Rows: part.Rows, Cols: part.Cols}
	})}
}

// run simulates a fused product on the machine.
func (s simulator) run(f kernels.Fused) (kernels.FusedTimes, [][][]dtype.Float16, error) {
	return kernels.GemmAllReduce(s.topo, s.ccl, f)
}

// checkedWork is the largest number of multiplications, over all ranks, for which the simulator also
// computes data.
const checkedWork = 1 << 31

// fillSimulated fills an operand with -1, 0 and 1. It leaves enough zeros along K that every sum over
// ranks is an integer that f16 represents exactly.
func fillSimulated(m gemm.Matrix, alongCols bool, ranks, rank int, seed uint64) {
	depth := m.Rows
	if alongCols {
		depth = m.Cols
	}
	const maxExact = 2048
	step := (depth*ranks + maxExact - 1) / maxExact
	for i := range m.Rows {
		for j := range m.Cols {
			l := i
			if alongCols {
				l = j
			}
			v := 0
			if l%step == 0 {
				v = int(verify.Hash(seed, rank, i*m.Cols+j)%3) - 1
			}
			m.Set(i, j, float64(v))
		}
	}
}

// launcher simulates a fused product and returns its times, and the result by rank and partition.
type launcher func(f kernels.Fused) (kernels.FusedTimes, [][][]dtype.Float16, error)

// wrongRows simulates the plan with data and counts the wrong rows of C on all ranks.
func wrongRows(p fused.Plan, ranks int, seed uint64, run launcher) (bench.Wrong, error) {
	f, parts := kernelOf(p), p.Parts()
	as, bs := make([]gemm.Matrix, ranks), make([]gemm.Matrix, ranks)
	x, want := proof.Probe(p.N, seed), make([]int64, p.M)
	for r := range ranks {
		as[r], bs[r] = gemm.New(dtype.F16, p.M, p.K), gemm.New(dtype.F16, p.K, p.N)
		fillSimulated(as[r], true, ranks, 2*r, seed)
		fillSimulated(bs[r], false, ranks, 2*r+1, seed)
		for i, v := range proof.Times(as[r], proof.Times(bs[r], x)) {
			want[i] += v
		}
	}
	f.A = func(rank, part int) []dtype.Float16 {
		if p.Split == fused.SplitN {
			return float16s(as[rank])
		}
		return float16s(as[rank].RowRange(parts[part].From, parts[part].To))
	}
	f.B = func(rank, part int) []dtype.Float16 {
		if p.Split == fused.SplitN {
			return float16s(bs[rank].ColRange(parts[part].From, parts[part].To))
		}
		return float16s(bs[rank])
	}
	_, result, err := run(f)
	if err != nil {
		return bench.Wrong{}, err
	}
	var wrong bench.Wrong
	for r := range ranks {
		c := make([]gemm.Matrix, len(parts))
		for k, part := range parts {
			c[k] = gemm.Of(result[r][k], part.Rows, part.Cols, part.Cols)
		}
		if theirs, is := errors.AsType[*bench.Wrong](p.Verify(c, want, seed)); is {
			wrong.Detail = cmp.Or(wrong.Detail, fmt.Sprintf("rank %d, %s", r, theirs.Detail))
			wrong.Count += theirs.Count
		}
	}
	return wrong, nil
}

// float16s copies a matrix row by row.
func float16s(m gemm.Matrix) []dtype.Float16 {
	out := make([]dtype.Float16, 0, m.Rows*m.Cols)
	for i := range m.Rows {
		for j := range m.Cols {
			out = append(out, dtype.Float16From(float32(m.At(i, j))))
		}
	}
	return out
}
