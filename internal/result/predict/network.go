package predict

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/loggp"
)

// Constants of NCCL for the protocol LL, in nanoseconds (src/graph/tuning.cc): the latency of a step over NVLink
// (hwLat) and the start of a ring (baseLat). The latency of a step between nodes is in ringNetworkUS. None is
// fitted.
const (
	nvlinkNS = 600
	launchNS = 6600
)

// NetworkFile returns the cluster as the text of a network file for the simulated network. The GPUs of a node share a
// switch. With a NIC for each GPU the nodes are connected by rails, otherwise by one switch for all NICs. Two levels of
// switches connect the rails with each other without over-subscription; with one level, GPUs forward messages between
// rails. Links have the rates that NCCL reaches, and half of the latency of a message.
func (c *Cluster) NetworkFile() string {
	link := func(gbs, ns float64) string { return fmt.Sprintf("bandwidth_gbs: %.6g, latency_ns: %.6g", gbs, ns/2) }
	latency, rate := 1.0, c.NVLinkGBs
	if k := c.Calibration; k != nil {
		latency, rate = k.Latency, rate*k.Rate
	}
	island, nic := link(rate, latency*nvlinkNS), link(c.nicRate(), 1000*c.networkUS(ringNetworkUS[0]))
	var text strings.Builder
	fmt.Fprintf(&text, "name: %s\nlaunch_ns: %.6g\n", c.Name, latency*launchNS)
	switch {
	case c.Nodes == 1 || c.NICs != c.GPUs:
		fmt.Fprintf(&text, "levels:\n  - {name: island, size: %d, %s}\n", c.GPUs, island)
		if c.Nodes > 1 {
			fmt.Fprintf(&text, "  - {name: leaf, size: %d, links: %d, %s}\n", c.Nodes, c.NICs, nic)
		}
	default:
		fmt.Fprintf(&text, "rails:\n  nodes: %d\n  ranks_per_node: %d\n  island: {%s}\n  rail: {%s}\n", c.Nodes, c.GPUs,
			island, nic)
		if c.Levels > 1 {
			text.WriteString("  spines: 1\n  spine: {latency_ns: 0}\n")
		}
	}
	return text.String()
}

// Simulated returns the network of NetworkFile.
func (c *Cluster) Simulated() (loggp.Network, error) {
	return loggp.Parse(c.Name, []byte(c.NetworkFile()))
}
