// Package gemmallreduce is the bench `gemm-allreduce`. It measures a matrix product whose inner
// dimension is divided among ranks, and the all-reduce of its result, sequentially and overlapped. It
// shows which share of the shorter operation is hidden behind the longer one, which number of
// partitions is best, and where and why overlap does not pay.
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
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/machine"
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

// auto selects the number of partitions by trying.
const auto = "auto"

// Bench declares the bench.
func Bench() *bench.Bench {
	cfg := bench.DefaultMeasure()
	// A baseline is timed before each call, so the ranks must start each call together.
	cfg.Cadence = bench.Isolated
	cfg.Stop.MinSamples, cfg.Stop.MaxSamples, cfg.Stop.MinTime = 30, 500, 500*time.Millisecond
	cfg.Warmup.MaxCalls = 20
	return bench.New("gemm-allreduce", body, slices.Concat([]bench.Clause{
		bench.Help("a matrix product and the all-reduce of its result, one after the other and overlapped"),
		bench.Doc(manual),
		bench.Tuples(shapeAxis, hostShapes...),
		bench.DTypes(dtypeAxis, "f32"),
		bench.Ranks("2"),
		bench.Strings(splitAxis, string(fused.SplitM)), decl.OneOf(splitAxis, fused.Splits()...),
		bench.Strings(partitionsAxis, auto, "1", "2", "4", "8", "16"),
		bench.Bools(overlapAxis, true),
		bench.OnlyOn(hostBackends(), decl.Within(decl.AtLeast(0), bench.Option(threadsOption, bench.KindInt, "0",
			"threads of each rank; 0 selects its share of the cores"))),
		bench.Seconds("30", "longest time to sample one point, including its baselines"),
		bench.Metric("gemm_us", "us", "lower", "the product alone"),
		bench.Metric("allreduce_us", "us", "lower", "the all-reduce alone"),
		bench.Metric("sequential_us", "us", "lower", "both in sequence, in one partition"),
		bench.Metric("bound_us", "us", "", "the longer of the product and the all-reduce: overlap cannot be faster"),
		bench.Metric("recovered_pct", "%", "higher", "share of the shorter of the two that overlap saves"),
		bench.Metric("parts", "", "", "number of partitions or tiles"),
		bench.Reports("gemm_parts_us", "us", "the product alone, in the partitions of the point"),
		bench.Reports("allreduce_parts_us", "us", "the all-reduce alone, in the partitions of the point"),
		bench.Reports("recovered_low_pct", "%", "lower end of the interval of recovered_pct"),
		bench.Reports("recovered_high_pct", "%", "upper end of the interval of recovered_pct"),
		bench.Headline("time_us", "gemm_us", "allreduce_us", "sequential_us", "recovered_pct=recovered (%)"),
		bench.Measure(cfg),
		bench.Timeout(5 * time.Minute),
		bench.Refuse(machine.Refuse),
		bench.DefaultRanks(machine.Ranks),
		bench.Backends(dist.Backends(canRun)...),
		bench.HostMemory("products are computed on CPUs, or by the kernels of backend " + strings.Join(gpuBackends(), ", ")),
		bench.OneHost("the product is computed in memory that all ranks can access"),
		bench.Accumulates(), // so that one figure can show several backends
	}, declaredViews(), onAccelerators(), onDevices(), []bench.Clause{bench.Drop(checkPoint)})...)
}

// manual is the help text of the bench.
const manual = `Computes C = sum over ranks of A x B, where each rank has its own A and B. C is
divided into partitions: while one is multiplied, the previous one is reduced.

A shape is MxNxK, where K is the inner dimension of one rank. split=m divides the rows
of C, split=n its columns. partitions is a number or auto, which tries several numbers
before timing and uses the fastest. overlap=false multiplies and reduces in turn.

Every row measures on the same cores, in turns: the product alone (gemm_us), the
all-reduce alone (allreduce_us), the two in sequence (sequential_us), and the point
itself (time_us). Overlap cannot be faster than the longer of the two (bound_us).
recovered_pct is the share of the shorter one that overlap saves, with the 95 % interval
recovered_low_pct to recovered_high_pct. If that is above 100 % or below 0 % beyond its
interval, the row has a warning. If the shorter one takes less than a tenth of the
longer, overlap cannot show: the row says so and has no recovered_pct. gemm_parts_us and
allreduce_parts_us are the two alone in the partitions of the point. They explain why
overlap is slower, if it is.

On GPUs (--backend cuda), --provider builtin multiplies bf16, and cublaslt also f16,
tf32 and f32. Times come from the GPU's events. method=streams reduces partitions on a
second stream while the next ones are multiplied, on the multiprocessors that --aside
reserves. pdl=true starts each reduction kernel before the previous one has ended
(programmatic dependent launch). method=kernel is a single kernel, which reduces each
tile when its product is done; parts is then the number of tiles, and gemm_parts_us and
allreduce_parts_us are the times of its two halves. Ranks that share a GPU have equal
shares of its multiprocessors, for all measurements (detail multiprocessors).

On CPUs, the threads of a rank are its share of the cores, or --threads. Every element
is verified exactly. The simulated accelerator multiplies f16. It adds its curve to the
same figure if it runs into the same folder. It only simulates the time of large
products, without data, and the row says so. Its machine comes from --topology FILE, else
from topology.yaml in the current folder, else it is the built-in one; each SIP is a
rank. Several files add a curve each. Messages move as a whole unless --fabric says
otherwise: simulating every flit takes twenty times as long and changes the times by less
than a tenth.

  kernbench run --bench gemm-allreduce --ranks 4 --shape 8192x8192x256 --partitions auto,1,4,16,64
  kernbench run --bench gemm-allreduce --split m,n --overlap true,false
  kernbench run --bench gemm-allreduce --backend ahbm --dtype f16
  kernbench run --bench gemm-allreduce --backend ahbm --dtype f16 --topology built-in,my.yaml
  kernbench run --bench gemm-allreduce --backend cuda --provider builtin,cublaslt --pdl false,true
  kernbench run --bench gemm-allreduce --backend cuda --method streams,kernel --partitions auto`

// Default shapes: the product takes about as long as the all-reduce, because overlap cannot show
// otherwise. Their ratio depends on K, the number of multiplications per element of C. CPUs multiply
// slowly compared with the bandwidth of the memory in which they reduce, so they need a small K.
var (
	hostShapes        = []string{"1024x1024x16", "1024x1024x32", "1024x1024x64"}
	acceleratorShapes = []string{"512x1024x256", "512x1024x1024", "512x1024x2048"}
)

// onAccelerators declares the default shapes and the options of simulated machines.
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
			string(topo.Whole), string(topo.Flits), machine.AsTopology)))
}

func isAccelerator(d dist.Description) bool {
	_, ok := dist.As[accelerator](d.Name)
	return ok
}

// canRun reports whether the bench runs on a backend: on a simulated accelerator, on GPUs, or on CPUs
// that all-reduce in memory which all ranks can access.
func canRun(d dist.Description) bool {
	return isAccelerator(d) || slices.Contains(gpuBackends(), d.Name) || onHost(d)
}

// hostBackends returns the backends whose ranks multiply on CPUs.
func hostBackends() []string { return dist.Backends(onHost) }

func onHost(d dist.Description) bool {
	can := d.Capabilities
	return !isAccelerator(d) && !d.Virtual && can.Can(dist.AllReduce) && can.Has(dist.SymmetricMemory) &&
		!d.Has(dist.OnDevice) &&
		slices.Contains(can.DTypes, dist.F32) && slices.Contains(can.Reductions, dist.Sum)
}

// checkPoint returns an error if no backend can run a point.
func checkPoint(p point.Point) error {
	shape := p.At(shapeAxis)
	if len(shape.Dims()) != 3 {
		return fmt.Errorf("shape %v: want MxNxK", shape)
	}
	d, err := dtype.Parse(p.At(dtypeAxis).String())
	if err != nil {
		return err
	}
	if gemm.Result(d) == 0 {
		return fmt.Errorf("no provider multiplies %v", d)
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
	if plan.Partitions == 0 { // auto tries only possible numbers
		plan.Partitions = 1
	}
	return plan.Check()
}

// planOf returns the plan of a point. It has 0 partitions for auto.
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

// tune tries numbers of partitions and returns the index of the fastest. run makes one call with the number at index.
func tune(ctx context.Context, s *bench.State, counts []int, run func(index int) (us float64, err error)) (int, error) {
	if len(counts) > 1 {
		s.Phase("tuning")
	}
	index, trials, err := fused.FindFastest(counts, func(index int) (float64, error) {
		if err := s.Barrier(ctx); err != nil {
			return 0, err
		}
		us, err := run(index)
		if err != nil {
			return 0, err
		}
		all, err := bench.Gather(ctx, s, []int64{int64(us * 1e3)})
		us = 0
		for _, rank := range all {
			us = max(us, float64(rank[0])/1e3)
		}
		return us, err
	})
	if len(trials) > 0 {
		s.Detail("tried", formatTrials(trials))
	}
	return index, err
}

// formatTrials lists the numbers of partitions that auto tried, with their median times.
func formatTrials(trials []fused.Trial) string {
	parts := lists.Map(trials, func(t fused.Trial) string { return fmt.Sprintf("%d: %.4g µs", t.Partitions, t.Median()) })
	return strings.Join(parts, ", ")
}
