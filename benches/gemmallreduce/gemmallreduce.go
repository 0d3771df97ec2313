// Package gemmallreduce is the bench `gemm-allreduce`: a matrix product whose
// inner dimension is divided among ranks, and the all-reduce of its result, done
// one after the other and overlapped. It tells how much of the shorter one
// overlap hides behind the longer one, in how many partitions that is best, and
// where it does not pay and why.
package gemmallreduce

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/gemmallreduce/fused"
	"github.com/kernbench/kernbench/benches/machine"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// The names of axes and options.
const (
	shapeAxis      = "shape"
	dtypeAxis      = "dtype"
	splitAxis      = "split"
	partitionsAxis = "partitions"
	overlapAxis    = "overlap"
	threadsOption  = "threads"
	fabricOption   = "fabric"
)

// auto lets the executor find the number of partitions.
const auto = "auto"

// checkOptions refuses a number of threads or multiprocessors below 0, which is the default's word.
func checkOptions(_, options bench.Point) error {
	for _, name := range []string{threadsOption, asideOption} {
		if v, has := options.Get(name); has && v.Int() < 0 {
			return fmt.Errorf("--%s %s: want at least 0", name, v)
		}
	}
	return nil
}

// Bench declares it.
func Bench() *bench.Bench {
	cfg := bench.DefaultMeasure()
	// Calls begin together, because before each one of the others is timed.
	cfg.Cadence = bench.Isolated
	cfg.Stop.MinSamples, cfg.Stop.MaxSamples, cfg.Stop.MinTime = 30, 500, 500*time.Millisecond
	cfg.Warmup.MaxCalls = 20
	return bench.New("gemm-allreduce", body, slices.Concat([]bench.Clause{
		bench.Help("a matrix product and the all-reduce of its result, one after the other and overlapped"),
		bench.Doc(manual),
		bench.Tuples(shapeAxis, hostShapes...),
		bench.DTypes(dtypeAxis, "f32"),
		bench.Ranks("2"),
		bench.Strings(splitAxis, string(fused.SplitM)),
		bench.Strings(partitionsAxis, auto, "1", "2", "4", "8", "16"),
		bench.Bools(overlapAxis, true),
		bench.OnlyOn(hostBackends(), bench.Option(threadsOption, bench.KindInt, "0",
			"threads of each rank; 0 is its share of the cores")),
		bench.Seconds("30", "most time to sample one point, what it is held against included"),
		bench.Metric("gemm_us", "us", "lower"),
		bench.Metric("allreduce_us", "us", "lower"),
		bench.Metric("sequential_us", "us", "lower"),
		bench.Metric("bound_us", "us", ""),
		bench.Metric("recovered_pct", "%", "higher"),
		bench.Metric("parts", "", ""),
		bench.Measure(cfg),
		bench.Timeout(5 * time.Minute),
		bench.Drop(checkPoint),
		bench.Refuse(machine.Refuse),
		bench.Refuse(checkOptions),
		bench.DefaultRanks(machine.Ranks),
		bench.Backends(dist.Backends(canRun)...),
		bench.HostMemory("products are made by processors, or by kernels of backend " + strings.Join(gpuBackends(), ", ")),
		bench.OneHost("the product is made in memory that all of them reach"),
		bench.Accumulates(), // so that backends come into one figure
		bench.Figures(figures),
		bench.Sections(sections),
	}, onAccelerators(), onDevices())...)
}

// manual is what the help of the bench says.
const manual = `Computes C = sum over ranks of A x B, where A and B are each rank's own, in
partitions of C: while one is multiplied, the one before it is reduced.

A shape is MxNxK, with the K of one rank. split=m cuts the rows of C, split=n its
columns. partitions is a number, or auto: then numbers are tried before timing
and the fastest is taken, 1 among them, which is the product and then the
all-reduce. Partitions need not divide; more than there are rows (or columns)
are refused. overlap=false does the partitions in turn.

Every row has, from the same cores and the same minute: the product alone
(gemm_us), the all-reduce alone (allreduce_us), one after the other
(sequential_us), and the point itself (time_us). No overlap can be faster than
the longer of the two (bound_us); recovered_pct is which part of the shorter one
it saved, with the 95 % interval recovered_low_pct to recovered_high_pct. An overlap
that saves more than all of it, or less than nothing, beyond its interval gets a
warning. Where the shorter one is below a tenth of the longer, overlap cannot show:
the row says so and states no share. gemm_parts_us and allreduce_parts_us are the two alone in the point's
partitions, which is where the reason lies when overlap loses.

On GPUs (--backend cuda) the products are bf16 by --provider builtin, or also f16, tf32 and f32
by cublaslt, and times are those of the GPU's own events. method=streams adds up partitions on
a second stream while the next are multiplied, on the multiprocessors that --aside sets aside;
pdl=true lets each kernel of the sums start before the one in front of it has ended
(programmatic dependent launch). method=kernel is one kernel, which adds up its tiles where
their products end; parts is then their number, and gemm_parts_us and allreduce_parts_us its
halves. Ranks that share a GPU have equal shares of its multiprocessors, for which all times
are measured: the detail multiprocessors.

A rank has as many threads as its share of the cores, or --threads. Every
element is checked, exactly. The simulated accelerator multiplies f16 and draws
its curve into the same figure when it runs into the same folder; products too
large to be computed there are timed alone, and the row says so. Its machine is that of
--topology FILE or of the topology.yaml of the current folder, whose SIPs are the ranks, else
the built-in one with as many SIPs as ranks; several files give a curve each. Messages move
whole there unless --fabric says otherwise: flit by flit is simulated twenty times as long,
for times that differ by less than a tenth.

  kernbench run --bench gemm-allreduce --ranks 4 --shape 8192x8192x256 --partitions auto,1,4,16,64
  kernbench run --bench gemm-allreduce --split m,n --overlap true,false
  kernbench run --bench gemm-allreduce --backend ahbm --dtype f16
  kernbench run --bench gemm-allreduce --backend ahbm --dtype f16 --topology built-in,my.yaml
  kernbench run --bench gemm-allreduce --backend cuda --provider builtin,cublaslt --pdl false,true
  kernbench run --bench gemm-allreduce --backend cuda --method streams,kernel --partitions auto`

// The shapes of a run that names none are ones whose product takes about as long as the
// all-reduce, or overlap could not show: how often each element of C is multiplied, K,
// decides. Processors multiply slowly beside the memory that they reduce in.
var (
	hostShapes        = []string{"1024x1024x16", "1024x1024x32", "1024x1024x64"}
	acceleratorShapes = []string{"512x1024x256", "512x1024x1024", "512x1024x2048"}
)

// onAccelerators declares what a plain run takes on simulated machines.
func onAccelerators() (out []bench.Clause) {
	names := dist.Backends(isAccelerator)
	for _, name := range names {
		out = append(out, bench.On(name, bench.Tuples(shapeAxis, acceleratorShapes...)))
	}
	out = append(out, machine.NearbyOn(names)...)
	out = append(out, machine.Options("topology file of a simulated machine, or several to compare (default: "+
		"topology.yaml here, else "+bench.BuiltIn+")")...)
	return append(out, bench.OnlyOn(names,
		bench.Choice(fabricOption, "how messages move on a simulated machine: whole, in flits, or as the topology says",
			string(topo.Whole), string(topo.Flits), asTopology)))
}

func isAccelerator(d dist.Description) bool {
	_, ok := dist.As[accelerator](d.Name)
	return ok
}

// canRun tells whether a backend is an accelerator, has products of its own, or all-reduces of
// products in memory that all ranks reach, and their processors too.
func canRun(d dist.Description) bool {
	return isAccelerator(d) || slices.Contains(gpuBackends(), d.Name) || onHost(d)
}

// hostBackends are the backends whose ranks multiply themselves.
func hostBackends() []string { return dist.Backends(onHost) }

func onHost(d dist.Description) bool {
	can := d.Capabilities
	return !isAccelerator(d) && !d.Virtual && can.Can(dist.AllReduce) && can.Has(dist.SymmetricMemory) &&
		!d.Has(dist.OnDevice) &&
		slices.Contains(can.DTypes, dist.F32) && slices.Contains(can.Reductions, dist.Sum)
}

// checkPoint says why a point cannot be run, when planning.
func checkPoint(p point.Point) error {
	shape := p.At(shapeAxis)
	if len(shape.Dims()) != 3 {
		return fmt.Errorf("shape %v: want MxNxK", shape)
	}
	if s := p.At(splitAxis).String(); !slices.Contains(fused.Splits(), s) {
		return bench.Unknown("split", s, fused.Splits())
	}
	d, err := dtype.Parse(p.At(dtypeAxis).String())
	if err != nil {
		return err
	}
	if gemm.Result(d) == 0 {
		return fmt.Errorf("there is no product of %v", d)
	}
	if _, has := p.Get(methodAxis); has {
		if err := checkOnGPU(p, d); err != nil {
			return err
		}
	}
	plan, err := planOf(shape.Dims(), p.At(splitAxis).String(), p.At(partitionsAxis).String(),
		p.At(overlapAxis).String() == "true")
	if err != nil {
		return err
	}
	if plan.Partitions == 0 { // auto, which chooses among possible ones
		plan.Partitions = 1
	}
	return plan.Check()
}

// planOf reads a plan from a point's values; auto is 0 partitions.
func planOf(dims []int64, split, partitions string, overlap bool) (fused.Plan, error) {
	p := fused.Plan{M: int(dims[0]), N: int(dims[1]), K: int(dims[2]), Split: fused.Split(split), Overlap: overlap}
	if partitions == auto {
		return p, nil
	}
	n, err := strconv.Atoi(partitions)
	if err != nil || n < 1 {
		return p, fmt.Errorf("partitions %q: want a number from 1, or %s", partitions, auto)
	}
	p.Partitions = n
	return p, nil
}

func body(ctx context.Context, s *bench.State) error {
	plan, err := planOf(s.Dims(shapeAxis), s.Str(splitAxis), s.Str(partitionsAxis), s.Bool(overlapAxis))
	if err != nil {
		return err
	}
	if a, ok := dist.As[accelerator](s.Backend()); ok {
		return runSimulated(ctx, s, plan, a)
	}
	if slices.Contains(gpuBackends(), s.Backend()) {
		return runOnGPUs(ctx, s, plan)
	}
	return runOnHost(ctx, s, plan)
}

// formatTrials words the trials that auto made.
func formatTrials(trials []fused.Trial) string {
	parts := lists.Map(trials, func(t fused.Trial) string { return fmt.Sprintf("%d: %.4g us", t.Partitions, t.Median()) })
	return strings.Join(parts, ", ")
}
