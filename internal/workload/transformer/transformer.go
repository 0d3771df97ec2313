// Package transformer generates the execution traces of a step of a transformer, which is distributed over ranks by
// tensor, pipeline, data and expert parallelism. It measures nothing: operations and bytes follow from the public
// dimensions of a model.
//
// # Ranks
//
// Tensor parallelism varies fastest, then data parallelism, then the pipeline stage, as in Megatron-LM: rank
// t + TP*(d + DP*stage). Layers are divided among the stages as evenly as possible. Expert parallelism adds no ranks:
// EP consecutive replicas divide the experts of a layer among them, so EP divides DP.
//
// # Training
//
// Every rank runs one forward and one backward pass of each micro-batch in the order 1F1B (Narayanan et al., 2021).
// A backward pass has twice the operations of a forward pass. With tensor parallelism, each half of a layer
// (attention, MLP) ends with an all-reduce of the activations, forward and backward. With sequence parallelism it
// begins with an all-gather and ends with a reduce-scatter instead. In the backward pass of the last micro-batch, the
// gradients of a layer are all-reduced between the replicas while earlier layers compute. With a sharded optimizer
// they are reduce-scattered, and the weights are all-gathered after the update.
//
// # Experts
//
// With expert parallelism, an all-to-all before the MLP sends each token to the TopK ranks of its experts, and an
// all-to-all after it returns the results. Tokens choose experts uniformly, so every rank computes as many tokens as it
// sends. Each expert is divided by tensor parallelism like any matrix. With sequence parallelism, a rank dispatches its
// part of the tokens, and the ranks of a tensor-parallel group all-gather the tokens that they received, as in
// Megatron-LM; the all-gather of the tokens for shared experts is left out. Gradients of experts are reduced between
// the replicas that have the same experts.
//
// # Serving
//
// A step is the forward pass of micro-batches: of all tokens of the sequences (prefill), or of one token of each
// sequence, which reads the weights and the keys and values of the sequence from memory (decode). Only experts that
// some token chooses are read: their expected number.
//
// # Counts
//
// A layer has Params/Layers weights, so the embeddings are spread over the layers. Experts are spread over the layers
// that have them. A token takes two operations per weight that it uses, and in causal attention 2*S*heads*head_dim on
// average over a sequence of S tokens, less in layers with a window. Weights, gradients and activations have 16 bits.
// In serving, weights have the bits of the published model, and so have the elements of dispatched tokens, but at least
// 8. The update moves 16 bytes per weight.
package transformer

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// Step is a step of a distributed transformer.
type Step struct {
	Model        llm.Model
	TP, PP, DP   int
	EP           int // replicas that divide the experts among them; 0 means 1
	MicroBatches int // of each replica
	Batch        int // sequences of a micro-batch
	Sequence     int // tokens of a sequence; while decoding, the tokens in the cache

	SequenceParallel bool
	Sharded          bool // the optimizer's state is divided among the replicas
	Mode             string
}

// The modes of a step.
const (
	Train   = "train"
	Prefill = "prefill"
	Decode  = "decode"
)

// Ranks returns the number of ranks.
func (s Step) Ranks() int { return s.TP * s.PP * s.DP }

// Limits of a step.
const (
	maxRanks  = 1 << 14
	maxNodes  = 1 << 22
	elemBytes = llm.ActivationBytes
)

// Check returns an error if the step cannot be generated.
func (s Step) Check() error {
	m := s.Model
	for _, v := range []struct {
		name  string
		value int
	}{{"tp", s.TP}, {"pp", s.PP}, {"dp", s.DP}, {"ep", max(s.EP, 1)}, {"micro-batches", s.MicroBatches},
		{"batch", s.Batch}, {"sequence", s.Sequence}} {
		if v.value < 1 || v.value > 1<<24 {
			return fmt.Errorf("%s is %d: want 1 to %d", v.name, v.value, 1<<24)
		}
	}
	switch {
	case s.EP > 1 && m.Experts == 0:
		return fmt.Errorf("ep is %d, but %s has no experts", s.EP, m.Name)
	case s.EP > 1 && (s.DP%s.EP != 0 || m.Experts%s.EP != 0):
		return fmt.Errorf("ep is %d: it must divide dp, which is %d, and the %d experts of %s", s.EP, s.DP, m.Experts, m.Name)
	case s.TP > m.Heads || m.Heads%s.TP != 0:
		return fmt.Errorf("tp is %d, but %s has %d heads: tp must divide them", s.TP, m.Name, m.Heads)
	case s.PP > m.Layers:
		return fmt.Errorf("pp is %d, but %s has %d layers", s.PP, m.Name, m.Layers)
	case s.TP > maxRanks || s.PP > maxRanks || s.DP > maxRanks || s.Ranks() > maxRanks:
		return fmt.Errorf("tp x pp x dp is %d x %d x %d: want at most %d ranks", s.TP, s.PP, s.DP, maxRanks)
	case s.MicroBatches*s.Ranks()*(m.Layers/s.PP+1)*8 > 16*maxNodes:
		return fmt.Errorf("%d micro-batches of %d layers on %d ranks have more than %d nodes", s.MicroBatches, m.Layers,
			s.Ranks(), 16*maxNodes)
	}
	return nil
}

// tokens returns the tokens of a micro-batch that are computed.
func (s Step) tokens() int64 {
	if s.Mode == Decode {
		return int64(s.Batch)
	}
	return int64(s.Batch) * int64(s.Sequence)
}

// half is one half of a layer on one rank.
type half struct {
	name    string
	ops     int64 // forward
	weights int64 // every replica has a copy
	experts int64 // weights of experts: every EP-th replica has a copy
	bytes   int64 // of memory, forward
	routed  bool  // tokens are sent to the ranks of their experts
}

// halves returns the two halves of a layer with or without experts.
func (s Step) halves(withExperts bool) [2]half {
	m, tp, tokens := s.Model, int64(s.TP), s.tokens()
	projections := m.AttentionWeights()
	common := int64(math.Round((m.Params-m.ExpertParams())*1e9)) / int64(m.Layers)
	context, cache := float64(s.Sequence)/2, int64(0) // a token sees half of a sequence on average
	if s.Mode == Decode {
		context *= 2 // the new token sees all of it
		cache = int64(float64(s.Batch) * m.Seen(context) / float64(m.Layers) * m.CacheBytes(s.TP))
	}
	// Two products, with the keys and with the values: two operations each for every element of a head and token seen.
	scores := int64(4 * float64(tokens) * m.Seen(context) / float64(m.Layers) * float64(m.Heads*m.HeadDim))
	attention := half{name: "attention", ops: (2*tokens*projections + scores) / tp, weights: projections / tp}
	attention.bytes = s.weightBytes(attention.weights) + cache
	mlp := half{name: "mlp", ops: 2 * tokens * (common - projections) / tp, weights: (common - projections) / tp}
	mlp.bytes = s.weightBytes(mlp.weights)
	if withExperts {
		all := int64(math.Round(m.ExpertParams()*1e9)) / int64(m.Layers-m.DenseLayers)
		mlp.name, mlp.routed = "experts", s.EP > 1
		mlp.ops += 2 * tokens * int64(m.TopK) * (all / int64(m.Experts)) / tp
		mlp.experts = all / int64(max(s.EP, 1)) / tp
		// A rank reads the weights of an expert once, if any token of the EP replicas chooses the expert.
		touched := m.Touched(int(min(tokens*int64(max(s.EP, 1)), 1<<30)))
		mlp.bytes += s.weightBytes(int64(touched * float64(mlp.experts)))
	}
	return [2]half{attention, mlp}
}

// weightBytes returns the bytes of the given number of weights in memory.
func (s Step) weightBytes(weights int64) int64 {
	if s.Mode == Train {
		return weights * elemBytes
	}
	return int64(float64(weights) * s.Model.Bits / 8)
}

// dispatched and combined return the bytes that the tokens of a micro-batch have on the way to their experts and back.
func (s Step) dispatched() int64 {
	elem := int64(elemBytes)
	if s.Mode != Train {
		elem = max(1, int64(s.Model.Bits/8))
	}
	return s.tokens() * int64(s.Model.TopK) * int64(s.Model.Hidden) * elem
}

func (s Step) combined() int64 { return s.activations() * int64(s.Model.TopK) }

// layers returns the halves of every layer.
func (s Step) layers() [][2]half {
	dense, sparse := s.halves(false), s.halves(s.Model.Experts > 0)
	list := make([][2]half, s.Model.Layers)
	for l := range list {
		if list[l] = sparse; l < s.Model.DenseLayers {
			list[l] = dense
		}
	}
	return list
}

// activations returns the bytes of a micro-batch's activations.
func (s Step) activations() int64 { return s.tokens() * int64(s.Model.Hidden) * elemBytes }

// Traces returns the traces of all ranks. The step must have been checked.
func (s Step) Traces() ([]*chakra.Trace, error) {
	traces := make([]*chakra.Trace, s.Ranks())
	s.EP = max(s.EP, 1)
	names := s.newNames()
	layers := s.layers()
	for rank := range traces {
		b := &builder{Step: s, names: names, tp: rank % s.TP, dp: rank / s.TP % s.DP, stage: rank / (s.TP * s.DP), rank: rank}
		first, n := schedule.Split(s.Model.Layers, s.PP, b.stage)
		b.first, b.layers = first, layers[first:first+n]
		groups, err := chakra.GroupNode(b.next(), b.groups())
		if err != nil {
			return nil, err
		}
		b.nodes = append(b.nodes, groups)
		if s.Mode == Train {
			b.train()
		} else {
			for m := range s.MicroBatches {
				b.forward(m)
			}
		}
		traces[rank] = &chakra.Trace{Rank: rank, Nodes: b.nodes}
	}
	return traces, nil
}
