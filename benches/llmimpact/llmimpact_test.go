package llmimpact

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/llm"
)

// rowsOf computes a sweep. Words are "name=SPEC" for axes and "--name=value" for options.
func rowsOf(t *testing.T, words ...string) dataset.Set {
	t.Helper()
	return must.Get(benchtest.Rows(t, Bench(), "cpu", words...))(t)
}

// The default sweep has a modelled time for every model, step and group.
func TestDefaultSweep(t *testing.T) {
	rows := rowsOf(t)
	if want := len(llm.Names()) * 5 * 3; len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, r := range rows {
		m := r.Metrics
		if r.Status != journal.OK || r.Kind != journal.Modelled || !(m["time_us"] > 0) ||
			!(m["share_pct"] > 0 && m["share_pct"] < 100) {
			t.Errorf("%s: %s %s, %v", r.Point, r.Status, r.Reason, m)
		}
		if sum := m["floor_us"] + m["time_us"]; m["step_us"] != sum {
			t.Errorf("%s: step %v, floor and communication are %v", r.Point, m["step_us"], sum)
		}
	}
}

func TestOneRow(t *testing.T) {
	r := rowsOf(t, "model=llama3-70b", "tp=8", "step=decode-1", "--target-gbps=200")[0]
	for name, want := range map[string]string{"message_bytes": "16384", "allreduces": "160", "each_us": "18.3",
		"layer_us": "36.6", "time_us": "2928", "share_pct": "38.9",
		"against_us": "560", "against_gain_pct": "31.4", "target_us": "2928", "target_gain_pct": "0"} {
		if got := fmt.Sprintf("%.4g", r.Metrics[name]); got != want && fmt.Sprintf("%.3g", r.Metrics[name]) != want &&
			fmt.Sprintf("%.0f", r.Metrics[name]) != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if !strings.Contains(r.Details["curve"], "NCCL 2.29.2 on 8x H200") {
		t.Errorf("the curve's source is %q", r.Details["curve"])
	}
	big := rowsOf(t, "model=llama3-405b", "tp=2", "step=decode-1")[0]
	if len(big.Conditions) != 1 || !strings.Contains(big.Conditions[0].Sentence(),
		"406 GB of weights on each rank do not fit the 141 GB") {
		t.Errorf("warnings are %q", big.Conditions.Sentences())
	}
}

// The GPU follows from the curve, and a row whose GPU was named says so. The cache of a long context
// lengthens the floor, and experts add all-to-alls with the error of their prediction.
func TestServing(t *testing.T) {
	one := func(words ...string) *journal.Row {
		return rowsOf(t, append([]string{"model=llama3-70b", "tp=8", "step=decode-1"}, words...)...)[0]
	}
	h100 := one("curve=nccl-h100")
	if got := fmt.Sprintf("%.1f", h100.Metrics["share_pct"]); h100.Details["gpu"] != "h100" || got != "31.5" ||
		!strings.Contains(h100.Details["against"], "no comparison: trtllm-h200 is of h200") || len(h100.Conditions) != 0 {
		t.Errorf("share %s, %v, %q", got, h100.Details, h100.Conditions.Sentences())
	}
	if r := one("curve=nccl-h100", "--gpu=h200"); r.Details["gpu"] != "h200" || len(r.Conditions) != 1 ||
		!strings.Contains(r.Conditions[0].Sentence(), "the curve nccl-h100 is of h100, but the floor is for h200") ||
		r.Metrics["against_us"] == 0 {
		t.Errorf("%v, %q", r.Details, r.Conditions.Sentences())
	}
	if r := one(`curve="predict:b200-8x1"`); r.Details["gpu"] != "b200" || r.Status != journal.OK {
		t.Errorf("%s %s: %v", r.Status, r.Reason, r.Details)
	}
	short, long := one("context=1K"), one("context=128K")
	// 128000 tokens x 80 layers x 2 x 8 heads x 128 x 2 bytes over 8 x 3840 GB/s take 1365 us.
	if grown := long.Metrics["floor_us"] - short.Metrics["floor_us"]; math.Abs(grown/(1365*127/128.0)-1) > 0.01 {
		t.Errorf("127000 tokens of context take %v us", grown)
	}
	expert := rowsOf(t, "model=deepseek-v3", "tp=8", "step=decode-64", "--parallelism=expert")[0]
	if !(expert.Metrics["alltoall_us"] > 0) || expert.Metrics["time_us"] <= expert.Metrics["alltoall_us"] ||
		!strings.Contains(expert.Details["alltoall"], "predicted for h200-8x1: median error") {
		t.Errorf("%v, %v", expert.Metrics, expert.Details)
	}
	plain, overlapped := rowsOf(t, "model=llama3-70b", "tp=8", "step=prefill-2048")[0],
		rowsOf(t, "model=llama3-70b", "tp=8", "step=prefill-2048", "--overlap=two-batch")[0]
	figs := benchtest.Figures(t, Bench(), dataset.Set{overlapped})
	bars := figs[slices.IndexFunc(figs, func(f figure.Figure) bool { return f.Name == "llm_step" })]
	high := 0.0
	for _, series := range bars.Panels[0].Series {
		high += series.Points[0].Y
	}
	if step := overlapped.Metrics["step_us"]; math.Abs(high/step-1) > 1e-9 {
		t.Errorf("with overlap the bar of a step of %g us is %g us high", step, high)
	}
	if overlapped.Metrics["step_us"] >= plain.Metrics["step_us"] || overlapped.Metrics["message_bytes"]*2 !=
		plain.Metrics["message_bytes"] {
		t.Errorf("%v, with overlap %v", plain.Metrics, overlapped.Metrics)
	}
}

// Points outside the curve, and models that cannot be spread in this way, have a reason instead of a
// time.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		settings []string
		status   journal.Status
		reason   string
	}{
		{[]string{"model=llama3-70b", "tp=2", "step=decode-1", "curve=staged-h100"}, journal.NotExecuted,
			"16Ki is outside, and nothing is extrapolated"},
		{[]string{"model=llama3-70b", "tp=3", "step=decode-1"}, journal.NotExecuted, "64 heads, which 3 ranks cannot share"},
		{[]string{"model=llama3-70b", "tp=16", "step=decode-1"}, journal.NotExecuted, "no 16 ranks, only 2, 4, 8"},
		{[]string{"model=llama3-70b", "tp=2", "step=decode-1", "--parallelism=expert"}, journal.Skipped, "no experts"},
	} {
		r := rowsOf(t, c.settings...)[0]
		if r.Status != c.status || !strings.Contains(string(r.Reason), c.reason) {
			t.Errorf("%v: %s, %s", c.settings, r.Status, r.Reason)
		}
	}
	for text, reason := range map[string]string{"model=all": "leave --model out", "model=llama3-7b": "llama3-70b",
		"step=decode": "want decode-N", "step=decode-0": "want decode-N", "step=train-1": "want decode-N",
		"tp=1": "2 to 1024"} {
		name, value, _ := strings.Cut(text, "=")
		p := point.Point{{Name: "model", Value: point.StringValue("llama3-8b")},
			{Name: "step", Value: point.StringValue("decode-1")}, {Name: "tp", Value: point.IntValue(2)}}
		v := point.StringValue(value)
		if name == "tp" {
			v = point.IntValue(1)
		}
		if err := invalidPoint(p.With(name, v)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A curve may come from a file or a RUN.
func TestOwnCurves(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.csv")
	text := "algorithm,dtype,ranks,size,time_us\nring,bf16,2,1K,10\nring,bf16,2,1M,100\ntree,bf16,2,1K,5\n" +
		"tree,bf16,2,1M,900\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	for words, reason := range map[string]string{"curve=nccl-h20": "no such RUN or file",
		"--against=nccl-h20":   "against: unknown curve",
		`curve="` + file + `"`: "does not say on which GPU"} {
		if _, err := benchtest.Rows(t, Bench(), "cpu", words); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", words, err)
		}
	}
	for algorithm, want := range map[string]float64{"best": 5, "ring": 10} {
		c := must.Get(loadCurve(file, algorithm))(t)
		if us, err := c.US(2, 1024); err != nil || us != want {
			t.Errorf("%s at 1 KiB is %v, %v", algorithm, us, err)
		}
	}
	w := must.Get(journal.Open(filepath.Join(dir, "run")))(t)
	ranks := 2
	for _, rec := range []any{journal.Header{Schema: journal.Schema, Run: "r", Bench: "collectives"},
		journal.Row{Schema: journal.Schema, Run: "r", Bench: "collectives", Status: journal.OK, NumRanks: &ranks, Key: "k",
			Point: point.Point{{Name: "op", Value: point.StringValue("allreduce")},
				{Name: "algorithm", Value: point.StringValue("ring")}, {Name: "size", Value: point.BytesValue(8192)}},
			Metrics: map[string]float64{"time_us": 42}}} {
		must.Do(t, w.Append(rec))
	}
	w.Close()
	r := rowsOf(t, "model=llama3-8b", "tp=2", "step=decode-1", `curve="`+filepath.Join(dir, "run")+`"`, "--gpu=h100")[0]
	if r.Metrics["each_us"] != 42 || !strings.Contains(r.Details["curve"], "run r of bench collectives") {
		t.Errorf("%s %s: %v, %v", r.Status, r.Reason, r.Metrics, r.Details)
	}
}

// The GPU of a curve is a fact of its rows. The path of a file says nothing about it.
func TestGPUOfCurve(t *testing.T) {
	dir := t.TempDir()
	file := func(folder, device string) string {
		must.Do(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
		path := filepath.Join(dir, folder, "x.csv")
		text := "algorithm,dtype,ranks,size,time_us,device\nring,bf16,8,1K,10," + device +
			"\nring,bf16,8,1M,100," + device + "\n"
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, c := range []struct{ path, gpu, fault string }{
		{file("data100", ""), "", "does not say on which GPU"},
		{file("mi300x", ""), "", "does not say on which GPU"},
		{file("mi300x/nvidia", "NVIDIA H100 80GB HBM3"), "h100", ""},
		{file("h200", "NVIDIA A100-SXM4-80GB"), "a100", ""},
		{file("h200/grace", "NVIDIA GB200"), "", "is of NVIDIA GB200, whose rates are not known"},
	} {
		rows, err := benchtest.Rows(t, Bench(), "cpu", "model=llama3-8b", "tp=8", "step=decode-1", `curve="`+c.path+`"`)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), "--gpu") {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || rows[0].Details["gpu"] != c.gpu || len(rows[0].Conditions) > 0:
			t.Errorf("%+v: %v, %v", c, err, rows)
		}
	}
}

// The evaluation of a GPU can serve as a curve of its fastest algorithm at each size. The rows say
// that the ranks shared the GPU, and are not compared with curves of links.
func TestCurveOfOneGPU(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w := must.Get(journal.Open(dir))(t)
	ranks := 2
	records := []any{journal.Header{Schema: journal.Schema, Run: "r", Bench: "allreduce-eval"}}
	for algorithm, us := range map[string]float64{"one-stage": 16, "lamport": 15, "auto": 15.5} {
		records = append(records, journal.Row{Schema: journal.Schema, Run: "r", Bench: "allreduce-eval", Part: "performance",
			Backend: "cuda", Status: journal.OK, NumRanks: &ranks,
			Key: algorithm, Metrics: map[string]float64{"time_us": us, "kernel_us": 1},
			Details: map[string]string{journal.SharingDetail: "2", journal.DeviceDetail: "NVIDIA H200", "buffers": "symmetric"},
			Point: point.Point{{Name: "algorithm", Value: point.StringValue(algorithm)},
				{Name: "dtype", Value: point.StringValue("bf16")}, {Name: "size", Value: point.BytesValue(8192)}}})
	}
	for _, rec := range records {
		must.Do(t, w.Append(rec))
	}
	w.Close()
	r := rowsOf(t, "model=llama3-8b", "tp=2", "step=decode-1", `curve="`+dir+`"`)[0]
	if r.Metrics["each_us"] != 15 || r.Sharing() != 2 || !strings.Contains(r.Details["curve"], "not of a link") ||
		!strings.Contains(r.Details["against"], "no comparison") {
		t.Errorf("%s %s: %v, %v", r.Status, r.Reason, r.Metrics, r.Details)
	}
}

// Figures and sections are complete for a sweep, for a single point, and for no rows.
func TestViews(t *testing.T) {
	for _, rows := range []dataset.Set{
		rowsOf(t, "--target-gbps=400"), rowsOf(t, "curve=nccl-h200,vllm-h200,staged-h100", "model=llama3-8b,deepseek-v3"),
		rowsOf(t, "model=llama3-8b", "tp=8", "step=decode-1", "--against=-"),
	} {
		for _, f := range benchtest.Figures(t, Bench(), rows) {
			if err := f.Validate(); err != nil {
				t.Error(err)
			}
		}
		secs := benchtest.Sections(t, Bench(), rows)
		if len(secs) < 3 || benchtest.Text(secs[0]) == "" || len(secs[len(secs)-1].Table) < 2 {
			t.Errorf("sections are %+v", secs)
		}
	}
	if len(benchtest.Figures(t, Bench(), nil))+len(benchtest.Sections(t, Bench(), nil)) > 0 {
		t.Error("views of nothing")
	}
	secs := benchtest.Sections(t, Bench(), rowsOf(t, "--target-gbps=400"))
	if said := secs[0].Sentences; len(said) != 2 || said[0].ID != "share" || len(said[0].Rows) != 2 {
		t.Errorf("the evidence is %+v", said)
	}
	if len(secs) != 4 || secs[1].Title != "Largest gains" || len(secs[1].Table) != maxGains+1 ||
		len(secs[1].Lines) != maxGains || secs[1].Lines[0].ID != "gain" ||
		secs[1].Table[1][0] != "gpt-oss-120b" {
		t.Errorf("the ranked gains: %+v", secs[1])
	}
	if !strings.Contains(benchtest.Text(secs[0]), "**decode**: communication takes from 1 % of the step") ||
		strings.Contains(benchtest.Text(secs[0]), "no number") {
		t.Errorf("the summary: %s", benchtest.Text(secs[0]))
	}
	text := benchtest.Text(benchtest.Sections(t, Bench(), rowsOf(t, "curve=vllm-eager-h200"))[0])
	if !strings.Contains(text, "points have no number") {
		t.Errorf("the section does not state what is missing: %s", text)
	}
}

// A negative bus bandwidth is a mistake; it does not mean "none".
func TestTargetBelowZero(t *testing.T) {
	_, err := plan.Make(Bench(), plan.Request{Backend: "cpu", Seed: 1,
		Options: []plan.Assign{{Name: "target-gbps", Text: "-5"}}})
	if err == nil || !strings.Contains(err.Error(), "target-gbps: -5: want a number of 0 or more") {
		t.Errorf("%v", err)
	}
}
