package accuracy

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/result/predict"
	"github.com/kernbench/kernbench/internal/workload/replay"
	"github.com/kernbench/kernbench/internal/workload/transformer"
)

// step is a published training step.
type step struct {
	cluster string
	step    transformer.Step
	seconds float64
	remark  string
}

// megatron returns a step of a GPT model with tensor and sequence parallelism, as published by Korthikanti et al.,
// "Reducing Activation Recomputation in Large Transformer Models" (2022), tables 3 and 5: A100 80 GB, sequences of
// 2,048 tokens, 51,200 words. Attention is recomputed there, which the generated step does not do.
func megatron(name string, layers, hidden, heads int, params float64, pp, microBatches, batch int, seconds float64,
	remark string) step {
	m := llm.Model{Name: "gpt-" + name, Title: "GPT " + name, Layers: layers, Hidden: hidden, Heads: heads, KVHeads: heads,
		HeadDim: hidden / heads, Params: params, Active: params, Bits: 16}
	return step{fmt.Sprintf("a100-8x%d", pp), transformer.Step{Model: m, TP: 8, PP: pp, DP: 1, MicroBatches: microBatches,
		Batch: batch, Sequence: 2048, SequenceParallel: true, Mode: transformer.Train}, seconds, remark}
}

const interleaved = "the published step interleaves 3 stages on each rank, the generated one does not"

// steps are the published steps that can be generated.
var steps = []step{
	megatron("22B", 48, 6144, 64, 22.07, 1, 1, 4, 1.10, ""),
	megatron("175B", 96, 12288, 96, 174.6, 8, 64, 1, 13.75, interleaved),
}

// Steps replays every published training step on the network of its cluster. Kernels reach the rates of
// llm.GPU.Reached.
func Steps() (list []Comparison, err error) {
	for _, s := range steps {
		c, err := compare(s)
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", s.step.Model.Name, s.cluster, err)
		}
		list = append(list, c)
	}
	return list, nil
}

func compare(s step) (Comparison, error) {
	c := Comparison{System: s.cluster, What: s.step.Model.Title, Published: 1e6 * s.seconds, Remark: s.remark}
	var err error
	c.Simulated, err = s.simulate()
	return c, err
}

// simulate returns the time of the step, in microseconds.
func (s step) simulate() (float64, error) {
	c, err := predict.Find(s.cluster)
	if err != nil {
		return 0, err
	}
	n, err := c.Simulated()
	if err != nil {
		return 0, err
	}
	g, err := llm.NamedGPU(c.GPU)
	if err != nil {
		return 0, err
	}
	traces, err := s.step.Traces()
	if err != nil {
		return 0, err
	}
	o := replay.Options{}
	o.Flops, o.MemoryBandwidth = g.Reached(llm.Bits16)
	return replayed(n, traces, o)
}

// StepTable returns steps as a Markdown table.
func StepTable(list []Comparison) string {
	var out strings.Builder
	out.WriteString("| step | on | published | simulated | difference | remark |\n|---|---|---|---|---|---|\n")
	for _, c := range list {
		out.WriteString(stepRow(c))
	}
	return out.String()
}

func stepRow(c Comparison) string {
	return fmt.Sprintf("| %s | %s | %.2f s | %.2f s | %s | %s |\n", c.What, c.System, c.Published/1e6, c.Simulated/1e6,
		percent(c.Difference()), c.Remark)
}
