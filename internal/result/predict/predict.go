// Package predict predicts the time of an all-reduce on machines that are not at hand.
// It computes and measures nothing.
//
// On a [Cluster] of GPUs it predicts the time by algorithm and protocol, with the model
// that NCCL uses to choose among them (its tuning constants and formulas). Latencies and
// bandwidths are fitted to published times. With n ranks on N nodes of g GPUs and S bytes,
//
//	t = base(protocol) + steps x latency + traffic / bandwidth
//
// A ring takes 2(n-1) steps, 2N of them over the network, and moves 2(n-1)/n S. A tree is
// a chain of 2(g-1) steps within the nodes and has 2 log2 N steps between them; it moves
// 2S. A switch that adds (NVLS) takes two steps and moves (1 + 1/n) S. The protocol LL
// sends a flag with every 4 bytes, LL128 one with every 120; Simple waits for whole chunks.
//
// On a [Host] it predicts the times of the library's own algorithms between the cores of a
// machine.
//
// Fits use every second size of a curve. The error is measured on the sizes left out
// ([ErrorStats]).
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

// Best selects the fastest algorithm or protocol.
const Best = "best"

// Algorithms and Protocols list NCCL's choices.
var (
	Algorithms = []string{"ring", "tree", "nvls"}
	Protocols  = []string{"LL", "LL128", "Simple"}
)

// stepCost holds the fitted parameters of a protocol, or of the switch.
type stepCost struct {
	base, step float64 // us
	gbs        float64 // rate of an algorithm's traffic over NVLink
}

// costModel holds the parameters of one kind of GPU.
type costModel struct {
	protocols [3]stepCost // in the order of Protocols
	nvls      stepCost
}

// variables returns pointers to all parameters, for search to change.
func (m *costModel) variables() []*float64 {
	var out []*float64
	for i := range m.protocols {
		p := &m.protocols[i]
		out = append(out, &p.base, &p.step, &p.gbs)
	}
	return append(out, &m.nvls.base, &m.nvls.gbs)
}

// initialModel returns the start of the search: NCCL's own latencies (baseLat and hwLat
// over NVLink in src/graph/tuning.cc), and shares of the link's reachable rate.
func initialModel(gbs float64) costModel {
	return costModel{protocols: [3]stepCost{{6.6, 0.6, gbs / 4}, {14, 1.9, gbs * 0.7}, {8.4, 3.4, gbs}},
		nvls: stepCost{base: 25, gbs: gbs}}
}

// networkStepUS is the time of a step between nodes by protocol (NCCL's hwLat over the
// network).
var networkStepUS = [3]float64{2.7, 4.0, 14.0}

// Prediction is the predicted time of one all-reduce.
type Prediction struct {
	Algorithm, Protocol string
	US                  float64
}

// timeUS returns the time of an algorithm with a protocol on the cluster. It returns false
// if the two cannot be combined, or if the cluster has no switch that adds.
func (c *Cluster) timeUS(m *costModel, algorithm, protocol string, bytes int64) (float64, bool) {
	n, nodes, g := float64(c.Ranks()), float64(c.Nodes), float64(c.GPUs)
	s := float64(bytes)
	p := slices.Index(Protocols, protocol)
	if n < 2 || p < 0 {
		return 0, false
	}
	cost := m.protocols[p]
	rate := cost.gbs
	if c.Nodes > 1 { // a protocol reaches the same share of the network's rate as of NVLink's
		rate = min(rate, c.NetworkGBs()*min(cost.gbs/m.protocols[2].gbs, 1))
	}
	us := func(steps, networkSteps, traffic, gbs float64) (float64, bool) {
		return cost.base + steps*cost.step + networkSteps*networkStepUS[p] + traffic/gbs/1e3, true
	}
	switch algorithm {
	case "ring":
		networkSteps := 0.0
		if c.Nodes > 1 {
			networkSteps = 2 * nodes
		}
		return us(2*(n-1)-networkSteps, networkSteps, 2*(n-1)/n*s, rate)
	case "tree": // NCCL's tree reaches 0.92 of the ring's rate
		return us(2*(g-1), 2*math.Ceil(math.Log2(nodes)), 2*s, 0.92*rate)
	case "nvls":
		if protocol != "Simple" || !c.NVLS || c.GPUs < 4 {
			return 0, false
		}
		cost, rate = m.nvls, m.nvls.gbs
		traffic := (1 + 1/g) * s
		if c.Nodes > 1 { // the nodes' sums go up and down a tree; each GPU carries its share
			traffic = max(traffic/rate, 2*s/c.NetworkGBs()) * rate
		}
		return us(0, 2*math.Ceil(math.Log2(nodes)), traffic, rate)
	}
	return 0, false
}

// Predict returns the time of an all-reduce. Best as the algorithm or the protocol selects
// the fastest one.
func (c *Cluster) Predict(algorithm, protocol string, bytes int64) (Prediction, error) {
	m, err := c.costModel()
	if err != nil {
		return Prediction{}, err
	}
	best := c.best(&m, algorithm, protocol, bytes)
	if best.Algorithm == "" {
		return best, fmt.Errorf("no %s with %s on %s", algorithm, protocol, c.Name)
	}
	return best, nil
}

// best returns the fastest of the selected algorithms and protocols.
func (c *Cluster) best(m *costModel, algorithm, protocol string, bytes int64) Prediction {
	best := Prediction{US: math.Inf(1)}
	for _, a := range Algorithms {
		for _, p := range Protocols {
			if algorithm != Best && a != algorithm || protocol != Best && p != protocol {
				continue
			}
			if us, ok := c.timeUS(m, a, p, bytes); ok && us < best.US {
				best = Prediction{a, p, us}
			}
		}
	}
	return best
}

// costModel returns the fit to the published curve of the cluster's GPU. For a GPU without
// a curve, it takes the fallback curve and scales its rates by the ratio of the links'.
func (c *Cluster) costModel() (costModel, error) {
	fit, err := fitCurve(cmp.Or(c.Curve, fallback))
	if err != nil {
		return costModel{}, err
	}
	m := fit.costModel
	if c.Curve == "" {
		scale := c.NVLinkGBs / fit.gbs
		for i := range m.protocols {
			m.protocols[i].gbs *= scale
		}
		m.nvls.gbs *= scale
	}
	return m, nil
}

// fallback is the curve whose latencies stand in for a cluster without a curve of its own.
const fallback = "nccl-h100"

// ErrorStats summarises the relative errors |prediction/time - 1| on sizes that the fit has
// not seen.
type ErrorStats struct {
	Curve  string
	Points int
	Median float64
	P90    float64 // 90th percentile
}

// String returns the errors as a sentence.
func (e ErrorStats) String() string {
	return fmt.Sprintf("median error %.0f %%, 90th percentile %.0f %%, on %d sizes of %s left out of the fit",
		100*e.Median, 100*e.P90, e.Points, e.Curve)
}

func newErrorStats(curve string, errors []float64) ErrorStats {
	errors = slices.Sorted(slices.Values(errors))
	return ErrorStats{Curve: curve, Points: len(errors), Median: stats.Median(errors),
		P90: errors[min(len(errors)-1, len(errors)*9/10)]}
}

// Validation returns the error of predictions for this many ranks. If nothing was published
// to compare with, it returns the reason instead. ownChoice means that the prediction is for
// NCCL's own choice of algorithm and protocol, which is all that was published.
func (c *Cluster) Validation(bytes int64, ownChoice bool) (e ErrorStats, reason string) {
	switch {
	case c.Curve == "":
		return e, "no published times of this GPU; latencies are those of " + fallback + ", rates in proportion to the link"
	case c.Nodes > 1:
		return e, "no published times between nodes"
	case !ownChoice:
		return e, "published times are those of the library's own choice"
	}
	fit, err := fitCurve(c.Curve)
	if err != nil {
		return e, err.Error()
	}
	if _, err := fit.table.US(c.Ranks(), bytes); err != nil {
		return e, err.Error()
	}
	return fit.errors[c.Ranks()], ""
}

// Table returns the predictions as a curve for the whole cluster and for its parts: GPUs
// of one node, then whole nodes, each halved again and again. Its source states the error
// of each part, or why it is not known.
func (c *Cluster) Table() (*model.Table, error) {
	t := &model.Table{Name: "predict:" + c.Name, Source: "predicted for cluster " + c.Name,
		Ranks: map[int][]model.TablePoint{}}
	lastNote := ""
	for _, part := range c.subclusters() {
		for bytes := int64(512); bytes <= 1<<30; bytes *= 2 {
			p, err := part.Predict(Best, Best, bytes)
			if err != nil {
				return nil, err
			}
			t.Ranks[part.Ranks()] = append(t.Ranks[part.Ranks()], model.TablePoint{Bytes: bytes, US: p.US})
		}
		e, reason := part.Validation(1<<20, true)
		note := e.String()
		if reason != "" {
			note = "not validated: " + reason
		}
		if note != lastNote {
			lastNote = note
			t.Source += fmt.Sprintf("; from %d ranks on: %s", part.Ranks(), note)
		}
	}
	return t, nil
}

// subclusters returns the parts of the cluster for Table, the smallest first.
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

// curveFit is the fit to a published curve.
type curveFit struct {
	costModel
	table  *model.Table
	gbs    float64            // reachable rate of the curve's link
	errors map[int]ErrorStats // by number of ranks; 0 is all together
}

// curveFits caches the fits: curve name -> curveFit.
var curveFits sync.Map

func fitCurve(curve string) (curveFit, error) {
	if known, ok := curveFits.Load(curve); ok {
		return known.(curveFit), nil
	}
	table, err := model.NamedCurve(curve)
	if err != nil {
		return curveFit{}, err
	}
	f := fitTable(table, linkGBs(curve))
	curveFits.Store(curve, f)
	return f, nil
}

// fitTable fits the parameters to every second size of a table measured within one node,
// whose link reaches gbs, and computes the errors on the other sizes.
func fitTable(table *model.Table, gbs float64) curveFit {
	f := curveFit{costModel: initialModel(gbs), table: table, gbs: gbs, errors: map[int]ErrorStats{}}
	type point struct {
		ranks int
		model.TablePoint
	}
	var training, heldOut []point
	for _, ranks := range slices.Sorted(maps.Keys(table.Ranks)) {
		for i, p := range table.Ranks[ranks] {
			if i%2 == 0 {
				training = append(training, point{ranks, p})
			} else {
				heldOut = append(heldOut, point{ranks, p})
			}
		}
	}
	ratio := func(p point) float64 { // predicted over published time
		node := &Cluster{Nodes: 1, GPUs: p.ranks, NVLS: true, NVLinkGBs: gbs}
		return node.best(&f.costModel, Best, Best, p.Bytes).US / p.US
	}
	search(f.variables(), 1.0005, func() (sum float64) {
		for _, p := range training {
			sum += loss(ratio(p))
		}
		return sum
	})
	errors := map[int][]float64{}
	for _, p := range heldOut {
		off := math.Abs(ratio(p) - 1)
		errors[0] = append(errors[0], off)
		errors[p.ranks] = append(errors[p.ranks], off)
	}
	for ranks, list := range errors {
		f.errors[ranks] = newErrorStats(table.Name, list)
	}
	return f
}

// loss returns the cost of a prediction that is ratio times the true time. It is symmetric
// in relative error, and large errors cost more than in proportion.
func loss(ratio float64) float64 {
	off := math.Log(ratio)
	return math.Abs(off) + 4*off*off
}

// search minimises the loss by coordinate descent: it multiplies or divides each value in
// turn by a step while that reduces the loss, with ever smaller steps down to the factor
// finest. It is deterministic. It may end in a local minimum; the errors on the sizes left
// out show how good the result is.
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
