package findings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/llm"
	"github.com/kernbench/kernbench/internal/result/model"
)

// ModelsOption is the option that names the language models of the section on
// inference, and Models is its default.
const (
	ModelsOption = "models"
	Models       = "llama3-8b,llama3-70b,deepseek-v3"
)

// The steps of inference, as tokens in one forward pass.
const (
	decodeTokens  = 1
	prefillTokens = 512
)

func parseModels(names string) ([]llm.Model, error) {
	return lists.TryMap(strings.Split(names, ","), llm.Named)
}

// CheckModels returns an error if a name is not a known model.
func CheckModels(names string) error {
	_, err := parseModels(names)
	return err
}

// modelsOf returns the models of a run, or none if one of them is not known.
func modelsOf(rows dataset.Set) []llm.Model {
	names := Models
	for _, r := range rows {
		if v, has := r.Options.Get(ModelsOption); has {
			names = v.String()
		}
	}
	models, _ := parseModels(names)
	return models
}

// inferenceSections estimates what the times mean for language models: a table of
// steps, and one conclusion for each model. It uses resolved comparisons only.
func inferenceSections(r *results) []bench.Section {
	section := bench.Section{Title: "What it means for LLM inference", Lead: true}
	models := modelsOf(r.rows)
	if len(r.contests) == 0 || len(models) == 0 {
		return nil
	}
	exact := lists.Filter(comparable(r.contests), func(s model.Sample) bool { return !lossy(s.Algorithm) })
	if len(exact) == 0 {
		section.Text = "Not resolved: " + notResolved(r.contests) + "."
		return []bench.Section{section}
	}
	ranks := slices.MaxFunc(exact, func(a, b model.Sample) int { return a.Ranks - b.Ranks }).Ranks
	curve, err := model.TableOf("of this run", "", model.BestAlgorithm, exact)
	gpu, gpuErr := llm.NamedGPU(llm.GPUs()[0])
	if err != nil || gpuErr != nil || ranks < 2 {
		return nil
	}
	used := lists.Filter(exact, func(s model.Sample) bool { return s.Ranks == ranks })
	section.Table = [][]string{{"model", "step", "message", "all-reduces", "each takes", "together",
		"rest of the step, at least", "share"}}
	for _, m := range models {
		decode, decodeErr := llm.Impact(m, gpu, llm.Tensor, ranks, decodeTokens, curve)
		prefill, prefillErr := llm.Impact(m, gpu, llm.Tensor, ranks, prefillTokens, curve)
		section.Table = append(section.Table, stepRow(m, "decode", decodeTokens, decode, decodeErr),
			stepRow(m, "prefill", prefillTokens, prefill, prefillErr))
		section.Sentences = append(section.Sentences, cite("llm", rowsOf(used), "- **%s:** %s", m.Title,
			conclusion(m, decode, decodeErr, prefill, prefillErr)))
	}
	section.Text = fmt.Sprintf("The estimated cost of the fastest exact all-reduce at each size for a model that is "+
		"spread over %d "+
		"ranks, next to the least time that %s needs for the rest of the step "+
		"(reading the weights or multiplying), without overlap. This is arithmetic on the times of this run; no model ran. "+
		"`--%s` names other models; the bench `llm-impact` has more steps.\n", ranks, gpu.Name, ModelsOption)
	return []bench.Section{section}
}

func stepRow(m llm.Model, phase string, tokens int, s llm.Step, err error) []string {
	step := fmt.Sprintf("%s, %s", phase, unit.Plural(tokens, "token"))
	if err != nil {
		return []string{m.Title, step, unit.FormatBytes(m.Message(tokens)), "", "not measured at this size", "", "",
			"unknown"}
	}
	return []string{m.Title, step, unit.FormatBytes(s.Message), fmt.Sprint(s.Count), unit.FormatMicros(s.EachUS),
		unit.FormatMicros(s.CommUS), unit.FormatMicros(s.FloorUS), fmt.Sprintf("%.0f %%", 100*s.Share())}
}

// negligibleShare is the share of a step below which all-reduces are not worth improving.
const negligibleShare = 0.05

// conclusion returns one sentence about a model.
func conclusion(m llm.Model, decode llm.Step, decodeErr error, prefill llm.Step, prefillErr error) string {
	message := func(tokens int) string { return unit.FormatBytes(m.Message(tokens)) }
	first := func(slow llm.Step, name string, other llm.Step, otherName string) string {
		return fmt.Sprintf("make messages of %s faster first: %s %s (%s: %.0f %%).", unit.FormatBytes(slow.Message), name,
			stepCost(slow), otherName, 100*other.Share())
	}
	switch {
	case decodeErr != nil && prefillErr != nil:
		return fmt.Sprintf("not known: the run has no times at %s or %s; measure these sizes.", message(decodeTokens),
			message(prefillTokens))
	case prefillErr != nil:
		return fmt.Sprintf("decode %s; prefill is not known: the run has no times at %s.", stepCost(decode),
			message(prefillTokens))
	case decodeErr != nil:
		return fmt.Sprintf("prefill %s; decode is not known: the run has no times at %s.", stepCost(prefill),
			message(decodeTokens))
	case max(decode.Share(), prefill.Share()) < negligibleShare:
		return fmt.Sprintf("a faster all-reduce would hardly be noticed: it takes %.0f %% of a decode step and %.0f %% of a "+
			"prefill.", 100*decode.Share(), 100*prefill.Share())
	case decode.Share() >= prefill.Share():
		return first(decode, "decode", prefill, "prefill")
	}
	return first(prefill, "prefill", decode, "decode")
}

func stepCost(s llm.Step) string {
	return fmt.Sprintf("spends %.0f %% of its time in all-reduces, %d of %s each", 100*s.Share(), s.Count,
		unit.FormatMicros(s.EachUS))
}
