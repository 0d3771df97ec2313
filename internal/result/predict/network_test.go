package predict

import (
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// TestSimulated makes the networks of all kinds of nodes, and of clusters with fewer NICs than GPUs, with one level of
// switches and with fitted factors.
func TestSimulated(t *testing.T) {
	change := []func(*Cluster){func(*Cluster) {}, func(c *Cluster) { c.NICs = 4 }, func(c *Cluster) { c.Levels = 1 },
		func(c *Cluster) {
			c.Calibration = &Calibration{Latency: 1.5, Rate: 0.8, NetworkLatency: 2, NetworkRate: 0.5}
		}}
	for _, kind := range NodeKinds() {
		for _, size := range []string{"-8x1", "-4x1", "-8x4", "-1x2"} {
			for _, f := range change {
				c := must.Get(Find(kind + size))(t)
				f(c)
				n, err := c.Simulated()
				if err != nil || n.MaxRanks() != c.Ranks() || n.Check(c.Ranks()) != nil {
					t.Errorf("%s: %v\n%s", c.Name, err, c.NetworkFile())
				}
			}
		}
	}
	c := must.Get(Find("h100-8x4"))(t)
	c.Calibration = &Calibration{Latency: 2, Rate: 0.5, NetworkLatency: 2, NetworkRate: 0.5}
	want := "name: h100-8x4\nlaunch_ns: 13200\nrails:\n  nodes: 4\n  ranks_per_node: 8\n" +
		"  island: {bandwidth_gbs: 185.4, latency_ns: 600}\n  rail: {bandwidth_gbs: 23.5, latency_ns: 2700}\n" +
		"  spines: 1\n  spine: {latency_ns: 0}\n"
	if got := c.NetworkFile(); got != want {
		t.Errorf("%s", got)
	}
}
