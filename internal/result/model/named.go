package model

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
)

//go:embed curves.csv
var curvesFile string

// frameworkMethod is how the times of the serving frameworks were taken.
const frameworkMethod = "bf16, CUDA graph of 5 all-reduces replayed, so that launches are not counted; measured tables " +
	"of NVIDIA aiconfigurator"

// curveSources says of each named curve who measured it, on what, and how.
var curveSources = [][2]string{
	{"nccl-h100", "NCCL 2.29.2 on 8x H100 SXM, 2, 4 and 8 ranks: nccl-tests, one process, half, mean of 60 to 100 " +
		"iterations; measured tables of NVIDIA aiconfigurator"},
	{"nccl-h200", "NCCL 2.29.2 on 8x H200 SXM, 2, 4 and 8 ranks: nccl-tests, one process, half, mean of 60 to 100 " +
		"iterations; measured tables of NVIDIA aiconfigurator"},
	{"vllm-h200", "vLLM 0.24 on 8x H200 SXM (H100 within 3 %): " + frameworkMethod +
		"; above 64Mi from a line fit to the same tables, 2.8 % off at most"},
	{"sglang-h200", "SGLang 0.5.14 on 8x H200 SXM (H100 within 3 %): " + frameworkMethod},
	{"trtllm-h200", "TensorRT-LLM 1.3rc20 on 8x H200 SXM (H100 within 3 %): " + frameworkMethod +
		"; 256Mi from their times per forward pass"},
	{"vllm-eager-h200", "vLLM 0.24 on 8x H200 SXM without CUDA graphs, 8 ranks; measured tables of NVIDIA aiconfigurator"},
	{"staged-h100", "a published report on 2x H100 whose data went through host memory: the sick case to recognise"},
}

// namedCurves reads the embedded file.
var namedCurves = sync.OnceValue(func() map[string]*Table {
	in := csv.NewReader(strings.NewReader(curvesFile))
	in.Comment = '#'
	lines, err := in.ReadAll()
	if err != nil {
		panic("model: the built-in curves: " + err.Error())
	}
	out := map[string]*Table{}
	for _, s := range curveSources {
		out[s[0]] = &Table{Name: s[0], Source: s[1], Ranks: map[int][]TablePoint{}}
	}
	for _, l := range lines {
		ranks, err1 := strconv.Atoi(l[1])
		bytes, err2 := unit.ParseBytes(l[2])
		us, err3 := strconv.ParseFloat(l[3], 64)
		t := out[l[0]]
		if err1 != nil || err2 != nil || err3 != nil || t == nil {
			panic(fmt.Sprintf("model: the built-in curves: %q", l))
		}
		t.Ranks[ranks] = append(t.Ranks[ranks], TablePoint{bytes, us})
	}
	return out
})

// CurveNames lists the published curves that are built in.
func CurveNames() []string {
	return lists.Map(curveSources, func(s [2]string) string { return s[0] })
}

// NamedCurve is a published curve by name. Callers must not change it.
func NamedCurve(name string) (*Table, error) {
	if !slices.Contains(CurveNames(), name) {
		return nil, suggest.Unknown("curve", name, CurveNames())
	}
	return namedCurves()[name], nil
}
