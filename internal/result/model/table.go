package model

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Table holds times by number of ranks and size. It interpolates between them and makes
// no assumption about the shape of the curve.
type Table struct {
	Name   string
	Source string               // who measured it, on what hardware, and how
	GPU    string               // the GPU of all times, if it is known
	Shared bool                 // its ranks shared a GPU, so it says nothing about a link
	Ranks  map[int][]TablePoint // by number of ranks; points in order of size
}

// TablePoint is the time of one size.
type TablePoint struct {
	Bytes int64
	US    float64
}

// US returns the time of a message, interpolated linearly in the logarithms of size and
// time. It never extrapolates: sizes and ranks outside the table are an error.
func (t *Table) US(ranks int, bytes int64) (float64, error) {
	points := t.Ranks[ranks]
	if len(points) == 0 {
		known := lists.Map(slices.Sorted(maps.Keys(t.Ranks)), strconv.Itoa)
		return 0, fmt.Errorf("curve %s has no %s, only %s", t.Name, unit.Plural(ranks, "rank"), strings.Join(known, ", "))
	}
	first, last := points[0], points[len(points)-1]
	if bytes < first.Bytes || bytes > last.Bytes {
		return 0, fmt.Errorf("curve %s with %s goes from %s to %s: %s is outside, and nothing is extrapolated", t.Name,
			unit.Plural(ranks, "rank"), unit.FormatBytes(first.Bytes), unit.FormatBytes(last.Bytes), unit.FormatBytes(bytes))
	}
	i, exact := slices.BinarySearchFunc(points, bytes, func(p TablePoint, b int64) int { return cmp.Compare(p.Bytes, b) })
	if exact {
		return points[i].US, nil
	}
	a, b := points[i-1], points[i]
	share := math.Log(float64(bytes)/float64(a.Bytes)) / math.Log(float64(b.Bytes)/float64(a.Bytes))
	return a.US * math.Pow(b.US/a.US, share), nil
}

// Floor returns the shortest time in the table for the given number of ranks. No bandwidth, however high, makes a
// message faster.
func (t *Table) Floor(ranks int) float64 {
	shortest := math.Inf(1)
	for _, p := range t.Ranks[ranks] {
		shortest = min(shortest, p.US)
	}
	return shortest
}

// BestAlgorithm makes TableOf take the fastest algorithm at each size.
const BestAlgorithm = "best"

// TableOf returns a table of the samples of one algorithm, or of the fastest at each size
// if algorithm is BestAlgorithm. If several samples have the same ranks and size,
// preferred decides.
func TableOf(name, source, algorithm string, samples []Sample) (*Table, error) {
	t := &Table{Name: name, Source: source, Ranks: map[int][]TablePoint{}}
	type entry struct {
		ranks int
		bytes int64
	}
	best := map[entry]Sample{}
	unshared := false
	var devices lists.Set[string]
	for _, s := range samples {
		if algorithm != BestAlgorithm && s.Algorithm != algorithm {
			continue
		}
		devices.Add(s.Device)
		t.Shared, unshared = t.Shared || s.Sharing > 0, unshared || s.Sharing == 0 && s.Ranks > 1
		at := entry{s.Ranks, s.Bytes}
		if old, has := best[at]; !has || preferred(s, old) {
			best[at] = s
		}
	}
	if len(best) == 0 {
		names := lists.Distinct(lists.Map(samples, func(s Sample) string { return s.Algorithm }))
		slices.Sort(names)
		return nil, fmt.Errorf("curve %s: no all-reduce by %s in it (algorithms: %s)", name, algorithm,
			strings.Join(names, ", "))
	}
	if named := lists.NonEmpty(devices.List...); len(named) > 1 {
		return nil, fmt.Errorf("curve %s has times of %s: a curve is of one device, so import each into a RUN of its own",
			name, strings.Join(named, " and "))
	}
	if t.Shared && unshared {
		return nil, fmt.Errorf("curve %s: ranks shared a GPU in some of its rows but not in others; a curve cannot mix them",
			name)
	}
	if t.Shared {
		t.Source += ", whose ranks shared one GPU: times of its memory, not of a link"
	}
	if doubt := curveDoubt(slices.Collect(maps.Values(best)), algorithm == BestAlgorithm); doubt != "" {
		t.Source += ", " + doubt
	}
	for at, s := range best {
		t.Ranks[at.ranks] = append(t.Ranks[at.ranks], TablePoint{at.bytes, s.TimeUS})
	}
	if len(devices.List) == 1 {
		t.GPU = devices.List[0]
	}
	for _, points := range t.Ranks {
		slices.SortFunc(points, func(a, b TablePoint) int { return cmp.Compare(a.Bytes, b.Bytes) })
	}
	return t, nil
}

// curveDoubt returns a warning if the times of a curve that kernbench measured have not settled or come from
// too few launches. The fastest of several single launches is partly luck.
func curveDoubt(samples []Sample, fastest bool) string {
	own := lists.Filter(samples, func(s Sample) bool { return s.LowUS > 0 })
	unsettled := len(lists.Filter(own, func(s Sample) bool { return !s.Settled() }))
	few := len(lists.Filter(own, func(s Sample) bool { return !s.Repeated() }))
	switch {
	case unsettled > 0:
		return fmt.Sprintf("of whose %d times %d have not settled", len(own), unsettled)
	case few > 0 && fastest:
		return fmt.Sprintf("the fastest of few launches at %d of %d sizes", few, len(own))
	case few > 0:
		return fmt.Sprintf("with fewer than %d launches at %d of %d sizes", judge.MinLaunches, few, len(own))
	}
	return ""
}

// preferred reports whether s should replace old in a table: first 16-bit types, in which
// language models compute, then out of place, then the shorter time.
func preferred(s, old Sample) bool {
	half := func(s Sample) bool { return s.DType == "bf16" || s.DType == "f16" }
	switch {
	case half(s) != half(old):
		return half(s)
	case s.InPlace != old.InPlace:
		return !s.InPlace
	}
	return s.TimeUS < old.TimeUS
}

//go:embed curves.csv
var curvesFile string

// frameworkMethod describes how the times of the serving frameworks were measured.
const frameworkMethod = "bf16, CUDA graph of 5 all-reduces replayed, so that launches are not counted; measured " +
	"tables of NVIDIA aiconfigurator"

// curveSources lists the published curves: the name, the GPU, and the source, which says who measured it, on what
// hardware, and how.
var curveSources = []struct{ name, gpu, source string }{
	{"nccl-h100", "h100", "NCCL 2.29.2 on 8x H100 SXM, 2, 4 and 8 ranks: nccl-tests, one process, half, mean of 60 to 100 " +
		"iterations; measured tables of NVIDIA aiconfigurator"},
	{"nccl-h200", "h200", "NCCL 2.29.2 on 8x H200 SXM, 2, 4 and 8 ranks: nccl-tests, one process, half, mean of 60 to 100 " +
		"iterations; measured tables of NVIDIA aiconfigurator"},
	{"vllm-h200", "h200", "vLLM 0.24 on 8x H200 SXM (H100 within 3 %): " + frameworkMethod +
		"; above 64Mi from a line fit to the same tables, 2.8 % off at most"},
	{"sglang-h200", "h200", "SGLang 0.5.14 on 8x H200 SXM (H100 within 3 %): " + frameworkMethod},
	{"trtllm-h200", "h200", "TensorRT-LLM 1.3rc20 on 8x H200 SXM (H100 within 3 %): " + frameworkMethod +
		"; 256Mi from their times per forward pass"},
	{"vllm-eager-h200", "h200", "vLLM 0.24 on 8x H200 SXM without CUDA graphs, 8 ranks; measured tables of NVIDIA aiconfigurator"},
	{"staged-h100", "h100", "a published report on 2x H100 whose data went through host memory: an example of a wrong data path"},
}

// namedCurves parses the embedded curves.csv on first use. It panics if the file is malformed, because the
// file is part of the program.
var namedCurves = sync.OnceValue(func() map[string]*Table {
	in := csv.NewReader(strings.NewReader(curvesFile))
	in.Comment = '#'
	lines, err := in.ReadAll()
	if err != nil {
		panic("model: the built-in curves: " + err.Error())
	}
	out := map[string]*Table{}
	for _, s := range curveSources {
		out[s.name] = &Table{Name: s.name, GPU: s.gpu, Source: s.source, Ranks: map[int][]TablePoint{}}
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

// CurveNames returns the names of the built-in published curves.
func CurveNames() []string {
	names := make([]string, len(curveSources))
	for i, s := range curveSources {
		names[i] = s.name
	}
	return names
}

// NamedCurve returns a built-in published curve. It is shared: callers must not modify it.
func NamedCurve(name string) (*Table, error) {
	if t, known := namedCurves()[name]; known {
		return t, nil
	}
	return nil, suggest.Unknown("curve", name, CurveNames())
}
