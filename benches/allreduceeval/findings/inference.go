package findings

import (
	"cmp"
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
	models, _ := parseModels(cmp.Or(append(rows.Distinct(ModelsOption), Models)...))
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
		steps := []phase{{name: "decode", tokens: 1}, {name: "prefill", tokens: 512}}
		for i := range steps {
			p := &steps[i]
			p.message = unit.FormatBytes(m.Message(p.tokens))
			p.Step, p.err = llm.Impact(m, gpu, llm.Tensor, ranks, p.tokens, curve)
			section.Table = append(section.Table, append([]string{m.Title}, p.row()...))
		}
		section.Sentences = append(section.Sentences, cite("llm", rowsOf(used), "- **%s:** %s", m.Title, conclusion(steps)))
	}
	section.Text = fmt.Sprintf("The estimated cost of the fastest exact all-reduce at each size for a model that is "+
		"spread over %d "+
		"ranks, next to the least time that %s needs for the rest of the step "+
		"(reading the weights or multiplying), without overlap. This is arithmetic on the times of this run; no model ran. "+
		"`--%s` names other models; the bench `llm-impact` has more steps.\n", ranks, gpu.Name, ModelsOption)
	return []bench.Section{section}
}

// phase is a step of inference with its all-reduces. err says that their time is not known.
type phase struct {
	name    string
	tokens  int // in one forward pass
	message string
	llm.Step
	err error
}

// row returns the cells of the step in the table.
func (p phase) row() []string {
	step := fmt.Sprintf("%s, %s", p.name, unit.Plural(p.tokens, "token"))
	if p.err != nil {
		return []string{step, p.message, "", "not measured at this size", "", "", "unknown"}
	}
	return []string{step, p.message, fmt.Sprint(p.Count), unit.FormatMicros(p.EachUS), unit.FormatMicros(p.CommUS),
		unit.FormatMicros(p.FloorUS), fmt.Sprintf("%.0f %%", 100*p.Share())}
}

// cost says what share of the step the all-reduces take.
func (p phase) cost() string {
	return fmt.Sprintf("%s spends %.0f %% of its time in all-reduces, %d of %s each", p.name, 100*p.Share(), p.Count,
		unit.FormatMicros(p.EachUS))
}

// negligibleShare is the share of a step below which all-reduces are not worth improving.
const negligibleShare = 0.05

// conclusion returns one sentence about a model, from its decode and its prefill.
func conclusion(steps []phase) string {
	first, other := steps[0], steps[1]
	if other.err == nil && (first.err != nil || other.Share() > first.Share()) {
		first, other = other, first
	}
	switch {
	case first.err != nil:
		return fmt.Sprintf("not known: the run has no times at %s or %s; measure these sizes.", first.message, other.message)
	case other.err != nil:
		return fmt.Sprintf("%s; %s is not known: the run has no times at %s.", first.cost(), other.name, other.message)
	case first.Share() < negligibleShare:
		return fmt.Sprintf("a faster all-reduce would hardly be noticed: it takes %.0f %% of a decode step and %.0f %% of a "+
			"prefill.", 100*steps[0].Share(), 100*steps[1].Share())
	}
	return fmt.Sprintf("make messages of %s faster first: %s (%s: %.0f %%).", first.message, first.cost(), other.name,
		100*other.Share())
}
