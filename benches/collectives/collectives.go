// Package collectives is the bench `collectives`. It measures the operations of a process group by
// algorithm, element type, size and kind of buffer, verifies every element, and compares the time with
// the limits of this host's memory and caches. docs/bandwidth.md defines size, algbw and busbw.
package collectives

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/machine"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// joinLimit is how long a rank waits for the others to join the group, including their set-up.
const joinLimit = 30 * time.Second

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
		bench.FileOption("tuning", "", "tuning table for algorithm=auto (default: built in)"),
		bench.FileOption("probe", "", "probe result with the limits (default: of this host)"),
		bench.Seconds("5", "most time to sample one point"),
		bench.Option("hosts", bench.KindInt, "0",
			"treat the ranks as if they were on this many hosts, connected by TCP; 0 means the real hosts"),
		bench.Metric("pct_of_limit", "%", "higher",
			"the largest limit divided by the time"),
		bench.Headline("time_us", "busbw", "pct_of_limit=of limit (%)", "fault_cost_us", "energy_uj"),
		bench.Drop(checkPoint),
		bench.Drop(checkSupported),
		bench.Figures(figures),
		bench.Sections(sections),
		bench.Tuning(tuningDefaults()),
	}, onBackends()...)...)
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
buffers=private is each rank's own memory.

Ranks on several hosts share memory within each host and communicate over TCP
between hosts. They have no symmetric memory, so a plain run takes private
buffers. Before their first point they measure the network. A row's limit
(network) is the least time in which its data can leave or reach a host.
--hosts 2 counts the ranks of one machine as on two hosts, and adds the limit of
its loopback.

Within a host, a row's limits are the time of the algorithm's own traffic at the
host's bandwidth (bandwidth), the time of its hops between caches (hops) and,
with private buffers, the time in which its bytes cross between the ranks'
memories (exchange). kernbench probe measures these rates; without a stored
result, a quick probe runs first. pct_of_limit is the largest limit over the time.

On the simulated accelerator (--backend ahbm) a rank is a SIP and time is
simulated. It has only the all-reduce of f16 sums in private buffers, which a
plain run takes; other rows are skipped with the reason. Its limits follow from
the topology: the time of the bytes on the links between SIPs (links), and the
latency of the messages on the longest path (hops). The topology is --topology
FILE, or the topology.yaml of the current folder. Its SIPs are the ranks, and
several files give a curve each; --sips 2x4:torus arranges them differently.

On a simulated network (--backend flat) any algorithm runs with up to a million
ranks. Its schedule is proved for them, and timed by a LogGP model on the flat
network, levels, fat tree, rails, dragonfly, torus or list of links of --topology
FILE (docs/networks.md). No data moves, and the rows say so. --slow-rank 3:2x,
--slow-link NAME:4x, --dead-link NAME and --start-offset 3:10us make it faulty, and
fault_cost_us says what that costs.

With an MPI library (--backend mpi) a C program makes the calls, in private
buffers. MPI chooses the algorithms, so they cannot be named and rows have no
limits; the details name the library.

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
	sh, err := plannedShape(p)
	if err != nil {
		return "" // checkPoint reports it
	}
	for _, name := range dist.Backends(nil) {
		d := dist.Describe(name)
		if d.Preferred != nil && unsupported(d.Capabilities, name, p.At("algorithm").String(), sh) == "" &&
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

// auto lets the tuning table choose the algorithm.
const auto = "auto"

// The kinds of buffers.
const (
	symmetric = "symmetric"
	private   = "private"
)

func body(ctx context.Context, s *bench.State) error {
	s.Phase("probe")
	recordLimits := newLimitRecorder(ctx, s, hostName(s))
	if err := s.Barrier(ctx); err != nil { // a probe must not disturb another rank's measurement
		return err
	}
	cfg, err := config(s)
	if err != nil {
		return err
	}
	sh := shapeOf(s)
	s.SampleAtMost(s.Float(bench.SecondsOption))
	return joinAndTime(ctx, s, cfg, sh, s.Str("algorithm"), recordLimits)
}

// AllReduceCall describes an all-reduce of sums in the group's symmetric memory.
type AllReduceCall struct {
	DType     dist.DType
	Count     int
	InPlace   bool
	Algorithm string            // "": the backend's own choice
	Knobs     map[string]string // settings of the backend
}

// AllReduce times and verifies an all-reduce as this bench does. Other benches call it.
func AllReduce(ctx context.Context, s *bench.State, sum AllReduceCall) error {
	algorithm := cmp.Or(sum.Algorithm, auto)
	cfg := dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: joinLimit, Exchange: s.Exchange,
		ID: fmt.Sprintf("%s/%d %v %s %v", s.Session(), sum.Count, sum.DType, algorithm, sum.Knobs), Knobs: sum.Knobs}
	sh := shape{op: allReduce, dtype: sum.DType, reduction: dist.Sum, count: sum.Count, ranks: s.Size(),
		inPlace: sum.InPlace, buffers: symmetric}
	return joinAndTime(ctx, s, cfg, sh, algorithm, newLimitRecorder(ctx, s, ""))
}

// joinAndTime joins the group and times the operation. If the machine lacks something that the backend
// needs, the point does not fail but is not executed.
func joinAndTime(ctx context.Context, s *bench.State, cfg dist.Config, sh shape, algorithm string,
	recordLimits limitRecorder) error {
	s.Phase("set-up")
	g, err := dist.Init(ctx, cfg)
	if err != nil {
		return JoinError(err)
	}
	defer g.Close()
	if c := g.Clock(); c.Deterministic() {
		s.UseClock(c)
	}
	if reason := unsupported(g.Capabilities(), s.Backend(), algorithm, sh); reason != "" {
		return bench.Skip("%s", reason)
	}
	w, err := newWork(g, sh, s.Seed(), algorithm)
	if err != nil {
		return err
	}
	Describe(s, g)
	if w.plan.Algorithm != "" {
		s.Detail("algorithm", tuning.Choice{Algorithm: w.plan.Algorithm, ChunkBytes: w.plan.Chunk * sh.dtype.Size(),
			Blocks: w.plan.Blocks}.String())
		if algorithm == auto {
			s.Detail("tuning", cmp.Or(cfg.Tuning, tuning.Default()).Hash())
		}
	}
	if sh.op != barrier {
		s.Volume(sh.op, int64(sh.count)*int64(sh.dtype.Size()))
	}
	recordLimits(g, sh, w.plan)
	if dist.Describe(s.Backend()).Virtual {
		s.Detail(dataDetail, "schedule proved, data not executed")
	} else {
		s.Refresh(w.refresh)
		s.Verify(w.verify)
	}
	if err := s.Time(ctx, w.run, bench.InPlace(sh.inPlace)); err != nil {
		return err
	}
	if err := machine.Explain(s, g, w.plan); err != nil {
		return err
	}
	if w.op != nil {
		if err := RecordTimings(ctx, s, g, w.op); err != nil {
			return err
		}
	}
	Observe(s, instrument.ObserverOf(g), "after")
	return nil
}

// RecordTimings times a call with the backend's own methods besides Run, such as many calls in one
// kernel launch. It also records the limit of each method and how close the time comes to it. Every
// bench that times a call uses it.
func RecordTimings(ctx context.Context, s *bench.State, g *dist.Group, op *dist.Op) error {
	list, err := instrument.Timings(g, op)
	if err != nil {
		return err
	}
	for _, t := range list {
		err := s.TimeAs(ctx, t.Name, t.Sample, bench.InPlace(op.Plan().InPlace), bench.AfterSamples(t.Check))
		if err := errors.Join(err, t.Close()); err != nil {
			return err
		}
		if us := s.Metric(t.Name); t.LimitUS > 0 && us > 0 {
			name := strings.TrimSuffix(t.Name, "_us")
			s.Detail(name+"_limit", t.Limit)
			s.Report(name+"_pct_of_limit", 100*t.LimitUS/us, "%", "higher")
			if t.LimitUS > decl.WrongLimit*us {
				s.Warn("%s: faster than its limit allows (%.0f %% of it): the limit is wrong, or not all of the work was "+
					"done or timed", t.Name, 100*t.LimitUS/us)
			}
		}
	}
	return nil
}

// Describe records in the row which library does the work and on which devices. Every bench that joins
// a group calls it.
func Describe(s *bench.State, g *dist.Group) {
	facts := g.Facts()
	if facts.Library != "" {
		s.Detail("library", facts.Library)
	}
	if facts.RanksPerDevice > 0 {
		s.Detail(journal.SharingDetail, fmt.Sprint(facts.RanksPerDevice))
		if facts.Device != "" {
			s.Detail(journal.DeviceDetail, facts.Device)
		}
	}
	Observe(s, instrument.ObserverOf(g), "before")
}

// JoinError converts the error of a failed dist.Init. If the machine lacks something that the backend
// needs, the point counts as not executed.
func JoinError(err error) error {
	if reason, yes := errors.AsType[*dist.UnavailableError](err); yes {
		return bench.NotExecuted(false, "%v", reason)
	}
	return err
}

// Observe records in the row the state of rank 0's device, such as its clocks and temperature. when is
// "before" or "after".
func Observe(s *bench.State, device instrument.Observer, when string) {
	if s.Rank() != 0 {
		return
	}
	shown, err := device.Observe()
	if err != nil {
		shown = "unknown: " + err.Error()
	}
	if shown != "" {
		s.Detail("gpu_"+when, shown)
	}
}

// hostName returns the host to which the option hosts assigns the rank; neighbouring ranks share one.
// Without the option it is "", and the rank belongs to the host it runs on.
func hostName(s *bench.State) string {
	hosts := s.Int("hosts")
	if hosts < 1 {
		return ""
	}
	return "host" + strconv.Itoa(s.Rank()*hosts/s.Size())
}

// config returns the configuration of the point's group. The ID is unique among all points and
// launches.
func config(s *bench.State) (dist.Config, error) {
	cfg := dist.Config{
		Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: joinLimit,
		ID: strings.Join([]string{s.Session(), s.Str("op"), s.Str("algorithm"), s.Str("dtype"), s.Str("reduction"),
			s.Str("size"), s.Str("inplace"), s.Str("buffers"), s.Str(machine.Option)}, "/"),
		Exchange: s.Exchange, Host: hostName(s),
	}
	on, err := machine.Describe(s)
	if err != nil {
		return cfg, err
	}
	cfg.ID += "/" + on.Arrangement
	if cfg.Machine, cfg.Arrangement = on.File, on.Arrangement; on.Text != "" {
		s.Detail(machineDetail, on.Text)
	}
	if path := s.Str("tuning"); path != "" {
		t, err := dist.LoadTuning(path)
		if err != nil {
			return cfg, err
		}
		cfg.Tuning = t
	}
	return cfg, nil
}

// checkTuning returns a function that refuses a tuning table that cannot be read. The function is called for
// every point, but reads each file only once.
func checkTuning() func(_, options bench.Point) error {
	var checked sync.Map // error or nil by path
	return func(_, options bench.Point) error {
		path := options.At("tuning").String()
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
