package collectives

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// limitsOf computes lower limits of the time of a call from the algorithm's own traffic: at this host's bandwidth,
// through its longest chain of hops between caches, and across private memories. Chunks change neither the traffic
// nor, if pipelined, the shortest chain.
func limitsOf(p probe.Result, sh shape, algorithm string) ([]instrument.Limit, error) {
	t, err := trafficOf(sh, algorithm)
	if err != nil {
		return nil, err
	}
	elem := float64(sh.dtype.Size())
	traffic := probe.Traffic{Cores: min(sh.ranks, p.Cores), Set: elem * float64(t.Loads.Max+t.Stores.Max),
		Loads: elem * float64(t.Loads.Total), Stores: elem * float64(t.Stores.Total)}
	list := []instrument.Limit{{Name: "bandwidth", US: p.TimeUS(traffic)},
		{Name: "hops", US: float64(t.Rounds) * p.HopUS()}}
	if sh.buffers == private && sh.ranks <= p.Cores { // else peers reach the memory, or it was not probed
		crossing := elem * float64(t.Sent.Max+t.Read.Max+t.Written.Max)
		list = append(list, instrument.Limit{Name: "exchange",
			US: p.ExchangeUS(sh.ranks, crossing, elem*float64(sh.bufferElements()))})
	}
	return list, nil
}

// trafficOf counts the algorithm's traffic and the hops of its data.
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
	// The last flags of an algorithm that reads its peers' memory only announce that the memory is
	// free again. No result depends on them, so they do not count.
	if info, _ := schedule.Lookup(sh.op, algorithm); sh.op != barrier && t.Rounds > 1 && info.Direct {
		t.Rounds--
	}
	return t, nil
}

// localProbe returns this host's own probe result, loaded or measured once per process.
var localProbe = sync.OnceValues(func() (probe.Result, error) { return probe.LoadOrMeasure(context.Background()) })

// limitRecorder records the limits of a call in the row.
type limitRecorder func(g *dist.Group, sh shape, plan dist.Plan)

func noLimits(*dist.Group, shape, dist.Plan) {}

// newLimitRecorder returns a function that records the limits of a call. They come from the backend,
// or, if data moves through host memory, from this host's probe and from the network between the
// hosts. All ranks must call it, because they measure the network together; only rank 0, whose numbers
// become the row, records limits.
func newLimitRecorder(ctx context.Context, s *bench.State, host string) limitRecorder {
	n, err := measureNetwork(ctx, s, host)
	if s.Rank() != 0 {
		return noLimits
	}
	if err != nil {
		s.Warn("limits: %v", err)
		return noLimits
	}
	if d := dist.Describe(s.Backend()); d.HostMemory || d.Network && n.Machines > 1 {
		return memoryAndNetworkLimits(s, n)
	}
	return func(g *dist.Group, sh shape, plan dist.Plan) {
		plan.Op, plan.Count, plan.DType = dist.Collective(sh.op), sh.count, sh.dtype
		if list, err := instrument.Limits(g, plan); err != nil || len(list) > 0 {
			record(s, list, err)
		}
	}
}

// memoryAndNetworkLimits returns the recorder for data that moves through memory and, between hosts,
// over a network. Memory limits apply only if all ranks are on this machine, because its probe says
// nothing about others.
func memoryAndNetworkLimits(s *bench.State, n tcp.Network) limitRecorder {
	if len(n.Hosts) < 2 {
		return memoryLimits(s)
	}
	memory, network := limitRecorder(noLimits), networkLimit(s, n)
	if n.Machines == 1 {
		memory = memoryLimits(s)
	}
	return func(g *dist.Group, sh shape, plan dist.Plan) {
		memory(g, sh, plan)
		network(sh)
	}
}

// memoryLimits returns the recorder for this host's memory. If there is no probe result, it warns and
// records nothing.
func memoryLimits(s *bench.State) limitRecorder {
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
		return noLimits
	}
	if p.Disturbed != "" {
		s.Warn("limits: the probe was disturbed, so they may be easier to reach than this host's real limits (`kernbench "+
			"probe` measures again): %s", p.Disturbed)
	}
	s.Detail("probe", fmt.Sprintf("%s, %s", p.Profile, p.Time.Format("2006-01-02 15:04:05Z")))
	return func(_ *dist.Group, sh shape, plan dist.Plan) {
		list, err := limitsOf(p, sh, plan.Algorithm)
		record(s, list, err)
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

// AllReduceLimits returns a function that records the limits of an all-reduce by an algorithm, for
// other benches. The machine's limits come from the option probe.
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

// Limits of the network measurement before the first point of a launch. It must be quick, so it measures
// only some pairs of each host, for a few hundredths of a second each.
const (
	networkTime   = 25 * time.Millisecond
	networkRounds = 8
)

// networks caches the network of each launch, by rank because ranks may be goroutines.
var networks sync.Map

type measuredNetwork struct {
	tcp.Network
	err error
}

// measureNetwork returns the network between the hosts of the ranks. All ranks measure it together,
// once per launch. host is the host assigned to this rank, if any. If all ranks are on one host, the
// network is empty.
func measureNetwork(ctx context.Context, s *bench.State, host string) (tcp.Network, error) {
	d := dist.Describe(s.Backend())
	if s.Size() < 2 || !d.HostMemory && !d.Network {
		return tcp.Network{}, nil
	}
	fabric := ""
	if d.Network { // the library takes the network of the real hosts
		host, fabric = "", tcp.Fabric()
	}
	launch := fmt.Sprintf("%s, rank %d of %d", s.Session(), s.Rank(), s.Size())
	if known, ok := networks.Load(launch); ok {
		n := known.(measuredNetwork)
		return n.Network, n.err
	}
	ports, err := connection.PortRangeFromEnv(os.Environ())
	if err != nil {
		return tcp.Network{}, err
	}
	n, err := tcp.Measuring{Exchange: s.Exchange, Rank: s.Rank(), Size: s.Size(), Host: host, Fabric: fabric, Ports: ports,
		Interface: jobenv.Variable(os.Environ(), jobenv.InterfaceVar), Time: networkTime, Rounds: networkRounds}.Measure(ctx)
	networks.Store(launch, measuredNetwork{n, err})
	return n, err
}

// networkLimit returns a function that records the limit of the network. If the hosts are only
// assigned, this machine's loopback connects them, and the limit has that name.
func networkLimit(s *bench.State, n tcp.Network) func(sh shape) {
	name := "network"
	if n.Machines == 1 {
		name = "loopback"
	}
	s.Detail("network", networkText(n))
	return func(sh shape) { s.Limit(name, networkUS(n, sh)) }
}

// networkText describes the network by its longest latency and its slowest host.
func networkText(n tcp.Network) string {
	slowest := n.Best(0).OutGBps
	for h := range n.Hosts {
		r := n.Best(h)
		slowest = min(slowest, r.OutGBps, r.InGBps)
	}
	_, latency := n.Latency()
	return fmt.Sprintf("%s: up to %s µs one way, at least %s GB/s in and out of each host",
		strings.Join(n.Hosts, ", "), unit.FormatSig(latency, 3), unit.FormatSig(slowest, 3))
}

// networkUS returns the least time in which the operation can move its data between the hosts, with
// any algorithm: out of and into each host, and over all links together.
func networkUS(n tcp.Network, sh shape) (us float64) {
	us, latency := n.Latency()
	switch dist.Collective(sh.op) {
	case dist.Barrier, dist.AllReduce, dist.AllGather, dist.ReduceScatter, dist.AllToAll:
		us = latency // every host waits for every other
	}
	out, in, total := crossingBytes(sh, n.Ranks, len(n.Hosts))
	sum := 0.0
	for h := range n.Hosts {
		best := n.Best(h)
		us = max(us, out[h]/best.OutGBps/1e3, in[h]/best.InGBps/1e3)
		sum += best.OutGBps
	}
	return max(us, total/sum/1e3)
}

// crossingBytes returns the bytes that must leave and enter each host, and cross between all of them.
// Within a host, data is combined first: a host sends the sum of its ranks' vectors, and receives one
// copy.
func crossingBytes(sh shape, hostOf []int, hosts int) (out, in []float64, total float64) {
	out, in = make([]float64, hosts), make([]float64, hosts)
	whole := float64(sh.count) * float64(sh.dtype.Size())
	own, ranks := make([]float64, hosts), make([]float64, hosts) // bytes of its ranks' blocks, and their number
	for r, h := range hostOf {
		_, block := dist.Block(sh.count, sh.ranks, r)
		own[h] += float64(block) * float64(sh.dtype.Size())
		ranks[h]++
		if next := hostOf[(r+1)%len(hostOf)]; sh.op == sendRecv && next != h {
			out[h], in[next] = out[h]+whole, in[next]+whole
		}
	}
	for h := range hosts {
		others, atRoot := whole-own[h], h == hostOf[root]
		switch op := dist.Collective(sh.op); {
		case op == dist.AllReduce:
			out[h], in[h] = whole, whole
		case op == dist.AllToAll:
			out[h], in[h] = ranks[h]*others, (float64(sh.ranks)-ranks[h])*own[h]
		case op == dist.AllGather || op == dist.ReduceScatter:
			out[h], in[h] = own[h], others
		case (op == dist.Broadcast || op == dist.Reduce) && atRoot:
			out[h] = whole
		case op == dist.Broadcast || op == dist.Reduce:
			in[h] = whole
		case (op == dist.Scatter || op == dist.Gather) && atRoot:
			out[h] = others
		case op == dist.Scatter || op == dist.Gather:
			in[h] = own[h]
		}
	}
	switch dist.Collective(sh.op) {
	case dist.ReduceScatter, dist.Reduce, dist.Gather: // the reverse of the other direction
		out, in = in, out
	}
	total = max(lists.Sum(out), lists.Sum(in))
	if sh.op == allReduce { // sums leave all hosts but one, and results come back: docs/bandwidth.md
		total = 2 * float64(hosts-1) * whole
	}
	return out, in, total
}
