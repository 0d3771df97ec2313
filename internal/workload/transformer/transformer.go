// Package transformer generates the execution traces of a step of a dense transformer, which is distributed over ranks
// by tensor, pipeline and data parallelism. It measures nothing: operations and bytes follow from the public dimensions
// of a model.
//
// # Ranks
//
// Tensor parallelism varies fastest, then data parallelism, then the pipeline stage, as in Megatron-LM: rank
// t + TP*(d + DP*stage). Layers are divided among the stages as evenly as possible.
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
// # Serving
//
// A step is the forward pass of micro-batches: of all tokens of the sequences (prefill), or of one token of each
// sequence, which reads the weights and the keys and values of the sequence from memory (decode).
//
// # Counts
//
// A layer has Params/Layers weights, so the embeddings are spread over the layers. A token takes two operations per
// weight, and in causal attention 2*S*heads*head_dim on average over a sequence of S tokens. Weights, gradients and
// activations have 16 bits. The update moves 16 bytes per weight.
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
	}{{"tp", s.TP}, {"pp", s.PP}, {"dp", s.DP}, {"micro-batches", s.MicroBatches}, {"batch", s.Batch},
		{"sequence", s.Sequence}} {
		if v.value < 1 || v.value > 1<<24 {
			return fmt.Errorf("%s is %d: want 1 to %d", v.name, v.value, 1<<24)
		}
	}
	switch {
	case m.Experts > 0:
		return fmt.Errorf("%s has experts: only dense models can be generated", m.Name)
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
	weights int64
	bytes   int64 // of memory, forward
}

// halves returns the two halves of a layer.
func (s Step) halves() [2]half {
	m, tp, tokens := s.Model, int64(s.TP), s.tokens()
	layer := int64(math.Round(m.Params*1e9)) / int64(m.Layers)
	projections := int64(m.Hidden) * int64(m.HeadDim) * 2 * int64(m.Heads+m.KVHeads)
	scores := 2 * tokens * int64(s.Sequence) * int64(m.Heads) * int64(m.HeadDim)
	cache := int64(0)
	if s.Mode == Decode { // a token sees the whole cache, and not half of it on average
		scores *= 2
		cache = int64(s.Batch) * int64(s.Sequence) * 2 * int64(m.KVHeads) * int64(m.HeadDim) * elemBytes
	}
	attention := half{name: "attention", ops: (2*tokens*projections + scores) / tp, weights: projections / tp}
	mlp := half{name: "mlp", ops: 2 * tokens * (layer - projections) / tp, weights: (layer - projections) / tp}
	attention.bytes = attention.weights*elemBytes + cache/tp
	mlp.bytes = mlp.weights * elemBytes
	return [2]half{attention, mlp}
}

// activations returns the bytes of a micro-batch's activations.
func (s Step) activations() int64 { return s.tokens() * int64(s.Model.Hidden) * elemBytes }

// Traces returns the traces of all ranks. The step must have been checked.
func (s Step) Traces() ([]*chakra.Trace, error) {
	traces := make([]*chakra.Trace, s.Ranks())
	names := s.newNames()
	for rank := range traces {
		b := &builder{Step: s, names: names, halves: s.halves(), tp: rank % s.TP, dp: rank / s.TP % s.DP,
			stage: rank / (s.TP * s.DP), rank: rank}
		_, b.layers = schedule.Split(s.Model.Layers, s.PP, b.stage)
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
