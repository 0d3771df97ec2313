package collectives

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/connection"
)

// hostName is the host that a rank counts as being on: neighbouring ranks
// together, or where it really is when the run does not say.
func hostName(s *bench.State) string {
	hosts := s.Int("hosts")
	if hosts < 1 {
		return ""
	}
	return "host" + strconv.Itoa(s.Rank()*hosts/s.Size())
}

// The network is measured before the first point of a launch, in little time: some
// pairs of each host, for a few hundredths of a second each.
const (
	networkTime   = 25 * time.Millisecond
	networkRounds = 8
)

// networks are those of this process' latest launch, by rank: ranks may be goroutines.
var networks struct {
	sync.Mutex
	launch string
	of     map[int]measuredNetwork
}

type measuredNetwork struct {
	tcp.Network
	err error
}

// measureNetwork is the network between the hosts of the ranks, measured once per launch by
// all ranks together, of which this one counts as on the host given, if one is. Where they
// are all on one there is none.
func measureNetwork(ctx context.Context, s *bench.State, host string) (tcp.Network, error) {
	d := dist.Describe(s.Backend())
	if s.Size() < 2 || !d.HostMemory && !d.Network {
		return tcp.Network{}, nil
	}
	fabric := ""
	if d.Network { // ranks are where they are, and the library takes what it finds there
		host, fabric = "", tcp.Fabric()
	}
	launch := fmt.Sprintf("%s of %d", s.Session(), s.Size())
	networks.Lock()
	if networks.launch != launch {
		networks.launch, networks.of = launch, map[int]measuredNetwork{}
	}
	known, ok := networks.of[s.Rank()]
	networks.Unlock()
	if ok {
		return known.Network, known.err
	}
	ports, err := connection.PortRangeFromEnv(os.Environ())
	if err != nil {
		return tcp.Network{}, err
	}
	n, err := tcp.Measuring{Exchange: s.Exchange, Rank: s.Rank(), Size: s.Size(), Host: host, Fabric: fabric, Ports: ports,
		Interface: jobenv.Variable(os.Environ(), jobenv.InterfaceVar), Time: networkTime, Rounds: networkRounds}.Measure(ctx)
	networks.Lock()
	defer networks.Unlock()
	if networks.launch == launch {
		networks.of[s.Rank()] = measuredNetwork{n, err}
	}
	return n, err
}

// networkLimit gives the function that records what the links between the hosts allow,
// under its name: hosts in name only are connected by this machine's loopback.
func networkLimit(s *bench.State, n tcp.Network) func(sh shape) {
	name := "network"
	if n.Machines == 1 {
		name = "loopback"
	}
	s.Detail("network", networkText(n))
	return func(sh shape) { s.Limit(name, networkUS(n, sh)) }
}

// networkText is the network in words: the slowest of what each host can do.
func networkText(n tcp.Network) string {
	slowest := n.Best(0).OutGBps
	for h := range n.Hosts {
		r := n.Best(h)
		slowest = min(slowest, r.OutGBps, r.InGBps)
	}
	_, most := n.Latency()
	return fmt.Sprintf("%s: up to %s us one way, at least %s GB/s in and out of each host",
		strings.Join(n.Hosts, ", "), unit.FormatSig(most, 3), unit.FormatSig(slowest, 3))
}

// networkUS is the least time in which an operation can move what it must between the
// hosts, whatever its algorithm: out of and into each of them, and over all of them.
func networkUS(n tcp.Network, sh shape) (us float64) {
	us, most := n.Latency()
	switch dist.Collective(sh.op) {
	case dist.Barrier, dist.AllReduce, dist.AllGather, dist.ReduceScatter, dist.AllToAll:
		us = most // every host waits for every other
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

// crossingBytes is what must go out of and come into each host, and go between all of them,
// in bytes. A host is given the sum of its ranks' vectors, or one copy, and passes it
// on within.
func crossingBytes(sh shape, hostOf []int, hosts int) (out, in []float64, total float64) {
	out, in = make([]float64, hosts), make([]float64, hosts)
	whole := float64(sh.count) * float64(sh.dtype.Size())
	own, ranks := make([]float64, hosts), make([]float64, hosts) // its ranks' blocks, and their number
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
	case dist.ReduceScatter, dist.Reduce, dist.Gather: // the way back of the others
		out, in = in, out
	}
	total = max(lists.Sum(out), lists.Sum(in))
	if sh.op == allReduce { // sums leave all hosts but one, and results come back: docs/bandwidth.md
		total = 2 * float64(hosts-1) * whole
	}
	return out, in, total
}
