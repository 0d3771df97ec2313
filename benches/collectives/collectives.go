// Package collectives is the bench `collectives`: how long the operations of a
// process group take, by algorithm, element type, size and kind of buffer,
// whether every element is right, and how far the time is from what this
// host's memory and caches allow. docs/bandwidth.md says what size, algbw and
// busbw mean.
package collectives

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/machine"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// joinLimit is how long a rank waits for another, set-up included.
const joinLimit = 30 * time.Second

// Bench declares it.
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
		bench.FileOption("tuning", "", "tuning table for algorithm=auto; empty is the built-in one"),
		bench.FileOption("probe", "", "probe result to take the limits from; empty is this host's own"),
		bench.Seconds("5", "most time to sample one point"),
		bench.Option("hosts", bench.KindInt, "0",
			"count the ranks as being on so many hosts, which TCP connects even within this machine; 0: as it is"),
		bench.Metric("pct_of_limit", "%", "higher"),
		bench.Drop(checkPoint),
		bench.Figures(figures),
		bench.Sections(sections),
		bench.Tuning(tuningDefaults()),
	}, onBackends()...)...)
}

// manual is what the help of the bench says.
const manual = `Times the collectives of kernbench's own process groups and checks every element.

op is allreduce, reduce_scatter, allgather, broadcast, reduce, gather, scatter,
alltoall, sendrecv (a ring) or barrier. size is what nccl-tests counts: the
buffer of one rank for allreduce, broadcast, reduce and sendrecv, all ranks'
parts together for the others. ring@64K is ring in pipelined pieces of 64 KiB;
algorithm=auto takes what the tuning table says, and the row's details say what that
was; with fixed algorithms in the same sweep, the report shows how much auto loses.
buffers=symmetric is memory that every rank reaches without a copy, private its own.

Ranks on several hosts share memory within each and talk over TCP between them;
symmetric memory there is none then, and a plain run takes private buffers. Before
their first point they measure the network; a row's limit (network) is the least
time in which what must leave or reach a host can. --hosts 2 makes the ranks of one
machine count as on two hosts, and adds the same of its loopback to the limits.

Within a host, a row's limits are the time that the algorithm's own traffic needs at
its bandwidth (bandwidth), the time of its hops between caches (hops) and, with
private buffers, the time in which so many bytes cross between ranks' memories
(exchange), as kernbench probe measured them; without a stored probe a quick one is
made first. pct_of_limit is the largest limit over the time.

On the simulated accelerator (--backend ahbm) a rank is a SIP and time is
simulated. It has all-reduce of f16 sums only, in private buffers, which a plain
run there takes; rows of anything else are skipped and say so. The limits follow
from its topology (--topology FILE, or the topology.yaml of the current folder; its SIPs are the
ranks, and several files give a curve each; --sips 2x4:torus arranges them otherwise): what the bytes need on the links between SIPs (links), and the
latency of the messages on the longest way (hops).

On a simulated network (--backend flat) any algorithm runs with up to a million ranks: proved for them, then
timed by a LogGP model with the parameters of --topology FILE. No data moves, and rows say so.

By an MPI library (--backend mpi) the calls are those of a C program, in private buffers. MPI
chooses the algorithms, so none can be named and rows have no limits; details name the library.

  kernbench run --bench collectives --ranks 2,4 --algorithm auto,one-stage,two-stage,ring,ring@64K
  kernbench tune --bench collectives --ranks 2,4 --buffers symmetric,private
  kernbench run --bench collectives --backend ahbm --ranks 2,4,6
  kernbench run --bench collectives --backend ahbm --topology built-in,my.yaml,faster-links.yaml
  kernbench run --bench collectives --backend ahbm --sips 2x2:torus,2x2:mesh,4:ring
  kernbench run --bench collectives --backend flat --ranks 65536 --size 1M --algorithm recursive-doubling
  kernbench run --bench collectives --backend mpi --launcher mpiexec.hydra
  kernbench run --bench collectives --op allgather --dtype bf16 --format nccl-tests`

// onBackends declares what the bench runs on: every backend that has a collective,
// and what a plain run takes there of what the axes have elsewhere.
func onBackends() []bench.Clause {
	names := dist.Backends(func(d dist.Description) bool { return len(d.Ops) > 0 })
	items := slices.Concat([]bench.Clause{bench.Backends(names...), bench.PreferBackend(preferred), bench.Refuse(machine.Refuse),
		bench.DefaultRanks(machine.Ranks)},
		machine.Options("file of the machine of a simulated backend, or several to compare: the topology of ahbm "+
			"(default: topology.yaml here, else "+bench.BuiltIn+"), the network of flat"),
		machine.NearbyOn(names))
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

// preferred is the backend that has a machine for the point, "" where the default will do.
func preferred(p point.Point) string {
	d, badType := dtype.Parse(p.At("dtype").String())
	r, badReduction := dtype.ParseReduction(p.At("reduction").String())
	if badType != nil || badReduction != nil {
		return "" // invalid says so
	}
	sh := shape{op: p.At("op").String(), dtype: d, reduction: r, ranks: int(p.At(bench.RanksAxis).Int()),
		buffers: p.At("buffers").String()}
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
	dataDetail    = "data" // what stands for its execution
)

// auto lets the tuning table choose.
const auto = "auto"

// The kinds of buffers.
const (
	symmetric = "symmetric"
	private   = "private"
)

func body(ctx context.Context, s *bench.State) error {
	s.Phase("probe")
	limit := newLimitRecorder(ctx, s, hostName(s))
	if err := s.Barrier(ctx); err != nil { // nobody measures while another probes
		return err
	}
	cfg, err := config(s)
	if err != nil {
		return err
	}
	sh := shapeOf(s)
	s.SampleAtMost(s.Float(bench.SecondsOption))
	return joinAndTime(ctx, s, cfg, sh, s.Str("algorithm"), limit)
}

// AllReduceCall is an all-reduce of sums in memory of the group.
type AllReduceCall struct {
	DType     dist.DType
	Count     int
	InPlace   bool
	Algorithm string            // "": the backend's own choice
	Knobs     map[string]string // of the backend
}

// AllReduce is for benches about an all-reduce: it times and checks it as this one does.
func AllReduce(ctx context.Context, s *bench.State, sum AllReduceCall) error {
	algorithm := cmp.Or(sum.Algorithm, auto)
	cfg := dist.Config{Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: joinLimit, Exchange: s.Exchange,
		ID: fmt.Sprintf("%s/%d %v %s %v", s.Session(), sum.Count, sum.DType, algorithm, sum.Knobs), Knobs: sum.Knobs}
	sh := shape{op: allReduce, dtype: sum.DType, reduction: dist.Sum, count: sum.Count, ranks: s.Size(),
		inPlace: sum.InPlace, buffers: symmetric}
	limit := newLimitRecorder(ctx, s, "")
	return joinAndTime(ctx, s, cfg, sh, algorithm, limit)
}

// joinAndTime joins the group and times the operation. A machine that lacks what the
// backend needs is no failure of the point.
func joinAndTime(ctx context.Context, s *bench.State, cfg dist.Config, sh shape, algorithm string,
	limit func(*dist.Group, shape, dist.Plan)) error {
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
		return bench.Skip("backend %s: %s", s.Backend(), reason)
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
	limit(g, sh, w.plan)
	if dist.Describe(s.Backend()).Virtual {
		s.Detail(dataDetail, "schedule proved, data not executed")
	} else {
		s.Refresh(w.refresh)
		s.Verify(w.verify)
	}
	if err := s.Time(ctx, w.run, bench.InPlace(sh.inPlace)); err != nil {
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

// RecordTimings times a call in the ways that its backend has besides running it, such as
// many calls in one launch of a kernel: for every bench that times a call. What limits
// one of them, and how far it is from that, is in the row too.
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

// Describe says in the row what does the work, and on what: for every bench that joins a
// group.
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

// JoinError is the error of a bench that could not join its group: where the machine lacks
// what the backend needs, the point was not executed.
func JoinError(err error) error {
	if reason, yes := errors.AsType[*dist.UnavailableError](err); yes {
		return bench.NotExecuted(false, "%v", reason)
	}
	return err
}

// Observe says in the row what the instruments of rank 0's device show: for every bench that
// has one.
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

// config is that of the group of this point. No other point of the launch, and no
// other launch, has its name.
func config(s *bench.State) (dist.Config, error) {
	cfg := dist.Config{
		Backend: s.Backend(), Rank: s.Rank(), Size: s.Size(), Timeout: joinLimit,
		ID: strings.Join([]string{s.Session(), s.Str("op"), s.Str("algorithm"), s.Str("dtype"), s.Str("reduction"),
			s.Str("size"), s.Str("inplace"), s.Str("buffers"), s.Str(machine.Option), s.Str(machine.Arrangement)}, "/"),
		Exchange: s.Exchange, Host: hostName(s),
	}
	on, err := machine.Describe(s)
	if err != nil {
		return cfg, err
	}
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

// unsupported says what of the point the backend cannot do, "" if nothing.
func unsupported(caps dist.Capabilities, backend, algorithm string, sh shape) string {
	for _, op := range sh.calls() {
		if !slices.Contains(caps.Ops, op) {
			return fmt.Sprintf("no %s", op)
		}
		choice, _ := tuning.ParseChoice(algorithm) // knownAlgorithm has refused wrong numbers
		name := choice.Algorithm
		if choice.ChunkBytes > 0 && !caps.Has(dist.Pipelining) {
			return "the size of pieces cannot be chosen"
		}
		if choice.Blocks > 0 && !caps.Has(dist.ThreadBlocks) {
			return "the number of blocks cannot be chosen"
		}
		if known := caps.Algorithms[op]; name != auto && !slices.Contains(known, name) {
			if why := caps.Missing[name]; why != "" {
				return fmt.Sprintf("no %s: %s", name, why)
			}
			if can := dist.Describe(backend).Algorithms[op]; slices.Contains(can, name) {
				return fmt.Sprintf("no %s algorithm %s in a group of %d", op, name, sh.ranks)
			}
			all := strings.Join(append(slices.Clone(known), auto), ", ")
			return fmt.Sprintf("no %s algorithm %s (there are %s)", op, name, all)
		}
		if op.Reduces() && !slices.Contains(caps.Reductions, sh.reduction) {
			return fmt.Sprintf("no reduction %s", sh.reduction)
		}
	}
	if !slices.Contains(caps.DTypes, sh.dtype) {
		return fmt.Sprintf("no element type %s", sh.dtype)
	}
	if sh.buffers == symmetric && !caps.Has(dist.SymmetricMemory) {
		return "no symmetric memory"
	}
	return ""
}
