package transformer

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/workload/chakra"
	"github.com/kernbench/kernbench/internal/workload/replay"
)

// totals sums what the traces of a step contain, by kind: collectives and bytes of rank 0, operations of all ranks.
type totals struct {
	count map[string]int
	bytes map[string]int64
	ops   int64
}

func total(t testing.TB, s Step) totals {
	t.Helper()
	must.Do(t, s.Check())
	sum := totals{map[string]int{}, map[string]int64{}, 0}
	for rank, tr := range must.Get(s.Traces())(t) {
		must.Do(t, tr.Check(s.Ranks()))
		for _, n := range tr.Nodes {
			sum.ops += n.Ops
			if rank > 0 || !n.Type.IsComm() {
				continue
			}
			kind := n.Kind()
			if n.Type == chakra.Coll {
				kind += " " + strings.TrimRight(n.Group, "0123456789")
			}
			sum.count[kind]++
			sum.bytes[kind] += n.Bytes
		}
	}
	return sum
}

// TestVolumes compares two models with numbers that were computed by hand from their dimensions.
func TestVolumes(t *testing.T) {
	for _, c := range []struct {
		step  Step
		count map[string]int
		bytes map[string]int64
		ops   float64 // without the update
	}{
		// Llama 3.1 8B: 32 layers of hidden 4096. A micro-batch of 4096 tokens has activations of 4096*4096*2 = 32 MiB.
		// Rank 0 is in stage 0 of 2 with 16 layers: 16 layers * 2 halves * 2 directions * 4 micro-batches all-reduces.
		// A layer has 8.03e9/32 weights. A rank has half of them, in 2 bytes each. The operations are 6 for each of
		// 8.03e9 weights and 4*4096 tokens of 2 replicas, and 3*2*4096*32*128 in attention for each token and layer.
		{Step{TP: 2, PP: 2, DP: 2, MicroBatches: 4, Batch: 1, Sequence: 4096},
			map[string]int{"allreduce tp": 256, "allreduce dp": 16, "send": 4, "recv": 4},
			map[string]int64{"allreduce tp": 256 << 25, "allreduce dp": 16 * 250937500, "send": 4 << 25, "recv": 4 << 25},
			2 * 4 * 4096 * (6*8.03e9 + 32*3*2*4096*32*128)},
		// With sequence parallelism an all-gather of half the activations and a reduce-scatter replace each all-reduce, and
		// messages are half as large. With a sharded optimizer the gradients are scattered and the weights gathered.
		{Step{TP: 2, PP: 2, DP: 2, MicroBatches: 4, Batch: 1, Sequence: 4096, SequenceParallel: true, Sharded: true},
			map[string]int{"allgather tp": 256, "reduce_scatter tp": 256, "reduce_scatter dp": 16, "allgather dp": 1, "send": 4,
				"recv": 4},
			map[string]int64{"allgather tp": 256 << 24, "reduce_scatter tp": 256 << 25, "reduce_scatter dp": 16 * 250937500,
				"allgather dp": 16 * 250937500 / 2, "send": 4 << 24, "recv": 4 << 24},
			2 * 4 * 4096 * (6*8.03e9 + 32*3*2*4096*32*128)},
		// Llama 3.1 70B: 80 layers of hidden 8192 in 4 stages. 8192 tokens have activations of 128 MiB.
		{Step{Model: llm.Model{Name: "llama3-70b"}, TP: 8, PP: 4, DP: 1, MicroBatches: 8, Batch: 1, Sequence: 8192},
			map[string]int{"allreduce tp": 20 * 2 * 2 * 8, "send": 8, "recv": 8},
			map[string]int64{"allreduce tp": 640 << 27, "send": 8 << 27, "recv": 8 << 27},
			8 * 8192 * (6*70.6e9 + 80*3*2*8192*64*128)},
		// Decoding reads the cache: 2 operations per weight, and 4 for each cached element of a query.
		{Step{TP: 2, PP: 1, DP: 1, MicroBatches: 1, Batch: 16, Sequence: 1024, Mode: Decode},
			map[string]int{"allreduce tp": 64}, map[string]int64{"allreduce tp": 64 * 16 * 4096 * 2},
			16 * (2*8.03e9 + 32*4*1024*32*128)},
		// Mixtral 8x7B: 32 layers of hidden 4096 with 8 experts; a token takes 2. Active weights are 12.9e9 of
		// 46.7e9, so the experts have (46.7-12.9)/(1-2/8) = 45.067e9 and the rest 1.633e9. Four replicas divide the experts;
		// there are two such sets. 4096 tokens go to 2 experts each in 4096*2*4096*2 bytes = 64 MiB: 32 layers * dispatch and
		// combine * 2 directions * 2 micro-batches. A layer has 51,041,666 other weights, a rank half of them, in 2 bytes,
		// and 1,408,333,333 weights of experts, a rank an eighth of them.
		{Step{Model: llm.Model{Name: "mixtral-8x7b"}, TP: 2, PP: 1, DP: 8, EP: 4, MicroBatches: 2, Batch: 1, Sequence: 4096},
			map[string]int{"alltoall ep": 256, "allreduce tp": 256, "allreduce dp": 32, "allreduce edp": 32},
			map[string]int64{"alltoall ep": 256 << 26, "allreduce tp": 256 << 25, "allreduce dp": 32 * 51041666,
				"allreduce edp": 32 * 352083332},
			8 * 2 * 4096 * (6*12.9e9 + 32*3*2*4096*32*128)},
		// With sequence parallelism a rank dispatches half of the tokens. The two ranks of a group all-gather the 32 MiB that
		// each received before the experts, and 16 MiB before the attention; after them 64 and 32 MiB are reduce-scattered.
		{Step{Model: llm.Model{Name: "mixtral-8x7b"}, TP: 2, PP: 1, DP: 8, EP: 4, MicroBatches: 2, Batch: 1, Sequence: 4096,
			SequenceParallel: true, Sharded: true},
			map[string]int{"alltoall ep": 256, "allgather tp": 256, "reduce_scatter tp": 256, "reduce_scatter dp": 32,
				"reduce_scatter edp": 32, "allgather dp": 1, "allgather edp": 1},
			map[string]int64{"alltoall ep": 256 << 25, "allgather tp": 128<<25 + 128<<24, "reduce_scatter tp": 128<<26 + 128<<25,
				"reduce_scatter dp": 32 * 51041666, "reduce_scatter edp": 32 * 352083332, "allgather dp": 32 * 51041666 / 8,
				"allgather edp": 32 * 352083332 / 2},
			8 * 2 * 4096 * (6*12.9e9 + 32*3*2*4096*32*128)},
		// Without expert parallelism every replica has all experts, and there is one all-reduce of gradients for a layer.
		{Step{Model: llm.Model{Name: "mixtral-8x7b"}, TP: 1, PP: 1, DP: 2, MicroBatches: 1, Batch: 1, Sequence: 4096},
			map[string]int{"allreduce dp": 32}, map[string]int64{"allreduce dp": 32 * 2 * (51041666 + 1408333333)},
			2 * 4096 * (6*12.9e9 + 32*3*2*4096*32*128)},
		// DeepSeek-V3 decodes 16 sequences on each of 8 ranks: 58 layers with experts send 16 tokens to 8 experts each, in 8
		// bits there and in 16 bits back.
		{Step{Model: llm.Model{Name: "deepseek-v3"}, TP: 1, PP: 1, DP: 8, EP: 8, MicroBatches: 1, Batch: 16, Sequence: 1024,
			Mode: Decode}, map[string]int{"alltoall ep": 116}, map[string]int64{"alltoall ep": 58 * 16 * 8 * 7168 * 3},
			8 * 16 * (2*37e9 + 61*4*1024*128*160)},
	} {
		name := "llama3-8b"
		if c.step.Model.Name != "" {
			name = c.step.Model.Name
		}
		c.step.Model = must.Get(llm.Named(name))(t)
		update := 0.0
		if c.step.Mode == "" {
			c.step.Mode = Train
			copies, ofExperts := float64(c.step.DP), float64(c.step.DP)/float64(max(c.step.EP, 1))
			if c.step.Sharded {
				copies, ofExperts = 1, 1
			}
			experts := c.step.Model.ExpertParams()
			update = 10 * 1e9 * (copies*(c.step.Model.Params-experts) + ofExperts*experts)
		}
		got := total(t, c.step)
		if fmt.Sprint(got.count) != fmt.Sprint(c.count) || fmt.Sprint(got.bytes) != fmt.Sprint(c.bytes) {
			t.Errorf("%+v: %v %v, want %v %v", c.step, got.count, got.bytes, c.count, c.bytes)
		}
		if want := c.ops + update; float64(got.ops) < want*0.999999 || float64(got.ops) > want*1.000001 {
			t.Errorf("%+v: %d operations, want %g", c.step, got.ops, want)
		}
	}
}

// TestDecodedBytes checks what DeepSeek-V3 reads from memory for a token of each of 16 sequences on each of 8 ranks, in
// bytes. The attention has 187,105,280 weights in a layer (MLA) and a cache of 576 elements of 16 bits for each token,
// which every rank has for its own sequences. A rank has 32 of 256 experts; 128 tokens choose 98.3 % of them. The
// experts have (671-37)/(1-8/256) = 654.4516e9 weights in 58 layers.
func TestDecodedBytes(t *testing.T) {
	s := Step{Model: must.Get(llm.Named("deepseek-v3"))(t), TP: 1, PP: 1, DP: 8, EP: 8, MicroBatches: 1, Batch: 16,
		Sequence: 1024, Mode: Decode}
	const attention, cache = 187105280, 16 * 1024 * 576 * 2
	others, experts := (671e9-654.4516e9)/61-attention, 654.4516e9/58/8
	touched := 1 - math.Pow(1-8.0/256, 128)
	for i, layer := range s.layers() {
		want := [2]float64{attention + cache, others}
		if i >= 3 {
			want[1] += touched * experts
		}
		for k, h := range layer {
			if math.Abs(float64(h.bytes)/want[k]-1) > 1e-5 {
				t.Errorf("layer %d, %s: %d bytes, want %.0f", i, h.name, h.bytes, want[k])
			}
		}
	}
}

// TestModels generates a step of every model with and without expert parallelism, and replays it.
func TestModels(t *testing.T) {
	for _, name := range llm.Names() {
		s := Step{Model: must.Get(llm.Named(name))(t), TP: 2, PP: 2, DP: 2, EP: 1, MicroBatches: 2, Batch: 1, Sequence: 64,
			Mode: Train}
		s.Model.Layers, s.Model.DenseLayers, s.Model.LocalLayers = 4, min(s.Model.DenseLayers, 1), s.Model.LocalLayers/8
		if s.Model.Experts > 0 {
			s.EP = 2
		}
		for _, s.SequenceParallel = range []bool{false, true} {
			must.Do(t, s.Check())
			traces := must.Get(s.Traces())(t)
			for _, tr := range traces {
				must.Do(t, tr.Check(s.Ranks()))
			}
			w := must.Get(replay.New(traces, replay.Options{Flops: 1e15, MemoryBandwidth: 1e12}))(t)
			machine := must.Get(loggp.NewMachine(loggp.Network{Name: "fast", Bandwidth: 1e9}, s.Ranks()))(t)
			if r := must.Get(w.Run(replay.OnNetwork(machine, replay.Choice(replay.Auto))))(t); r.Time <= 0 {
				t.Errorf("%s takes %v", name, r.Time)
			}
		}
	}
}

// TestPipeline replays steps without communication time: 1F1B takes (micro-batches + stages - 1) times a forward and a
// backward pass.
func TestPipeline(t *testing.T) {
	m := llm.Model{Name: "small", Layers: 4, Hidden: 64, Heads: 4, KVHeads: 4, HeadDim: 16, Params: 0.001}
	for _, c := range []struct{ pp, micro int }{{1, 1}, {2, 4}, {4, 2}, {4, 8}} {
		s := Step{Model: m, TP: 2, PP: c.pp, DP: 2, MicroBatches: c.micro, Batch: 1, Sequence: 128, Mode: Train}
		traces := must.Get(s.Traces())(t)
		for _, tr := range traces {
			tr.Nodes = tr.Nodes[:len(tr.Nodes)-1] // without the update
		}
		w := must.Get(replay.New(traces, replay.Options{Flops: 1e12}))(t)
		machine := must.Get(loggp.NewMachine(loggp.Network{Name: "fast", Bandwidth: 1e12}, s.Ranks()))(t)
		r := must.Get(w.Run(replay.OnNetwork(machine, replay.Choice(replay.Auto))))(t)
		h := s.halves(false)
		pass := float64(h[0].ops+h[1].ops) * 3 * float64(4/c.pp) / 1e12 * 1e6
		if got, want := replay.Micros(r.Time), float64(c.micro+c.pp-1)*pass; got < want || got > want*1.02 {
			t.Errorf("%d stages, %d micro-batches: %g µs, want %g", c.pp, c.micro, got, want)
		}
	}
}

// TestRefused plants faults.
func TestRefused(t *testing.T) {
	good := Step{Model: must.Get(llm.Named("llama3-8b"))(t), TP: 2, PP: 2, DP: 2, MicroBatches: 2, Batch: 1, Sequence: 8}
	for want, change := range map[string]func(*Step){
		"tp is 3, but llama3-8b has 32 heads":   func(s *Step) { s.TP = 3 },
		"pp is 64, but llama3-8b has 32":        func(s *Step) { s.PP = 64 },
		"dp is 0: want 1":                       func(s *Step) { s.DP = 0 },
		"ep is 2, but llama3-8b has no experts": func(s *Step) { s.EP = 2 },
		"ep is 4: it must divide dp, which is 2, and the 8 experts of mixtral-8x7b": func(s *Step) {
			s.Model, s.EP = must.Get(llm.Named("mixtral-8x7b"))(t), 4
		},
		"want at most 16384 ranks":            func(s *Step) { s.DP = 1 << 14 },
		"16777216 micro-batches of 32 layers": func(s *Step) { s.MicroBatches = 1 << 24 },
		"sequence is 0: want 1 to 16777216":   func(s *Step) { s.Sequence = 0 },
	} {
		s := good
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
