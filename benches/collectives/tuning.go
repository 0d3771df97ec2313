package collectives

import (
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/model"
)

// TuningFile is the table of `tune`, for --tuning and for dist.LoadTuning.
const TuningFile = "tuning.json"

// tunedPieces are the sizes of pieces that are tried of every algorithm that has any.
var tunedPieces = []int{16 << 10, 128 << 10, 1 << 20}

// tunedBlocks are the numbers of blocks that are tried where they can be chosen: fewer than
// a backend takes by itself for large calls, with up to eight ranks on a GPU of a hundred
// multiprocessors.
var tunedBlocks = []int{1, 4, 16}

// tuningDefaults is how the bench is tuned: the algorithm and its pieces for every size, number of
// ranks, kind of buffers and whatever else the command line varies, against what auto takes.
func tuningDefaults() bench.TuningDefaults {
	return bench.TuningDefaults{
		Metric: "time_us",
		Per:    []string{"op", "dtype", "reduction", "size", bench.RanksAxis, "inplace", "buffers"},
		Axes: func(backend string) [][2]string {
			can := dist.Describe(backend).Capabilities
			names := []string{auto}
			for _, a := range can.Algorithms[dist.AllReduce] {
				names = append(names, a)
				if info, _ := schedule.Lookup(allReduce, a); can.Has(dist.Pipelining) && slices.Contains(info.Takes, "ChunkElems") {
					for _, bytes := range tunedPieces {
						names = append(names, tuning.Choice{Algorithm: a, ChunkBytes: bytes}.String())
					}
				}
				if can.Has(dist.ThreadBlocks) {
					for _, blocks := range tunedBlocks {
						names = append(names, tuning.Choice{Algorithm: a, Blocks: blocks}.String())
					}
				}
			}
			return [][2]string{{"algorithm", strings.Join(names, ",")}}
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
