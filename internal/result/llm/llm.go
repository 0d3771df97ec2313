// Package llm estimates how the time of an all-reduce affects serving a language model with
// tensor parallelism: the size of the messages, their number in a step, their total time,
// and how that compares with the least time that the step can take.
//
// It computes from public model shapes and a curve of times; docs/models.md has the
// formulas. It runs no model and does not predict throughput: the floor of a step is the
// least time for reading weights and multiplying.
package llm

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/base/lists"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Model is the shape of a language model.
type Model struct {
	Name    string
	Title   string
	Layers  int
	Hidden  int
	Heads   int
	Experts int     // 0 for a dense model
	TopK    int     // experts per token
	Params  float64 // all weights, in 1e9
	Active  float64 // weights that a token uses, in 1e9; all of them in a dense model
	Bits    float64 // per weight, as published
	// Parallel means that attention and MLP of a layer run in parallel and share one
	// all-reduce.
	Parallel bool
}

// Named returns the model of a name.
func Named(name string) (Model, error) {
	return suggest.Find("model", name, models, func(m Model) string { return m.Name })
}

// Names returns the names of the known models.
func Names() []string { return lists.Map(models, func(m Model) string { return m.Name }) }

// ActivationBytes is the size of an activation: 16 bits, independent of the weights.
const ActivationBytes = 2

// Message returns the bytes of one all-reduce over the given number of tokens.
func (m Model) Message(tokens int) int64 { return int64(tokens) * int64(m.Hidden) * ActivationBytes }

// Parallelism is the way in which a model is distributed over ranks.
type Parallelism string

// The kinds of parallelism. Tensor splits every matrix. Sequence replaces each all-reduce by
// a reduce-scatter and an all-gather, which move the same bytes. Expert gives each rank
// whole experts. DataAttention gives each rank its own sequences for the attention and
// splits the rest.
const (
	Tensor        Parallelism = "tensor"
	Sequence      Parallelism = "sequence"
	Expert        Parallelism = "expert"
	DataAttention Parallelism = "dp-attention"
)

// Parallelisms returns all kinds, the usual one first.
func Parallelisms() []string {
	return []string{string(Tensor), string(Sequence), string(Expert), string(DataAttention)}
}

// AllReduces returns the number of all-reduces in a layer, and a remark on other
// communication of the layer, "" if there is none.
func (m Model) AllReduces(p Parallelism) (perLayer int, remark string, err error) {
	perLayer = 2 // one after the attention, one after the MLP
	if m.Parallel {
		perLayer = 1
	}
	switch p {
	case Tensor:
	case Sequence:
		remark = "each is a reduce-scatter and an all-gather of the same bytes, taken at the time of one all-reduce"
	case Expert:
		if m.Experts == 0 {
			return 0, "", fmt.Errorf("%s has no experts to spread", m.Name)
		}
		perLayer, remark = 1, "the experts' dispatch and combine are all-to-alls and not counted"
	case DataAttention:
		if m.Parallel {
			return 0, "", fmt.Errorf("%s has one all-reduce for attention and MLP: the attention cannot be distributed "+
				"separately", m.Name)
		}
		perLayer, remark = 1, "the attention needs no all-reduce"
	default:
		return 0, "", suggest.Unknown("parallelism", string(p), Parallelisms())
	}
	return perLayer, remark, nil
}

// weightBytes returns the bytes of weights that a step reads on all ranks together: the
// weights that every token uses, and the expected number of experts chosen by at least one
// token if tokens choose experts uniformly.
func (m Model) weightBytes(tokens int) float64 {
	read := m.Params
	if m.Experts > 0 {
		share := float64(m.TopK) / float64(m.Experts)
		experts := (m.Params - m.Active) / (1 - share) // Active = common + share x experts
		common := m.Params - experts
		touched := 1 - math.Pow(1-share, float64(tokens))
		read = common + touched*experts
	}
	return read * 1e9 * m.Bits / 8
}

// GPU holds the data-sheet rates that a step's floor depends on.
type GPU struct {
	Name   string
	HBM    float64 // GB/s
	TFlops float64 // dense, 16 bits
	Memory float64 // GB
}

// Fractions of the data-sheet rates that a good kernel reaches.
const (
	hbmShare   = 0.8
	flopsShare = 0.7
)

var gpus = []GPU{
	{"h200", 4800, 989, 141}, {"h100", 3350, 989, 80}, {"a100", 2039, 312, 80}, {"b200", 8000, 2250, 180},
	{"mi300x", 5300, 1307, 192},
}

// GPUs returns the names of the known GPUs, the default first.
func GPUs() []string { return lists.Map(gpus, func(g GPU) string { return g.Name }) }

// NamedGPU returns the GPU of a name.
func NamedGPU(name string) (GPU, error) {
	return suggest.Find("gpu", name, gpus, func(g GPU) string { return g.Name })
}

// FloorUS returns the least time of a forward pass without communication, in microseconds:
// reading the weights or multiplying, whichever takes longer.
func FloorUS(m Model, g GPU, ranks, tokens int) float64 {
	read := m.weightBytes(tokens) / (float64(ranks) * g.HBM * 1e9 * hbmShare)
	compute := 2 * m.Active * 1e9 * float64(tokens) / (float64(ranks) * g.TFlops * 1e12 * flopsShare)
	return 1e6 * max(read, compute)
}

// Fits returns the weights per rank in GB, and whether they fit into its memory.
func Fits(m Model, g GPU, ranks int) (needGB float64, ok bool) {
	needGB = m.Params * m.Bits / 8 / float64(ranks)
	return needGB, needGB <= g.Memory
}

// Step holds the times of one forward pass, in microseconds.
type Step struct {
	Message  int64 // bytes of one all-reduce
	PerLayer int   // all-reduces per layer
	Count    int   // all-reduces in the whole pass

	EachUS  float64 // one all-reduce
	LayerUS float64 // all-reduces of a layer
	CommUS  float64 // all-reduces of the pass
	FloorUS float64 // least time of everything else
	Remark  string  // on communication that is not counted
}

// StepUS returns the time of the step if nothing overlaps.
func (s Step) StepUS() float64 { return s.FloorUS + s.CommUS }

// Share returns the fraction of the step that is communication, from 0 to 1.
func (s Step) Share() float64 { return s.CommUS / s.StepUS() }

// With returns the same step with another time of one all-reduce.
func (s Step) With(eachUS float64) Step {
	s.EachUS = eachUS
	s.LayerUS, s.CommUS = eachUS*float64(s.PerLayer), eachUS*float64(s.Count)
	return s
}

// Impact returns the step of a model whose all-reduces take the times of a curve. It fails
// if the message size is outside the curve.
func Impact(m Model, g GPU, p Parallelism, ranks, tokens int, curve *model.Table) (Step, error) {
	perLayer, remark, err := m.AllReduces(p)
	if err != nil {
		return Step{}, err
	}
	if m.Heads%ranks != 0 {
		return Step{}, fmt.Errorf("%s has %d heads, which %d ranks cannot share evenly", m.Name, m.Heads, ranks)
	}
	s := Step{Message: m.Message(tokens), PerLayer: perLayer, Count: perLayer * m.Layers, Remark: remark,
		FloorUS: FloorUS(m, g, ranks, tokens)}
	each, err := curve.US(ranks, s.Message)
	if err != nil {
		return Step{}, err
	}
	return s.With(each), nil
}

// TargetUS returns the time of the step's all-reduce if large messages reached a bus
// bandwidth of gbps GB/s: the curve's latency plus the bytes at that rate. The time of a
// message that is dominated by latency does not change.
func TargetUS(curve *model.Table, ranks int, s Step, gbps float64) float64 {
	latency := curve.Floor(ranks)
	if latency >= s.EachUS*2/3 {
		return s.EachUS
	}
	factor, _ := bandwidth.Factor("allreduce", ranks)
	return latency + float64(s.Message)*factor/gbps/1e3
}
