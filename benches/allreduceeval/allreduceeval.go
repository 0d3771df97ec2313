// Package allreduceeval is the bench `allreduce-eval`, which evaluates whether an
// all-reduce can be trusted. It has a correctness matrix, contracts on bits, mistakes
// and failures that ranks must notice, and times with their limits. The report states
// in words what they mean. A cell is passed, failed, skipped or not executed, and
// never anything in between.
//
// docs/correctness.md derives what each cell demands.
package allreduceeval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/findings"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/kernel/quant"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Name is the bench's name.
const Name = "allreduce-eval"

// Bench returns the declaration of the bench.
func Bench() *bench.Bench {
	return bench.Suite(Name, append(findings.Views(),
		bench.Help("evaluation of an all-reduce: correctness matrix, contracts, failures, times and what they mean"),
		bench.Doc(manual),
		bench.Version("1"),
		bench.Derive(addWarnings),
		bench.Profile("quick", "trials=1"),
		bench.Profile(matrix.Smoke, "sizes="+matrix.Smoke, "num_ranks=2", "dtype=f32,bf16", "inplace=false",
			"epilogue=false", "contract="+matrix.AcrossRanks, "mistake="+matrix.OtherCount,
			fmt.Sprintf("only=part != %q", matrix.Performance)),
		bench.Profile("full", "sizes=full", "size=1Ki:512Mi:x2", "num_ranks=2,3,4,8", "inplace=false,true"),
		bench.Choice("mutate", "fault to plant in the correctness part", faultNames...),
		bench.Option("link", bench.KindString, "",
			"rates to compare times with: a link such as nvlink-h100, or 450 GB/s, separated by commas"),
		bench.FileOption("probe", "", "probe result with the limits (default: of this host)"),
		bench.Option(findings.ModelsOption, bench.KindString, findings.Models,
			"language models that the report draws conclusions for, separated by commas (llm-impact lists them)"),
		bench.Backends(backends()...),
		bench.OneHost("it evaluates shared memory and kills processes of this host"),
		correctnessPart(), contractsPart(), errorsPart(), performancePart(),
		bench.Helper(dyingHelper, dyingRank),
		bench.Sections(func(rows dataset.Set) []bench.Section { return findings.Sections(rows, requiredTasks(rows)) }),
		bench.Exports(findings.Exports))...,
	)
}

const manual = `Evaluates the all-reduce of a backend and writes a report with conclusions.

correctness  every algorithm, element type and number of ranks, in and out of place,
             with and without epilogue, at the sizes of the profile. Inputs are exact
             and adversarial, in private and symmetric memory, and every element is
             checked. The cells of a row are its sizes.
contracts    results that must be equal bit for bit, where package dist promises it
errors       mistakes and failures: every rank must get an error that says what
             happened, in time
performance  time, bandwidths, the bytes that really move, and the share of each named
             limit that is reached; in place too with the full profile or
             --inplace false,true. It has four trials, because one launch does not tell
             which algorithm is the fastest; --trials 1 makes one.

The smoke profile tells within seconds whether sums are right: two ranks, two types,
three sizes, one contract, one mistake. A plain run takes about four minutes on two
cores. The quick profile has the same points in one trial and takes about two minutes.
The full profile takes up to three hours.
Cells that need a feature that the backend lacks are not executed.
--mutate plants a fault in the correctness part; its cells must turn red. Faults called
kernel-... are planted in the kernels of backends that have their own (cuda).

  kernbench run --bench allreduce-eval
  kernbench run --bench allreduce-eval --profile smoke
  kernbench run --bench allreduce-eval --profile full
  kernbench run --bench allreduce-eval --only 'part == "correctness"' --mutate skipped-tail
  kernbench run --bench allreduce-eval --backend cuda --only 'part == "correctness"' --mutate kernel-dropped-barrier
  kernbench run --bench allreduce-eval --only 'part == "performance"' --link nvlink-h100`

func correctnessPart() bench.Clause {
	return bench.Part(matrix.Correctness, correctness, append(backendAxes(reference.Types, ""),
		bench.Help("the correctness matrix"),
		bench.Ranks("2,3,8"),
		bench.DTypes("dtype", names(reference.Types)...),
		bench.Strings("algorithm", matrix.Algorithms()...),
		bench.Bools("inplace", false, true),
		bench.Bools("epilogue", false, true),
		bench.Strings("sizes", matrix.Quick),
		bench.Drop(invalidPoint),
		bench.Timeout(30*time.Minute),
		bench.Metric("cells_passed", "", "higher", "checks that passed"),
		bench.Metric("cells_failed", "", "lower", "checks that failed"),
		bench.Reports("cells_missing", "", "checks that were not executed"),
		bench.Reports("elements", "", "elements that were checked"),
		bench.Reports("error_of_bound", "%", "largest error, as a share of its bound"),
		bench.Reports("bytes_saved", "%", "bytes that a codec saves"),
		bench.Reports("wall_ms", "ms", "time that the checks of the row took"),
		bench.Headline("cells_passed=passed", "cells_failed=failed"),
	)...)
}

func contractsPart() bench.Clause {
	return bench.Part(matrix.Contracts, contractCells, append(backendAxes(nil, ""),
		bench.Help("results that must be equal bit for bit"),
		bench.Ranks("2,4,8"),
		bench.Strings("contract", matrix.ContractNames()...),
		bench.Strings("algorithm", matrix.Executable()...),
		bench.Drop(func(p point.Point) error {
			return matrix.CheckPromised(p.At("contract").String(), p.At("algorithm").String())
		}),
	)...)
}

func errorsPart() bench.Clause {
	return bench.Part(matrix.Errors, failureCells,
		bench.Help("mistakes and failures that every rank must notice"),
		bench.Ranks("2,4"),
		bench.Strings("mistake", failureNames()...),
	)
}

func performancePart() bench.Clause {
	types := []dist.DType{dist.F32, dist.BF16}
	return bench.Part(matrix.Performance, performance, append(slices.Concat(backendAxes(types, "1Ki:%d:x8"),
		collectives.KernelTimes()),
		bench.Help("times, bandwidths and distance from the limits"),
		bench.Refuse(checkOptions),
		bench.Drop(func(p point.Point) error { return collectives.CheckMemory(p, vectors(p)*p.At("size").Int()) }),
		bench.Ranks("2,4"),
		bench.DTypes("dtype", names(types)...),
		bench.Strings("algorithm", matrix.Timed()...),
		bench.Bools("inplace", false),
		bench.Bytes("size", "1Ki,8Ki,64Ki,512Ki,4Mi,16Mi"),
		bench.Metric("pct_of_limit", "%", "higher", "the largest limit divided by the time"),
		bench.Metric("traffic_bytes", "B", "", "bytes that the busiest rank sends"),
		bench.Headline("time_us", "busbw", "pct_of_limit=of limit (%)"),
		bench.Measure(sampling()),
		bench.Trials(judge.MinLaunches), // fewer cannot tell which algorithm is the fastest
		bench.Timeout(10*time.Minute),
	)...)
}

// vectors returns how many vectors each rank has in a timed row.
func vectors(p point.Point) int64 {
	if p.At("inplace").String() == "true" {
		return 1
	}
	return 2
}

// sampling spends less time on a row than other benches do, because there are many rows
// and the fit over the sizes averages out noise. Tests replace it.
var sampling = func() bench.Config {
	c := bench.DefaultMeasure()
	c.Stop = measure.Stop{RelNoise: 0.02, MinSamples: 10, MaxSamples: 5000, MinTime: 40 * time.Millisecond,
		MaxTime: 150 * time.Millisecond}
	c.Warmup = measure.Warmup{MinCalls: 2, MaxCalls: 1000, MaxTime: 40 * time.Millisecond}
	return c
}

// invalidPoint returns the reason why a row of the matrix does not apply, or nil.
func invalidPoint(p point.Point) error {
	d, err := dtype.Parse(p.At("dtype").String())
	if err != nil || !slices.Contains(reference.Types, d) {
		return fmt.Errorf("the matrix has no cells of %s, only of %s", p.At("dtype").String(), joinNames(reference.Types))
	}
	switch algorithm := p.At("algorithm").String(); {
	case !slices.Contains(matrix.KnownAlgorithms(), algorithm):
		return bench.Unknown("algorithm", algorithm, matrix.KnownAlgorithms())
	case matrix.Codec(algorithm) != nil && !quant.Supports(d):
		return fmt.Errorf("%s encodes f32, f16 and bf16, not %v", algorithm, d)
	case p.At("epilogue").String() == "true" && !d.Float():
		return fmt.Errorf("an epilogue needs a floating-point type, not %v", d)
	}
	return nil
}

// backends returns the backends that have an all-reduce of sums.
func backends() []string {
	return dist.Backends(func(d dist.Description) bool {
		can := d.Capabilities
		return !d.Virtual && can.Can(dist.AllReduce) && slices.Contains(can.Reductions, dist.Sum)
	})
}

// coversMatrix reports whether a backend supports everything in the matrix, so that all
// cells are required. Other backends run the cells that they support.
func coversMatrix(can dist.Capabilities) bool {
	for _, a := range schedule.Algorithms(schedule.AllReduce) {
		if !slices.Contains(can.Algorithms[dist.AllReduce], a.Name) {
			return false
		}
	}
	return can.Has(dist.AnyCodec) && can.Has(dist.FusedEpilogue) &&
		len(intersect(reference.Types, can.DTypes)) == len(reference.Types)
}

// backendAxes returns the axes algorithm, dtype and size for each backend that does not
// cover the matrix. sizes is a format with the backend's largest size, or "" for a part
// without times.
func backendAxes(dtypes []dist.DType, sizes string) (clauses []bench.Clause) {
	for _, name := range backends() {
		d := dist.Describe(name)
		can := d.Capabilities
		if coversMatrix(can) {
			continue
		}
		algorithms := matrix.Offered(name)
		if sizes != "" {
			algorithms = slices.DeleteFunc(algorithms, func(name string) bool { return matrix.Find(name).Untimed != "" })
		}
		axes := []bench.Clause{bench.Strings("algorithm", append([]string{matrix.Auto}, algorithms...)...)}
		if has := intersect(dtypes, can.DTypes); len(has) < len(dtypes) {
			if len(has) == 0 {
				has = intersect(reference.Types, can.DTypes)
			}
			axes = append(axes, bench.DTypes("dtype", names(has)...))
		}
		if sizes != "" && d.MaxBytes > 0 {
			axes = append(axes, bench.Bytes("size", fmt.Sprintf(sizes, d.MaxBytes)))
		}
		clauses = append(clauses, bench.On(name, axes...))
	}
	return clauses
}

func intersect(a, b []dist.DType) []dist.DType {
	return lists.Filter(a, func(d dist.DType) bool { return slices.Contains(b, d) })
}

func names[T fmt.Stringer](values []T) []string { return lists.Map(values, T.String) }

func joinNames[T fmt.Stringer](values []T) string { return strings.Join(names(values), ", ") }

// requiredTasks returns the untimed tasks of the quick profile, or of the smoke profile if
// the rows have its sizes. They must all run if the rows come from one backend that covers
// the matrix. Otherwise it returns nil.
func requiredTasks(rows dataset.Set) (out []plan.Task) {
	backends := lists.Distinct(lists.Map(rows, func(r *journal.Row) string { return r.Backend }))
	if len(backends) != 1 || !coversMatrix(dist.Describe(backends[0]).Capabilities) {
		return nil
	}
	b := Bench()
	request := plan.Request{Backend: backends[0], Only: []string{fmt.Sprintf("part != %q", matrix.Performance)}}
	if slices.Contains(rows.Distinct("sizes"), matrix.Smoke) {
		profile, _ := lists.First(b.Profiles, func(p decl.Profile) bool { return p.Name == matrix.Smoke })
		for _, a := range profile.Axes {
			if a[0] != "only" && a[0] != "trials" {
				request.Axes = append(request.Axes, plan.Assign{Name: a[0], Text: a[1]})
			}
		}
	}
	p, err := plan.Make(b, request)
	if err != nil {
		return nil // the declaration itself is wrong, which every command reports
	}
	for _, g := range p.Groups {
		out = append(out, g.Tasks...)
	}
	return out
}
