package model

import (
	"math/rand/v2"
	"slices"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// powers returns the sizes 2^from to 2^to.
func powers(from, to int) (sizes []int64) {
	for e := from; e <= to; e++ {
		sizes = append(sizes, 1<<e)
	}
	return sizes
}

// line returns samples on time = alpha + bytes/beta, with relative noise.
func line(s Series, alphaUS, betaGBs, noise float64, sizes []int64, rnd *rand.Rand) []Sample {
	var out []Sample
	for _, b := range sizes {
		t := alphaUS + float64(b)/betaGBs/1e3
		if noise > 0 {
			t *= 1 + noise*(2*rnd.Float64()-1)
		}
		out = append(out, Sample{Series: s, Bytes: b, TimeUS: t, LowUS: t * (1 - noise), HighUS: t * (1 + noise),
			Kind: "measured", Samples: 100, Launches: judge.MinLaunches, Rows: numbered(len(out))})
	}
	return out
}

// numbered returns a row for each number. The tests recognise it by its trial.
func numbered(numbers ...int) []*journal.Row {
	return lists.Map(numbers, func(n int) *journal.Row { return &journal.Row{Trial: n} })
}

// numbersOf returns the indices of the rows among others, or else their numbers.
func numbersOf(rows []*journal.Row, among ...journal.Row) []int {
	return lists.Map(rows, func(r *journal.Row) int {
		if i := slices.Index(dataset.All(among), r); i >= 0 {
			return i
		}
		return r.Trial
	})
}

func series(algorithm string, ranks int) Series {
	return Series{Algorithm: algorithm, DType: "bf16", Backend: "nccl", Ranks: ranks}
}

// row returns a timed all-reduce as the benches record it.
func row(algorithm string, d dtype.DType, ranks int, size int64, us float64) journal.Row {
	return journal.Row{Bench: "b", Status: journal.OK, Kind: journal.Measured, NumRanks: &ranks, Backend: "cuda",
		Samples: 10, Metrics: map[string]float64{"time_us": us},
		Point: point.Point{{Name: "op", Value: point.StringValue("allreduce")},
			{Name: "algorithm", Value: point.StringValue(algorithm)},
			{Name: "dtype", Value: point.DTypeValue(d)}, {Name: "size", Value: point.BytesValue(size)},
			{Name: "inplace", Value: point.BoolValue(false)}}}
}

const mib = 1 << 20

// published returns the rows of a report that mistook a bandwidth limit for latency.
func published() []journal.Row {
	rows := []journal.Row{row("default", dtype.BF16, 2, 64*mib, 21610), row("default", dtype.BF16, 2, 128*mib, 43220),
		row("default", dtype.BF16, 2, 256*mib, 86400),
		row("default", dtype.BF16, 2, 512*mib, 172770), row("multimem", dtype.BF16, 2, 256*mib, 86410),
		row("default", dtype.F32, 2, 256*mib, 86400)}
	for _, ranks := range []int{4, 8} {
		r := row("default", dtype.BF16, ranks, 256*mib, 0)
		r.Status, r.Reason, r.Metrics = journal.NotExecuted, "the machine has 2 GPUs", nil
		rows = append(rows, r)
	}
	return rows
}
