package transformer

import (
	"fmt"
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
		// A layer has 8.03e9/32 weights, of which a rank has half, in 2 bytes. The operations are 6 for each of
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
	} {
		name := "llama3-8b"
		if c.step.Model.Name != "" {
			name = c.step.Model.Name
		}
		c.step.Model = must.Get(llm.Named(name))(t)
		update := 0.0
		if c.step.Mode == "" {
			c.step.Mode = Train
			update = 10 * c.step.Model.Params * 1e9 * float64(c.step.DP)
			if c.step.Sharded {
				update /= float64(c.step.DP)
			}
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
		h := s.halves()
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
		"tp is 3, but llama3-8b has 32 heads": func(s *Step) { s.TP = 3 },
		"pp is 64, but llama3-8b has 32":      func(s *Step) { s.PP = 64 },
		"dp is 0: want 1":                     func(s *Step) { s.DP = 0 },
		"only dense models":                   func(s *Step) { s.Model = must.Get(llm.Named("mixtral-8x7b"))(t) },
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
