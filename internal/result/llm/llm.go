// Package llm estimates how the time of an all-reduce affects serving a language model with
// tensor parallelism: the size of the messages, their number in a step, their total time,
// and how that compares with the least time that the step can take.
//
// It computes from public model shapes and a curve of times; docs/models.md has the
// formulas. It runs no model and does not predict throughput: the floor of a step is the
// least time for reading weights and multiplying.
package llm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/base/lists"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Model is the shape of a language model.
type Model struct {
	Name        string
	Title       string
	Layers      int
	Hidden      int
	Heads       int
	Experts     int     // 0 for a dense model
	TopK        int     // experts per token
	Params      float64 // all weights, in 1e9
	Active      float64 // weights that a token uses, in 1e9; all of them in a dense model
	Bits        float64 // per weight, as published
	DenseLayers int     // layers of a mixture of experts that have no experts
	KVHeads     int     // heads of keys and values (GQA); 0 with Latent
	HeadDim     int     // elements of a query head
	Latent      int     // elements that MLA caches for a token and layer; 0 without MLA
	LocalLayers int     // layers whose attention sees only Window tokens
	Window      int
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
	experts := m.ExpertParams()
	return (m.Params - experts + m.Touched(tokens)*experts) * 1e9 * m.Bits / 8
}

// ExpertParams returns the weights of all experts together, in 1e9. It follows from
// Active = Params - experts + TopK/Experts x experts.
func (m Model) ExpertParams() float64 {
	if m.Experts == 0 {
		return 0
	}
	return (m.Params - m.Active) / (1 - float64(m.TopK)/float64(m.Experts))
}

// Touched returns the expected fraction of the experts that at least one of the given number of tokens chooses.
func (m Model) Touched(tokens int) float64 {
	return 1 - math.Pow(1-float64(m.TopK)/float64(max(m.Experts, 1)), float64(tokens))
}

// AttentionWeights returns the weights of the attention of a layer: its projections.
func (m Model) AttentionWeights() int64 {
	hidden, heads := int64(m.Hidden), int64(m.Heads)
	if m.Latent == 0 {
		return 2 * hidden * int64(m.HeadDim) * int64(m.Heads+m.KVHeads)
	}
	// MLA of DeepSeek-V3, which Kimi K2 has too: queries through queryRank, keys and values through the latent, and the
	// output projection.
	const queryRank, rope, plain, value = 1536, 64, 128, 128
	return hidden*queryRank + queryRank*heads*(plain+rope) + hidden*int64(m.Latent) +
		(int64(m.Latent)-rope)*heads*(plain+value) + heads*value*hidden
}

// cacheBytes returns the bytes of keys and values that a token has in the cache of a layer.
func (m Model) cacheBytes() float64 {
	if m.Latent > 0 {
		return float64(m.Latent) * ActivationBytes
	}
	return 2 * float64(m.KVHeads*m.HeadDim) * ActivationBytes
}

// Seen returns the number of tokens that attention sees, summed over the layers, with a context of the given number of
// tokens.
func (m Model) Seen(context float64) float64 {
	return float64(m.Layers-m.LocalLayers)*context + float64(m.LocalLayers)*min(context, float64(m.Window))
}

// cacheReaders returns over how many ranks the cache of one sequence is spread. Ranks share the
// heads of keys and values; beyond their number, and for the latent of MLA, ranks hold copies.
// With attention by data parallelism, each rank has the whole cache of its own sequences.
func (m Model) cacheReaders(p Parallelism, ranks int) float64 {
	if p == DataAttention {
		return float64(ranks)
	}
	if m.Latent > 0 {
		return 1
	}
	return float64(min(ranks, m.KVHeads))
}

// CacheBytes returns the bytes of keys and values that a token has in the cache of a layer, on one of the given number
// of ranks that share the model by tensor parallelism.
func (m Model) CacheBytes(ranks int) float64 { return m.cacheBytes() / m.cacheReaders(Tensor, ranks) }

// Precision is the format of a model's arithmetic.
type Precision string

// The precisions, from the widest to the narrowest.
const (
	Bits16 Precision = "16-bit"
	FP8    Precision = "fp8"
	FP4    Precision = "fp4"
)

// Precision returns the format of the model's weights.
func (m Model) Precision() Precision {
	switch {
	case m.Bits < 8:
		return FP4
	case m.Bits < 16:
		return FP8
	}
	return Bits16
}

// GPU holds the data-sheet rates that a step's floor depends on.
type GPU struct {
	Name   string
	HBM    float64               // GB/s
	TFlops map[Precision]float64 // dense
	Memory float64               // GB
	Source string
}

// Rate returns the TFLOP/s for a precision. If the GPU has no arithmetic of that precision, it returns
// the rate and the name of the next wider one.
func (g GPU) Rate(p Precision) (float64, Precision) {
	order := []Precision{FP4, FP8, Bits16}
	for _, wider := range order[slices.Index(order, p):] {
		if rate := g.TFlops[wider]; rate > 0 {
			return rate, wider
		}
	}
	return g.TFlops[Bits16], Bits16
}

// Fractions of the data-sheet rates that a good kernel reaches.
const (
	hbmShare   = 0.8
	flopsShare = 0.7
)

// Reached returns the operations of a precision and the bytes of memory per second that good kernels reach on the GPU.
func (g GPU) Reached(p Precision) (flops, bandwidth float64) {
	rate, _ := g.Rate(p)
	return rate * 1e12 * flopsShare, g.HBM * 1e9 * hbmShare
}

var gpus = []GPU{
	{"h200", 4800, map[Precision]float64{Bits16: 989, FP8: 1979}, 141, "data sheet of NVIDIA H200 SXM, dense"},
	{"h100", 3350, map[Precision]float64{Bits16: 989, FP8: 1979}, 80, "data sheet of NVIDIA H100 SXM, dense"},
	{"a100", 2039, map[Precision]float64{Bits16: 312}, 80, "data sheet of NVIDIA A100 80GB SXM, dense"},
	{"b200", 8000, map[Precision]float64{Bits16: 2250, FP8: 4500, FP4: 9000}, 180, "data sheet of NVIDIA DGX B200, dense"},
	{"mi300x", 5300, map[Precision]float64{Bits16: 1307, FP8: 2615}, 192, "data sheet of AMD Instinct MI300X, dense"},
}

// GPUs returns the names of the known GPUs.
func GPUs() []string { return lists.Map(gpus, func(g GPU) string { return g.Name }) }

// NamedGPU returns the GPU of a name.
func NamedGPU(name string) (GPU, error) {
	return suggest.Find("gpu", name, gpus, func(g GPU) string { return g.Name })
}

// GPUOf returns the name of the known GPU of a device, such as h100 for NVIDIA H100 80GB HBM3, or "".
func GPUOf(device string) string {
	words := strings.FieldsFunc(strings.ToLower(device), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	g, _ := lists.First(gpus, func(g GPU) bool { return slices.Contains(words, g.Name) })
	return g.Name
}

// Load is the work of one forward pass: Tokens in Sequences, each with Context tokens before
// them.
type Load struct {
	Tokens, Sequences int
	Context           int
}

// FloorUS returns the least time of a forward pass without communication, in microseconds:
// reading weights and cache, or multiplying, whichever takes longer.
func FloorUS(m Model, g GPU, p Parallelism, ranks int, l Load) float64 {
	context := float64(l.Context) + float64(l.Tokens/l.Sequences)/2 // a token sees half of the new ones on average
	cache := float64(l.Sequences) * m.Seen(float64(l.Context)) * m.cacheBytes() / m.cacheReaders(p, ranks)
	read := (m.weightBytes(l.Tokens)/float64(ranks) + cache) / (g.HBM * 1e9 * hbmShare)
	rate, _ := g.Rate(m.Precision())
	attention := 4 * float64(l.Tokens) * m.Seen(context) * float64(m.Heads*m.HeadDim)
	compute := (2*m.Active*1e9*float64(l.Tokens)/rate + attention/g.TFlops[Bits16]) /
		(float64(ranks) * 1e12 * flopsShare)
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

	EachUS     float64 // one all-reduce
	LayerUS    float64 // all-reduces of a layer
	CommUS     float64 // all-reduces and all-to-alls of the pass
	AllToAllUS float64 // all-to-alls of the pass
	FloorUS    float64 // least time of everything else
	Overlap    bool    // two halves of the batch take turns: one communicates while the other computes
	Layers     int
	Remark     string // on communication that is not counted
}

// StepUS returns the time of the step. With overlap, the longer of communication and
// computation decides, and half a layer of the other is exposed at the ends.
func (s Step) StepUS() float64 {
	if s.Overlap {
		return max(s.CommUS, s.FloorUS) + min(s.CommUS, s.FloorUS)/float64(2*s.Layers)
	}
	return s.FloorUS + s.CommUS
}

// Share returns the fraction of the step that is communication and does not overlap, from 0 to 1.
func (s Step) Share() float64 { return 1 - s.FloorUS/s.StepUS() }

// With returns the same step with another time of one all-reduce.
func (s Step) With(eachUS float64) Step {
	s.EachUS = eachUS
	s.LayerUS, s.CommUS = eachUS*float64(s.PerLayer), eachUS*float64(s.Count)+s.AllToAllUS
	return s
}

// Impact returns the step of a model whose all-reduces take the times of a curve. It fails
// if the message size is outside the curve.
func Impact(m Model, g GPU, p Parallelism, ranks, tokens int, curve *model.Table) (Step, error) {
	return Serve(Serving{Model: m, GPU: g, Parallelism: p, Ranks: ranks, Load: Load{Tokens: tokens, Sequences: tokens}},
		curve)
}

// Serving is a step of a model on some ranks.
type Serving struct {
	Model       Model
	GPU         GPU
	Parallelism Parallelism
	Ranks       int
	Load        Load
	Overlap     bool // split the batch in two and overlap the halves
	// AllToAll returns the time of an all-to-all with the given bytes for each rank. If it is nil, the all-to-alls of
	// expert parallelism are not counted.
	AllToAll func(ranks int, bytes int64) (float64, error)
}

// Serve returns the times of a step whose all-reduces take the times of a curve. It fails if
// a message is outside the curve, or if the model cannot be spread in this way.
func Serve(v Serving, curve *model.Table) (Step, error) {
	m := v.Model
	perLayer, remark, err := m.AllReduces(v.Parallelism)
	if err != nil {
		return Step{}, err
	}
	if m.Heads%v.Ranks != 0 {
		return Step{}, fmt.Errorf("%s has %d heads, which %d ranks cannot share evenly", m.Name, m.Heads, v.Ranks)
	}
	halves, load := 1, v.Load
	if v.Overlap {
		if load.Tokens < 2 {
			return Step{}, errors.New("one token cannot be split into two batches")
		}
		halves = 2
		load.Tokens, load.Sequences = (load.Tokens+1)/2, (load.Sequences+1)/2
	}
	s := Step{Message: m.Message(load.Tokens), PerLayer: perLayer, Count: halves * perLayer * m.Layers, Remark: remark,
		FloorUS: float64(halves) * FloorUS(m, v.GPU, v.Parallelism, v.Ranks, load), Overlap: v.Overlap, Layers: m.Layers}
	if v.Parallelism == Expert && v.AllToAll != nil {
		for _, bytes := range m.expertMessages(load.Tokens, v.Ranks) {
			us, err := v.AllToAll(v.Ranks, bytes)
			if err != nil {
				return Step{}, fmt.Errorf("all-to-all of the experts: %w", err)
			}
			s.AllToAllUS += float64(halves*(m.Layers-m.DenseLayers)) * us
		}
		s.Remark = ""
	}
	each, err := curve.US(v.Ranks, s.Message)
	if err != nil {
		return Step{}, err
	}
	return s.With(each), nil
}

// expertMessages returns the bytes that a rank sends in the dispatch and the combine of a layer:
// each of its tokens goes to TopK experts, in the precision of the weights but with at least 8
// bits, and comes back in 16 bits.
func (m Model) expertMessages(tokens, ranks int) []int64 {
	elements := int64((tokens+ranks-1)/ranks) * int64(m.TopK) * int64(m.Hidden)
	return []int64{elements * max(1, int64(m.Bits/8)), elements * ActivationBytes}
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
