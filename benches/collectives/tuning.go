package collectives

import (
	"slices"
	"strings"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/model"
)

// TuningFile is the name of the table that `tune` writes, for --tuning and dist.LoadTuning.
const TuningFile = "tuning.json"

// tunedPieces lists the chunk sizes to try with every algorithm that has chunks.
var tunedPieces = []int{16 << 10, 128 << 10, 1 << 20}

// tunedBlocks lists the numbers of blocks to try if the backend lets one choose. They are smaller than
// a backend's own choice for large calls with up to eight ranks on a GPU of a hundred multiprocessors.
var tunedBlocks = []int{1, 4, 16}

// tuningDefaults declares how `tune` works on this bench: it varies the algorithm and its chunks or
// blocks for every size, number of ranks, kind of buffers and other axis, and compares them with auto.
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

// tuningFile returns the tuning table for auto, or nothing if no named algorithm is among the rows. The
// rows are of settings that `tune` has confirmed in pairs, so launches need not agree within 10 %.
func tuningFile(rows dataset.Set) ([]bench.File, error) {
	samples := model.SamplesOf(rows)
	if !slices.ContainsFunc(samples, func(s model.Sample) bool { return s.Algorithm != auto }) {
		return nil, nil
	}
	table, err := model.Tuning(samples, model.Sample.Repeated)
	if err != nil {
		return nil, err
	}
	return []bench.File{{Name: TuningFile, Data: table}}, nil
}
