package collectives

import (
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// TuningFile is the table of `tune`, for --tuning and for dist.LoadTuning.
const TuningFile = "tuning.json"

// tuning is how the bench is tuned: the algorithm for every size, number of ranks, kind
// of buffers and whatever else the command line varies, against what auto takes.
func tuning() bench.DeclaredTuning {
	return bench.DeclaredTuning{
		Metric: "time_us",
		Per:    []string{"op", "dtype", "reduction", "size", bench.RanksAxis, "inplace", "buffers"},
		Axes: func(backend string) [][2]string {
			names := slices.Clone(dist.Describe(backend).Can().Algorithms[dist.AllReduce])
			return [][2]string{{"algorithm", strings.Join(append([]string{auto}, names...), ",")}}
		},
		Files: tuningFile,
	}
}

// tuningFile makes the table that auto reads, where any algorithm has won.
func tuningFile(rows []journal.Row) ([]bench.File, error) {
	samples := model.SamplesOf(rows)
	if !slices.ContainsFunc(samples, func(s model.Sample) bool { return s.Algorithm != auto }) {
		return nil, nil
	}
	table, err := model.Tuning(samples)
	if err != nil {
		return nil, err
	}
	return []bench.File{{Name: TuningFile, Data: table}}, nil
}
