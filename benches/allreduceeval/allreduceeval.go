// Package allreduceeval is the bench `allreduce-eval`: what a team needs to
// trust or distrust an all-reduce. It has a correctness matrix whose cells are
// passed, failed, skipped or not executed and never anything in between, the
// contracts on bits, the handling of mistakes and failures, and the times with
// their limits, from which it says in words what they mean.
//
// docs/correctness.md derives what each cell demands.
package allreduceeval

import (
	"fmt"
	"slices"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/findings"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/allreduceeval/reference"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/kernel/quant"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Name is the bench's name.
const Name = "allreduce-eval"

// Bench declares it.
func Bench() *bench.Bench {
	return bench.Suite(Name,
		bench.Help("evaluation of an all-reduce: correctness matrix, contracts, failures, times and what they mean"),
		bench.Doc(manual),
		bench.Version("1"),
		bench.Derive(warned),
		bench.Profile("quick"),
		bench.Profile("full", "sizes=full", "size=1Ki:512Mi:x2", "num_ranks=2,3,4,8", "inplace=false,true"),
		bench.Choice("mutate", "fault to plant in the correctness part", faultNames...),
		bench.Option("link", bench.KindString, "",
			"rates to hold times against: a link such as nvlink-h100, or 450 GB/s, separated by commas"),
		bench.FileOption("probe", "", "probe result to take the limits from; empty is this host's own"),
		bench.Option(findings.ModelsOption, bench.KindString, findings.Models,
			"language models that the report draws conclusions for, separated by commas (llm-impact lists them)"),
		bench.Backends(backends()...),
		bench.OneHost("it evaluates the sharing of memory, and lets processes of this host die"),
		correctnessPart(), contractsPart(), errorsPart(), performancePart(),
		bench.Helper(dyingHelper, dyingRank),
		bench.Figures(findings.Figures),
		bench.Sections(func(rows []journal.Row) []bench.Section { return findings.Sections(rows, declared(rows)) }),
		bench.Exports(findings.Exports),
	)
}

const manual = `Evaluates the all-reduce of a backend and writes a report that explains itself.

correctness  every algorithm, element type, number of ranks, in and out of place,
             with and without epilogue, over the sizes of the profile; exact and
             adversarial inputs, in private and symmetric memory, every element
             checked. A row's cells are its sizes.
contracts    which results are equal bit for bit, where package dist promises it
errors       mistakes and failures: an error that says what, on every rank, in time
performance  time, bandwidths, the traffic that really moves, and the share of
             every named limit that it reaches; in place too with the full profile
             or --inplace false,true

The quick profile takes about two minutes on two cores, the full one up to an hour.
A backend runs what it has; what it lacks is not executed.
--mutate plants a fault in the correctness part; its cells must turn red. Those called
kernel-... are planted in the kernels of backends that have their own (cuda).

  kernbench run --bench allreduce-eval
  kernbench run --bench allreduce-eval --profile full
  kernbench run --bench allreduce-eval --only 'part == "correctness"' --mutate skipped-tail
  kernbench run --bench allreduce-eval --backend cuda --only 'part == "correctness"' --mutate kernel-dropped-barrier
  kernbench run --bench allreduce-eval --only 'part == "performance"' --link nvlink-h100`

func correctnessPart() bench.Clause {
	return bench.Part(matrix.Correctness, correctness, append(onBackends(reference.Types, ""),
		bench.Help("the correctness matrix"),
		bench.Ranks("2,3,8"),
		bench.DTypes("dtype", names(reference.Types)...),
		bench.Strings("algorithm", matrix.Algorithms()...),
		bench.Bools("inplace", false, true),
		bench.Bools("epilogue", false, true),
		bench.Strings("sizes", matrix.Quick),
		bench.Drop(invalidPoint),
		bench.Timeout(30*time.Minute),
		bench.Metric("cells_passed", "", "higher"),
		bench.Metric("cells_failed", "", "lower"),
	)...)
}

func contractsPart() bench.Clause {
	return bench.Part(matrix.Contracts, contractCells, append(onBackends(nil, ""),
		bench.Help("which results are equal bit for bit"),
		bench.Ranks("2,4,8"),
		bench.Strings("contract", matrix.ContractNames...),
		bench.Strings("algorithm", matrix.Executable()...),
		bench.Drop(func(p point.Point) error {
			return matrix.Promised(p.At("contract").String(), p.At("algorithm").String())
		}),
	)...)
}

func errorsPart() bench.Clause {
	return bench.Part(matrix.Errors, failureCells,
		bench.Help("mistakes and failures"),
		bench.Ranks("2,4"),
		bench.Strings("mistake", failureNames()...),
	)
}

func performancePart() bench.Clause {
	timed := []dist.DType{dist.F32, dist.BF16}
	return bench.Part(matrix.Performance, performance, append(onBackends(timed, "1Ki:%d:x8"),
		bench.Help("times, bandwidths and distance from the limits"),
		bench.Refuse(mistake),
		bench.Ranks("2,4"),
		bench.DTypes("dtype", names(timed)...),
		bench.Strings("algorithm", matrix.Timed()...),
		bench.Bools("inplace", false),
		bench.Bytes("size", "1Ki,8Ki,64Ki,512Ki,4Mi,16Mi"),
		bench.Metric("pct_of_limit", "%", "higher"),
		bench.Metric("traffic_bytes", "B", ""),
		bench.Measure(sampling()),
		bench.Timeout(10*time.Minute),
	)...)
}

// sampling spends less time on a row than other benches do: there are many, and
// the fit over sizes averages. It is a variable for tests.
var sampling = func() bench.Config {
	c := bench.DefaultMeasure()
	c.Stop = bench.StopRule{RelNoise: 0.02, MinSamples: 10, MaxSamples: 5000, MinTime: 40 * time.Millisecond,
		MaxTime: 150 * time.Millisecond}
	c.Warmup = bench.Warmup{MinCalls: 2, MaxCalls: 1000, MaxTime: 40 * time.Millisecond}
	return c
}

// invalidPoint says why a row of the matrix means nothing.
func invalidPoint(p point.Point) error {
	d, err := dtype.Parse(p.At("dtype").String())
	if err != nil || !slices.Contains(reference.Types, d) {
		return fmt.Errorf("the matrix has no cells of %s, only of %s", p.At("dtype").String(), list(reference.Types))
	}
	switch algorithm := p.At("algorithm").String(); {
	case !slices.Contains(matrix.Known(), algorithm):
		return bench.Unknown("algorithm", algorithm, matrix.Known())
	case matrix.Codec(algorithm) != nil && !quant.Supports(d):
		return fmt.Errorf("%s encodes f32, f16 and bf16, not %v", algorithm, d)
	case p.At("epilogue").String() == "true" && !d.Float():
		return fmt.Errorf("an epilogue needs a floating-point type, not %v", d)
	}
	return nil
}
