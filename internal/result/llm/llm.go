// Package llm says what the time of an all-reduce means for serving a language
// model with tensor parallelism: how large the messages are, how many there are
// in a step, what they add up to, and how that compares with the least time the
// step can take.
//
// It is arithmetic on public model shapes and a curve of times; docs/models.md
// has the formulas. It runs no model, and it does not predict throughput:
// the floor of a step is what reading weights and multiplying needs at least.
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
	Experts int     // 0: dense
	TopK    int     // experts per token
	Params  float64 // all weights, in 1e9
	Active  float64 // those a token uses, in 1e9; all of them when dense
	Bits    float64 // per weight, as published
	// Parallel is set where attention and MLP of a layer work side by side and
	// share one all-reduce.
	Parallel bool
}

// Named is a model by name.
func Named(name string) (Model, error) {
	return suggest.Find("model", name, models, func(m Model) string { return m.Name })
}

// Names lists the known models.
func Names() []string {
	return lists.Map(models, func(m Model) string { return m.Name })
}

// ActivationBytes is the size of an activation: 16 bits, whatever the weights.
const ActivationBytes = 2

// Message is the bytes of one all-reduce of so many tokens.
func (m Model) Message(tokens int) int64 { return int64(tokens) * int64(m.Hidden) * ActivationBytes }

// Parallelism is how a model is spread over its ranks.
type Parallelism string

// The ways. Tensor splits every matrix; Sequence turns each all-reduce into a
// reduce-scatter and an all-gather, which move the same bytes; Expert gives each
// rank whole experts; DataAttention gives each rank its own sequences for the
// attention and splits the rest.
const (
	Tensor        Parallelism = "tensor"
	Sequence      Parallelism = "sequence"
	Expert        Parallelism = "expert"
	DataAttention Parallelism = "dp-attention"
)

// Ways lists them, the usual one first.
func Ways() []string {
	return []string{string(Tensor), string(Sequence), string(Expert), string(DataAttention)}
}

// AllReduces is how many there are in a layer, and what else the layer sends
// that they do not cover ("" if nothing).
func (m Model) AllReduces(p Parallelism) (perLayer int, besides string, err error) {
	perLayer = 2 // after the attention's and after the MLP's output
	if m.Parallel {
		perLayer = 1
	}
	switch p {
	case Tensor:
	case Sequence:
		besides = "each is a reduce-scatter and an all-gather of the same bytes, taken at the time of one all-reduce"
	case Expert:
		if m.Experts == 0 {
			return 0, "", fmt.Errorf("%s has no experts to spread", m.Name)
		}
		perLayer, besides = 1, "the experts' dispatch and combine are all-to-alls and not counted"
	case DataAttention:
		if m.Parallel {
			return 0, "", fmt.Errorf("%s has one all-reduce for attention and MLP: the attention cannot go alone", m.Name)
		}
		perLayer, besides = 1, "the attention's all-reduce falls away"
	default:
		return 0, "", suggest.Unknown("parallelism", string(p), Ways())
	}
	return perLayer, besides, nil
}

// weightBytes is what a step must read of the weights on all ranks together:
// those every token uses, and of the experts those that some token is expected
// to choose when tokens choose evenly.
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

// GPU is what a step's floor depends on.
type GPU struct {
	Name   string
	HBM    float64 // GB/s
	TFlops float64 // dense, 16 bits
	Memory float64 // GB
}

// The shares of the data sheet's rates that a good kernel reaches.
const (
	hbmShare   = 0.8
	flopsShare = 0.7
)

var gpus = []GPU{
	{"h200", 4800, 989, 141}, {"h100", 3350, 989, 80}, {"a100", 2039, 312, 80}, {"b200", 8000, 2250, 180},
	{"mi300x", 5300, 1307, 192},
}

// GPUs lists the known ones, the default first.
func GPUs() []string {
	return lists.Map(gpus, func(g GPU) string { return g.Name })
}

// NamedGPU is a GPU by name.
func NamedGPU(name string) (GPU, error) {
	return suggest.Find("gpu", name, gpus, func(g GPU) string { return g.Name })
}

// FloorUS is the least time of a forward pass without communication: reading
// the weights, or multiplying, whichever is longer.
func FloorUS(m Model, g GPU, ranks, tokens int) float64 {
	read := m.weightBytes(tokens) / (float64(ranks) * g.HBM * 1e9 * hbmShare)
	compute := 2 * m.Active * 1e9 * float64(tokens) / (float64(ranks) * g.TFlops * 1e12 * flopsShare)
	return 1e6 * max(read, compute)
}

// Fits reports whether the weights fit the memory of the ranks.
func Fits(m Model, g GPU, ranks int) (needGB float64, ok bool) {
	needGB = m.Params * m.Bits / 8 / float64(ranks)
	return needGB, needGB <= g.Memory
}

// Step is what the all-reduces of one forward pass come to.
type Step struct {
	Message  int64 // bytes of one all-reduce
	PerLayer int   // all-reduces
	Count    int   // in the whole pass

	EachUS  float64
	LayerUS float64
	CommUS  float64
	FloorUS float64 // the rest of the step, at least
	Besides string  // what is not counted
}

// StepUS is the step when nothing overlaps.
func (s Step) StepUS() float64 { return s.FloorUS + s.CommUS }

// Share is the part of the step that is communication, from 0 to 1.
func (s Step) Share() float64 { return s.CommUS / s.StepUS() }

// With is the same step at another time of one all-reduce.
func (s Step) With(eachUS float64) Step {
	s.EachUS = eachUS
	s.LayerUS, s.CommUS = eachUS*float64(s.PerLayer), eachUS*float64(s.Count)
	return s
}

// Impact reads the time of the model's message off the curve, which is refused
// outside the curve's sizes, and multiplies.
func Impact(m Model, g GPU, p Parallelism, ranks, tokens int, curve *model.Table) (Step, error) {
	perLayer, besides, err := m.AllReduces(p)
	if err != nil {
		return Step{}, err
	}
	if m.Heads%ranks != 0 {
		return Step{}, fmt.Errorf("%s has %d heads, which %d ranks cannot share evenly", m.Name, m.Heads, ranks)
	}
	s := Step{Message: m.Message(tokens), PerLayer: perLayer, Count: perLayer * m.Layers, Besides: besides,
		FloorUS: FloorUS(m, g, ranks, tokens)}
	each, err := curve.US(ranks, s.Message)
	if err != nil {
		return Step{}, err
	}
	return s.With(each), nil
}

// TargetUS is the time of an all-reduce whose large messages reach a bus
// bandwidth of so many GB/s: the curve's latency and the bytes at that rate. A
// message whose time the curve's latency decides stays as it is: no bandwidth
// helps it.
func TargetUS(curve *model.Table, ranks int, s Step, gbps float64) float64 {
	latency := curve.Floor(ranks)
	if latency >= s.EachUS*2/3 {
		return s.EachUS
	}
	factor, _ := bandwidth.Factor("allreduce", ranks)
	return latency + float64(s.Message)*factor/gbps/1e3
}
