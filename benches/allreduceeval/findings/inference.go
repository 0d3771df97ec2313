package findings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/result/model"
)

// Models are the language models of the section on inference if nobody names others.
const Models = "llama3-8b,llama3-70b,deepseek-v3"

// ModelsOption is the option that names them.
const ModelsOption = "models"

// The steps of inference that the section speaks of: tokens in one forward pass.
const (
	decodeTokens  = 1
	prefillTokens = 512
)

// CheckModels refuses names of models that nobody knows.
func CheckModels(names string) error {
	_, err := lists.TryMap(strings.Split(names, ","), llm.Named)
	return err
}

// modelsOf are the models that the run names; none if one of them is not known.
func modelsOf(rows []journal.Row) []llm.Model {
	names := Models
	for _, r := range rows {
		if v, has := r.Options.Get(ModelsOption); has {
			names = v.String()
		}
	}
	models, _ := lists.TryMap(strings.Split(names, ","), llm.Named)
	return models
}

// inferenceSections say what the times mean for language models: a table of steps, and
// one conclusion for each model.
func inferenceSections(rows []journal.Row, samples []model.Sample) []bench.Section {
	models := modelsOf(rows)
	exact := exactSamples(samples)
	if len(exact) == 0 || len(models) == 0 {
		return nil
	}
	ranks := slices.MaxFunc(exact, func(a, b model.Sample) int { return a.Ranks - b.Ranks }).Ranks
	curve, err := model.TableOf("of this run", "", model.BestAlgorithm, exact)
	gpu, gpuErr := llm.NamedGPU(llm.GPUs()[0])
	if err != nil || gpuErr != nil || ranks < 2 {
		return nil
	}
	table := [][]string{{"model", "step", "message", "all-reduces", "each takes", "together",
		"rest of the step, at least", "share"}}
	var lines []string
	for _, m := range models {
		decode, decodeErr := llm.Impact(m, gpu, llm.Tensor, ranks, decodeTokens, curve)
		prefill, prefillErr := llm.Impact(m, gpu, llm.Tensor, ranks, prefillTokens, curve)
		table = append(table, stepRow(m, "decode", decodeTokens, decode, decodeErr),
			stepRow(m, "prefill", prefillTokens, prefill, prefillErr))
		lines = append(lines, fmt.Sprintf("- **%s:** %s", m.Title, conclusion(m, decode, decodeErr, prefill, prefillErr)))
	}
	text := fmt.Sprintf("What the fastest exact all-reduce at each size would cost a model that is spread over %d "+
		"ranks, beside the least time that %s needs for the rest "+
		"(reading the weights or multiplying), without overlap: arithmetic on the times of this run, no run of a model. "+
		"`--%s` names other models; the bench `llm-impact` has more steps.\n\n%s",
		ranks, gpu.Name, ModelsOption, strings.Join(lines, "\n"))
	return []bench.Section{{Title: "What it means for LLM inference", Lead: true, Text: text, Table: table}}
}

func stepRow(m llm.Model, phase string, tokens int, s llm.Step, err error) []string {
	step := fmt.Sprintf("%s, %s", phase, unit.Plural(tokens, "token"))
	if err != nil {
		return []string{m.Title, step, unit.FormatBytes(m.Message(tokens)), "", "not measured at this size", "", "",
			"unknown"}
	}
	return []string{m.Title, step, unit.FormatBytes(s.Message), fmt.Sprint(s.Count), unit.FormatMicros(s.EachUS),
		unit.FormatMicros(s.CommUS),
		unit.FormatMicros(s.FloorUS), fmt.Sprintf("%.0f %%", 100*s.Share())}
}

// littleShare of a step is what nobody would notice.
const littleShare = 0.05

// conclusion is one sentence on a model.
func conclusion(m llm.Model, decode llm.Step, decodeErr error, prefill llm.Step, prefillErr error) string {
	outside := func(tokens int) string { return "the run has no times of " + unit.FormatBytes(m.Message(tokens)) }
	switch {
	case decodeErr != nil && prefillErr != nil:
		return fmt.Sprintf("not known, %s nor of %s; measure these sizes.", outside(decodeTokens),
			unit.FormatBytes(m.Message(prefillTokens)))
	case prefillErr != nil:
		return "decode " + weight(decode) + "; prefill is not known, " + outside(prefillTokens) + "."
	case decodeErr != nil:
		return "prefill " + weight(prefill) + "; decode is not known, " + outside(decodeTokens) + "."
	case max(decode.Share(), prefill.Share()) < littleShare:
		return fmt.Sprintf("a faster all-reduce would not be noticed: %.0f %% of a decode step and %.0f %% of a prefill.",
			100*decode.Share(), 100*prefill.Share())
	case decode.Share() >= prefill.Share():
		return fmt.Sprintf("make messages of %s faster first: decode %s (prefill: %.0f %%).",
			unit.FormatBytes(decode.Message), weight(decode), 100*prefill.Share())
	}
	return fmt.Sprintf("make messages of %s faster first: prefill %s (decode: %.0f %%).",
		unit.FormatBytes(prefill.Message), weight(prefill), 100*decode.Share())
}

func weight(s llm.Step) string {
	return fmt.Sprintf("spends %.0f %% of its time in all-reduces, %d of %s", 100*s.Share(), s.Count,
		unit.FormatMicros(s.EachUS))
}
