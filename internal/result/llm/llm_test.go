package llm

import (
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/model"
)

func named(t *testing.T, name string) Model {
	t.Helper()
	return must.Get(Named(name))(t)
}

func curve(t *testing.T, name string) *model.Table {
	t.Helper()
	return must.Get(model.NamedCurve(name))(t)
}

// TestPublishedPasses compares with the published communication per forward pass on H200, in
// ms, for NCCL, vLLM and TensorRT-LLM with 2, 4 and 8 ranks.
func TestPublishedPasses(t *testing.T) {
	for _, c := range []struct {
		model  string
		tokens int
		want   [3][3]float64 // by ranks, by curve
	}{
		{"llama3-8b", 1, [3][3]float64{{.43, .30, .18}, {.64, .31, .20}, {1.07, .33, .22}}},
		{"llama3-70b", 1, [3][3]float64{{1.16, .73, .45}, {1.74, .77, .51}, {2.93, .82, .56}}},
		{"llama3-70b", 64, [3][3]float64{{2.28, 1.35, .96}, {2.89, 1.94, 2.06}, {4.18, 2.25, 4.12}}},
		{"llama3-70b", 2048, [3][3]float64{{22.3, 23.2, 22.3}, {27.5, 28.7, 27.7}, {31.6, 26.5, 31.1}}},
		{"llama3-70b", 16384, [3][3]float64{{142, 142, 142}, {189, 189, 189}, {168, 168, 169}}},
		{"llama3-405b", 1, [3][3]float64{{1.83, 1.16, .72}, {2.86, 1.24, .84}, {4.63, 1.43, .98}}},
		{"qwen3-235b", 1, [3][3]float64{{1.26, .87, .53}, {1.89, .90, .60}, {3.13, .97, .66}}},
		{"deepseek-v3", 1, [3][3]float64{{.87, .56, .34}, {1.31, .59, .39}, {2.19, .63, .43}}},
		{"gpt-oss-120b", 1, [3][3]float64{{.48, .33, .20}, {.70, .34, .23}, {1.18, .36, .25}}},
	} {
		for i, ranks := range []int{2, 4, 8} {
			for k, name := range []string{"nccl-h200", "vllm-h200", "trtllm-h200"} {
				gpu, _ := NamedGPU("h200")
				s, err := Impact(named(t, c.model), gpu, Tensor, ranks, c.tokens, curve(t, name))
				if err != nil {
					t.Errorf("%s, %d tokens, %d ranks, %s: %v", c.model, c.tokens, ranks, name, err)
					continue
				}
				// The published table was interpolated over more sizes than the curve keeps.
				if got, want := s.CommUS/1e3, c.want[i][k]; math.Abs(got/want-1) > 0.06 && math.Abs(got-want) > 0.011 {
					t.Errorf("%s, %d tokens, %d ranks, %s: %.3g ms, published %.3g", c.model, c.tokens, ranks, name, got, want)
				}
			}
		}
	}
}

// TestFloorAndShare checks a 70B step in bf16 on 8 ranks of H200: it needs 4.6 ms, and the share
// of communication is 39 % with NCCL and 11 % with a Lamport kernel.
func TestFloorAndShare(t *testing.T) {
	gpu, _ := NamedGPU("h200")
	m := named(t, "llama3-70b")
	for name, want := range map[string]float64{"nccl-h200": 0.39, "trtllm-h200": 0.11} {
		s := must.Get(Impact(m, gpu, Tensor, 8, 1, curve(t, name)))(t)
		if math.Abs(s.FloorUS-4600) > 20 || math.Abs(s.Share()-want) > 0.005 {
			t.Errorf("%s: floor %.0f us, share %.3f, want 4600 and %v", name, s.FloorUS, s.Share(), want)
		}
	}
	// A prefill is limited by arithmetic, so its floor is proportional to its tokens.
	if a, b := FloorUS(m, gpu, Tensor, 8, Load{2048, 2048, 0}),
		FloorUS(m, gpu, Tensor, 8, Load{4096, 4096, 0}); math.Abs(b/a-2) > 1e-9 {
		t.Errorf("floors of 2048 and 4096 tokens are %v and %v", a, b)
	}
	if need, ok := Fits(named(t, "llama3-405b"), gpu, 2); ok || math.Abs(need-405.9) > 0.1 {
		t.Errorf("405B in 2 x 141 GB: %v GB, %v", need, ok)
	}
}

// TestExpertsRead checks that one token reads the active weights, and very many tokens read all.
func TestExpertsRead(t *testing.T) {
	for _, name := range Names() {
		m := named(t, name)
		one, many := m.weightBytes(1), m.weightBytes(1<<20)
		if math.Abs(one/(m.Active*1e9*m.Bits/8)-1) > 1e-9 || math.Abs(many/(m.Params*1e9*m.Bits/8)-1) > 1e-9 {
			t.Errorf("%s reads %v for one token and %v for many, want the active and all weights", name, one, many)
		}
		if some := m.weightBytes(8); some < one || some > many {
			t.Errorf("%s: 8 tokens read %v, between %v and %v", name, some, one, many)
		}
	}
}

func TestModelsAreSane(t *testing.T) {
	if len(models) < 12 {
		t.Errorf("only %d models", len(models))
	}
	for _, m := range models {
		if m.Title == "" || m.Layers < 1 || m.Hidden < 1 || m.Heads%8 != 0 || m.Params < m.Active || m.Active <= 0 ||
			m.Bits <= 0 || (m.Experts > 0) != (m.TopK > 0) ||
			(m.Experts == 0) != (m.Params == m.Active) {
			t.Errorf("%+v", m)
		}
		// Attention output and MLP of a layer have at least 4 hidden² weights. This finds a
		// mistyped digit.
		if least := 4 * float64(m.Layers) * float64(m.Hidden) * float64(m.Hidden) / 1e9; m.Params < least {
			t.Errorf("%s: %v G parameters, but its layers alone have %v", m.Name, m.Params, least)
		}
	}
}

func TestParallelisms(t *testing.T) {
	for _, c := range []struct {
		model   string
		way     Parallelism
		want    int
		besides string
		err     string
	}{
		{"llama3-8b", Tensor, 2, "", ""}, {"gpt-neox-20b", Tensor, 1, "", ""},
		{"llama3-8b", Sequence, 2, "reduce-scatter", ""},
		{"mixtral-8x7b", Tensor, 2, "", ""}, {"mixtral-8x7b", Expert, 1, "all-to-all", ""},
		{"llama3-8b", Expert, 0, "", "no experts"},
		{"deepseek-v3", DataAttention, 1, "needs no all-reduce", ""},
		{"command-r-plus", DataAttention, 0, "", "cannot be distributed"},
		{"llama3-8b", "pipeline", 0, "", "unknown parallelism"},
	} {
		n, besides, err := named(t, c.model).AllReduces(c.way)
		if n != c.want || !strings.Contains(besides, c.besides) || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s, %s: %d, %q, %v", c.model, c.way, n, besides, err)
		}
	}
}

// TestRefusals checks that sizes outside the curve and heads that ranks cannot share fail.
func TestRefusals(t *testing.T) {
	gpu, _ := NamedGPU("h100")
	staged := curve(t, "staged-h100")
	if _, err := Impact(named(t, "llama3-70b"), gpu, Tensor, 2, 1, staged); err == nil ||
		!strings.Contains(err.Error(), "16Ki is outside") {
		t.Errorf("a decode step on a curve from 64 MB: %v", err)
	}
	// The report gives 13.76 s for a prefill of 16 K tokens.
	s, err := Impact(named(t, "llama3-70b"), gpu, Tensor, 2, 16384, staged)
	if err != nil || math.Abs(s.CommUS/13.82e6-1) > 0.01 {
		t.Errorf("the staged prefill takes %v us, %v", s.CommUS, err)
	}
	odd := named(t, "qwen3-coder")
	odd.Heads = 92
	if _, err := Impact(odd, gpu, Tensor, 8, 1, curve(t, "nccl-h100")); err == nil ||
		!strings.Contains(err.Error(), "92 heads") {
		t.Errorf("92 heads over 8 ranks: %v", err)
	}
	for _, f := range []func() error{func() error { _, err := Named("llama"); return err },
		func() error { _, err := NamedGPU("h300"); return err }} {
		if f() == nil {
			t.Error("an unknown name was found")
		}
	}
}

// TestTarget checks that a bandwidth target speeds up large messages only.
func TestTarget(t *testing.T) {
	gpu, _ := NamedGPU("h200")
	c := curve(t, "nccl-h200")
	decode, _ := Impact(named(t, "llama3-70b"), gpu, Tensor, 8, 1, c)
	if got := TargetUS(c, 8, decode, 1000); got != decode.EachUS {
		t.Errorf("a decode message went from %v to %v us by bandwidth", decode.EachUS, got)
	}
	prefill, _ := Impact(named(t, "llama3-70b"), gpu, Tensor, 8, 16384, c)
	want := 16.0 + 268435456*1.75/800/1e3
	if got := TargetUS(c, 8, prefill, 800); math.Abs(got-want) > 1e-6 {
		t.Errorf("256 MiB at 800 GB/s take %v us, want %v", got, want)
	}
}

// TestHandChecked compares one step of every model with numbers worked out by hand: 8 ranks of H200,
// 16 sequences, 8192 tokens of context, NCCL's curve. Weights and cache are in GB for all ranks, as
// read by the step; the floor is their sum over 8 x 3840 GB/s, or over 3840 if all ranks hold a copy.
func TestHandChecked(t *testing.T) {
	gpu := must.Get(NamedGPU("h200"))(t)
	for _, c := range []struct {
		model   string
		message int64   // 16 x hidden x 2
		count   int     // two for each layer, or one
		weights float64 // GB: all, or what 16 tokens touch
		cache   float64 // GB: 16 x 8192 x layers x 2 x KV heads x head size x 2 bytes, or x 576 x 2
		ranks   float64 // over which the cache is spread
	}{
		{"llama3-8b", 131072, 64, 16.06, 17.18, 8}, {"llama3-70b", 262144, 160, 141.2, 42.95, 8},
		{"llama3-405b", 524288, 252, 811.8, 67.65, 8}, {"qwen3-8b", 131072, 72, 16.38, 19.33, 8},
		{"qwen3-32b", 163840, 128, 65.6, 34.36, 8}, {"qwen3-30b", 65536, 96, 40.68, 12.88, 4},
		{"qwen3-235b", 131072, 188, 311.1, 25.23, 4}, {"qwen3-coder", 196608, 124, 547.7, 33.29, 8},
		{"deepseek-v3", 229376, 122, 277.2, 9.21, 1}, {"kimi-k2", 229376, 122, 301.5, 9.21, 1},
		{"gpt-oss-20b", 92160, 48, 9.86, 3.27, 8}, {"gpt-oss-120b", 92160, 72, 25.19, 4.91, 8},
		{"mixtral-8x7b", 131072, 64, 92.5, 17.18, 8}, {"mixtral-8x22b", 196608, 112, 278.5, 30.06, 8},
		{"gpt-neox-20b", 196608, 44, 41.2, 141.7, 8}, {"command-r-plus", 393216, 64, 208, 34.36, 8},
	} {
		m := named(t, c.model)
		load := Load{Tokens: 16, Sequences: 16, Context: 8192}
		s := must.Get(Serve(Serving{Model: m, GPU: gpu, Parallelism: Tensor, Ranks: 8, Load: load}, curve(t, "nccl-h200")))(t)
		floor := (c.weights/8 + c.cache/c.ranks) / 3840 * 1e6
		if s.Message != c.message || s.Count != c.count || math.Abs(m.weightBytes(16)/1e9/c.weights-1) > 0.01 ||
			math.Abs(s.FloorUS/floor-1) > 0.01 {
			t.Errorf("%s: %d x %d bytes, %.1f GB of weights, floor %.0f us; want %d x %d, %.1f, %.0f", c.model, s.Count,
				s.Message,
				m.weightBytes(16)/1e9, s.FloorUS, c.count, c.message, c.weights, floor)
		}
	}
}

// TestPrecision checks that fp8 and fp4 models multiply at the rate of their precision, or the next
// wider one that the GPU has.
func TestPrecision(t *testing.T) {
	for _, c := range []struct {
		gpu, model string
		tflops     float64
		as         Precision
	}{{"h100", "llama3-70b", 989, Bits16}, {"h100", "deepseek-v3", 1979, FP8}, {"h200", "gpt-oss-120b", 1979, FP8},
		{"b200", "gpt-oss-120b", 9000, FP4}, {"a100", "deepseek-v3", 312, Bits16}, {"mi300x", "kimi-k2", 2615, FP8}} {
		g := must.Get(NamedGPU(c.gpu))(t)
		if rate, as := g.Rate(named(t, c.model).Precision()); rate != c.tflops || as != c.as || g.Source == "" {
			t.Errorf("%s on %s: %v TFLOP/s at %s", c.model, c.gpu, rate, as)
		}
	}
	// DeepSeek-V3's prefill of 2048 tokens: 2 x 37e9 x 2048 operations over 8 x 0.7 x 1979 TFLOP/s take 13.7 ms,
	// but reading 671 GB over 8 x 3840 GB/s takes 21.8 ms, and so decides. With the 16-bit rate, the products would.
	floor := FloorUS(named(t, "deepseek-v3"), must.Get(NamedGPU("h200"))(t), Tensor, 8, Load{2048, 2048, 0})
	if math.Abs(floor/21840-1) > 0.01 {
		t.Errorf("DeepSeek-V3's prefill takes %.0f us", floor)
	}
}

// TestExpertsAndOverlap checks the all-to-alls of experts and the overlap of two half batches.
func TestExpertsAndOverlap(t *testing.T) {
	m, gpu := named(t, "deepseek-v3"), must.Get(NamedGPU("h200"))(t)
	var sent []int64
	v := Serving{Model: m, GPU: gpu, Parallelism: Expert, Ranks: 8, Load: Load{Tokens: 64, Sequences: 64},
		AllToAll: func(_ int, bytes int64) (float64, error) { sent = append(sent, bytes); return 10, nil }}
	c := curve(t, "nccl-h200")
	s := must.Get(Serve(v, c))(t)
	// 8 tokens a rank to 8 experts each: 8 x 8 x 7168 elements of 1 byte, and of 2 bytes back, in 58 layers.
	if len(sent) != 2 || sent[0] != 458752 || sent[1] != 917504 || s.AllToAllUS != 2*58*10 || s.Remark != "" ||
		math.Abs(s.CommUS-s.AllToAllUS-61*s.EachUS) > 1e-6 {
		t.Errorf("%v: %+v", sent, s)
	}
	v.Overlap = true
	o := must.Get(Serve(v, c))(t)
	long, short := max(o.CommUS, o.FloorUS), min(o.CommUS, o.FloorUS)
	if o.Message*2 != s.Message || o.Count != 2*s.Count || math.Abs(o.StepUS()-long-short/122) > 1e-6 {
		t.Errorf("%+v: step %v", o, o.StepUS())
	}
	v.Load = Load{Tokens: 1, Sequences: 1}
	if _, err := Serve(v, c); err == nil {
		t.Error("one token was split in two")
	}
}
