package collectives

import (
	"context"
	"fmt"
	"sync"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// limits are the least times of a call, in microseconds.
type limits struct {
	bandwidth float64 // its traffic at this host's bandwidth
	hops      float64 // its longest chain of hops between caches
	exchange  float64 // what crosses between ranks' own memories; 0 where peers reach the memory
}

// limitsOf derives them from what the algorithm moves by itself. Chunks change
// neither the traffic nor, when pipelined, the shortest chain.
func limitsOf(p probe.Result, sh shape, algorithm string) (limits, error) {
	t, err := trafficOf(sh, algorithm)
	if err != nil {
		return limits{}, err
	}
	elem := float64(sh.dtype.Size())
	l := limits{
		bandwidth: p.TimeUS(probe.Traffic{
			Cores:  min(sh.ranks, p.Cores),
			Set:    elem * float64(t.Loads.Max+t.Stores.Max),
			Loads:  elem * float64(t.Loads.Total),
			Stores: elem * float64(t.Stores.Total),
		}),
		hops: float64(t.Rounds) * p.HopUS(),
	}
	if sh.buffers == private && sh.ranks <= p.Cores {
		crossing := elem * float64(t.Sent.Max+t.Read.Max+t.Written.Max)
		l.exchange = p.ExchangeUS(sh.ranks, crossing, elem*float64(sh.bufferElements()))
	}
	return l, nil
}

// trafficOf counts what the algorithm moves and its data's hops.
func trafficOf(sh shape, algorithm string) (schedule.Traffic, error) {
	if sh.op == sendRecv {
		one := schedule.Load{Max: sh.count, Total: sh.count * sh.ranks}
		return schedule.Traffic{Sent: one, Loads: one, Stores: one, Rounds: 1}, nil
	}
	if sh.ranks == 1 && sh.op == barrier {
		return schedule.Traffic{}, nil
	}
	s, err := schedule.New(sh.op, algorithm,
		schedule.Params{Ranks: sh.ranks, Count: sh.count, Root: root, InPlace: sh.inPlace})
	if err != nil {
		return schedule.Traffic{}, err
	}
	t, err := schedule.Cost(s)
	if err != nil {
		return schedule.Traffic{}, err
	}
	// The last flags of an algorithm that reads peers' memory only say that the
	// memory is free again. No result waits for them, so they are no limit.
	if info, _ := schedule.Lookup(sh.op, algorithm); sh.op != barrier && t.Rounds > 1 && info.Direct {
		t.Rounds--
	}
	return t, nil
}

// localProbe is this host's own probe result, obtained once per process.
var localProbe = sync.OnceValues(func() (probe.Result, error) { return probe.LoadOrMeasure(context.Background()) })

// newLimitRecorder gives the function that records the limits of a call: those that the
// backend knows, or those of this host where its memory is what limits, and of the
// network between several, which all ranks measure. The rest is for rank 0, whose numbers
// make the row.
func newLimitRecorder(ctx context.Context, s *bench.State, host string) func(g *dist.Group, sh shape, plan dist.Plan) {
	n, err := measureNetwork(ctx, s, host)
	if err != nil && s.Rank() == 0 {
		s.Warn("limits: %v", err)
	}
	if err == nil && s.Rank() == 0 {
		if d := dist.Describe(s.Backend()); d.HostMemory || d.Network && n.Machines > 1 {
			linked := memoryAndNetworkLimits(s, n)
			return func(_ *dist.Group, sh shape, plan dist.Plan) { linked(sh, plan) }
		}
		return func(g *dist.Group, sh shape, plan dist.Plan) {
			plan.Op, plan.Count, plan.DType = dist.Collective(sh.op), sh.count, sh.dtype
			if list, err := instrument.Limits(g, plan); err != nil || len(list) > 0 {
				record(s, list, err)
			}
		}
	}
	return func(*dist.Group, shape, dist.Plan) {}
}

// memoryAndNetworkLimits are the limits where data moves through memory and, between hosts,
// over links. The memory of one machine says nothing of ranks on another.
func memoryAndNetworkLimits(s *bench.State, n tcp.Network) func(sh shape, plan dist.Plan) {
	if len(n.Hosts) < 2 {
		return memoryLimits(s)
	}
	memory, network := func(shape, dist.Plan) {}, networkLimit(s, n)
	if n.Machines == 1 {
		memory = memoryLimits(s)
	}
	return func(sh shape, plan dist.Plan) {
		memory(sh, plan)
		network(sh)
	}
}

// memoryLimits finds the probe result; a row without limits says why.
func memoryLimits(s *bench.State) func(sh shape, plan dist.Plan) {
	var p probe.Result
	var err error
	if path := s.Str("probe"); path != "" {
		p, err = probe.Load(path, hostinfo.Local())
	} else {
		p, err = localProbe()
	}
	if err != nil {
		s.Warn("limits: %v", err)
	}
	if len(p.Copy) == 0 {
		return func(shape, dist.Plan) {}
	}
	if p.Disturbed != "" {
		s.Warn("limits: the probe was disturbed, so that they may be easier than this host's are (`kernbench probe` makes "+
			"another): %s", p.Disturbed)
	}
	s.Detail("probe", fmt.Sprintf("%s, %s", p.Profile, p.Time.Format("2006-01-02 15:04:05Z")))
	return func(sh shape, plan dist.Plan) {
		l, err := limitsOf(p, sh, plan.Algorithm)
		record(s, []instrument.Limit{
			{Name: "bandwidth", US: l.bandwidth}, {Name: "hops", US: l.hops}, {Name: "exchange", US: l.exchange},
		}, err)
	}
}

// record adds limits to the row.
func record(s *bench.State, list []instrument.Limit, err error) {
	if err != nil {
		s.Warn("limits: %v", err)
		return
	}
	for _, l := range list {
		if l.US > 0 {
			s.Limit(l.Name, l.US)
		}
	}
}

// AllReduceLimits is for other benches that time an all-reduce: it finds the
// limits of the machine, by the option probe, and of the network, and gives the function
// that records those of a call by an algorithm.
func AllReduceLimits(ctx context.Context, s *bench.State) func(g *dist.Group, p dist.Plan, algorithm string) {
	record := newLimitRecorder(ctx, s, "")
	return func(g *dist.Group, p dist.Plan, algorithm string) {
		sh := shape{op: allReduce, dtype: p.DType, reduction: p.Reduction, count: p.Count, ranks: s.Size(),
			inPlace: p.InPlace, buffers: private}
		if p.In.Memory() != nil {
			sh.buffers = symmetric
		}
		p.Algorithm = algorithm
		record(g, sh, p)
	}
}
