package predict

import (
	"math"
	"sync"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// costModel holds the fitted parameters of NCCL and of each kind of GPU.
type costModel struct {
	Library libraryCost `json:"nccl"`
	GPUs    []gpuFit    `json:"gpus"`
}

// gpuFit holds the parameters of a kind of GPU and the generation of its NVLink.
type gpuFit struct {
	Kind   string `json:"kind"`
	NVLink int    `json:"nvlink"`
	gpuCost
}

// initialLibrary and initialGPU are the start of every search.
var (
	initialLibrary = libraryCost{LL: 0.1, LL128: 0.7, LL128Delay: 1.2, LL128Copy: 1.5, Copy: 0.4, SimpleHop: 1, Fill: 12,
		Ramp: 32, PeerLL: 6, PeerHops: 2, PeerStart: 14, PeerPerRank: 0.2}
	initialGPU = gpuCost{Launch: 6, Hop: 1, Start: 20, Link: 0.9, SwitchStart: 70, Switch: 0.7}
)

// fitRounds is how often fit alternates between the parameters of the GPUs and of NCCL.
const fitRounds = 4

// fit returns the parameters that describe the points of single nodes best. It ignores
// points between nodes, because the network's parameters are not fitted. It is
// deterministic.
func fit(points []Point) costModel {
	m := costModel{Library: initialLibrary}
	points = lists.Filter(points, func(p Point) bool { return p.Nodes == 1 })
	groups := lists.GroupBy(points, func(p Point) string { return p.GPU })
	all := make([]target, 0, len(points))
	for _, g := range groups {
		c := nodeOf(g.Key)
		m.GPUs = append(m.GPUs, gpuFit{g.Key, c.NVLink, initialGPU})
		for _, p := range g.Items {
			all = append(all, target{p, *c, len(m.GPUs) - 1})
			all[len(all)-1].cluster.GPUs = p.Ranks
		}
	}
	sum := func(list []target) func() float64 {
		return func() (total float64) {
			for i := range list {
				t := &list[i]
				best := t.cluster.best(&m.GPUs[t.gpu].gpuCost, &m.Library, t.Op, Best, Best, t.Bytes)
				total += loss(best.US / t.US)
			}
			return total
		}
	}
	finest := 1.05
	for range fitRounds {
		for i := range m.GPUs {
			own := lists.Filter(all, func(t target) bool { return t.gpu == i })
			search(m.GPUs[i].variables(), finest, sum(own))
		}
		search(m.Library.variables(), finest, sum(all))
		finest = max(math.Sqrt(finest), 1.002)
	}
	return m
}

// target is a point that a fit should reproduce.
type target struct {
	Point
	cluster Cluster
	gpu     int // index into costModel.GPUs
}

// nodeOf returns one node of a built-in kind.
var nodeOf = func() func(kind string) *Cluster {
	var known sync.Map
	return func(kind string) *Cluster {
		if c, ok := known.Load(kind); ok {
			return c.(*Cluster)
		}
		c, err := Find(kind + "-8x1")
		if err != nil {
			panic("predict: " + err.Error())
		}
		known.Store(kind, c)
		return c
	}
}()

// gpu returns the parameters of a cluster's GPU and whether they were fitted to times of
// that kind. Otherwise they are the geometric mean over kinds with the same generation of
// NVLink, or, if there are none, over all generations.
func (m *costModel) gpu(kind string, nvlink int) (cost gpuCost, own bool) {
	if f, ok := lists.First(m.GPUs, func(f gpuFit) bool { return f.Kind == kind }); ok {
		return f.gpuCost, true
	}
	var same []gpuCost
	var generations []gpuCost
	for _, g := range lists.GroupBy(m.GPUs, func(f gpuFit) int { return f.NVLink }) {
		mean := meanCost(lists.Map(g.Items, func(f gpuFit) gpuCost { return f.gpuCost }))
		generations = append(generations, mean)
		if g.Key == nvlink {
			same = append(same, mean)
		}
	}
	if len(same) > 0 {
		return same[0], false
	}
	return meanCost(generations), false
}

// meanCost returns the geometric mean of each parameter.
func meanCost(list []gpuCost) (mean gpuCost) {
	for i, v := range mean.variables() {
		sum := 0.0
		for _, c := range list {
			sum += math.Log(*c.variables()[i])
		}
		*v = math.Exp(sum / float64(len(list)))
	}
	return mean
}

// loss returns the cost of a prediction that is ratio times the true time. It is symmetric
// in relative error, and large errors cost more than in proportion.
func loss(ratio float64) float64 {
	off := math.Log(ratio)
	return math.Abs(off) + 4*off*off
}

// search minimises the loss by coordinate descent: it multiplies or divides each value in
// turn by a step while that reduces the loss, with ever smaller steps down to the factor
// finest. It is deterministic. It may end in a local minimum; the errors on the systems left
// out show how good the result is.
func search(values []*float64, finest float64, loss func() float64) {
	smallest := loss()
	for step := 1.5; step > finest; step = math.Sqrt(step) {
		for improved := true; improved; {
			improved = false
			for _, v := range values {
				for _, by := range []float64{step, 1 / step} {
					old := *v
					*v *= by
					if now := loss(); now < smallest*(1-1e-9) {
						smallest, improved = now, true
						break
					}
					*v = old
				}
			}
		}
	}
}
