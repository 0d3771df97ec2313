// Package collectives is the bench `collectives`. It measures the operations of a process group by
// algorithm, element type, size and kind of buffer, verifies every element, and compares the time with
// the limits of this host's memory and caches. docs/bandwidth.md defines size, algbw and busbw.
package collectives

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/machine"
)

// Bench returns the declaration of the bench.
func Bench() *bench.Bench {
	return bench.New("collectives", body, append([]bench.Clause{
		bench.Help("collectives of a process group: time, bandwidth, correctness and distance from the limit"),
		bench.Doc(manual),
		bench.Strings("op", allReduce),
		bench.Strings("algorithm", auto),
		bench.DTypes("dtype", "f32"),
		bench.Strings("reduction", "sum"),
		bench.Bytes("size", "4:64Mi:x4"),
		bench.Ranks("2"),
		bench.Bools("inplace", false),
		bench.Strings("buffers", symmetric),
		bench.OverHosts(bench.Strings("buffers", private)),
		bench.FileOption(tuningOption, "", "tuning table for algorithm=auto (default: built in)"),
		bench.FileOption("probe", "", "probe result with the limits (default: of this host)"),
		bench.Seconds("5", "most time to sample one point"),
		bench.Option(hostsOption, bench.KindInt, "0",
			"treat the ranks as if they were on this many hosts, connected by TCP; 0 means the real hosts"),
		bench.Metric("pct_of_limit", "%", "higher", "the largest limit divided by the time"),
		bench.Headline("time_us", "busbw", "pct_of_limit=of limit (%)", "fault_cost_us", "energy_uj"),
		bench.Drop(checkPoint),
		bench.Drop(checkSupported),
		bench.Tuning(tuningDefaults()),
	}, slices.Concat(declaredViews(), KernelTimes(), machine.FaultMetrics(), onBackends())...)...)
}

// manual is the long help text of the bench.
const manual = `Times the collectives of kernbench's process groups and verifies every element.

op is allreduce, reduce_scatter, allgather, broadcast, reduce, gather, scatter,
alltoall, sendrecv (a ring) or barrier. size is counted as in nccl-tests: the
buffer of one rank for allreduce, broadcast, reduce and sendrecv, the parts of
all ranks together for the others. ring@64K is ring in pipelined chunks of
64 KiB. algorithm=auto takes the choice of the tuning table, which the row's
details name. If the sweep has fixed algorithms too, the report shows how much
auto loses. buffers=symmetric is memory that every rank reaches without a copy;
buffers=private is each rank's own memory, which ranks on several hosts take.

A row's limits are the time of the algorithm's own traffic at the host's bandwidth
(bandwidth), of its hops between caches (hops) and, with private buffers, of the
bytes that cross between the ranks' memories (exchange), as kernbench probe measured
them; between hosts, the least time in which its data can leave or reach a host
(network). pct_of_limit is the largest limit over the time. --hosts 2 counts the
ranks of one machine as on two hosts.

The simulated accelerator (--backend ahbm) has only the all-reduce of f16 sums in
private buffers. The SIPs of --topology FILE are the ranks, and --sips 2x4:torus
arranges them differently. A simulated network (--backend flat) runs any algorithm
with up to a million ranks. Its schedule is proved, and timed on the network of
--topology FILE; no data moves. --slow-rank 3:2x, --slow-link NAME:4x,
--dead-link NAME and --start-offset 3:10us make it faulty. An MPI library
(--backend mpi) chooses the algorithms itself, so that rows have no limits.

'kernbench docs bandwidth' defines the rates, and 'kernbench docs networks' the network.

  kernbench run --bench collectives --ranks 2,4 --algorithm auto,one-stage,two-stage,ring,ring@64K
  kernbench tune --bench collectives --ranks 2,4 --buffers symmetric,private
  kernbench run --bench collectives --backend ahbm --ranks 2,4,6
  kernbench run --bench collectives --backend ahbm --topology built-in,my.yaml,faster-links.yaml
  kernbench run --bench collectives --backend ahbm --sips 2x2:torus,2x2:mesh,4:ring
  kernbench run --bench collectives --backend flat --ranks 65536 --size 1M --algorithm recursive-doubling
  kernbench run --bench collectives --backend flat --ranks 64 --size 1M --slow-link none,3-net:4x
  kernbench run --bench collectives --backend mpi --launcher mpiexec.hydra
  kernbench run --bench collectives --op allgather --dtype bf16 --format nccl-tests`

// onBackends declares the backends of the bench, which are all that have a collective. It also
// declares the default axis values on a backend that lacks the usual ones.
func onBackends() []bench.Clause {
	names := dist.Backends(func(d dist.Description) bool { return len(d.Ops) > 0 })
	items := slices.Concat([]bench.Clause{bench.Backends(names...), bench.PreferBackend(preferred),
		bench.Refuse(machine.Refuse), bench.Refuse(checkTuning()), bench.Refuse(noteSlow), bench.Drop(tooLarge),
		bench.DefaultRanks(machine.Ranks)},
		machine.Options("file of the machine of a simulated backend, or several to compare: the topology of ahbm "+
			"(default: topology.yaml here, else "+bench.BuiltIn+"), the network of flat"),
		machine.FaultOptions(), machine.NearbyOn(names))
	for _, name := range names {
		d := dist.Describe(name)
		can := d.Capabilities
		var axes []bench.Clause
		if !can.Can(dist.AllReduce) {
			axes = append(axes, bench.Strings("op", string(can.Ops[0])))
		}
		if len(can.DTypes) > 0 && !slices.Contains(can.DTypes, dist.F32) {
			axes = append(axes, bench.DTypes("dtype", can.DTypes[0].String()))
		}
		if !can.Has(dist.SymmetricMemory) {
			axes = append(axes, bench.Strings("buffers", private))
		}
		if d.MaxBytes > 0 {
			axes = append(axes, bench.Bytes("size", fmt.Sprintf("4:%d:x4", d.MaxBytes)))
		}
		if len(axes) > 0 {
			items = append(items, bench.On(name, axes...))
		}
	}
	return items
}

// preferred returns the backend that is preferred for the point on this machine, or "" for the
// default.
func preferred(p point.Point) string {
	sh, err := shapeOf(p)
	if err != nil {
		return "" // checkPoint reports it
	}
	for _, name := range dist.Backends(nil) {
		d := dist.Describe(name)
		if d.Preferred != nil && sh.unsupported(d.Capabilities, name) == "" &&
			d.Preferred(sh.ranks) {
			return name
		}
	}
	return ""
}

// Details of rows whose machine is simulated.
const (
	machineDetail = "machine"
	dataDetail    = "data" // says that no data was moved
)

// Options.
const (
	hostsOption  = "hosts"
	tuningOption = "tuning"
)

// auto lets the tuning table choose the algorithm.
const auto = "auto"

// The kinds of buffers.
const (
	symmetric = "symmetric"
	private   = "private"
)

// checkTuning returns a function that refuses a tuning table that cannot be read. The function is called for
// every point, but reads each file only once.
func checkTuning() func(_, options bench.Point) error {
	var checked sync.Map // error or nil by path
	return func(_, options bench.Point) error {
		path := options.At(tuningOption).String()
		if path == "" {
			return nil
		}
		known, has := checked.Load(path)
		if !has {
			_, known = dist.LoadTuning(path)
			checked.Store(path, known)
		}
		if err, is := known.(error); is {
			return fmt.Errorf("--tuning: %w", err)
		}
		return nil
	}
}
