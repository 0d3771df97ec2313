package predict

import "math"

// The collectives that have a model.
const (
	AllReduce     = "allreduce"
	AllGather     = "allgather"
	ReduceScatter = "reduce_scatter"
	AllToAll      = "alltoall"
)

// Ops lists the collectives that have a model.
var Ops = []string{AllReduce, AllGather, ReduceScatter, AllToAll}

// gpuCost holds the fitted parameters of one kind of GPU. Times are in microseconds.
type gpuCost struct {
	Launch      float64 `json:"launch"`       // from the call to the first byte
	Hop         float64 `json:"hop"`          // a step over NVLink with LL
	Start       float64 `json:"start"`        // launch and first chunk of Simple
	Link        float64 `json:"link"`         // share of NVLink's rate that Simple reaches
	SwitchStart float64 `json:"switch_start"` // launch and first chunk of NVLS
	Switch      float64 `json:"switch"`       // share of NVLink's rate that NVLS reaches
}

// libraryCost holds the fitted parameters of NCCL that are the same for all GPUs.
type libraryCost struct {
	LL          float64 `json:"ll"`            // share of Simple's rate
	LL128       float64 `json:"ll128"`         // share of Simple's rate
	LL128Delay  float64 `json:"ll128_delay"`   // latency relative to LL
	LL128Copy   float64 `json:"ll128_copy"`    // local copies of a rank's part, in parts
	Copy        float64 `json:"copy"`          // the same for Simple
	SimpleHop   float64 `json:"simple_hop"`    // a step relative to LL
	Fill        float64 `json:"fill"`          // MB in flight in the pipeline of Simple at large sizes
	Ramp        float64 `json:"ramp"`          // size in MB at which half of Fill is in flight
	PeerLL      float64 `json:"peer_ll"`       // GB/s to one peer in an all-to-all with LL
	PeerHops    float64 `json:"peer_hops"`     // steps of an all-to-all
	PeerStart   float64 `json:"peer_start"`    // start of an all-to-all with Simple, in microseconds
	PeerPerRank float64 `json:"peer_per_rank"` // time for each further peer, relative to Hop
}

func (g *gpuCost) variables() []*float64 {
	return []*float64{&g.Launch, &g.Hop, &g.Start, &g.Link, &g.SwitchStart, &g.Switch}
}

func (l *libraryCost) variables() []*float64 {
	return []*float64{&l.LL, &l.LL128, &l.LL128Delay, &l.LL128Copy, &l.Copy, &l.SimpleHop, &l.Fill, &l.Ramp,
		&l.PeerLL, &l.PeerHops, &l.PeerStart, &l.PeerPerRank}
}

// Constants of NCCL between nodes (hwLat of the network in src/graph/tuning.cc), in
// microseconds by protocol. They are not fitted.
var (
	treeNetworkUS = [3]float64{5.0, 8.5, 28}
	ringNetworkUS = [3]float64{2.7, 4.0, 14}
)

const (
	switchNetworkUS = 14      // the same for NVLS
	nicShare        = 0.94    // share of a NIC's line rate that NCCL reaches: 47 of 50 GB/s
	bufferBytes     = 4 << 20 // NCCL_BUFFSIZE: most bytes of a channel in flight to one peer
	treeShare       = 0.92    // a tree's rate relative to a ring's, in NCCL's own model
)

// timeUS returns the time of a collective by an algorithm and a protocol. It returns false
// if they cannot be combined on this cluster. p is an index into Protocols.
func (c *Cluster) timeUS(g *gpuCost, l *libraryCost, op, algorithm string, p int, bytes int64) (float64, bool) {
	switch {
	case op == AllToAll:
		if algorithm != "direct" {
			return 0, false
		}
		return c.directUS(g, l, p, float64(bytes))
	case algorithm == "ring":
		return c.ringUS(g, l, op, p, float64(bytes)), true
	case algorithm == "tree" && op == AllReduce:
		return c.treeUS(g, l, p, float64(bytes)), true
	case algorithm == "nvls" && op == AllReduce && p == 2 && c.NVLS && c.GPUs >= 4:
		return c.switchUS(g, float64(bytes)), true
	}
	return 0, false
}

// latencyUS returns launch and steps within a node by protocol.
func (g *gpuCost) latencyUS(l *libraryCost, p int, steps float64) float64 {
	switch p {
	case 0:
		return g.Launch + steps*g.Hop
	case 1:
		return l.LL128Delay * (g.Launch + steps*g.Hop)
	}
	return g.Start + steps*g.Hop*l.SimpleHop
}

// rate returns the GB/s of a protocol over NVLink, and the parts that a rank copies locally.
func (c *Cluster) rate(g *gpuCost, l *libraryCost, p int) (gbs, copies float64) {
	gbs = g.Link * c.NVLinkGBs
	switch p {
	case 0:
		return gbs * l.LL, l.LL128Copy
	case 1:
		return gbs * l.LL128, l.LL128Copy
	}
	return gbs, l.Copy
}

// fillUS returns the time until the pipeline of Simple is full. Chunks grow with the message
// until they reach the size of the buffers.
func (l *libraryCost) fillUS(p int, s, gbs float64) float64 {
	if p != 2 {
		return 0
	}
	return l.Fill * 1e3 / gbs * s / (s + l.Ramp*1e6)
}

// networkFillUS returns the time until a chunk has crossed the given number of network steps. A rail carries its share
// of the message in at least two chunks, each at most a buffer.
func (c *Cluster) networkFillUS(steps, s float64) float64 {
	return steps * min(bufferBytes, s/float64(2*c.NICs)) / (c.nicRate() / nicShare) / 1e3
}

// networkRate returns the GB/s that Simple reaches over all NICs of a node.
func (c *Cluster) networkRate() float64 { return float64(c.NICs) * c.nicRate() }

// acrossUS returns the time of the bytes of a collective between nodes. within is the time
// of the bytes in a node, traffic the bytes that a node sends, and part the bytes of one
// network step. Simple keeps all NICs busy while data moves in the nodes. A message of LL or
// LL128 is too short for that: its steps follow each other, each over one NIC.
func (c *Cluster) acrossUS(l *libraryCost, p int, within, traffic, steps, part float64) float64 {
	if p == 2 {
		return max(within, traffic/c.networkRate()/1e3) + c.networkFillUS(steps, part)
	}
	return within + steps*part/(c.nicRate()*[2]float64{l.LL, l.LL128}[p])/1e3
}

func (c *Cluster) ringUS(g *gpuCost, l *libraryCost, op string, p int, s float64) float64 {
	n, passes := float64(c.Ranks()), 1.0
	if op == AllReduce {
		passes = 2
	}
	gbs, copies := c.rate(g, l, p)
	steps := passes * (n - 1)
	us := (passes*(n-1) + copies/passes) / n * s / gbs / 1e3
	if c.Nodes > 1 {
		network := passes * float64(c.Nodes)
		us = c.acrossUS(l, p, us, passes*(n-1)/n*s, network, s/n) + network*c.networkUS(ringNetworkUS[p])
		steps -= network
	}
	return us + g.latencyUS(l, p, steps) + l.fillUS(p, s, gbs)
}

// treeUS returns the time of a double binary tree over the nodes, with a chain in each node.
func (c *Cluster) treeUS(g *gpuCost, l *libraryCost, p int, s float64) float64 {
	gbs, copies := c.rate(g, l, p)
	k := float64(c.GPUs)
	us := (2*(k-1) + copies/2) / k * s / gbs / treeShare / 1e3
	if c.Nodes > 1 {
		network := 2 * math.Ceil(math.Log2(float64(c.Nodes)))
		us = c.acrossUS(l, p, (2+copies/2/k)*s/gbs/treeShare/1e3, c.treeTraffic(s), network, s) +
			network*c.networkUS(treeNetworkUS[p])
	}
	return us + g.latencyUS(l, p, 2*(k-1)) + l.fillUS(p, s, gbs)
}

// treeTraffic returns the bytes that a node sends: N-1 edges carry the message up and down,
// and two trees spread them evenly over the nodes.
func (c *Cluster) treeTraffic(s float64) float64 {
	n := float64(c.Nodes)
	return 2 * (n - 1) / n * s
}

// switchUS returns the time of NVLS: the switch adds the inputs of a node and distributes the result, which
// moves (1 + 1/g) S. Between nodes, a tree carries each GPU's part. The first level of the tree adds no
// latency, because the nodes begin to send before NVLS has finished.
func (c *Cluster) switchUS(g *gpuCost, s float64) float64 {
	us := (1 + 1/float64(c.GPUs)) * s / (g.Switch * c.NVLinkGBs) / 1e3
	if c.Nodes > 1 {
		network := 2 * math.Ceil(math.Log2(float64(c.Nodes)))
		us = max(us, c.treeTraffic(s)/c.networkRate()/1e3) + c.networkFillUS(network, s) +
			(network-2)*c.networkUS(switchNetworkUS)
	}
	return g.SwitchStart + us
}

// directUS returns the time of an all-to-all, in which each rank sends a part to every other rank.
// Parts for other nodes share the NICs, parts for the same node share NVLink.
func (c *Cluster) directUS(g *gpuCost, l *libraryCost, p int, s float64) (float64, bool) {
	n, k := float64(c.Ranks()), float64(c.GPUs)
	gbs, copies := c.rate(g, l, 2)
	us := (k - 1 + copies) / n * s / gbs / 1e3
	start := l.PeerStart
	if c.Nodes > 1 {
		us = max(us, (n-k)/n*s*k/c.networkRate()/1e3)
		start += c.networkUS(ringNetworkUS[p])
	}
	switch p {
	case 0: // half of the bytes are flags
		start += g.Launch + l.PeerHops*g.Hop - l.PeerStart
		us = max(2*us, s/n/l.PeerLL/1e3)
	case 1:
		return 0, false
	}
	return start + (n-2)*l.PeerPerRank*g.Hop + us, true
}
