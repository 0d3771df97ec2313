package collectives

import (
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/comm/hints"
)

// The metrics of the backend's own timings. time_us is the time of whole calls.
const (
	kernel = "kernel_us"
	cold   = "kernel_cold_us"
	graph  = "graph_us"
	share  = "kernel_cold_pct_of_limit"
)

// GPUAllReduce returns the declaration of the bench `gpu-allreduce`. It measures the time of a GPU's all-reduce
// kernels alone and of whole calls, and compares them with the limit of the GPU's memory. Its axes include the knobs
// of the backend.
func GPUAllReduce() *bench.Bench {
	names := dist.Backends(func(d dist.Description) bool { return len(d.Knobs) > 0 })
	items := []bench.Clause{
		bench.Help("all-reduce kernels of a GPU: time inside a launch, in a graph and per call, compared with the " +
			"limit of its memory"),
		bench.Doc(`Times the all-reduce kernels in four ways, on memory that all ranks can access, and checks
every element of each result:

  time_us          whole calls as a program makes them, one at a time
  graph_us         calls that a recorded graph launches one after the other
  kernel_us        calls inside one launch of the kernel, on the same buffers
  kernel_cold_us   the same, alternating between buffers that together are twice as large
                   as the GPU's cache

kernel_cold_pct_of_limit compares the last with a limit: moving the buffers of all ranks
at the speed of a copy within the GPU, measured in the same process.

ranks_as=blocks runs the parts of all ranks in one kernel, whose time is a lower limit for
separate processes; ranks_as=processes runs one kernel for each rank. blocks is the number
of thread blocks of each rank. scope is the memory scope of the flags that synchronize
them: system, or device, which is faster and needs all ranks on one GPU. If there is only
one GPU, all ranks share it.
copy is how an algorithm that copies elements (naive) does it: with the copy engine, with
loads and stores of a kernel, or with bulk copies of a kernel. Such calls take several
launches, so they have only time_us.

  kernbench run --bench gpu-allreduce
  kernbench run --bench gpu-allreduce --ranks 8 --size 64M --algorithm two-stage-push --blocks 8,16,24,33
  kernbench run --bench gpu-allreduce --algorithm naive --copy engine,loads,bulk
  kernbench compare out/gpu-allreduce --by ranks_as=blocks,processes --metric kernel_us`),
		bench.Backends(names...),
		bench.Ranks("2,4,8"),
		bench.Strings("algorithm", "one-stage", "two-stage-push"),
		bench.DTypes("dtype", "bf16"),
		bench.Bytes("size", "8K,1M,64M,256M"),
		bench.Seconds("0.3", "most time to sample one point in one way"),
		bench.Refuse(func(p, _ bench.Point) error {
			return dist.Describe(names[0]).CheckKnobs(names[0], knobValues(p))
		}),
		bench.Drop(checkSupported),
		bench.Drop(checkPoint),
		bench.Metric(kernel, "us", "lower",
			"a call inside one launch, on the same buffers"), bench.Metric(share, "%", "higher",
			"limit divided by the time of a call inside one launch, beyond the cache"),
		bench.Headline("time_us", kernel, "busbw", share+"=of limit (%)"),
		bench.Timeout(5 * time.Minute),
		bench.Plot("x=size,y=kernel_cold_us,by=algorithm+ranks_as,panel=num_ranks+dtype,xscale=log,yscale=log,limit=least",
			bench.Named("gpu_kernel"), bench.Title("All-reduce inside one launch, buffers beyond the cache"),
			bench.Label("y", "time")),
		bench.Plot("x=size,y=time_us+graph_us+kernel_us+kernel_cold_us,panel=num_ranks+dtype+algorithm+ranks_as,"+
			"xscale=log,yscale=log,where=kernel_cold_us>0", bench.Named("gpu_ways"),
			bench.Title("One call, timed in four ways"), bench.Label("y", "time")),
		bench.Pivot("rows=num_ranks+size+algorithm+ranks_as,value=time_us+graph_us+kernel_us+kernel_cold_us+"+share+
			",where=kernel_cold_us>0", bench.Title("Four ways to time a call"), bench.Label("time_us", "call"),
			bench.Label("num_ranks", "ranks"),
			bench.Label(graph, "graph"), bench.Label(kernel, "launch"), bench.Label(cold, "launch, cold"),
			bench.Label(share, "of the limit"), bench.Caption("The time of one call: made by a program, launched by a graph, "+
				"inside one launch, and inside one launch with buffers that are not in the cache.")),
		bench.Pivot(`rows=num_ranks+algorithm+size,columns=copy,value=time_us,where=copy!="auto"`,
			bench.Title("Ways to copy"), bench.Label("num_ranks", "ranks"),
			bench.Caption("The time of a whole call, by the way in which elements are copied.")),
	}
	for _, k := range knobsOf(names) {
		items = append(items, bench.Strings(k.Name, k.Default))
	}
	return bench.New("gpu-allreduce", body, append(items, KernelTimes()...)...)
}

// KernelTimes documents the times of calls that a GPU measures itself.
func KernelTimes() []bench.Clause {
	return []bench.Clause{bench.Reports("graph_us", "us", "time of a call among many in a recorded graph"),
		bench.Reports("kernel_us", "us", "time of a call inside one launch, on the same buffers"),
		bench.Reports("kernel_cold_us", "us", "time of a call inside one launch, on buffers beyond the cache"),
		bench.Reports("KIND_pct_of_limit", "%", "the limit of such a time divided by it: kernel, kernel_cold or graph")}
}

// knobsOf returns the knobs of all backends, each once.
func knobsOf(backends []string) (knobs []hints.Knob) {
	for _, name := range backends {
		for _, k := range dist.Describe(name).Knobs {
			if !slices.ContainsFunc(knobs, func(x hints.Knob) bool { return x.Name == k.Name }) {
				knobs = append(knobs, k)
			}
		}
	}
	return knobs
}

// knobValues returns the knobs that a point has as axes.
func knobValues(p point.Point) map[string]string {
	m := map[string]string{}
	for _, k := range knobsOf(dist.Backends(nil)) {
		if v, has := p.Get(k.Name); has {
			m[k.Name] = v.String()
		}
	}
	return m
}
