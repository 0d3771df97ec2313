// Package llmimpact is the bench `llm-impact`. It computes how much time all-reduces cost a
// language model that is served by several ranks. It measures nothing: a row is computed
// from a model's public dimensions and a curve of published, measured or imported times.
// docs/models.md has the formulas and the sources of the curves.
package llmimpact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/imports"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/result/model"
	"github.com/kernbench/kernbench/internal/result/predict"
)

// Bench returns the declaration of the bench.
func Bench() *bench.Bench {
	return bench.New("llm-impact", body, append(declaredViews(),
		bench.Help("cost of the all-reduces in serving a language model: per layer, per step, and as a share of the step"),
		bench.Doc(`Computes the cost of the all-reduces in a forward pass of a language model that is
spread over tp ranks. A message has tokens x hidden x 2 bytes. A layer has two
messages, or one if attention and MLP run in parallel, and the curve gives their
time. time_us is the time of all messages. floor_us is the least time of the
rest of the step: reading weights and KV cache, or multiplying at the rate of the
model's precision, whichever takes longer. share_pct is the share of the step that is
communication, without overlap unless --overlap two-batch is given.

step is decode-N (N sequences, one token each) or prefill-N (N tokens at once).
context is the number of tokens before them, whose keys and values are read from the
cache. The GPU is the one that the
curve's rows name; --gpu names another one. With --parallelism
expert, the all-to-alls of the experts are predicted for that GPU.
curve is a published one
(`+strings.Join(model.CurveNames(), ", ")+`),
the prediction for a cluster (predict:h100-8x1), a measured or imported RUN of
kernbench, or a CSV file in the format of import. Between its points a curve is
interpolated; outside them the row is not executed.

against and target-gbps compute the gain from another curve or bus bandwidth.

  kernbench run --bench llm-impact
  kernbench run --bench llm-impact --model llama3-70b --tp 8 --curve out/allreduce-eval
  kernbench run --bench llm-impact --curve nccl-h200,vllm-h200 --tp 8 --step decode-1
  kernbench run --bench llm-impact --model llama3-70b,deepseek-v3 --tp 8 --step decode-16 --context 1K,8K,128K
  kernbench run --bench llm-impact --model deepseek-v3 --parallelism expert --overlap two-batch --step decode-64`),
		bench.Version("2"),
		bench.Ranks("1"),
		bench.Strings("model", llm.Names()...),
		bench.Strings("step", "decode-1", "decode-8", "decode-64", "prefill-2048", "prefill-16384"),
		bench.Ints("tp", "2,4,8"),
		bench.Strings("curve", "nccl-h200"),
		bench.Ints("context", "1K"),
		bench.Choice("parallelism", "how the model is spread: tensor, sequence, expert or dp-attention",
			llm.Parallelisms()...),
		bench.Choice("gpu", "GPU whose memory bandwidth and arithmetic determine the floor; auto is the GPU of the curve",
			append([]string{autoGPU}, llm.GPUs()...)...),
		bench.Choice("overlap", "two-batch: two halves of the batch take turns in communicating and computing",
			"none", twoBatch),
		bench.Option("algorithm", bench.KindString, model.BestAlgorithm,
			"algorithm of a RUN's or file's curve; best is the fastest at each size"),
		bench.Option("against", bench.KindString, "trtllm-h200", "curve whose times to compare with; - for none"),
		bench.Quantity("target-gbps", "0", "bus bandwidth whose times to compare with; 0 for none"),
		bench.Metric("time_us", "us", "lower", "communication of a step"),
		bench.Metric("share_pct", "%", "lower", "communication as a share of communication and floor"),
		bench.Metric("each_us", "us", "lower", "one all-reduce"),
		bench.Metric("layer_us", "us", "lower", "communication of one layer"),
		bench.Metric("step_us", "us", "lower", "a step: communication and floor, as they overlap"),
		bench.Metric("exposed_us", "us", "lower", "communication that does not overlap with the floor"),
		bench.Metric("floor_us", "us", "", "least time of a step without communication"),
		bench.Metric("alltoall_us", "us", "lower", "all-to-alls of a step"),
		bench.Metric("message_bytes", "B", "", "size of one all-reduce"),
		bench.Reports("against_us", "us", "communication of a step with the curve of option against"),
		bench.Reports("against_gain_pct", "%", "how much shorter the step then is"),
		bench.Reports("target_us", "us", "communication of a step with the rate of option target-gbps"),
		bench.Reports("target_gain_pct", "%", "how much shorter the step then is"),
		bench.Metric("allreduces", "", "", "all-reduces of a step"),
		bench.Headline("time_us", "share_pct=share (%)", "each_us", "step_us"),
		bench.Drop(invalidPoint),
		bench.Refuse(checkCurves),
		bench.ContentHashes(curveDigest, "curve", "against"),
	)...)
}

// parseStep parses decode-N and prefill-N. N is the number of tokens in the step.
func parseStep(text string) (phase string, tokens int, err error) {
	phase, number, ok := strings.Cut(text, "-")
	tokens, err = strconv.Atoi(number)
	if !ok || err != nil || tokens < 1 || tokens > 1<<24 || !slices.Contains([]string{"decode", "prefill"}, phase) {
		return "", 0, fmt.Errorf("step %q: want decode-N or prefill-N, with N tokens", text)
	}
	return phase, tokens, nil
}

// invalidPoint returns why a point is meaningless, or nil.
func invalidPoint(p point.Point) error {
	if name := p.At("model").String(); !slices.Contains(llm.Names(), name) {
		if name == "all" {
			return errors.New("all models are the default: leave --model out")
		}
		return bench.Unknown("model", name, llm.Names())
	}
	if v := p.At("tp"); v.Int() < 2 || v.Int() > 1024 {
		return fmt.Errorf("tp is %d: a group has 2 to 1024 ranks", v.Int())
	}
	_, _, err := parseStep(p.At("step").String())
	return err
}

func body(_ context.Context, s *bench.State) error {
	m, err := llm.Named(s.Str("model"))
	if err != nil {
		return err
	}
	phase, tokens, err := parseStep(s.Str("step"))
	if err != nil {
		return err
	}
	curve, err := loadCurve(s.Str("curve"), s.Str("algorithm"))
	if err != nil {
		return err
	}
	gpu, err := gpuOf(curve, s.Str("gpu"))
	if err != nil {
		return err
	}
	if own := llm.GPUOf(curve.GPU); own != "" && own != gpu.Name {
		s.Warn("the curve %s is of %s, but the floor is for %s, as --gpu says", curve.Name, own, gpu.Name)
	}
	s.Detail("gpu", gpu.Name)
	s.Kind(journal.Modelled)
	v := llm.Serving{Model: m, GPU: gpu, Parallelism: llm.Parallelism(s.Str("parallelism")), Ranks: s.Int("tp"),
		Load: llm.Load{Tokens: tokens, Sequences: tokens, Context: s.Int("context")}, Overlap: s.Str("overlap") == twoBatch,
		AllToAll: allToAll(s, gpu)}
	if phase == "prefill" {
		v.Load.Sequences = 1
	}
	if _, _, err := m.AllReduces(v.Parallelism); err != nil {
		return bench.Skip("%v", err)
	}
	step, err := llm.Serve(v, curve)
	if err != nil {
		return bench.NotExecuted(false, "%v", err)
	}
	record(s, m, gpu, step)
	s.Detail("curve", curve.Source)
	if curve.Shared {
		s.Detail(journal.SharingDetail, fmt.Sprint(v.Ranks))
	}
	if gbps := s.Float("target-gbps"); gbps > 0 {
		recordAlternative(s, "target", step, step.With(llm.TargetUS(curve, v.Ranks, step, gbps)))
	}
	return compareWith(s, gpu, curve, step)
}

// Values of the options gpu, against and overlap.
const (
	autoGPU  = "auto"
	none     = "-"
	twoBatch = "two-batch"
)

// gpuOf returns the GPU of the floor: the one that --gpu names, or else the curve's.
func gpuOf(curve *model.Table, name string) (llm.GPU, error) {
	if name != autoGPU {
		return llm.NamedGPU(name)
	}
	own := llm.GPUOf(curve.GPU)
	switch {
	case curve.GPU == "":
		return llm.GPU{}, fmt.Errorf("the curve %s does not say on which GPU all its times were measured: name the GPU with "+
			"--gpu (%s)", curve.Name, strings.Join(llm.GPUs(), ", "))
	case own == "":
		return llm.GPU{}, fmt.Errorf("the curve %s is of %s, whose rates are not known: name another GPU with --gpu (%s)",
			curve.Name, curve.GPU, strings.Join(llm.GPUs(), ", "))
	}
	return llm.NamedGPU(own)
}

// allToAll returns the predicted time of an all-to-all between GPUs of a kind, in nodes of up
// to 8. It is nil if the kind was not measured.
func allToAll(s *bench.State, gpu llm.GPU) func(ranks int, bytes int64) (float64, error) {
	if !slices.Contains(predict.NodeKinds(), gpu.Name) {
		return nil
	}
	return func(ranks int, bytes int64) (float64, error) {
		perNode := min(ranks, 8)
		c, err := predict.Find(fmt.Sprintf("%s-%dx%d", gpu.Name, perNode, (ranks+perNode-1)/perNode))
		if err != nil {
			return 0, err
		}
		p, err := c.Predict(predict.AllToAll, predict.Best, predict.Best, bytes)
		if err == nil {
			s.Detail("alltoall", "predicted for "+c.Name+": "+c.Validate(predict.AllToAll, bytes, true).String())
		}
		return p.US, err
	}
}

// compareWith records the gain from the curve that --against names, if the two can be compared.
func compareWith(s *bench.State, gpu llm.GPU, curve *model.Table, step llm.Step) error {
	name, ranks := s.Str("against"), s.Int("tp")
	if name == none || name == s.Str("curve") {
		return nil
	}
	other, err := loadCurve(name, s.Str("algorithm"))
	if err != nil {
		return fmt.Errorf("against: %w", err)
	}
	of := cmp.Or(llm.GPUOf(other.GPU), other.GPU, "an unknown GPU")
	switch each, err := other.US(ranks, step.Message); {
	case other.Shared != curve.Shared:
		s.Detail("against", "no comparison: the ranks of one of the curves shared a GPU")
	case of != gpu.Name && s.Str("gpu") == autoGPU:
		s.Detail("against", fmt.Sprintf("no comparison: %s is of %s, and the step of %s (--gpu %s compares them)", name, of,
			gpu.Name, gpu.Name))
	case err != nil:
		s.Detail("against", "no comparison: "+err.Error())
	default:
		recordAlternative(s, "against", step, step.With(each))
	}
	return nil
}

func record(s *bench.State, m llm.Model, gpu llm.GPU, step llm.Step) {
	s.Record("time_us", step.CommUS)
	s.Record("share_pct", 100*step.Share())
	s.Record("each_us", step.EachUS)
	s.Record("layer_us", step.LayerUS)
	s.Record("step_us", step.StepUS())
	s.Record("floor_us", step.FloorUS)
	s.Record("exposed_us", step.StepUS()-step.FloorUS)
	s.Record("message_bytes", float64(step.Message))
	s.Record("allreduces", float64(step.Count))
	if step.AllToAllUS > 0 {
		s.Record("alltoall_us", step.AllToAllUS)
	}
	rate, as := gpu.Rate(m.Precision())
	s.Detail("rates", fmt.Sprintf("%g TFLOP/s at %s, %g GB/s (%s)", rate, as, gpu.HBM, gpu.Source))
	s.Detail(journal.ValidatedByDetail, "not validated")
	if step.Remark != "" {
		s.Detail("besides", step.Remark)
	}
	if need, ok := llm.Fits(m, gpu, s.Int("tp")); !ok {
		s.Warn("%.0f GB of weights on each rank do not fit the %.0f GB of %s: the times assume enough memory", need,
			gpu.Memory, gpu.Name)
	}
}

// recordAlternative records the communication time with another all-reduce, and how much
// shorter the step would be in per cent; negative means longer.
func recordAlternative(s *bench.State, name string, now, then llm.Step) {
	s.Report(name+"_us", then.CommUS, "us", "lower")
	s.Report(name+"_gain_pct", 100*(1-then.StepUS()/now.StepUS()), "%", "higher")
}

// predicted is the prefix of a curve that is the prediction for a cluster.
const predicted = "predict:"

// checkCurves refuses unknown curves, and curves without a GPU if --gpu names none, before anything runs.
func checkCurves(p, options point.Point) error {
	name := func(axis string) string { return point.ValueOf(p, options, axis).String() }
	curve, err := loadCurve(name("curve"), name("algorithm"))
	if err == nil {
		_, err = gpuOf(curve, name("gpu"))
	}
	if other := name("against"); err == nil && other != none {
		if _, err = loadCurve(other, name("algorithm")); err != nil {
			err = fmt.Errorf("against: %w", err)
		}
	}
	return err
}

// curveDigest identifies the contents of the file or run from which a curve is read.
func curveDigest(name string) (string, error) {
	cluster, isCluster := strings.CutPrefix(name, predicted)
	switch {
	case isCluster:
		return predict.Digest(cluster)
	case name == none || slices.Contains(model.CurveNames(), name):
		return "", nil
	}
	return imports.SamplesDigest(name)
}

// loadCurve returns a curve: a published one by name, the prediction for a cluster, or the
// times of a RUN or CSV file.
func loadCurve(name, algorithm string) (*model.Table, error) {
	if slices.Contains(model.CurveNames(), name) {
		return model.NamedCurve(name)
	}
	if cluster, ok := strings.CutPrefix(name, predicted); ok {
		c, err := predict.Find(cluster)
		if err != nil {
			return nil, fmt.Errorf("curve %s: %w", name, err)
		}
		return c.Table()
	}
	samples, source, err := imports.Samples(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w, and there is no such RUN or file", bench.Unknown("curve", name, model.CurveNames()))
	}
	if err != nil {
		return nil, fmt.Errorf("curve %s: %w", name, err)
	}
	return model.TableOf(name, source, algorithm, samples)
}
