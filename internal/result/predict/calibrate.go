package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// Calibration adapts the model to measured times of one cluster by four factors.
type Calibration struct {
	Latency        float64 // of launch, steps and starts within a node
	Rate           float64 // of NVLink and of the switch
	NetworkLatency float64
	NetworkRate    float64

	Errors   ErrorStats // on runs left out of the fit
	MinNodes int        // fewest measured nodes
	MaxNodes int
	Ops      []string // measured operations
}

// factors returns pointers to the factors. The factors of the network are included only if there is a network.
func (k *Calibration) factors(network bool) []*float64 {
	if network {
		return []*float64{&k.Latency, &k.Rate, &k.NetworkLatency, &k.NetworkRate}
	}
	return []*float64{&k.Latency, &k.Rate}
}

// scaled returns the parameters of a GPU in a calibrated cluster.
func (c *Cluster) scaled(g gpuCost) gpuCost {
	if k := c.Calibration; k != nil {
		g.Launch, g.Hop, g.Start, g.SwitchStart = g.Launch*k.Latency, g.Hop*k.Latency, g.Start*k.Latency,
			g.SwitchStart*k.Latency
		g.Link, g.Switch = g.Link*k.Rate, g.Switch*k.Rate
	}
	return g
}

// networkUS returns the time of a network step whose uncalibrated time is us.
func (c *Cluster) networkUS(us float64) float64 {
	if c.Calibration != nil {
		return us * c.Calibration.NetworkLatency
	}
	return us
}

// nicRate returns the GB/s that NCCL reaches over one NIC.
func (c *Cluster) nicRate() float64 {
	if c.Calibration != nil {
		return c.NICGBs * nicShare * c.Calibration.NetworkRate
	}
	return c.NICGBs * nicShare
}

// minRunPoints is the fewest times to which a cluster is fitted.
const minRunPoints = 4

// Calibrate fits the model to measured times of a cluster like base. Each element of runs holds
// the times of one run. The error is measured by leaving out one run after the other, or, if
// there is only one, every second of its times.
func Calibrate(base *Cluster, runs [][]Point) (*Calibration, error) {
	all := slices.Concat(runs...)
	if len(all) < minRunPoints {
		return nil, fmt.Errorf("fitting a cluster: %s, want %d or more", unit.Plural(len(all), "measured time"), minRunPoints)
	}
	k := fitFactors(base, all)
	by := fmt.Sprintf("cross-validation over %d runs", len(runs))
	folds := runs
	if len(runs) == 1 {
		by, folds = "every second time of one run", make([][]Point, 2)
		for i, p := range runs[0] {
			folds[i%2] = append(folds[i%2], p)
		}
	}
	var errs []float64
	for i, left := range folds {
		rest := slices.Concat(slices.Concat(folds[:i]...), slices.Concat(folds[i+1:]...))
		if len(rest) < 2 {
			return nil, errors.New("fitting a cluster: too few times remain when one run is left out")
		}
		part := fitFactors(base, rest)
		for _, p := range left {
			errs = append(errs, math.Abs(base.calibrated(part, p).plain(p.Op, Best, Best, p.Bytes).US/p.US-1))
		}
	}
	k.Errors = newErrorStats(by, errs)
	k.MinNodes, k.MaxNodes = all[0].Nodes, all[0].Nodes
	for _, p := range all {
		k.MinNodes, k.MaxNodes = min(k.MinNodes, p.Nodes), max(k.MaxNodes, p.Nodes)
	}
	k.Ops = slices.Compact(slices.Sorted(slices.Values(lists.Map(all, func(p Point) string { return p.Op }))))
	return k, nil
}

// calibrated returns the cluster of a point with other factors.
func (c *Cluster) calibrated(k *Calibration, p Point) *Cluster {
	out := *c
	out.Calibration, out.Nodes, out.GPUs = k, p.Nodes, p.Ranks/p.Nodes
	return &out
}

// maxRate is the largest factor on the rates within a node: the line rate of NVLink is about
// 1.2 times the rate that applications reach.
const maxRate = 1.25

// fitFactors returns the factors that describe the points best.
func fitFactors(base *Cluster, points []Point) *Calibration {
	k := &Calibration{Latency: 1, Rate: 1, NetworkLatency: 1, NetworkRate: 1}
	network := slices.ContainsFunc(points, func(p Point) bool { return p.Nodes > 1 })
	search(k.factors(network), 1.002, func() (sum float64) {
		if k.NetworkRate > 1/nicShare || k.Rate > maxRate {
			return math.Inf(1) // faster than the hardware
		}
		for _, p := range points {
			sum += loss(base.calibrated(k, p).plain(p.Op, Best, Best, p.Bytes).US / p.US)
		}
		return sum
	})
	return k
}

// maxOwnBeyond limits how far predictions for a calibrated cluster may lie from its measured
// times, in doublings of the node count. Another operation counts as one.
const maxOwnBeyond = 3.0

// validate is Validate for a calibrated cluster.
func (k *Calibration) validate(c *Cluster, op string) Validation {
	beyond := max(0, math.Log2(float64(c.Nodes)/float64(k.MaxNodes)), math.Log2(float64(k.MinNodes)/float64(c.Nodes)))
	if !slices.Contains(k.Ops, op) {
		beyond++
	}
	if beyond > maxOwnBeyond {
		return Validation{Reason: fmt.Sprintf("the measured times are of %s on %d to %d nodes", strings.Join(k.Ops, ", "),
			k.MinNodes, k.MaxNodes)}
	}
	e := k.Errors
	e.P90 *= 1 + beyond
	if beyond > 0 {
		e.By += fmt.Sprintf(", interval %.1f times as wide for the distance", 1+beyond)
	}
	return Validation{ErrorStats: e}
}

// YAML returns the cluster as the text of a cluster file.
func (c *Cluster) YAML() string {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s: %v\n", key, value) }
	line("name", fmt.Sprintf("%q", c.Name))
	line("gpus_per_node", c.GPUs)
	line("nodes", c.Nodes)
	if c.NVLink > 0 {
		line("nvlink", c.NVLink)
	}
	line("nvlink_gbs", c.NVLinkGBs)
	line("nvls", map[bool]string{true: "yes", false: "no"}[c.NVLS])
	if c.Network != "" {
		line("network", c.Network)
	}
	line("nics_per_node", c.NICs)
	line("nic_gbs", c.NICGBs)
	line("switch_levels", c.Levels)
	if c.GPU != "" {
		line("gpu", c.GPU)
	}
	if k := c.Calibration; k != nil {
		fmt.Fprintf(&b, "fit: # factors on the model, fitted to measured times\n  latency: %.3f\n  rate: %.3f\n"+
			"  network_latency: %.3f\n  network_rate: %.3f\n  validated_by: %q\n  times: %d\n  error_pct_median: %.3f\n"+
			"  error_pct_p90: %.3f\n  min_nodes: %d\n  max_nodes: %d\n  ops: [%s]\n", k.Latency, k.Rate, k.NetworkLatency,
			k.NetworkRate, k.Errors.By, k.Errors.Points, 100*k.Errors.Median, 100*k.Errors.P90, k.MinNodes, k.MaxNodes,
			strings.Join(k.Ops, ", "))
	}
	b.WriteString("sources:\n")
	for _, s := range c.Sources {
		fmt.Fprintf(&b, "  - %q\n", s)
	}
	return b.String()
}
