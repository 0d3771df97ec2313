// Package predict predicts the time of a collective on machines that are not at hand.
// It computes and measures nothing.
//
// On a [Cluster] of GPUs it predicts the time by algorithm and protocol, with the model
// that NCCL uses to choose among them. With n ranks on N nodes of g GPUs and S bytes,
//
//	t = launch + steps x latency + traffic / rate + filling of the pipeline
//
// A ring takes n-1 steps for each pass over the data and moves (n-1)/n S; an all-reduce
// needs two passes. A tree is a chain of 2(g-1) steps within the nodes and has 2 log2 N
// steps between them. A switch that adds (NVLS) moves (1 + 1/g) S. In an all-to-all each
// rank sends its parts directly. The protocol LL sends a flag with every 4 bytes, LL128 one
// with every 120; Simple waits for whole chunks. File cost.go has the formulas.
//
// Six parameters of each kind of GPU and twelve of NCCL are fitted to [Points], measured
// times within one node. Latencies between nodes are NCCL's constants. Errors are stated for
// systems that were left out of the fit as a whole ([ErrorStats]).
//
// On a [Host] it predicts the times of the library's own algorithms between the cores of a
// machine.
package predict

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Best selects the fastest algorithm or protocol.
const Best = "best"

// Algorithms and Protocols list NCCL's choices.
var (
	Algorithms = []string{"ring", "tree", "nvls", "direct"}
	Protocols  = []string{"LL", "LL128", "Simple"}
)

// Prediction is the predicted time of one collective.
type Prediction struct {
	Algorithm, Protocol string
	US                  float64
}

// best returns the fastest of the selected algorithms and protocols.
func (c *Cluster) best(g *gpuCost, l *libraryCost, op, algorithm, protocol string, bytes int64) Prediction {
	best := Prediction{US: math.Inf(1)}
	for _, a := range Algorithms {
		if algorithm != Best && a != algorithm {
			continue
		}
		for p, name := range Protocols {
			if protocol != Best && name != protocol {
				continue
			}
			if us, ok := c.timeUS(g, l, op, a, p, bytes); ok && us < best.US {
				best = Prediction{a, name, us}
			}
		}
	}
	return best
}

// plain returns the fastest by the model alone.
func (c *Cluster) plain(op, algorithm, protocol string, bytes int64) Prediction {
	m := &fitted().costModel
	cost, _ := m.gpu(c.GPU, c.NVLink)
	cost = c.scaled(cost)
	return c.best(&cost, &m.Library, op, algorithm, protocol, bytes)
}

// Predict returns the time of a collective. Best as the algorithm or the protocol selects
// the fastest one. If the cluster itself was measured, the fastest is corrected by the
// model's error at the neighbouring sizes.
func (c *Cluster) Predict(op, algorithm, protocol string, bytes int64) (Prediction, error) {
	best := c.plain(op, algorithm, protocol, bytes)
	if best.Algorithm == "" {
		return best, fmt.Errorf("no %s by %s with %s on %s", op, algorithm, protocol, c.Name)
	}
	if algorithm == Best && protocol == Best {
		best.US *= fitted().correction(c, op, c.Measured(op), bytes)
	}
	return best, nil
}

// Measured returns the points of this very system in order of size: the same GPUs, number
// of nodes and ranks, over the same kind of network.
func (c *Cluster) Measured(op string) []Point {
	if c.Calibration != nil {
		return nil // its own times count
	}
	return lists.Filter(Points(), func(p Point) bool {
		return p.GPU == c.GPU && p.Op == op && p.Nodes == c.Nodes && p.Ranks == c.Ranks() &&
			(p.Nodes == 1 || c.likeNetworkOf(p.GPU))
	})
}

// correction returns the factor by which measured times of the same system differ from the
// model. Between two measured sizes it is interpolated linearly in logarithms. It is 1 without
// measured times, and outside their sizes it is the factor of the nearest one.
func (m *costModel) correction(c *Cluster, op string, measured []Point, bytes int64) float64 {
	cost, _ := m.gpu(c.GPU, c.NVLink)
	factor := func(p Point) float64 { return p.US / c.best(&cost, &m.Library, op, Best, Best, p.Bytes).US }
	for i, p := range measured {
		switch {
		case p.Bytes < bytes && i < len(measured)-1:
		case p.Bytes <= bytes || i == 0:
			return factor(p)
		default:
			before := measured[i-1]
			share := math.Log(float64(bytes)/float64(before.Bytes)) / math.Log(float64(p.Bytes)/float64(before.Bytes))
			return math.Pow(factor(before), 1-share) * math.Pow(factor(p), share)
		}
	}
	return 1
}

// Table returns the predictions of an all-reduce as a curve for the whole cluster and for
// its parts: GPUs of one node, then whole nodes, each halved again and again. Its source
// states the error of each part, or why it is not known.
func (c *Cluster) Table() (*model.Table, error) {
	t := &model.Table{Name: "predict:" + c.Name, Source: "predicted for cluster " + c.Name,
		GPU: c.GPU, Ranks: map[int][]model.TablePoint{}}
	lastNote := ""
	for _, part := range c.subclusters() {
		for bytes := int64(512); bytes <= 1<<30; bytes *= 2 {
			p, err := part.Predict(AllReduce, Best, Best, bytes)
			if err != nil {
				return nil, err
			}
			t.Ranks[part.Ranks()] = append(t.Ranks[part.Ranks()], model.TablePoint{Bytes: bytes, US: p.US})
		}
		note := part.Validate(AllReduce, 1<<20, true).String()
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
