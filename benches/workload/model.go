package workload

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/workload/replay"
	"github.com/kernbench/kernbench/internal/workload/transformer"
)

// Options of generated steps.
const (
	modelOption    = "model"
	serveOption    = "serve"
	sequenceOption = "sequence-parallel"
	shardedOption  = "sharded"
	gpuOption      = "gpu"
)

// sizes lists the numbers of a generated step.
var sizes = []struct {
	name, def, help string
	into            func(*transformer.Step) *int
}{
	{"tp", "1", "ranks that share each layer (tensor parallelism)", func(s *transformer.Step) *int { return &s.TP }},
	{"pp", "1", "stages of the pipeline", func(s *transformer.Step) *int { return &s.PP }},
	{"dp", "1", "replicas of the model (data parallelism)", func(s *transformer.Step) *int { return &s.DP }},
	{"ep", "1", "replicas that divide the experts among them (expert parallelism); divides dp",
		func(s *transformer.Step) *int { return &s.EP }},
	{"micro-batches", "1", "micro-batches of each replica", func(s *transformer.Step) *int { return &s.MicroBatches }},
	{"batch", "1", "sequences of a micro-batch", func(s *transformer.Step) *int { return &s.Batch }},
	{"sequence", "4096", "tokens of a sequence; K is 1000", func(s *transformer.Step) *int { return &s.Sequence }},
}

// autoGPU selects the GPU of the cluster, or else the defaultGPU.
const (
	autoGPU    = "auto"
	defaultGPU = "h200"
)

// modelOptions declares the options of generated steps. All but the last two can be swept.
func modelOptions() []bench.Clause {
	list := []bench.Clause{bench.Sweepable(bench.Option(modelOption, bench.KindString, "",
		"generate the step of a model instead of reading traces, such as llama3-70b")),
		bench.Sweepable(bench.Option(gpuOption, bench.KindString, autoGPU, "with --"+modelOption+" and without --"+
			flopsAxis+": GPU whose rates a rank reaches, one of "+strings.Join(llm.GPUs(), ", ")+
			"; "+autoGPU+" is the GPU of --"+clusterOption+", or else "+defaultGPU))}
	for _, size := range sizes {
		list = append(list, bench.Sweepable(bench.Option(size.name, bench.KindString, size.def,
			"with --"+modelOption+": "+size.help)))
	}
	return append(list,
		bench.Choice(serveOption, "with --"+modelOption+": generate a step of serving, prefill or decode",
			"none", transformer.Prefill, transformer.Decode),
		bench.Option(sequenceOption, bench.KindBool, "false",
			"with --"+modelOption+": all-gather and reduce-scatter activations instead of all-reducing them"),
		bench.Option(shardedOption, bench.KindBool, "false",
			"with --"+modelOption+": divide the optimizer's state among the replicas"))
}

// stepOf returns the generated step of a point, and whether there is one.
func stepOf(p, options bench.Point) (s transformer.Step, generated bool, err error) {
	name := point.ValueOf(p, options, modelOption).String()
	if name == "" {
		for _, size := range sizes {
			if v := point.ValueOf(p, options, size.name).String(); v != size.def {
				return s, false, fmt.Errorf("--%s %s needs --%s", size.name, v, modelOption)
			}
		}
		return s, false, nil
	}
	if prefixOf(p, options) != "" {
		return s, false, fmt.Errorf("--%s and --%s exclude each other", modelOption, traceOption)
	}
	if s.Model, err = llm.Named(name); err != nil {
		return s, false, err
	}
	for _, size := range sizes {
		text := point.ValueOf(p, options, size.name).String()
		n, err := unit.ParseCount(text)
		if err != nil {
			return s, false, fmt.Errorf("--%s %s: %w", size.name, text, err)
		}
		*size.into(&s) = int(min(n, 1<<30))
	}
	s.Mode = transformer.Train
	if mode := options.At(serveOption).String(); mode != "none" {
		s.Mode = mode
	}
	s.SequenceParallel, s.Sharded = options.At(sequenceOption).Bool(), options.At(shardedOption).Bool()
	return s, true, s.Check()
}

// takeRates sets the rates of a generated step that the user does not give: what good kernels reach on the GPU.
func takeRates(o *replay.Options, p, options bench.Point) error {
	name := point.ValueOf(p, options, gpuOption).String()
	if point.ValueOf(p, options, modelOption).String() == "" {
		if name != autoGPU {
			return fmt.Errorf("--%s %s needs --%s", gpuOption, name, modelOption)
		}
		return nil
	}
	if o.Flops > 0 && o.MemoryBandwidth > 0 {
		return nil
	}
	c, err := clusterOf(p, options)
	if err != nil {
		return err
	}
	g, err := gpuOf(c, name)
	if err != nil {
		return err
	}
	flops, bandwidth := g.Reached(llm.Bits16)
	if o.Flops == 0 {
		o.Flops = flops
	}
	if o.MemoryBandwidth == 0 {
		o.MemoryBandwidth = bandwidth
	}
	return nil
}

// isGenerated reports whether a coordinate is an option of generated steps that differs from its default.
func isGenerated(c point.Coord) bool {
	for _, size := range sizes {
		if c.Name == size.name {
			return c.Value.String() != size.def
		}
	}
	return c.Name == modelOption || c.Name == gpuOption && c.Value.String() != autoGPU
}
