// Package predict says how long an all-reduce takes on a cluster of GPUs, by algorithm and
// protocol: the model by which NCCL itself chooses (its tuning constants and formulas), with
// latencies and bandwidths fitted to published times. It is arithmetic: nothing is measured.
//
// With n ranks on N nodes of g GPUs and S bytes,
//
//	t = base(protocol) + steps x latency + traffic / bandwidth
//
// where a ring has 2(n-1) steps, 2N of them over the network, and moves 2(n-1)/n S; a tree has
// 2(g-1) steps inside nodes, where it is a chain, and 2 log2 N between them, and moves 2S; and
// a switch that adds (NVLS) has two steps of its own and moves (1 + 1/n) S. LL sends a flag
// with every 4 bytes and LL128 one with every 120; Simple waits for whole pieces.
//
// The fit takes every second size of a curve. The others say how far off it is (Error).
package predict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Best is the name of the fastest algorithm or protocol.
const Best = "best"

// Algorithms and Protocols are those that NCCL has.
var (
	Algorithms = []string{"ring", "tree", "nvls"}
	Protocols  = []string{"LL", "LL128", "Simple"}
)

// stepCost are what is fitted: of a protocol, or of the switch.
type stepCost struct {
	base, step float64 // us
	gbs        float64 // that an algorithm's traffic reaches over NVLink
}

// costModel are the parameters of one kind of GPU.
type costModel struct {
	protocols [3]stepCost // as Protocols
	nvls      stepCost
}

// variables are all parameters, to be changed by a search.
func (f *costModel) variables() []*float64 {
	var out []*float64
	for i := range f.protocols {
		p := &f.protocols[i]
		out = append(out, &p.base, &p.step, &p.gbs)
	}
	return append(out, &f.nvls.base, &f.nvls.gbs)
}

// initialModel is where the search begins: NCCL's own constants (src/graph/tuning.cc: baseLat,
// hwLat over NVLink), and shares of the link's reachable rate.
func initialModel(gbs float64) costModel {
	return costModel{protocols: [3]stepCost{{6.6, 0.6, gbs / 4}, {14, 1.9, gbs * 0.7}, {8.4, 3.4, gbs}},
		nvls: stepCost{base: 25, gbs: gbs}}
}

// networkStepUS is what a step between nodes costs by protocol, in us (NCCL's hwLat of the network).
var networkStepUS = [3]float64{2.7, 4.0, 14.0}

// Prediction is the time of one all-reduce.
type Prediction struct {
	Algorithm, Protocol string
	US                  float64
}

// timeUS is the time of an algorithm and protocol on a cluster; false where they do not go
// together, or the switch does not add.
func (c *Cluster) timeUS(f *costModel, algorithm, protocol string, bytes int64) (float64, bool) {
	n, nodes, g := float64(c.Ranks()), float64(c.Nodes), float64(c.GPUs)
	s := float64(bytes)
	p := slices.Index(Protocols, protocol)
	if n < 2 || p < 0 {
		return 0, false
	}
	own := f.protocols[p]
	share := own.gbs / f.protocols[2].gbs // of a link that the protocol reaches
	rate := own.gbs
	if c.Nodes > 1 {
		rate = min(rate, c.NetworkGBs()*min(share, 1))
	}
	us := func(steps, across, traffic, gbs float64) (float64, bool) {
		return own.base + steps*own.step + across*networkStepUS[p] + traffic/gbs/1e3, true
	}
	switch algorithm {
	case "ring":
		across := 0.0
		if c.Nodes > 1 {
			across = 2 * nodes
		}
		return us(2*(n-1)-across, across, 2*(n-1)/n*s, rate)
	case "tree":
		return us(2*(g-1), 2*math.Ceil(math.Log2(nodes)), 2*s, 0.92*rate)
	case "nvls":
		if protocol != "Simple" || !c.NVLS || c.GPUs < 4 {
			return 0, false
		}
		own, rate = f.nvls, f.nvls.gbs
		across, traffic := 0.0, (1+1/g)*s
		if c.Nodes > 1 { // the sums of the nodes go up and down a tree, each GPU its share
			across = 2 * math.Ceil(math.Log2(nodes))
			traffic = max(traffic/rate, 2*s/c.NetworkGBs()) * rate
		}
		return us(0, across, traffic, rate)
	}
	return 0, false
}

// Predict is the time of an all-reduce, of the best algorithm and protocol where they are
// Best.
func (c *Cluster) Predict(algorithm, protocol string, bytes int64) (Prediction, error) {
	f, err := c.costModel()
	if err != nil {
		return Prediction{}, err
	}
	best := c.best(&f, algorithm, protocol, bytes)
	if best.Algorithm == "" {
		return best, fmt.Errorf("no %s with %s on %s", algorithm, protocol, c.Name)
	}
	return best, nil
}

// best is the fastest of those that are asked for, with the parameters.
func (c *Cluster) best(f *costModel, algorithm, protocol string, bytes int64) Prediction {
	best := Prediction{US: math.Inf(1)}
	for _, a := range Algorithms {
		for _, p := range Protocols {
			if algorithm != Best && a != algorithm || protocol != Best && p != protocol {
				continue
			}
			if us, ok := c.timeUS(f, a, p, bytes); ok && us < best.US {
				best = Prediction{a, p, us}
			}
		}
	}
	return best
}

// costModel are the fit to the curve of the cluster's GPU, or to another GPU's with rates
// in proportion to the links'.
func (c *Cluster) costModel() (costModel, error) {
	name := cmp.Or(c.Curve, fallback)
	fit, err := fitCurve(name)
	if err != nil {
		return costModel{}, err
	}
	f := fit.costModel
	if c.Curve == "" {
		scale := c.NVLinkGBs / fit.gbs
		for i := range f.protocols {
			f.protocols[i].gbs *= scale
		}
		f.nvls.gbs *= scale
	}
	return f, nil
}

// fallback is the curve that clusters without one of their own take latencies from.
const fallback = "nccl-h100"

// ErrorStats is how far predictions are from published times that the fit has not seen.
type ErrorStats struct {
	Curve       string
	Points      int
	Median, P90 float64 // of |prediction/published - 1|; the 90th
}

// String words it.
func (e ErrorStats) String() string {
	return fmt.Sprintf("median error %.0f %%, 90th percentile %.0f %%, on %d sizes of %s left out of the fit",
		100*e.Median, 100*e.P90, e.Points, e.Curve)
}

// Validation is the error at a size of NCCL's own choice of algorithm and protocol; a reason
// where nothing was published to hold it against.
func (c *Cluster) Validation(bytes int64, choice bool) (e ErrorStats, why string) {
	switch {
	case c.Curve == "":
		return e, "no published times of this GPU; latencies are those of " + fallback + ", rates in proportion to the link"
	case c.Nodes > 1:
		return e, "no published times between nodes"
	case !choice:
		return e, "published times are those of the library's own choice"
	}
	fit, err := fitCurve(c.Curve)
	if err != nil {
		return e, err.Error()
	}
	table, err := model.NamedCurve(c.Curve)
	if err != nil {
		return e, err.Error()
	}
	if _, err := table.US(c.Ranks(), bytes); err != nil {
		return e, err.Error()
	}
	return fit.errors[c.Ranks()], ""
}

// Table is the predictions as a curve: of the whole cluster and of parts of it, GPUs of one
// node and then whole nodes, halved again and again.
func (c *Cluster) Table() (*model.Table, error) {
	t := &model.Table{Name: "predict:" + c.Name, Source: "predicted for cluster " + c.Name,
		Ranks: map[int][]model.TablePoint{}}
	said := ""
	for _, part := range c.subclusters() {
		for bytes := int64(512); bytes <= 1<<30; bytes *= 2 {
			p, err := part.Predict(Best, Best, bytes)
			if err != nil {
				return nil, err
			}
			t.Ranks[part.Ranks()] = append(t.Ranks[part.Ranks()], model.TablePoint{Bytes: bytes, US: p.US})
		}
		e, why := part.Validation(1<<20, true)
		worth := e.String()
		if why != "" {
			worth = "not validated: " + why
		}
		if worth != said {
			said = worth
			t.Source += fmt.Sprintf("; from %d ranks on: %s", part.Ranks(), worth)
		}
	}
	return t, nil
}

// subclusters are what is asked for of a cluster, the smallest first.
func (c *Cluster) subclusters() (list []*Cluster) {
	add := func(gpus, nodes int) {
		part := *c
		part.GPUs, part.Nodes = gpus, nodes
		list = append(list, &part)
	}
	for nodes := c.Nodes; nodes > 1; nodes /= 2 {
		add(c.GPUs, nodes)
	}
	for gpus := c.GPUs; gpus > 1; gpus /= 2 {
		add(gpus, 1)
	}
	slices.Reverse(list)
	return list
}

// clusterFit is the parameters of a curve and their errors by number of ranks; 0: of all.
type clusterFit struct {
	costModel
	gbs    float64
	errors map[int]ErrorStats
}

var fits sync.Map // by curve

func fitCurve(curve string) (clusterFit, error) {
	if known, ok := fits.Load(curve); ok {
		return known.(clusterFit), nil
	}
	table, err := model.NamedCurve(curve)
	if err != nil {
		return clusterFit{}, err
	}
	node := &Cluster{Nodes: 1, NVLS: true, NVLinkGBs: linkGBs(curve)}
	f := node.fit(table)
	fits.Store(curve, f)
	return f, nil
}

// fit searches for the parameters that bring predictions nearest to every second size, and
// takes the errors at the others.
func (node *Cluster) fit(table *model.Table) clusterFit {
	f := clusterFit{costModel: initialModel(node.NVLinkGBs), gbs: node.NVLinkGBs, errors: map[int]ErrorStats{}}
	type seen struct {
		ranks int
		model.TablePoint
	}
	var learned, left []seen
	for _, ranks := range slices.Sorted(maps.Keys(table.Ranks)) {
		for i, p := range table.Ranks[ranks] {
			if i%2 == 0 {
				learned = append(learned, seen{ranks, p})
			} else {
				left = append(left, seen{ranks, p})
			}
		}
	}
	predicted := func(p seen) float64 {
		c := *node
		c.GPUs = p.ranks
		return c.best(&f.costModel, Best, Best, p.Bytes).US
	}
	search(f.variables(), 1.0005, func() (sum float64) {
		for _, p := range learned {
			sum += loss(predicted(p) / p.US)
		}
		return sum
	})
	errors := map[int][]float64{}
	for _, p := range left {
		off := math.Abs(predicted(p)/p.US - 1)
		errors[0] = append(errors[0], off)
		errors[p.ranks] = append(errors[p.ranks], off)
	}
	for ranks, list := range errors {
		f.errors[ranks] = newErrorStats(table.Name, list)
	}
	return f
}

// newErrorStats sums up some errors.
func newErrorStats(curve string, list []float64) ErrorStats {
	list = slices.Sorted(slices.Values(list))
	return ErrorStats{Curve: curve, Points: len(list), Median: stats.Median(list),
		P90: list[min(len(list)-1, len(list)*9/10)]}
}

// loss is what a prediction counts that is so many times the time: relative, and large
// errors more than in proportion.
func loss(times float64) float64 {
	off := math.Log(times)
	return math.Abs(off) + 4*off*off
}

// search changes the values, each in turn made larger or smaller as long as that makes the
// loss less, in ever smaller steps until they are below a factor. It is deterministic, and what it is
// worth, the points left out say.
func search(values []*float64, finest float64, loss func() float64) {
	least := loss()
	for step := 1.5; step > finest; step = math.Sqrt(step) {
		for improved := true; improved; {
			improved = false
			for _, v := range values {
				for _, by := range []float64{step, 1 / step} {
					old := *v
					*v *= by
					if now := loss(); now < least*(1-1e-9) {
						least, improved = now, true
						break
					}
					*v = old
				}
			}
		}
	}
}
