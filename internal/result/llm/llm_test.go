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
	if a, b := FloorUS(m, gpu, 8, 2048), FloorUS(m, gpu, 8, 4096); math.Abs(b/a-2) > 1e-9 {
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
